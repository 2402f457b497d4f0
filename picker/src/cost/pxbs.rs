//! Prefill work times batch size, as in the paper on `LMetric` (arXiv 2603.15202).
//!
//! Neither factor needs a scale, so there is no weight to tune: an endpoint with half the work ahead may have twice the
//! batch. It knows no speed: on a mixed fleet it takes a slow endpoint for a fast one that is as empty.

use super::{Cost, Term, Terms};
use crate::request::RequestInfo;
use crate::view::Candidates;

const TERMS: [Term; 1] = [Term { name: "work x batch", unit: "tokens x requests" }];

/// Tokens of prompt to be computed before this request's first token, times the requests there with this one.
///
/// The work is that of our own requests without a first token and the part of this prompt that is not believed to be
/// cached; what other gateways sent counts in the batch alone.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pxbs;

impl Cost for Pxbs {
    fn name(&self) -> &'static str {
        "pxbs"
    }

    fn terms(&self) -> &'static [Term] {
        &TERMS
    }

    fn cost(&self, _: &RequestInfo, candidates: &Candidates<'_>, terms: &mut Terms) {
        let prompt = candidates.pool().prompt_tokens;
        for i in 0..candidates.len() {
            let work = candidates.prefill_tokens(i) + (prompt - candidates.cached_tokens(i)).max(0.0);
            let batch = candidates.in_flight(i) + candidates.outside(i) + 1.0;
            terms.set(i, 0, work * batch);
        }
    }
}
