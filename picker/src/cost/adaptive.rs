//! Expected time cost. Stub.

use super::{Cost, Term, Terms};
use crate::request::RequestInfo;
use crate::view::Candidates;

/// Expected time cost of a request, to itself and to others.
#[derive(Clone, Copy, Debug, Default)]
pub struct Adaptive;

impl Cost for Adaptive {
    fn name(&self) -> &'static str {
        "adaptive"
    }

    fn terms(&self) -> &'static [Term] {
        &[Term { name: "ttft", unit: "s" }]
    }

    fn cost(&self, _request: &RequestInfo, candidates: &Candidates<'_>, terms: &mut Terms) {
        for i in 0..candidates.len() {
            let rates = candidates.rates(i);
            let uncached = (candidates.pool().prompt_tokens - candidates.cached_tokens(i)).max(0.0);
            terms.set(i, 0, candidates.pending(i) + rates.a + rates.b * uncached);
        }
    }
}
