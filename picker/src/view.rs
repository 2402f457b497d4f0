//! What one decision sees: a row of facts per endpoint, read once, so that every filter and scorer judges the same instant.
//!
//! Positions count candidates, not endpoints: after filtering, position 3 is the fourth endpoint that is left. Unknown facts
//! are `None`; treating them as zero would send everything to the endpoint of which least is known.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::learn::Rates;
use crate::ledger::{Load, UNIT};
use crate::pool::{Endpoint, Freshness, State};
use crate::time::Time;

/// Where a request's LoRA adapter stands on one endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdapterState {
    /// Loaded: requests of it run there, or ours are in flight there.
    Running,
    /// Requests of it wait there to be loaded.
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
    /// Gateways that route to this pool, this one included.
    pub gateways: u32,
    /// Tokens of this request's prompt, estimated.
    pub prompt_tokens: f64,
    /// Tokens this request is expected to produce.
    pub output_tokens: f64,
    /// Bytes of prompt text per token of it.
    pub bytes_per_token: f64,
}

/// One endpoint at the instant of the decision. `NaN` stands for unknown inside; accessors give `None`.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) queued: f64,
    pub(crate) running: f64,
    pub(crate) kv_usage: f64,
    pub(crate) kv_tokens: f64,
    pub(crate) facts_age: f64,
    pub(crate) freshness: Freshness,
    pub(crate) outside: f64,
    pub(crate) load: Load,
    pub(crate) prefills: u32,
    pub(crate) decodes: u32,
    pub(crate) prefills_scraped: u32,
    pub(crate) decodes_scraped: u32,
    pub(crate) pending: f64,
    pub(crate) mean_service: f64,
    pub(crate) rates: Rates,
    pub(crate) cached_tokens: f64,
    /// Leading blocks the index believes to be there; the ring prior is not among them.
    pub(crate) cached_blocks: u32,
    pub(crate) ring_position: u32,
    pub(crate) in_service: bool,
    pub(crate) demoted: bool,
    pub(crate) adapter: AdapterState,
    pub(crate) adapter_room: Option<bool>,
}

/// Stands for a place on the walk that the decision did not reach.
pub(crate) const OFF_WALK: u32 = u32::MAX;

impl Row {
    /// Reads one endpoint.
    pub(crate) fn read(state: &State, adapter: Option<&str>, stale_after: Duration, now: Time) -> Self {
        state.settle(now);
        let sheet = &state.sheet;
        let (freshness, facts_age) = sheet.freshness(stale_after, now);
        let is_fresh = freshness == Freshness::Fresh;
        let fresh = |value: f64| if is_fresh { value } else { f64::NAN };
        let (queued, running) = (fresh(sheet.queued.get()), fresh(sheet.running.get()));
        let scraped_own = |count: &AtomicU32| if is_fresh { count.load(Ordering::Relaxed) } else { 0 };
        let (prefills_scraped, decodes_scraped) = (scraped_own(&sheet.prefills_then), scraped_own(&sheet.decodes_then));
        // A page with only one of the two still shows a lower bound. Comparisons with NaN are false, `max` drops it.
        let scraped = queued.max(0.0) + running.max(0.0);
        let kv_tokens = sheet.kv_tokens.get();
        let kv_added = if kv_tokens > 0.0 { sheet.kv_added.get() / kv_tokens } else { 0.0 };
        let kv_usage = fresh(sheet.kv_usage.get()) + kv_added;
        let (adapter, adapter_room) =
            adapter.map_or((AdapterState::Unknown, None), |adapter| state.adapter(adapter, is_fresh));
        Self {
            queued,
            running,
            kv_usage: if kv_usage > 1.0 { 1.0 } else { kv_usage },
            kv_tokens,
            facts_age,
            freshness,
            outside: (scraped - f64::from(prefills_scraped + decodes_scraped)).max(0.0),
            load: state.ledger.load(),
            prefills: sheet.prefills.load(Ordering::Relaxed),
            decodes: sheet.decodes.load(Ordering::Relaxed),
            prefills_scraped,
            decodes_scraped,
            pending: sheet.pending(now),
            mean_service: sheet.mean_service.get(),
            rates: sheet.rates(),
            cached_tokens: 0.0,
            cached_blocks: 0,
            ring_position: OFF_WALK,
            in_service: state.health.is_up(now)
                && !state.health.is_draining()
                && !(is_fresh && sheet.asleep.load(Ordering::Relaxed)),
            demoted: state.health.is_demoted(now),
            adapter,
            adapter_room,
        }
    }

    /// Requests there, ours and those of others, for one unit of weight.
    pub(crate) fn busyness(&self, weight: f64) -> f64 {
        (f64::from(self.load.requests) + self.outside) / weight
    }
}

/// The endpoints a filter, scorer or cost judges, by position in `0..len()`.
#[derive(Clone, Copy)]
pub struct Candidates<'a> {
    pub(crate) endpoints: &'a [Arc<Endpoint>],
    pub(crate) rows: &'a [Row],
    pub(crate) positions: &'a [u32],
    pub(crate) pool: &'a PoolView,
    pub(crate) now: Time,
}

fn known(value: f64) -> Option<f64> {
    if value.is_nan() { None } else { Some(value) }
}

impl Candidates<'_> {
    fn row(&self, i: usize) -> &Row {
        &self.rows[self.positions[i] as usize]
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

    /// The endpoint at `i`.
    pub fn endpoint(&self, i: usize) -> &Endpoint {
        &self.endpoints[self.positions[i] as usize]
    }

    /// What is known of the pool as a whole.
    pub fn pool(&self) -> &PoolView {
        self.pool
    }

    /// Requests waiting inside the engine at its last scrape. `None` when never scraped, stale or frozen.
    pub fn queued(&self, i: usize) -> Option<f64> {
        known(self.row(i).queued)
    }

    /// Requests running inside the engine at its last scrape. `None` when never scraped, stale or frozen.
    pub fn running(&self, i: usize) -> Option<f64> {
        known(self.row(i).running)
    }

    /// Share of the key-value cache in use at the last scrape, 0 to 1. `None` when never scraped, stale or frozen.
    pub fn kv_usage(&self, i: usize) -> Option<f64> {
        known(self.row(i).kv_usage)
    }

    /// Size of the key-value cache in tokens. Does not go stale.
    pub fn kv_tokens(&self, i: usize) -> Option<f64> {
        known(self.row(i).kv_tokens)
    }

    /// Age of the last scrape, `None` when there was none.
    pub fn facts_age(&self, i: usize) -> Option<Duration> {
        known(self.row(i).facts_age).map(Duration::from_secs_f64)
    }

    /// How far the scraped facts can be trusted. Those that change quickly are `None` unless this is `Fresh`.
    pub fn freshness(&self, i: usize) -> Freshness {
        self.row(i).freshness
    }

    /// Requests there that are not ours: scraped minus our own as of that scrape, at least 0; 0 when unknown.
    pub fn outside(&self, i: usize) -> f64 {
        self.row(i).outside
    }

    /// Our own requests in flight there. Exact.
    pub fn in_flight(&self, i: usize) -> f64 {
        f64::from(self.row(i).load.requests)
    }

    /// Our own requests there that have no first token yet. Exact for streams, predicted for the others.
    pub fn prefills(&self, i: usize) -> f64 {
        f64::from(self.row(i).prefills)
    }

    /// Our own requests there that are past their first token.
    pub fn decodes(&self, i: usize) -> f64 {
        f64::from(self.row(i).decodes)
    }

    /// Our own prefills there when `queued` was scraped; 0 when it is unknown.
    pub fn prefills_scraped(&self, i: usize) -> f64 {
        f64::from(self.row(i).prefills_scraped)
    }

    /// Our own decoding streams there when `running` was scraped; 0 when it is unknown.
    pub fn decodes_scraped(&self, i: usize) -> f64 {
        f64::from(self.row(i).decodes_scraped)
    }

    /// Requests in flight there, ours and those of others, for one unit of the endpoint's weight.
    pub fn busyness(&self, i: usize) -> f64 {
        self.row(i).busyness(self.endpoint(i).weight)
    }

    /// Our own load there in request equivalents: a prefill by its size, a decoding stream as a quarter.
    pub fn equivalents(&self, i: usize) -> f64 {
        f64::from(self.row(i).load.units) / f64::from(UNIT)
    }

    /// Seconds of prefill dispatched there that are still ahead of a new request.
    pub fn pending(&self, i: usize) -> f64 {
        self.row(i).pending
    }

    /// Running mean of the prefill time of what was sent there, seconds; the pool's when nothing was.
    pub fn mean_service(&self, i: usize) -> f64 {
        known(self.row(i).mean_service).unwrap_or(self.pool.mean_service)
    }

    /// Learned speed of the endpoint.
    pub fn rates(&self, i: usize) -> Rates {
        self.row(i).rates
    }

    /// Tokens of this request's prompt believed to be cached there.
    pub fn cached_tokens(&self, i: usize) -> f64 {
        self.row(i).cached_tokens
    }

    /// Where the request's adapter stands there; `Unknown` when it needs none.
    pub fn adapter(&self, i: usize) -> AdapterState {
        self.row(i).adapter
    }

    /// Whether the endpoint can load one more adapter without dropping one; `None` when unknown.
    pub fn adapter_room(&self, i: usize) -> Option<bool> {
        self.row(i).adapter_room
    }

    /// Place on the walk of the request's ring key, 0 for its owner. Only as far as the decision had to walk: `None` beyond
    /// the first endpoint with room, and for a request without a ring key.
    pub fn ring_position(&self, i: usize) -> Option<u32> {
        let position = self.row(i).ring_position;
        (position != OFF_WALK).then_some(position)
    }

    /// Whether the endpoint is up, awake and not draining.
    pub fn is_in_service(&self, i: usize) -> bool {
        self.row(i).in_service
    }

    /// Whether others are preferred for a moment: it refused a connection or said that it is full.
    pub fn is_demoted(&self, i: usize) -> bool {
        self.row(i).demoted
    }

    /// Whether the endpoint lists `model` among its models and adapters; `None` when its list is not known.
    pub fn lists(&self, i: usize, model: &str) -> Option<bool> {
        self.endpoint(i).state.lists(model)
    }
}
