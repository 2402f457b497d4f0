//! On how many endpoints a request's LoRA adapter is kept, and on which.
//!
//! Engines have few places for adapters. A hot adapter that is loaded wherever its home is busy for a moment soon has all of
//! them, and under load none is ever given back, since requests of it are always there: the others wait for ever. So places
//! are shared out by heat. What a newcomer gets wrong: an adapter is not sent away from where it is one too many. Only when
//! another one waits there, or it would have to be loaded, does the cost say so.

use xxhash_rust::xxh3::xxh3_64;

use crate::decide::round::Round;
use crate::decide::scratch::Scratch;
use crate::view::AdapterState;

impl Round<'_> {
    /// Notes where the adapter is spare: when it is loaded on as many endpoints as it should be, on all but the first of
    /// these on the walk of its name. Gateways that do not talk know from pages what is loaded, and walk alike.
    pub(super) fn spread_adapter(&mut self) {
        let Some(adapter) = &self.request.adapter else { return };
        let Self { topology, scratch, view, .. } = self;
        let Scratch { table, kept, keep, seen, .. } = &mut **scratch;
        let (mut places, mut copies) = (0.0, 0);
        for i in kept.iter() {
            let site = &table.adapters[*i as usize];
            places += f64::from(site.places);
            copies += usize::from(site.state == AdapterState::Running);
        }
        let homes = homes(view.adapter_share, view.adapters, places, kept.len() as f64);
        if places == 0.0 || copies < homes {
            return;
        }
        for i in kept.iter() {
            table.adapters[*i as usize].is_spare = true;
        }
        let key = xxh3_64(adapter.as_bytes());
        let walk = topology.ring.walk(key, seen).filter(|position| keep.is_kept(*position));
        let mut left = homes;
        for position in walk {
            let site = &mut table.adapters[position];
            if site.state == AdapterState::Running {
                site.is_spare = false;
                left -= 1;
                if left == 0 {
                    return;
                }
            }
        }
    }
}

/// Endpoints that an adapter with this share of the traffic should be loaded on: one, and its share of the places that are
/// left when each adapter has one. No fewer than its requests keep busy, were each endpoint to serve as many.
fn homes(share: f64, adapters: f64, places: f64, endpoints: f64) -> usize {
    let left = (places - adapters).max(0.0);
    let by_places = 1.0 + (share * left).floor();
    by_places.max((share * endpoints).ceil()) as usize
}

#[cfg(test)]
mod tests {
    use super::homes;

    #[test]
    fn homes_grow_with_heat_and_leave_a_place_for_each() {
        let zipf: Vec<f64> = (1..=16).map(|rank| 1.0 / f64::from(rank)).collect();
        let all: f64 = zipf.iter().sum();
        let homes: Vec<usize> = zipf.iter().map(|weight| homes(weight / all, 16.0, 32.0, 8.0)).collect();
        assert_eq!(homes[..4], [5, 3, 2, 2], "{homes:?}");
        assert!(homes.iter().all(|homes| *homes >= 1) && homes.iter().sum::<usize>() <= 32, "{homes:?}");
    }

    #[test]
    fn with_few_places_an_adapter_has_what_its_requests_need() {
        assert_eq!(homes(0.3, 64.0, 32.0, 8.0), 3);
        assert_eq!(homes(0.01, 64.0, 32.0, 8.0), 1);
        assert_eq!(homes(0.0, 0.0, 32.0, 8.0), 1, "one that is new");
    }
}
