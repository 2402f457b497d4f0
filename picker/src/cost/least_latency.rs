//! The least time to first token by what was seen lately, times the requests in flight.
//!
//! It needs no scrape and no model of the engine, and reacts to whatever makes an endpoint slow: another card, a noisy
//! neighbour, long prompts. That is its weakness as well: it cannot tell a slow endpoint from one that was sent a long
//! prompt. Answers that are not streamed teach it nothing; without any that is, requests in flight alone decide.

use super::{Cost, Term, Terms};
use crate::request::RequestInfo;
use crate::view::Candidates;

/// Least latency taken for all while nothing is known of any, seconds: without one, requests in flight would not count.
const LEAST_GUESS: f64 = 0.001;

const TERMS: [Term; 2] = [
    // Latency times the requests there with this one.
    Term { name: "latency", unit: "s" },
    // Round trip: paid once, however many are in flight.
    Term { name: "network", unit: "s" },
];

const LATENCY: usize = 0;
const NETWORK: usize = 1;

/// Peak mean of the time to first token, without the network, times our requests in flight plus one; plus the round trip.
///
/// The time is at least what the request at the head of the line has waited: an endpoint that hangs gives no samples, and
/// its last good one would fade. An endpoint of which nothing is known is taken for the best of the others: what is not
/// asked is not learned, and what it has in flight keeps it from being flooded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LeastLatency;

impl Cost for LeastLatency {
    fn name(&self) -> &'static str {
        "least_latency"
    }

    fn terms(&self) -> &'static [Term] {
        &TERMS
    }

    fn cost(&self, _: &RequestInfo, candidates: &Candidates<'_>, terms: &mut Terms) {
        let (mut latency, mut network) = (f64::INFINITY, f64::INFINITY);
        for i in 0..candidates.len() {
            latency = latency.min(candidates.latency(i).unwrap_or(f64::INFINITY));
            network = network.min(candidates.round_trip(i).unwrap_or(f64::INFINITY));
        }
        // The same for all while nothing is known of any, so its size does not matter much.
        let latency = if latency.is_finite() { latency } else { candidates.pool().mean_service.max(LEAST_GUESS) };
        let network = if network.is_finite() { network } else { 0.0 };
        for i in 0..candidates.len() {
            let seconds = candidates.latency(i).unwrap_or(latency).max(candidates.waited(i));
            terms.set(i, LATENCY, seconds * (candidates.in_flight(i) + 1.0));
            terms.set(i, NETWORK, candidates.round_trip(i).unwrap_or(network));
        }
    }
}
