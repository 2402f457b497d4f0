//! The columns of one decision: what is known of each endpoint, read once, by position in the pool.
//!
//! Columns that are used together lie together, and none of their entries is larger than a cache line: with a thousand
//! endpoints the time of a decision is the time to get them from memory. `NaN` stands for unknown.

use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::learn::Rates;
use crate::ledger::Load;
use crate::pool::kinds::Speeds;
use crate::pool::{Freshness, State};
use crate::time::Time;
use crate::view::AdapterState;
use crate::view::adapters::AdapterSite;

/// Uncached tokens by which speeds are compared: a short question behind a cached prompt, or a longer one without.
const TYPICAL: f64 = 512.0;

/// Streams by which decoding is compared where nothing else is known of an endpoint's speed.
const FEW_STREAMS: f64 = 8.0;

/// Stands for a place on the walk that the decision did not reach.
pub(crate) const OFF_WALK: u32 = u32::MAX;

/// One endpoint of the topology, without what decisions rarely need.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    pub(crate) state: std::sync::Arc<State>,
    pub(crate) weight: f64,
}

/// Scraped facts. All but the sizes of cache and batch are unknown unless fresh.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scraped {
    pub(crate) queued: f64,
    pub(crate) running: f64,
    /// With what was sent since the scrape.
    pub(crate) kv_usage: f64,
    pub(crate) kv_tokens: f64,
    /// Requests that run at once when the batch is full.
    pub(crate) places: f64,
    /// Seconds.
    pub(crate) age: f64,
    /// Requests of others by the page, besides those that other gateways told of; 0 when unknown.
    pub(crate) outside: f64,
    /// Ours as of the scrape; 0 when unknown.
    pub(crate) prefills: u32,
    pub(crate) decodes: u32,
    /// Of `outside`, as far as it is surely others': those that wait, and those that run.
    pub(crate) others_waiting: f32,
    pub(crate) others_running: f32,
    pub(crate) freshness: Freshness,
}

/// What is in flight there as far as we know: what we sent, and what other gateways told of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ours {
    /// What we sent.
    pub(crate) load: Load,
    /// What other gateways told of.
    pub(crate) guests: u32,
    pub(crate) prefills: u32,
    pub(crate) decodes: u32,
    /// Seconds of prefill ahead.
    pub(crate) pending: f64,
    /// Seconds.
    pub(crate) mean_service: f64,
    /// The endpoint's weight: loads are compared by unit of it.
    pub(crate) weight: f64,
}

/// Whether it may be used.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Service {
    pub(crate) is_up: bool,
    pub(crate) is_demoted: bool,
}

/// What is believed of this request's prompt there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Belief {
    pub(crate) cached_tokens: f64,
    /// Leading blocks the index believes to be there; the ring prior is not among them.
    pub(crate) cached_blocks: u32,
    pub(crate) ring_position: u32,
    /// Several gateways keep the prompt's prefix elsewhere.
    pub(crate) is_away: bool,
}

/// The columns, reused from decision to decision.
#[derive(Debug, Default)]
pub(crate) struct Table {
    pub(crate) scraped: Vec<Scraped>,
    pub(crate) ours: Vec<Ours>,
    pub(crate) rates: Vec<Rates>,
    pub(crate) service: Vec<Service>,
    pub(crate) beliefs: Vec<Belief>,
    /// Empty for a request without an adapter.
    pub(crate) adapters: Vec<AdapterSite>,
}

impl Table {
    /// Reads every member. `dispatches` is what the pool has dispatched so far.
    pub(crate) fn read(
        &mut self,
        members: &[Member],
        speeds: &Speeds,
        adapter: Option<&str>,
        dispatches: u64,
        stale_after: Duration,
        now: Time,
    ) {
        let Self { scraped, ours, rates, service, beliefs, adapters } = self;
        scraped.clear();
        ours.clear();
        rates.clear();
        service.clear();
        beliefs.clear();
        adapters.clear();
        let count = members.len();
        scraped.reserve(count);
        ours.reserve(count);
        rates.reserve(count);
        service.reserve(count);
        for member in members {
            let state = &*member.state;
            state.settle(now);
            let facts = Scraped::read(state, stale_after, now);
            service.push(Service::read(state, &facts, now));
            scraped.push(facts);
            ours.push(Ours::read(state, member.weight, now));
            rates.push(speeds.rates(&state.sheet));
        }
        hope(members, dispatches, ours, rates);
        beliefs.resize(count, Belief { cached_tokens: 0.0, cached_blocks: 0, ring_position: OFF_WALK, is_away: false });
        if let Some(adapter) = adapter {
            let facts = members.iter().zip(scraped);
            adapters.extend(facts.map(|(member, facts)| member.state.adapter(adapter, facts.is_fresh())));
        }
    }

    /// Number of endpoints.
    pub(crate) fn len(&self) -> usize {
        self.ours.len()
    }

    /// Whether the request's adapter is known not to be loaded there.
    pub(crate) fn lacks_adapter(&self, position: usize) -> bool {
        let state = self.adapters.get(position).map(|site| site.state);
        matches!(state, Some(AdapterState::Absent | AdapterState::Waiting))
    }

    /// Requests there, ours and those of others, for one unit of weight.
    pub(crate) fn busyness(&self, position: usize) -> f64 {
        let ours = &self.ours[position];
        (f64::from(ours.load.requests) + f64::from(ours.guests) + self.scraped[position].outside) / ours.weight
    }
}

/// Takes an endpoint whose speed is not known, or not known any more, to be as fast as the fastest that has shown it. Who
/// is believed to be slow is never tried, and who is not tried is never known.
fn hope(members: &[Member], dispatches: u64, ours: &[Ours], rates: &mut [Rates]) {
    let is_unproven = |position: usize| {
        let sheet = &members[position].state.sheet;
        sheet.is_unproven(dispatches) && (ours[position].load.requests == 0 || !sheet.has_shown())
    };
    if !(0..members.len()).any(is_unproven) {
        return;
    }
    let fastest = |one: Rates, other: Rates| if other.prefill(TYPICAL) < one.prefill(TYPICAL) { other } else { one };
    let proven = (0..members.len()).filter(|position| !is_unproven(*position)).map(|position| rates[position]);
    let Some(best) = proven.reduce(fastest) else { return hope_by_decoding(members, rates) };
    for (position, rates) in rates.iter_mut().enumerate().filter(|(position, _)| is_unproven(*position)) {
        *rates = if members[position].state.sheet.has_shown() { best } else { fastest(*rates, best) };
    }
}

/// The same where nobody shows first tokens: who has not shown how fast it decodes is taken to do so as fast as the fastest that
/// has. And what decodes slowly is taken to compute prompts slowly: both are the machine and the model.
#[cold]
fn hope_by_decoding(members: &[Member], rates: &mut [Rates]) {
    let has_shown = |position: usize| members[position].state.sheet.kinds()[1].is_some();
    let fastest = |one: Rates, other: Rates| if other.gap(FEW_STREAMS) < one.gap(FEW_STREAMS) { other } else { one };
    let shown = (0..members.len()).filter(|position| has_shown(*position)).map(|position| rates[position]);
    let best = shown.reduce(fastest);
    for (position, rates) in rates.iter_mut().enumerate() {
        if let Some(best) = best.filter(|_| !has_shown(position)) {
            (rates.t0, rates.t1) = (best.t0, best.t1);
        }
        let slower = rates.gap(FEW_STREAMS) / Rates::default().gap(FEW_STREAMS);
        (rates.a, rates.b) = (rates.a * slower, rates.b * slower);
    }
}

impl Scraped {
    #[inline]
    pub(crate) fn read(state: &State, stale_after: Duration, now: Time) -> Self {
        let sheet = &state.sheet;
        let (freshness, age) = sheet.freshness(stale_after, now);
        let kv_tokens = sheet.kv_tokens.get();
        let places = sheet.places.get();
        if freshness != Freshness::Fresh {
            let (queued, running, kv_usage) = (f64::NAN, f64::NAN, f64::NAN);
            return Self {
                queued,
                running,
                kv_usage,
                kv_tokens,
                places,
                age,
                outside: 0.0,
                prefills: 0,
                decodes: 0,
                others_waiting: 0.0,
                others_running: 0.0,
                freshness,
            };
        }
        let kv_usage = sheet.kv_usage.get() + sheet.kv_added.get();
        Self {
            queued: sheet.queued.get(),
            running: sheet.running.get(),
            // Not `min`, which would turn unknown into full.
            kv_usage: if kv_usage > 1.0 { 1.0 } else { kv_usage },
            kv_tokens,
            places,
            age,
            outside: sheet.outside.get(),
            prefills: sheet.prefills_then.load(Ordering::Relaxed),
            decodes: sheet.decodes_then.load(Ordering::Relaxed),
            others_waiting: sheet.others_waiting() as f32,
            others_running: sheet.others_running() as f32,
            freshness,
        }
    }

    pub(crate) fn is_fresh(&self) -> bool {
        self.freshness == Freshness::Fresh
    }
}

impl Ours {
    #[inline]
    pub(crate) fn read(state: &State, weight: f64, now: Time) -> Self {
        let sheet = &state.sheet;
        Self {
            load: state.ledger.load(),
            guests: sheet.guests.load(Ordering::Relaxed),
            prefills: sheet.prefills.load(Ordering::Relaxed),
            decodes: sheet.decodes.load(Ordering::Relaxed),
            pending: sheet.pending(now),
            mean_service: sheet.mean_service.get(),
            weight,
        }
    }
}

impl Service {
    #[inline]
    fn read(state: &State, facts: &Scraped, now: Time) -> Self {
        let is_asleep = facts.is_fresh() && state.sheet.asleep.load(Ordering::Relaxed);
        Self {
            is_up: state.health.is_up(now) && !state.health.is_draining() && !is_asleep,
            is_demoted: state.health.is_demoted(now),
        }
    }
}
