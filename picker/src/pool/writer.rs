//! Hands out slots and keeps the state of endpoints across changes of the topology. Only one thread at a time is here.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Weak};

use crate::pool::speed::Speed;
use crate::pool::{Endpoint, EndpointSpec, Slot, State};

/// What is remembered between two changes of the topology.
#[derive(Debug, Default)]
pub(crate) struct Writer {
    /// Next generation of each slot index.
    generations: Vec<u32>,
    free: BTreeSet<u32>,
    /// State of endpoints that are gone while requests are still in flight there. One that comes back, as discovery does
    /// when it flaps, must not look idle.
    gone: BTreeMap<Arc<str>, Weak<State>>,
}

impl Writer {
    /// The endpoints of `specs`, and those of `old` that are not among them.
    pub(crate) fn replace(
        &mut self,
        specs: Vec<EndpointSpec>,
        old: &[Arc<Endpoint>],
    ) -> (Vec<Arc<Endpoint>>, Vec<Arc<Endpoint>>) {
        let mut leaving: BTreeMap<Arc<str>, Arc<Endpoint>> =
            old.iter().map(|endpoint| (endpoint.id.clone(), endpoint.clone())).collect();
        let mut met = BTreeSet::new();
        let mut endpoints = Vec::with_capacity(specs.len());
        for spec in specs {
            if !met.insert(spec.id.clone()) {
                continue;
            }
            let endpoint = if let Some(old) = leaving.remove(&spec.id) {
                Endpoint::new(spec, old.slot, old.state.clone())
            } else {
                let state = if let Some(state) = self.gone.remove(&spec.id).and_then(|state| state.upgrade()) {
                    state.health.readmit();
                    state.sheet.set_kinds([None, None]);
                    state
                } else {
                    Arc::new(State::new(Speed::like(old, &spec)))
                };
                Endpoint::new(spec, self.take_slot(), state)
            };
            endpoints.push(Arc::new(endpoint));
        }
        let leaving: Vec<_> = leaving.into_values().collect();
        self.gone.retain(|_, state| state.strong_count() > 0);
        for endpoint in &leaving {
            self.gone.insert(endpoint.id.clone(), Arc::downgrade(&endpoint.state));
            self.generations[endpoint.slot.index()] += 1;
            self.free.insert(endpoint.slot.index() as u32);
        }
        (endpoints, leaving)
    }

    fn take_slot(&mut self) -> Slot {
        if let Some(index) = self.free.pop_first() {
            return Slot::new(index, self.generations[index as usize]);
        }
        self.generations.push(0);
        Slot::new(self.generations.len() as u32 - 1, 0)
    }
}
