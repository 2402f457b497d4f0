//! What the endpoints of a pool say they serve: the answers of their `GET /v1/models`, kept per endpoint.
//!
//! Routing reads names from here long after an endpoint has gone silent: a model whose endpoints are all down is
//! unavailable (503), not unknown (404). Only the end of an endpoint forgets, and while no other has listed anything not
//! even that: where all are replaced at once, their names lead to those that took their place.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use arc_swap::ArcSwap;

use crate::engine::models::Card;

/// The models a pool's endpoints list.
#[derive(Default)]
pub struct Catalogue {
    listed: ArcSwap<Listed>,
}

#[derive(Clone, Default)]
struct Listed {
    by_endpoint: BTreeMap<Arc<str>, Arc<[Card]>>,
    /// Every id listed anywhere, and whether it is a LoRA adapter.
    names: HashMap<Arc<str>, bool>,
}

impl Catalogue {
    /// Records what an endpoint lists; returns whether that has changed. One writer at a time per endpoint.
    pub fn record(&self, endpoint: &Arc<str>, cards: &[Card]) -> bool {
        let unchanged = self.listed.load().by_endpoint.get(endpoint).is_some_and(|old| {
            old.len() == cards.len() && old.iter().zip(cards).all(|(old, new)| old.raw.get() == new.raw.get())
        });
        if unchanged {
            return false;
        }
        self.listed.rcu(|listed| {
            let mut by_endpoint = listed.by_endpoint.clone();
            by_endpoint.insert(Arc::clone(endpoint), cards.into());
            Listed::of(by_endpoint)
        });
        true
    }

    /// Forgets every endpoint that `keep` does not want, if one that it wants has listed something.
    pub fn retain(&self, keep: impl Fn(&str) -> bool) {
        self.listed.rcu(|listed| {
            let mut by_endpoint = listed.by_endpoint.clone();
            by_endpoint.retain(|endpoint, _| keep(endpoint));
            if by_endpoint.is_empty() { Listed::clone(listed) } else { Listed::of(by_endpoint) }
        });
    }

    /// Whether some endpoint lists `name`; if so, whether as a LoRA adapter.
    pub fn adapter(&self, name: &str) -> Option<bool> {
        self.listed.load().names.get(name).copied()
    }

    /// Whether no endpoint has listed anything.
    pub fn is_empty(&self) -> bool {
        self.listed.load().names.is_empty()
    }

    /// The name under which the base model is listed, when there is exactly one.
    pub fn base(&self) -> Option<Arc<str>> {
        let listed = self.listed.load();
        let mut bases = listed.names.iter().filter(|(_, adapter)| !**adapter);
        match (bases.next(), bases.next()) {
            (Some((name, _)), None) => Some(Arc::clone(name)),
            _ => None,
        }
    }

    /// The cards of the endpoints that `live` accepts, one per id, in order of endpoint and listing.
    pub fn cards(&self, live: impl Fn(&str) -> bool) -> Vec<Card> {
        let listed = self.listed.load();
        let mut cards: Vec<Card> = Vec::new();
        for (_, listing) in listed.by_endpoint.iter().filter(|(endpoint, _)| live(endpoint)) {
            for card in listing.iter() {
                if !cards.iter().any(|known| known.id == card.id) {
                    cards.push(card.clone());
                }
            }
        }
        cards
    }
}

impl Listed {
    fn of(by_endpoint: BTreeMap<Arc<str>, Arc<[Card]>>) -> Self {
        let names = by_endpoint
            .values()
            .flat_map(|cards| cards.iter())
            .map(|card| (Arc::clone(&card.id), card.is_adapter()))
            .collect();
        Self { by_endpoint, names }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::models;

    fn list(catalogue: &Catalogue, endpoint: &str, model: &str) {
        let page = format!(r#"{{"object":"list","data":[{{"id":"{model}","object":"model"}}]}}"#);
        assert!(catalogue.record(&endpoint.into(), &models::parse(page.as_bytes()).unwrap()));
    }

    #[test]
    fn the_last_names_are_forgotten_when_others_are_known() {
        let catalogue = Catalogue::default();
        list(&catalogue, "a", "old");
        list(&catalogue, "b", "older");
        catalogue.retain(|endpoint| endpoint == "a");
        assert_eq!((catalogue.adapter("old"), catalogue.adapter("older")), (Some(false), None));
        catalogue.retain(|endpoint| endpoint == "c");
        assert_eq!(catalogue.adapter("old"), Some(false), "nobody else has listed anything");
        list(&catalogue, "c", "new");
        catalogue.retain(|endpoint| endpoint == "c");
        assert_eq!((catalogue.adapter("old"), catalogue.adapter("new")), (None, Some(false)));
    }
}
