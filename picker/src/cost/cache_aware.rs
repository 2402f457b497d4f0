//! The rule of SGLang's router: the longest cached prefix while loads are balanced, the shortest queue while they are not.
//!
//! Load here is requests in flight from this gateway, as there. Its tree of texts sent is our index of prefixes, which,
//! unlike the tree, is bounded by the cache of each endpoint and learns from servers that say what they had cached. Loads
//! are compared among the endpoints that may serve the request: one that is down must not look like an idle one and switch
//! affinity off for all. Weights play no part.

use super::{Cost, Term, Terms};
use crate::request::RequestInfo;
use crate::view::Candidates;

/// Part of a prompt that must be cached for the prefix to decide. This and the next two are what the command line of
/// sglang-router 0.3.2 starts with (`--cache-threshold`, `--balance-abs-threshold`, `--balance-rel-threshold`); the library
/// alone has 0.5, 32 and 1.1.
const CACHE_THRESHOLD: f64 = 0.3;

/// Requests by which the most and the least loaded must differ before loads count as imbalanced.
const BALANCE_ABSOLUTE: f64 = 64.0;

/// And how many times the load of the least loaded the most loaded must have.
const BALANCE_RELATIVE: f64 = 1.5;

const TERMS: [Term; 2] = [
    // Where loads are imbalanced or no prefix is cached: what is in flight. Older versions took the endpoint with the
    // smallest tree for a prompt that is cached nowhere, whatever its load; later ones take the least loaded.
    Term { name: "load", unit: "requests" },
    // Where a prefix decides: what is missing of the prompt.
    Term { name: "missing", unit: "tokens" },
];

const LOAD: usize = 0;
const MISSING: usize = 1;

/// One of the two terms, the same for all candidates of a decision; the other is zero.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CacheAware;

impl Cost for CacheAware {
    fn name(&self) -> &'static str {
        "cache_aware"
    }

    fn terms(&self) -> &'static [Term] {
        &TERMS
    }

    fn cost(&self, _: &RequestInfo, candidates: &Candidates<'_>, terms: &mut Terms) {
        let (mut least, mut most, mut cached) = (f64::INFINITY, 0.0_f64, 0.0_f64);
        for i in 0..candidates.len() {
            least = least.min(candidates.in_flight(i));
            most = most.max(candidates.in_flight(i));
            cached = cached.max(candidates.cached_tokens(i));
        }
        let prompt = candidates.pool().prompt_tokens;
        let prefix_decides = !is_imbalanced(least, most) && cached > CACHE_THRESHOLD * prompt;
        for i in 0..candidates.len() {
            if prefix_decides {
                terms.set(i, MISSING, (prompt - candidates.cached_tokens(i)).max(0.0));
            } else {
                terms.set(i, LOAD, candidates.in_flight(i));
            }
        }
    }
}

fn is_imbalanced(least: f64, most: f64) -> bool {
    most - least > BALANCE_ABSOLUTE && most > BALANCE_RELATIVE * least
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loads_are_imbalanced_when_they_differ_by_both_measures() {
        assert!(!is_imbalanced(0.0, 64.0), "64 more is still balanced");
        assert!(is_imbalanced(0.0, 65.0));
        assert!(!is_imbalanced(200.0, 300.0), "half as much again is still balanced");
        assert!(is_imbalanced(200.0, 301.0));
    }
}
