//! What one decision sees: columns of facts on each endpoint, read once, so that every filter and scorer judges the same instant.
//!
//! Positions count candidates, not endpoints: after filtering, position 3 is the fourth endpoint that is left. Unknown facts
//! are `None`; treating them as zero would send everything to the endpoint of which least is known.

pub(crate) mod adapters;
pub(crate) mod table;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::learn::Rates;
use crate::ledger::UNIT;
use crate::pool::{Endpoint, Freshness};
use crate::time::Time;

use adapters::AdapterSite;
use table::{OFF_WALK, Table};

/// Least time of a prefill, seconds, so that every speed is finite.
const LEAST_PREFILL: f64 = 1e-6;

/// Where a request's LoRA adapter stands on one endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdapterState {
    /// Loaded, or on its way into a place that it has.
    Running,
    /// Requests of it wait there, but all places for adapters are in use.
    Waiting,
    /// Not loaded.
    Absent,
    /// The request needs no adapter, or nothing is known of the endpoint's adapters.
    Unknown,
}

/// What a decision knows of the pool as a whole and of the request's size.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PoolView {
    /// Requests dispatched per second, over the last ten seconds or so.
    pub arrival_rate: f64,
    /// Running mean of the prefill time of a request, seconds.
    pub mean_service: f64,
    /// Running mean of the uncached tokens of a request.
    pub mean_uncached: f64,
    /// Running mean of the time a request stays in an engine, seconds.
    pub mean_residence: f64,
    /// Running mean of the time to load an adapter, seconds.
    pub adapter_load: f64,
    /// Share of the pool's requests that ask for this request's adapter; 0 when it needs none.
    pub adapter_share: f64,
    /// Adapters that are asked for.
    pub adapters: f64,
    /// Gateways that route to this pool, this one included.
    pub gateways: u32,
    /// Share of a prompt, unknown here, that counts as cached where other gateways would have sent it.
    pub guess: f64,
    /// Tokens of this request's prompt, estimated.
    pub prompt_tokens: f64,
    /// Tokens this request is expected to produce.
    pub output_tokens: f64,
    /// Bytes of prompt text per token of it.
    pub bytes_per_token: f64,
}

/// The endpoints a filter, scorer or cost judges, by position in `0..len()`.
#[derive(Clone, Copy)]
pub struct Candidates<'a> {
    pub(crate) endpoints: &'a [Arc<Endpoint>],
    pub(crate) table: &'a Table,
    pub(crate) positions: &'a [u32],
    pub(crate) pool: &'a PoolView,
    pub(crate) zone: Option<&'a str>,
    pub(crate) now: Time,
}

fn known(value: f64) -> Option<f64> {
    if value.is_nan() { None } else { Some(value) }
}

impl Candidates<'_> {
    fn position(&self, i: usize) -> usize {
        self.positions[i] as usize
    }

    fn scraped(&self, i: usize) -> &table::Scraped {
        &self.table.scraped[self.position(i)]
    }

    fn ours(&self, i: usize) -> &table::Ours {
        &self.table.ours[self.position(i)]
    }

    /// Number of candidates.
    pub fn len(&self) -> usize {
        self.positions.len()
    }

    /// Whether no candidate is left.
    pub fn is_empty(&self) -> bool {
        self.positions.is_empty()
    }

    /// The time of the decision.
    pub fn now(&self) -> Time {
        self.now
    }

    /// The zone the gateway is in, when it was told.
    pub fn zone(&self) -> Option<&str> {
        self.zone
    }

    /// The endpoint at `i`.
    pub fn endpoint(&self, i: usize) -> &Endpoint {
        &self.endpoints[self.position(i)]
    }

    /// What is known of the pool as a whole.
    pub fn pool(&self) -> &PoolView {
        self.pool
    }

    /// Requests waiting inside the engine at its last scrape. `None` when never scraped, stale or frozen.
    pub fn queued(&self, i: usize) -> Option<f64> {
        known(self.scraped(i).queued)
    }

    /// Requests running inside the engine at its last scrape. `None` when never scraped, stale or frozen.
    pub fn running(&self, i: usize) -> Option<f64> {
        known(self.scraped(i).running)
    }

    /// Share of the key-value cache in use at the last scrape, 0 to 1. `None` when never scraped, stale or frozen.
    pub fn kv_usage(&self, i: usize) -> Option<f64> {
        known(self.scraped(i).kv_usage)
    }

    /// Size of the key-value cache in tokens. Does not go stale.
    pub fn kv_tokens(&self, i: usize) -> Option<f64> {
        known(self.scraped(i).kv_tokens)
    }

    /// Requests that the engine runs at once when its batch is full, learned from pages that show some waiting. `None` when
    /// none ever waited. Does not go stale.
    pub fn places(&self, i: usize) -> Option<f64> {
        known(self.scraped(i).places)
    }

    /// Age of the last scrape, `None` when there was none.
    pub fn facts_age(&self, i: usize) -> Option<Duration> {
        known(self.scraped(i).age).map(Duration::from_secs_f64)
    }

    /// How far the scraped facts can be trusted. Those that change quickly are `None` unless this is `Fresh`.
    pub fn freshness(&self, i: usize) -> Freshness {
        self.scraped(i).freshness
    }

    /// Requests there that are not ours: those that other gateways told of, and what the page shows besides, 0 when unknown.
    pub fn outside(&self, i: usize) -> f64 {
        f64::from(self.ours(i).guests) + self.scraped(i).outside
    }

    /// Requests of which only the page tells, and that wait there: all that may not be a mere difference in time between page
    /// and gateway.
    pub fn others_waiting(&self, i: usize) -> f64 {
        f64::from(self.scraped(i).others_waiting)
    }

    /// The same of requests that run.
    pub fn others_running(&self, i: usize) -> f64 {
        f64::from(self.scraped(i).others_running)
    }

    /// Our own requests in flight there. Exact.
    pub fn in_flight(&self, i: usize) -> f64 {
        f64::from(self.ours(i).load.requests)
    }

    /// Requests there that have no first token yet, ours and those that other gateways told of. Exact for streams, predicted for
    /// the others.
    pub fn prefills(&self, i: usize) -> f64 {
        f64::from(self.ours(i).prefills)
    }

    /// Those that are past their first token.
    pub fn decodes(&self, i: usize) -> f64 {
        f64::from(self.ours(i).decodes)
    }

    /// What [`Self::prefills`] was when `queued` was scraped; 0 when it is unknown.
    pub fn prefills_scraped(&self, i: usize) -> f64 {
        f64::from(self.scraped(i).prefills)
    }

    /// What [`Self::decodes`] was when `running` was scraped; 0 when it is unknown.
    pub fn decodes_scraped(&self, i: usize) -> f64 {
        f64::from(self.scraped(i).decodes)
    }

    /// Requests in flight there, ours and those of others, for one unit of the endpoint's weight.
    pub fn busyness(&self, i: usize) -> f64 {
        self.table.busyness(self.position(i))
    }

    /// Our own load there in request equivalents: a prefill by its size, a decoding stream as a quarter.
    pub fn equivalents(&self, i: usize) -> f64 {
        f64::from(self.ours(i).load.units) / f64::from(UNIT)
    }

    /// Seconds of prefill dispatched there that are still ahead of a new request.
    pub fn pending(&self, i: usize) -> f64 {
        self.ours(i).pending
    }

    /// Prompt tokens of our own requests there that are still to be computed. Read when asked for, like the four below
    /// it: few policies do.
    pub fn prefill_tokens(&self, i: usize) -> f64 {
        self.endpoint(i).state.sheet.prefill_tokens.load(Ordering::Relaxed) as f64
    }

    /// Tokens of the requests known there: of their prompts what is still to be computed, and the whole output expected of
    /// each until it ends.
    pub fn outstanding_tokens(&self, i: usize) -> f64 {
        self.endpoint(i).state.sheet.outstanding_tokens() as f64
    }

    /// Time to first token to expect there by those seen of our own requests, seconds, without the network: a peak mean,
    /// which fades while none comes. `None` before the first.
    pub fn latency(&self, i: usize) -> Option<f64> {
        self.endpoint(i).state.sheet.latency().seconds(self.now)
    }

    /// How long the request has waited for its first token that the engine should be working on, seconds; 0 when none of
    /// ours waits there.
    pub fn waited(&self, i: usize) -> f64 {
        self.endpoint(i).state.sheet.waited(self.now)
    }

    /// Round trip of the network to it, seconds; `None` before the first connection.
    pub fn round_trip(&self, i: usize) -> Option<f64> {
        known(self.endpoint(i).state.sheet.round_trip.get())
    }

    /// Running mean of the prefill time of what was sent there, seconds; the pool's when nothing was.
    pub fn mean_service(&self, i: usize) -> f64 {
        known(self.ours(i).mean_service).unwrap_or(self.pool.mean_service)
    }

    /// Learned speed of the endpoint.
    pub fn rates(&self, i: usize) -> Rates {
        self.table.rates[self.position(i)]
    }

    /// Prefills a second that the endpoint does of requests of the pool's mean size, by its learned rates.
    pub fn speed(&self, i: usize) -> f64 {
        1.0 / self.rates(i).prefill(self.pool.mean_uncached).max(LEAST_PREFILL)
    }

    /// Tokens of this request's prompt believed to be cached there.
    pub fn cached_tokens(&self, i: usize) -> f64 {
        self.table.beliefs[self.position(i)].cached_tokens
    }

    /// Whether several gateways keep the request's prefix elsewhere: none of the others will use a copy here.
    pub fn is_away(&self, i: usize) -> bool {
        self.table.beliefs[self.position(i)].is_away
    }

    /// Where the request's adapter stands there; `Unknown` when it needs none.
    pub fn adapter(&self, i: usize) -> AdapterState {
        self.adapter_site(i).state
    }

    /// Whether the endpoint can load one more adapter without dropping one; `None` when unknown.
    pub fn adapter_room(&self, i: usize) -> Option<bool> {
        self.adapter_site(i).room
    }

    pub(crate) fn adapter_site(&self, i: usize) -> AdapterSite {
        let site = self.table.adapters.get(self.position(i)).copied();
        site.unwrap_or(AdapterSite::of(AdapterState::Unknown))
    }

    /// Place on the walk of the request's ring key, 0 for its owner. Only as far as the decision had to walk: `None` beyond
    /// the first endpoint with room, and for a request without a ring key.
    pub fn ring_position(&self, i: usize) -> Option<u32> {
        let place = self.table.beliefs[self.position(i)].ring_position;
        (place != OFF_WALK).then_some(place)
    }

    /// Whether the endpoint is up, awake and not draining.
    pub fn is_in_service(&self, i: usize) -> bool {
        self.table.service[self.position(i)].is_up
    }

    /// Whether others are preferred for a moment: it refused a connection or said that it is full.
    pub fn is_demoted(&self, i: usize) -> bool {
        self.table.service[self.position(i)].is_demoted
    }

    /// Whether the endpoint lists `model` among its models and adapters; `None` when its list is not known.
    pub fn lists(&self, i: usize, model: &str) -> Option<bool> {
        self.endpoint(i).state.lists(model)
    }
}
