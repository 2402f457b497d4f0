//! Expected time cost: what a request would wait and take on an endpoint, and what it would cost the others there.
//!
//! Load comes from our own events only; scrapes give what changes slowly (cache size and use, adapters) and the load of
//! other gateways, and a fact that is stale drops out of the formula. What a newcomer gets wrong: the shortest expected
//! TTFT alone is *not* the best choice. It crowds streams together while the pool is idle, and near saturation it gives
//! up the cached prefix that keeps the pool from saturating. Externality and decode are there for these two.

use super::{Cost, Term, Terms};
use crate::learn::Rates;
use crate::request::RequestInfo;
use crate::view::adapters::AdapterSite;
use crate::view::{AdapterState, Candidates};

/// Utilisation past which the delay formula is not followed further; it has no finite value at 1.
const MAX_UTILISATION: f64 = 0.98;

/// Cache use from which requests wait for memory, and the further use over which that becomes all they wait for.
const MEMORY_BOUND_FROM: f64 = 0.80;
const MEMORY_BOUND_OVER: f64 = 0.15;

/// Cache use above which an endpoint gets no prefix that another holds.
const NO_COPY_ABOVE: f64 = 0.90;

/// Tokens by which an endpoint must be behind the best before its share of a prefix counts as a new copy.
const COPY_TOKENS: f64 = 512.0;

/// What a copy of a prefix off its homes costs above what it costs anywhere, as a multiple, when other gateways are certain to
/// keep it there: it is used once, by none of them, and pushes out what all of them use.
const AWAY: f64 = 2.0;

/// Range of the requests of an adapter for which the time until none is left is computed. From eight on, which are 370 stays,
/// it is never.
const LEAST_BUSY: f64 = 0.01;
const MOST_BUSY: f64 = 8.0;

/// Least mean prefill time, so that an endpoint that has not served yet has a finite speed.
const LEAST_SERVICE: f64 = 1e-4;

const TERMS: [Term; 7] = [
    // Prefill work ahead of the request.
    Term { name: "wait", unit: "s" },
    // Its own prefill.
    Term { name: "prefill", unit: "s" },
    // Delay to later arrivals, and the price of what is evicted.
    Term { name: "externality", unit: "s" },
    // Its own decoding and what it slows, weighted.
    Term { name: "decode", unit: "s" },
    // Loading its adapter, evicting another, and waiting for a place to load it into.
    Term { name: "adapter", unit: "s" },
    // Infinite where it would copy a prefix into a full cache.
    Term { name: "copy", unit: "s" },
    // A copy where no other gateway would look for it.
    Term { name: "away", unit: "s" },
];

/// The default cost. Its fields are what its parts weigh; what is not the default is there to show what a part is worth
/// (`spillway-bench routing --policies adaptive,adaptive-decode`).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Adaptive {
    /// Weight of a second that later arrivals are delayed against a second of the request's own.
    pub delay: f64,
    /// Price of evicting what an uncached prompt displaces, as a share of what computing the prompt costs. One: what goes
    /// was as dear to compute and will be wanted again.
    pub eviction: f64,
    /// Weight of a second of decoding against a second of TTFT: a reader notices the first token more than the pace. At 0.2
    /// it gives up prefixes under load, at 0 it crowds streams together.
    pub decode: f64,
    /// Whether the cache's memory counts: requests that wait for it, utilisation by it, and no copy into a full one.
    pub memory: bool,
}

impl Default for Adaptive {
    fn default() -> Self {
        Self { delay: 1.0, eviction: 1.0, decode: 0.05, memory: true }
    }
}

impl Cost for Adaptive {
    fn name(&self) -> &'static str {
        "adaptive"
    }

    fn terms(&self) -> &'static [Term] {
        &TERMS
    }

    fn cost(&self, _request: &RequestInfo, candidates: &Candidates<'_>, terms: &mut Terms) {
        let pool = candidates.pool();
        let mut job = Job {
            prompt: pool.prompt_tokens,
            output: pool.output_tokens,
            arrival_rate: pool.arrival_rate * f64::from(pool.gateways.max(1)),
            residence: pool.mean_residence,
            adapter_load: pool.adapter_load,
            guess: pool.guess,
            speed: 0.0,
            best_cached: 0.0,
            weights: *self,
        };
        for i in 0..candidates.len() {
            job.speed += 1.0 / candidates.mean_service(i).max(LEAST_SERVICE);
            job.best_cached = job.best_cached.max(candidates.cached_tokens(i));
        }
        for i in 0..candidates.len() {
            let mut site = Site::read(candidates, i);
            if !self.memory {
                site.kv_usage = None;
            }
            terms.row_mut(i).copy_from_slice(&job.price(&site));
        }
    }
}

/// What is the same for all candidates.
#[derive(Clone, Copy, Debug)]
struct Job {
    prompt: f64,
    output: f64,
    /// Requests per second to the pool through all gateways, which get alike.
    arrival_rate: f64,
    /// Seconds a request holds its cache.
    residence: f64,
    /// Seconds to load an adapter.
    adapter_load: f64,
    /// How certain it is that other gateways keep a prefix on its homes, 0 to 1.
    guess: f64,
    /// Prefills per second of all candidates together.
    speed: f64,
    /// Cached tokens on the candidate that has most.
    best_cached: f64,
    weights: Adaptive,
}

/// One candidate. Tokens, seconds and shares.
#[derive(Clone, Copy, Debug)]
struct Site {
    rates: Rates,
    mean_service: f64,
    cached: f64,
    is_away: bool,
    pending: f64,
    prefills: f64,
    streams: f64,
    others_waiting: f64,
    others_streams: f64,
    places: Option<f64>,
    kv_usage: Option<f64>,
    kv_tokens: Option<f64>,
    adapter: AdapterSite,
}

impl Site {
    fn read(candidates: &Candidates<'_>, i: usize) -> Self {
        Self {
            rates: candidates.rates(i),
            mean_service: candidates.mean_service(i).max(LEAST_SERVICE),
            cached: candidates.cached_tokens(i),
            is_away: candidates.is_away(i),
            pending: candidates.pending(i),
            prefills: candidates.prefills(i),
            streams: candidates.decodes(i),
            others_waiting: candidates.others_waiting(i),
            others_streams: candidates.others_running(i),
            places: candidates.places(i),
            kv_usage: candidates.kv_usage(i),
            kv_tokens: candidates.kv_tokens(i),
            adapter: candidates.adapter_site(i),
        }
    }
}

impl Job {
    /// The terms, in the order of [`TERMS`].
    fn price(&self, site: &Site) -> [f64; TERMS.len()] {
        let uncached = (self.prompt - site.cached).max(0.0);
        let wait = site.pending + site.others_waiting * site.mean_service + self.place(site);
        let prefill = self.prefill(site, uncached);
        let externality = self.externality(site, uncached, wait, prefill);
        let (decode, adapter) = (self.decode(site, uncached), self.adapter(site));
        let away =
            if site.is_away { AWAY * self.guess * (wait + prefill + externality + decode + adapter) } else { 0.0 };
        let terms = [wait, prefill, externality, decode, adapter, self.copy(site), away];
        // The mean of a pool and the rates of an endpoint are sane by themselves; this is for the custom and the new.
        terms.map(|term| if term.is_nan() { 0.0 } else { term.max(0.0) })
    }

    /// Seconds until a place in the batch is free. Of a full batch one ends, on the average, each time that a request stays
    /// divided by the places.
    fn place(&self, site: &Site) -> f64 {
        let Some(places) = site.places.filter(|places| *places >= 1.0) else { return 0.0 };
        let there = site.prefills + site.streams + site.others_waiting + site.others_streams;
        (there + 1.0 - places).max(0.0) * self.residence / places
    }

    /// Seconds from the request's turn to its first token. Short of cache memory, that is its share of the cache times
    /// the time for which others hold theirs.
    fn prefill(&self, site: &Site, uncached: f64) -> f64 {
        let computing = site.rates.prefill(uncached);
        match (site.kv_usage, site.kv_tokens) {
            (Some(usage), Some(tokens)) if tokens > 0.0 => {
                let bound = ((usage - MEMORY_BOUND_FROM) / MEMORY_BOUND_OVER).clamp(0.0, 1.0);
                computing.max(bound * (uncached + self.output) * self.residence / tokens)
            }
            _ => computing,
        }
    }

    /// The delay that a job adds to those who come after it, in a queue served in order, and the price of evictions.
    ///
    /// An endpoint's arrivals are its share of the pool's by speed. Its own count would prove itself right: who is sent
    /// much would look like who attracts much.
    fn externality(&self, site: &Site, uncached: f64, wait: f64, prefill: f64) -> f64 {
        let arrivals = self.arrival_rate / (site.mean_service * self.speed);
        let utilisation = (arrivals * site.mean_service).max(site.kv_usage.unwrap_or(0.0)).min(MAX_UTILISATION);
        let delay = prefill * arrivals * (wait + prefill / 2.0) / (1.0 - utilisation);
        self.weights.delay * delay + self.weights.eviction * site.rates.b * uncached
    }

    /// Decoding of the request itself, and the stall of the streams that run there: once for its prefill, then at each
    /// of its tokens.
    fn decode(&self, site: &Site, uncached: f64) -> f64 {
        let streams = site.streams + site.others_streams;
        let own = self.output * site.rates.gap(streams + 1.0);
        let stall = streams * (site.rates.b * uncached + self.output * site.rates.t1);
        self.weights.decode * (own + stall)
    }

    /// Loading the adapter where it is not, twice that where another must go for it: that one will be loaded again. While
    /// all places are in use, the time until one is not. And where it has more places than it should, the time for which
    /// it would hold one that another adapter waits for, or soon will.
    fn adapter(&self, site: &Site) -> f64 {
        let AdapterSite { state, room, in_line, is_spare, .. } = site.adapter;
        let in_line = f64::from(in_line);
        match state {
            AdapterState::Unknown => 0.0,
            AdapterState::Running => {
                if is_spare {
                    in_line * self.residence
                } else {
                    0.0
                }
            }
            AdapterState::Waiting => self.adapter_load / 2.0 + self.adapter_place(site) * in_line.max(1.0),
            AdapterState::Absent => {
                let load = if room == Some(false) { self.adapter_load * 2.0 } else { self.adapter_load };
                let held = if is_spare { self.residence } else { 0.0 };
                load + self.adapter_place(site) * (in_line + 1.0) + held
            }
        }
    }

    /// Seconds until one of the adapters in places has no request left, while all have some. Those of one adapter come and
    /// go as in a queue with as many servers as requests (M/G/infinity), which is busy for `(e^n - 1) / n` stays where `n`
    /// are there on the average (Takacs, 1962): one is gone soon, of five one is always left.
    fn adapter_place(&self, site: &Site) -> f64 {
        match site.adapter.busy {
            Some(busy) => {
                let there = busy.clamp(LEAST_BUSY, MOST_BUSY);
                self.residence * there.exp_m1() / there
            }
            None => 0.0,
        }
    }

    /// Infinite on a full endpoint that lacks what another has; that other is never charged, so one always remains.
    fn copy(&self, site: &Site) -> f64 {
        let is_copy = self.best_cached - site.cached >= COPY_TOKENS;
        if is_copy && site.kv_usage.is_some_and(|usage| usage > NO_COPY_ABOVE) { f64::INFINITY } else { 0.0 }
    }
}

#[cfg(test)]
mod tests;
