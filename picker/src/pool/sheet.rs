//! The current numbers of one endpoint, readable without a lock.
//!
//! Written under the lock of the endpoint's book, read by every decision. A reader may see one number from before an
//! event and the next from after it; each is right for itself, and no decision needs them to agree.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use crate::learn::{PROVEN_SAMPLES, PeakMean, Rates};
use crate::ledger::work::Work;
use crate::pool::Freshness;
use crate::time::Time;

/// Dispatches of the pool after which an endpoint that got none of them is tried again: it may have been slow for a while
/// only. One request in a thousand is what the trial of a slow endpoint may cost.
const FORGOTTEN_AFTER: u64 = 1_000;

/// Requests by which a scrape and our own events may differ because of what was on the wire. Fewer are not taken for the
/// load of others.
const SCRAPE_SLACK: f64 = 2.0;

/// Stands for a time that has not come, or never will.
const NEVER: u64 = u64::MAX;

/// A float in an atomic; `NaN` stands for unknown.
#[derive(Debug)]
pub(crate) struct Number(AtomicU64);

impl Default for Number {
    /// Unknown.
    fn default() -> Self {
        Self::new(f64::NAN)
    }
}

impl Number {
    const fn new(value: f64) -> Self {
        Self(AtomicU64::new(value.to_bits()))
    }

    pub(crate) fn set(&self, value: f64) {
        self.0.store(value.to_bits(), Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> f64 {
        f64::from_bits(self.0.load(Ordering::Relaxed))
    }
}

/// What decisions read of one endpoint, besides its ledger and health.
#[derive(Debug)]
pub(crate) struct Sheet {
    pub(crate) queued: Number,
    pub(crate) running: Number,
    pub(crate) kv_usage: Number,
    pub(crate) kv_tokens: Number,
    /// Requests that the engine runs at once when others wait for a place: its batch is full then.
    pub(crate) places: Number,
    /// Share of the cache that was dispatched since the scrape that gave `kv_usage`.
    pub(crate) kv_added: Number,
    /// Requests of others, by the scrape.
    pub(crate) outside: Number,
    /// Requests of other gateways that these told of, whatever their state.
    pub(crate) guests: AtomicU32,
    /// Those of them that are past their first token.
    pub(crate) guest_decodes: AtomicU32,
    scraped_at: AtomicU64,
    pub(crate) frozen: AtomicBool,
    pub(crate) asleep: AtomicBool,
    /// As of the scrape: ours, and those that other gateways told of.
    pub(crate) prefills_then: AtomicU32,
    pub(crate) decodes_then: AtomicU32,
    pub(crate) prefills: AtomicU32,
    pub(crate) decodes: AtomicU32,
    /// Nanoseconds of work behind the head.
    behind_head: AtomicU64,
    /// When the head is expected to be done.
    head_done: AtomicU64,
    next_leave: AtomicU64,
    a: Number,
    b: Number,
    t0: Number,
    t1: Number,
    /// The kinds whose speeds it has, of prefill and of decode; `u8::MAX` for its own.
    kinds: [AtomicU8; 2],
    pub(crate) mean_service: Number,
    /// Samples that `a` and `b` rest on.
    samples: AtomicU64,
    /// Requests that the pool had dispatched at the last of them.
    sampled_at: AtomicU64,
    // From here on only some policies read.
    latency: Number,
    latency_at: AtomicU64,
    /// Seconds a packet takes there and back.
    pub(crate) round_trip: Number,
    head_since: AtomicU64,
    /// Prompt tokens that are still to be computed, as far as known.
    pub(crate) prefill_tokens: AtomicU64,
    /// Output tokens expected by the requests known there, whole until each ends.
    pub(crate) output_tokens: AtomicU64,
}

impl Default for Sheet {
    fn default() -> Self {
        let unknown = || Number::new(f64::NAN);
        let rates = Rates::default();
        Self {
            queued: unknown(),
            running: unknown(),
            kv_usage: unknown(),
            kv_tokens: unknown(),
            places: unknown(),
            kv_added: Number::new(0.0),
            outside: Number::new(0.0),
            guests: AtomicU32::default(),
            guest_decodes: AtomicU32::default(),
            scraped_at: AtomicU64::new(NEVER),
            frozen: AtomicBool::default(),
            asleep: AtomicBool::default(),
            prefills_then: AtomicU32::default(),
            decodes_then: AtomicU32::default(),
            prefills: AtomicU32::default(),
            decodes: AtomicU32::default(),
            behind_head: AtomicU64::default(),
            head_done: AtomicU64::default(),
            next_leave: AtomicU64::new(NEVER),
            a: Number::new(rates.a),
            b: Number::new(rates.b),
            t0: Number::new(rates.t0),
            t1: Number::new(rates.t1),
            kinds: [AtomicU8::new(u8::MAX), AtomicU8::new(u8::MAX)],
            mean_service: unknown(),
            samples: AtomicU64::default(),
            sampled_at: AtomicU64::default(),
            latency: unknown(),
            latency_at: AtomicU64::default(),
            round_trip: unknown(),
            head_since: AtomicU64::new(NEVER),
            prefill_tokens: AtomicU64::default(),
            output_tokens: AtomicU64::default(),
        }
    }
}

impl Sheet {
    /// What its own samples say.
    #[inline]
    pub(crate) fn rates(&self) -> Rates {
        Rates { a: self.a.get(), b: self.b.get(), t0: self.t0.get(), t1: self.t1.get() }
    }

    pub(crate) fn set_rates(&self, rates: Rates) {
        let Rates { a, b, t0, t1 } = rates;
        self.a.set(a);
        self.b.set(b);
        self.t0.set(t0);
        self.t1.set(t1);
    }

    /// Says of which kinds it is, of prefill and of decode.
    pub(crate) fn set_kinds(&self, kinds: [Option<usize>; 2]) {
        for (to, kind) in self.kinds.iter().zip(kinds) {
            to.store(kind.and_then(|kind| u8::try_from(kind).ok()).unwrap_or(u8::MAX), Ordering::Relaxed);
        }
    }

    /// Of which kinds it is.
    #[inline]
    pub(crate) fn kinds(&self) -> [Option<usize>; 2] {
        self.kinds
            .each_ref()
            .map(|kind| Some(kind.load(Ordering::Relaxed)).filter(|kind| *kind != u8::MAX).map(usize::from))
    }

    /// A sample was taken when the pool had dispatched so many requests.
    pub(crate) fn set_sampled(&self, samples: u64, dispatches: u64) {
        self.samples.store(samples, Ordering::Relaxed);
        self.sampled_at.store(dispatches, Ordering::Relaxed);
    }

    /// Whether it has ever shown its speed.
    #[inline]
    pub(crate) fn has_shown(&self) -> bool {
        self.samples.load(Ordering::Relaxed) >= PROVEN_SAMPLES
    }

    /// Whether its speed is not known, or not known any more, now that the pool has dispatched so many requests.
    #[inline]
    pub(crate) fn is_unproven(&self, dispatches: u64) -> bool {
        let since = dispatches.saturating_sub(self.sampled_at.load(Ordering::Relaxed));
        !self.has_shown() || since > FORGOTTEN_AFTER
    }

    pub(crate) fn set_scraped_at(&self, at: Option<Time>) {
        self.scraped_at.store(at.map_or(NEVER, Time::as_nanos), Ordering::Relaxed);
    }

    /// How far the facts can be trusted, and their age in seconds (`NaN` when there are none).
    #[inline]
    pub(crate) fn freshness(&self, stale_after: Duration, now: Time) -> (Freshness, f64) {
        let at = self.scraped_at.load(Ordering::Relaxed);
        if at == NEVER {
            return (Freshness::Never, f64::NAN);
        }
        let age = now.as_nanos().saturating_sub(at);
        let freshness = if age > nanos(stale_after) {
            Freshness::Stale
        } else if self.frozen.load(Ordering::Relaxed) {
            Freshness::Frozen
        } else {
            Freshness::Fresh
        };
        (freshness, seconds(age))
    }

    /// Requests of others there, by the last page.
    pub(crate) fn others(&self) -> f64 {
        (self.outside.get() - SCRAPE_SLACK).max(0.0)
    }

    /// Those of them that wait, by the last page.
    pub(crate) fn others_waiting(&self) -> f64 {
        let waiting = self.queued.get() - f64::from(self.prefills_then.load(Ordering::Relaxed));
        // Not `clamp`, which would keep unknown.
        waiting.max(0.0).min(self.others())
    }

    /// Those of them that run, by the last page.
    pub(crate) fn others_running(&self) -> f64 {
        self.others() - self.others_waiting()
    }

    /// Publishes the work ahead and when it next changes by time alone.
    pub(crate) fn set_work(&self, work: &Work) {
        let (behind_head, head_done) = work.ahead();
        self.prefills.store(work.len() as u32, Ordering::Relaxed);
        self.behind_head.store(nanos(behind_head), Ordering::Relaxed);
        self.head_done.store(head_done.as_nanos(), Ordering::Relaxed);
        self.next_leave.store(work.next_leave().map_or(NEVER, Time::as_nanos), Ordering::Relaxed);
        self.head_since.store(work.head_since().map_or(NEVER, Time::as_nanos), Ordering::Relaxed);
        self.prefill_tokens.store(work.tokens(), Ordering::Relaxed);
    }

    /// Tokens that are still to be computed or expected to be produced.
    pub(crate) fn outstanding_tokens(&self) -> u64 {
        self.prefill_tokens.load(Ordering::Relaxed) + self.output_tokens.load(Ordering::Relaxed)
    }

    /// How long the request has waited that the engine should be working on, seconds; 0 when there is none.
    pub(crate) fn waited(&self, now: Time) -> f64 {
        // `NEVER` is later than any time.
        seconds(now.as_nanos().saturating_sub(self.head_since.load(Ordering::Relaxed)))
    }

    /// How long first tokens took.
    pub(crate) fn latency(&self) -> PeakMean {
        PeakMean { seconds: self.latency.get(), at: Time::from_nanos(self.latency_at.load(Ordering::Relaxed)) }
    }

    pub(crate) fn set_latency(&self, latency: PeakMean) {
        let PeakMean { seconds, at } = latency;
        self.latency.set(seconds);
        self.latency_at.store(at.as_nanos(), Ordering::Relaxed);
    }

    /// Seconds of work ahead of a new request.
    #[inline]
    pub(crate) fn pending(&self, now: Time) -> f64 {
        let head_left = self.head_done.load(Ordering::Relaxed).saturating_sub(now.as_nanos());
        seconds(self.behind_head.load(Ordering::Relaxed).saturating_add(head_left))
    }

    /// Whether a request is due to leave its prefill by time alone.
    #[inline]
    pub(crate) fn is_due(&self, now: Time) -> bool {
        self.next_leave.load(Ordering::Relaxed) <= now.as_nanos()
    }
}

/// Through a signed integer, for which processors have an instruction; 292 years fit.
fn seconds(nanos: u64) -> f64 {
    nanos.cast_signed() as f64 * 1e-9
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
