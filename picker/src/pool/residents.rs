//! Adapters believed to be loaded at one endpoint, from what we sent there.
//!
//! Engines list the adapters that run, not those that are loaded and idle, and an adapter stays loaded until its place is
//! wanted for another. So it is remembered here as engines do: least recently used first out, those in use never.

use std::sync::Arc;

/// Places of an engine that does not say how many it has.
const USUAL_PLACES: u32 = 8;

/// Adapters in the order of their last use, each with our requests in flight; a handful.
#[derive(Debug, Default)]
pub(crate) struct Residents {
    adapters: Vec<(Arc<str>, u32)>,
}

impl Residents {
    /// A request of an adapter leaves for the endpoint, which has so many places for adapters.
    pub(crate) fn enter(&mut self, adapter: &Arc<str>, places: Option<u32>) {
        let in_flight = match self.position(adapter) {
            Some(place) => self.adapters.remove(place).1,
            None => 0,
        };
        self.adapters.push((adapter.clone(), in_flight + 1));
        while self.adapters.len() > most(places) {
            let Some(idle) = self.adapters.iter().position(|(_, in_flight)| *in_flight == 0) else { return };
            self.adapters.remove(idle);
        }
    }

    /// A request of an adapter ended.
    pub(crate) fn leave(&mut self, adapter: &str) {
        if let Some(place) = self.position(adapter) {
            let in_flight = &mut self.adapters[place].1;
            *in_flight = in_flight.saturating_sub(1);
        }
    }

    /// The engine has none loaded any more. What is in flight is counted on.
    pub(crate) fn forget(&mut self) {
        self.adapters.retain(|(_, in_flight)| *in_flight > 0);
    }

    /// Whether the adapter is among those known, loaded or not.
    pub(crate) fn knows(&self, adapter: &str) -> bool {
        self.position(adapter).is_some()
    }

    /// Whether the adapter is believed to be loaded, when `others` that we did not send take places too.
    pub(crate) fn holds(&self, adapter: &str, others: usize, places: Option<u32>) -> bool {
        let Some(place) = self.position(adapter) else { return false };
        let later = self.adapters.len() - place;
        self.adapters[place].1 > 0 || later + others <= most(places)
    }

    /// Adapters known.
    pub(crate) fn len(&self) -> usize {
        self.adapters.len()
    }

    fn position(&self, adapter: &str) -> Option<usize> {
        self.adapters.iter().position(|(name, _)| **name == *adapter)
    }
}

fn most(places: Option<u32>) -> usize {
    places.filter(|places| *places > 0).unwrap_or(USUAL_PLACES) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> Vec<Arc<str>> {
        names.iter().map(|name| Arc::from(*name)).collect()
    }

    #[test]
    fn an_idle_adapter_stays_until_its_place_is_wanted() {
        let mut residents = Residents::default();
        for name in &names(&["a", "b", "c"]) {
            residents.enter(name, Some(2));
            residents.leave(name);
        }
        let held = ["a", "b", "c"].map(|name| residents.holds(name, 0, Some(2)));
        assert_eq!(held, [false, true, true]);
    }

    #[test]
    fn one_in_use_is_never_taken_for_gone() {
        let mut residents = Residents::default();
        let [a, b, c] = ["a", "b", "c"].map(Arc::from);
        residents.enter(&a, Some(1));
        residents.enter(&b, Some(1));
        residents.enter(&c, Some(1));
        assert!(["a", "b", "c"].iter().all(|name| residents.holds(name, 0, Some(1))), "all wait or run there");
        residents.leave("a");
        residents.enter(&c, Some(1));
        assert!(!residents.knows("a"));
    }

    #[test]
    fn adapters_of_others_take_places() {
        let mut residents = Residents::default();
        for name in &names(&["a", "b"]) {
            residents.enter(name, Some(2));
            residents.leave(name);
        }
        assert!(!residents.holds("a", 1, Some(2)) && residents.holds("b", 1, Some(2)));
    }

    #[test]
    fn a_restart_leaves_what_is_in_flight() {
        let mut residents = Residents::default();
        for name in &names(&["a", "b"]) {
            residents.enter(name, Some(4));
        }
        residents.leave("a");
        residents.forget();
        assert!(!residents.knows("a") && residents.knows("b"));
    }
}
