//! `adaptive` with a part left out: what the part is worth.
//!
//! They are policies of the bench and not of the product: nobody should run one.

use spillway_picker::cost::adaptive::Adaptive;
use spillway_picker::cost::{Cost, Term, Terms};
use spillway_picker::registry::Registry;
use spillway_picker::request::RequestInfo;
use spillway_picker::view::Candidates;

/// A cost under a name of its own.
struct Variant {
    name: &'static str,
    cost: Adaptive,
}

impl Cost for Variant {
    fn name(&self) -> &'static str {
        self.name
    }

    fn terms(&self) -> &'static [Term] {
        self.cost.terms()
    }

    fn cost(&self, request: &RequestInfo, candidates: &Candidates<'_>, terms: &mut Terms) {
        self.cost.cost(request, candidates, terms);
    }
}

/// The policies that can be played: the picker's, and the variants.
pub fn registry() -> Registry {
    let whole = Adaptive::default();
    let variants = [
        // What is left of it: the time to the first token.
        ("adaptive-all", Adaptive { delay: 0.0, eviction: 0.0, decode: 0.0, memory: false }),
        ("adaptive-decode", Adaptive { decode: 0.0, ..whole }),
        ("adaptive-delay", Adaptive { delay: 0.0, ..whole }),
        ("adaptive-eviction", Adaptive { eviction: 0.0, ..whole }),
        ("adaptive-memory", Adaptive { memory: false, ..whole }),
    ];
    variants
        .into_iter()
        .fold(Registry::default(), |registry, (name, cost)| registry.cost(name, move || Variant { name, cost }))
}
