//! Adapters believed to be loaded at one endpoint, from what we sent there and what its pages list.
//!
//! Engines list the adapters that run, not those that are loaded and idle, and an adapter stays loaded until its place is
//! wanted for another. So it is remembered here as engines do: least recently used first out, those in use never. What a
//! newcomer gets wrong: an adapter with requests there need not be loaded. While all places are in use it waits until
//! one of the others has no request left, and under load that may be never.

use std::sync::Arc;

use crate::view::AdapterState;
use crate::view::adapters::AdapterSite;

/// Places of an engine that does not say how many it has.
const USUAL_PLACES: u32 = 8;

/// Adapters in the order of their last use; a handful.
#[derive(Debug, Default)]
pub(crate) struct Residents {
    adapters: Vec<Resident>,
}

#[derive(Debug)]
struct Resident {
    name: Arc<str>,
    /// Our requests in flight.
    ours: u32,
    /// Whether the last page listed it as running.
    listed: bool,
    /// Whether it has a place; it waits for one otherwise.
    placed: bool,
}

impl Resident {
    fn is_used(&self) -> bool {
        self.ours > 0 || self.listed
    }
}

impl Residents {
    /// A request of an adapter leaves for the endpoint, which has so many places for adapters.
    pub(crate) fn enter(&mut self, adapter: &Arc<str>, places: Option<u32>) {
        let mut resident = match self.position(adapter) {
            Some(at) => self.adapters.remove(at),
            None => Resident { name: adapter.clone(), ours: 0, listed: false, placed: false },
        };
        resident.ours += 1;
        self.adapters.push(resident);
        self.settle(most(places));
    }

    /// A request of an adapter ended.
    pub(crate) fn leave(&mut self, adapter: &str, places: Option<u32>) {
        if let Some(at) = self.position(adapter) {
            let resident = &mut self.adapters[at];
            resident.ours = resident.ours.saturating_sub(1);
            self.settle(most(places));
        }
    }

    /// A page lists the adapters that run and those that requests wait for, others' among them.
    pub(crate) fn listed(&mut self, running: &[Arc<str>], waiting: &[Arc<str>], places: Option<u32>) {
        for resident in &mut self.adapters {
            resident.listed = false;
        }
        let runs = running.iter().map(|name| (name, true));
        for (name, runs) in runs.chain(waiting.iter().map(|name| (name, false))) {
            let known = self.position(name).map(|at| self.adapters.remove(at));
            let (ours, placed) = known.map_or((0, false), |known| (known.ours, known.placed));
            self.adapters.push(Resident { name: name.clone(), ours, listed: true, placed: placed || runs });
        }
        // Of what we believed, that which the page does not list has to give way.
        let most = most(places);
        while self.placed() > most
            && let Some(at) = self.idle().or_else(|| self.adapters.iter().rposition(|one| one.placed && !one.listed))
        {
            self.adapters[at].placed = false;
        }
        self.settle(most);
    }

    /// The engine has none loaded any more. What is in flight is counted on.
    pub(crate) fn forget(&mut self) {
        for resident in &mut self.adapters {
            resident.listed = false;
        }
        self.adapters.retain(Resident::is_used);
    }

    /// Where an adapter stands. Unless the endpoint `lists` its adapters, only that ours are there is known. `others` are the
    /// requests there that are not ours; of which adapters they are, pages do not say.
    pub(crate) fn site(&self, adapter: &str, lists: bool, places: Option<u32>, others: f64) -> AdapterSite {
        let resident = self.position(adapter).map(|at| &self.adapters[at]);
        if !lists {
            let is_there = resident.is_some_and(|one| one.ours > 0 || one.placed);
            return AdapterSite::of(if is_there { AdapterState::Running } else { AdapterState::Unknown });
        }
        let state = match resident {
            Some(resident) if resident.placed => AdapterState::Running,
            Some(_) => AdapterState::Waiting,
            None => AdapterState::Absent,
        };
        let Some(places) = places.filter(|places| *places > 0) else { return AdapterSite::of(state) };
        let is_full = self.placed() >= places as usize;
        let listed = self.adapters.iter().filter(|one| one.listed).count() as f64;
        let uses = |one: &Resident| f64::from(one.ours) + if one.listed { others / listed } else { 0.0 };
        let least = self.adapters.iter().filter(|one| one.placed).map(uses).fold(f64::INFINITY, f64::min);
        let is_busy = is_full && self.idle().is_none();
        AdapterSite {
            state,
            room: Some(!is_full),
            places,
            busy: is_busy.then_some(least),
            in_line: self.adapters.iter().filter(|one| !one.placed).count() as u32,
            is_spare: false,
        }
    }

    /// Gives places to those that wait, as far as there are free and idle ones.
    fn settle(&mut self, most: usize) {
        self.adapters.retain(|one| one.placed || one.is_used());
        while let Some(waiting) = self.adapters.iter().position(|one| !one.placed) {
            if self.placed() < most {
                self.adapters[waiting].placed = true;
            } else if let Some(idle) = self.idle() {
                self.adapters[waiting].placed = true;
                self.adapters.remove(idle);
            } else {
                return;
            }
        }
    }

    fn placed(&self) -> usize {
        self.adapters.iter().filter(|one| one.placed).count()
    }

    /// The adapter in a place that was used longest ago and is not used now.
    fn idle(&self) -> Option<usize> {
        self.adapters.iter().position(|one| one.placed && !one.is_used())
    }

    fn position(&self, adapter: &str) -> Option<usize> {
        self.adapters.iter().position(|one| *one.name == *adapter)
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

    fn states<const N: usize>(residents: &Residents, names: [&str; N], places: u32) -> [AdapterState; N] {
        names.map(|name| residents.site(name, true, Some(places), 0.0).state)
    }

    const RUNNING: AdapterState = AdapterState::Running;
    const WAITING: AdapterState = AdapterState::Waiting;
    const ABSENT: AdapterState = AdapterState::Absent;

    #[test]
    fn an_idle_adapter_stays_until_its_place_is_wanted() {
        let mut residents = Residents::default();
        for name in &names(&["a", "b", "c"]) {
            residents.enter(name, Some(2));
            residents.leave(name, Some(2));
        }
        assert_eq!(states(&residents, ["a", "b", "c"], 2), [ABSENT, RUNNING, RUNNING]);
    }

    #[test]
    fn one_that_finds_all_places_in_use_waits_until_one_is_idle() {
        let mut residents = Residents::default();
        let [a, b, c] = ["a", "b", "c"].map(Arc::from);
        for name in [&a, &a, &b, &b, &b, &c] {
            residents.enter(name, Some(2));
        }
        assert_eq!(states(&residents, ["a", "b", "c"], 2), [RUNNING, RUNNING, WAITING]);
        let site = residents.site("c", true, Some(2), 0.0);
        assert_eq!((site.busy, site.in_line, site.room), (Some(2.0), 1, Some(false)), "two of a must end first");
        residents.leave("a", Some(2));
        residents.leave("a", Some(2));
        assert_eq!(states(&residents, ["a", "b", "c"], 2), [ABSENT, RUNNING, RUNNING]);
    }

    #[test]
    fn adapters_of_others_take_places_and_are_remembered() {
        let mut residents = Residents::default();
        for name in &names(&["a", "b"]) {
            residents.enter(name, Some(2));
            residents.leave(name, Some(2));
        }
        residents.listed(&names(&["x"]), &[], Some(2));
        assert_eq!(states(&residents, ["a", "b", "x"], 2), [ABSENT, RUNNING, RUNNING]);
        residents.listed(&[], &[], Some(2));
        assert_eq!(states(&residents, ["b", "x"], 2), [RUNNING, RUNNING], "idle now, and still loaded");
    }

    #[test]
    fn what_the_page_lists_has_its_place_before_what_was_believed() {
        let mut residents = Residents::default();
        let [a, b] = ["a", "b"].map(Arc::from);
        residents.enter(&a, Some(2));
        residents.enter(&b, Some(2));
        residents.listed(&names(&["a", "x"]), &[], Some(2));
        assert_eq!(states(&residents, ["a", "b", "x"], 2), [RUNNING, WAITING, RUNNING]);
        residents.leave("b", Some(2));
        assert_eq!(states(&residents, ["b"], 2), [ABSENT], "it has gone without a place");
    }

    #[test]
    fn of_an_endpoint_that_lists_nothing_only_ours_are_known() {
        let mut residents = Residents::default();
        residents.enter(&Arc::from("a"), None);
        assert_eq!(residents.site("a", false, None, 0.0).state, RUNNING);
        assert_eq!(residents.site("b", false, None, 0.0).state, AdapterState::Unknown);
    }

    #[test]
    fn a_restart_leaves_what_is_in_flight() {
        let mut residents = Residents::default();
        for name in &names(&["a", "b"]) {
            residents.enter(name, Some(4));
        }
        residents.leave("a", Some(4));
        residents.forget();
        assert_eq!(states(&residents, ["a", "b"], 4), [ABSENT, RUNNING]);
    }
}
