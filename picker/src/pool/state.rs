//! Everything of one endpoint that changes, shared by all versions of it.
//!
//! Events take the lock of the book for a few dozen nanoseconds and publish what they changed; decisions read only what is
//! published. The ledger alone is written without the lock, since reserving must be one step.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::facts::Facts;
use crate::facts::standing::Standing;
use crate::health::Health;
use crate::kv::Cache;
use crate::learn::{Fit, Rates};
use crate::ledger::work::Work;
use crate::ledger::{DECODE, Ledger};
use crate::pool::batch::Batch;
use crate::pool::residents::Residents;
use crate::pool::sheet::Sheet;
use crate::pool::speed::Speed;
use crate::pool::{Count, Freshness};
use crate::time::Time;
use crate::view::adapters::AdapterSite;

/// Weight of the newest request in the running mean of prefill times: the mean of the last twenty or so, long enough to
/// be steady and short enough to follow a change of traffic within seconds.
const SERVICE_WEIGHT: f64 = 0.05;

/// Share of the key-value cache in use from which prefill times measure preemption, not speed, and queues a want of memory.
const KV_BOUND: f64 = 0.8;

/// What is known of a first token besides its time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FirstToken {
    /// How long after the endpoint had the request.
    pub(crate) latency: Duration,
    /// Tokens of its prompt that were computed; `None` when its time says nothing of that.
    pub(crate) uncached: Option<f64>,
    /// Tokens computed of a prompt on the average, of others' too as far as anyone knows.
    pub(crate) mean_uncached: f64,
    /// Part of the gateways that tell what they send, for endpoints whose pages say nothing of the rest.
    pub(crate) known: f64,
    /// Age from which a page says nothing.
    pub(crate) stale_after: Duration,
    /// Requests that the pool has dispatched.
    pub(crate) dispatches: u64,
}

/// The least part of the gateways that counts as known: this one of a hundred.
const LEAST_KNOWN: f64 = 0.01;

/// Everything of an endpoint that changes.
///
/// Laid out so that what a decision reads comes first and starts on a cache line.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub(crate) struct State {
    pub(crate) ledger: Ledger,
    pub(crate) health: Health,
    pub(crate) sheet: Sheet,
    /// What the server says of its cache.
    pub(crate) cache: Cache,
    book: Mutex<Book>,
}

/// What only events touch.
#[derive(Debug, Default)]
struct Book {
    work: Work,
    /// Streams past their first token, ours and those that other gateways told of, as in `work`.
    decodes: u32,
    /// Those of them that other gateways told of.
    guest_decodes: u32,
    /// Output tokens expected by what is in flight.
    output: u64,
    standing: Standing,
    speed: Speed,
    residents: Residents,
    batch: Batch,
}

impl Book {
    /// Takes the adapters of the last page.
    fn list_adapters(&mut self) {
        let facts = self.standing.facts();
        if let Some(running) = &facts.adapters_running {
            let waiting = facts.adapters_waiting.as_deref().unwrap_or_default();
            self.residents.listed(running, waiting, facts.max_adapters);
        }
    }
}

/// A request on its way to the endpoint; one of ours is already reserved in the ledger.
#[derive(Debug)]
pub(crate) struct Dispatch<'a> {
    /// What was reserved; 0 for a request of another gateway.
    pub(crate) size: u32,
    /// Its prefill time, predicted.
    pub(crate) service: Duration,
    /// When its first token is expected.
    pub(crate) ttft: Duration,
    /// Whether the first token can be seen.
    pub(crate) streams: bool,
    /// The adapter it needs.
    pub(crate) adapter: Option<&'a Arc<str>>,
    /// Tokens of its prompt that are to be computed.
    pub(crate) uncached: f64,
    /// Tokens it is expected to produce.
    pub(crate) output: u32,
}

impl State {
    /// State of an endpoint whose speed is taken to be that of its class until it is learned.
    pub(crate) fn new(speed: Speed) -> Self {
        let state = Self::default();
        state.sheet.set_rates(speed.rates());
        state.book().speed = speed;
        state
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        // Every change below leaves the book whole at each step that can panic, which is none.
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Enters a reserved request and returns its ticket.
    pub(crate) fn dispatched(&self, dispatch: &Dispatch<'_>, now: Time) -> u64 {
        let mut book = self.book();
        self.settle_book(&mut book, now);
        let leaves = (!dispatch.streams).then(|| now + dispatch.ttft);
        let ticket = book.work.push(dispatch.size, dispatch.uncached as u32, dispatch.service, leaves, now);
        book.output += u64::from(dispatch.output);
        if let Some(adapter) = dispatch.adapter {
            let places = book.standing.facts().max_adapters;
            book.residents.enter(adapter, places);
        }
        let (mean, service) = (self.sheet.mean_service.get(), dispatch.service.as_secs_f64());
        self.sheet.mean_service.set(if mean.is_nan() { service } else { mean + SERVICE_WEIGHT * (service - mean) });
        let kv_tokens = self.sheet.kv_tokens.get();
        if kv_tokens > 0.0 {
            let added = dispatch.uncached + f64::from(dispatch.output);
            self.sheet.kv_added.set(self.sheet.kv_added.get() + added / kv_tokens);
        }
        self.publish(&book);
        ticket
    }

    /// How many requests of ours there are, as other gateways are told.
    pub(crate) fn count(&self) -> Count {
        let requests = self.ledger.load().requests;
        Count { requests, waiting: if requests == 0 { 0 } else { self.book().work.watched() } }
    }

    /// Enters a request of another gateway and returns its ticket.
    pub(crate) fn guest_dispatched(&self, dispatch: &Dispatch<'_>, now: Time) -> u64 {
        self.sheet.guests.fetch_add(1, Ordering::Relaxed);
        self.dispatched(dispatch, now)
    }

    /// The first token of a request of another gateway came. When it was seen there is known, but not when it went out, so it
    /// is no sample of the endpoint's speed.
    pub(crate) fn guest_first_token(&self, ticket: u64, now: Time) {
        let mut book = self.book();
        self.settle_book(&mut book, now);
        if let Some((prefill, _)) = book.work.first_token(ticket, now) {
            self.decodes(&mut book, prefill.size);
        }
        self.publish(&book);
    }

    /// A request of another gateway is over.
    pub(crate) fn guest_ended(&self, ticket: u64, output: u32, now: Time) {
        self.sheet.guests.fetch_sub(1, Ordering::Relaxed);
        let mut book = self.book();
        self.settle_book(&mut book, now);
        if book.work.remove(ticket, now).is_none() {
            book.decodes = book.decodes.saturating_sub(1);
            book.guest_decodes = book.guest_decodes.saturating_sub(1);
        }
        book.output = book.output.saturating_sub(u64::from(output));
        self.publish(&book);
    }

    /// The first token of a streaming request came.
    pub(crate) fn first_token(&self, ticket: u64, token: &FirstToken, now: Time) {
        let FirstToken { latency, uncached, mean_uncached, known, stale_after, dispatches } = *token;
        let mut book = self.book();
        let mut peak = self.sheet.latency();
        peak.observe(latency.as_secs_f64(), now);
        self.sheet.set_latency(peak);
        self.settle_book(&mut book, now);
        if let Some((prefill, gap)) = book.work.first_token(ticket, now) {
            self.decodes(&mut book, prefill.size);
            let kv_bound = self.sheet.kv_usage.get() > KV_BOUND;
            if let (Some(gap), Some(uncached)) = (gap.filter(|_| !kv_bound), uncached) {
                let there = f64::from(book.work.len() as u32 + book.decodes);
                let guests = f64::from(self.sheet.guests.load(Ordering::Relaxed));
                let others = match self.sheet.freshness(stale_after, now).0 {
                    Freshness::Fresh => self.sheet.others(),
                    _ => there / known.max(LEAST_KNOWN) - there,
                };
                let ours = (there - guests).max(0.0) / (there + others);
                // Between two of ours in the line stand so many of others.
                let waiting = f64::from(self.sheet.prefills_then.load(Ordering::Relaxed)).max(1.0);
                let between = self.sheet.others_waiting() / waiting;
                book.speed.first_token(gap, (1.0 + between, uncached + between * mean_uncached), ours, now);
                self.sheet.set_rates(book.speed.rates());
                self.sheet.set_sampled(book.speed.prefills(), dispatches);
            }
        }
        book.standing.worked();
        self.health.token(now);
        self.publish(&book);
    }

    /// A stream's mean gap between tokens over a stretch of its life. The streams of others stretch it too.
    pub(crate) fn gap(&self, gap: Duration) {
        let mut book = self.book();
        let streams = f64::from(book.decodes) + self.sheet.others_running();
        // That of the sample is there, whether or not it is known to decode.
        book.speed.gap(streams.max(1.0), gap);
        self.sheet.set_rates(book.speed.rates());
    }

    /// The samples of its speed, of prefill and of decode.
    pub(crate) fn fits(&self) -> (Fit, Fit) {
        self.book().speed.fits()
    }

    /// A request ended: takes back all that it holds. `output` is what was expected of it; `worked` when the endpoint did
    /// something for it.
    pub(crate) fn ended(&self, ticket: u64, output: u32, adapter: Option<&Arc<str>>, worked: bool, now: Time) {
        let mut book = self.book();
        self.settle_book(&mut book, now);
        if let Some(prefill) = book.work.remove(ticket, now) {
            self.ledger.release(prefill.size);
        } else {
            book.decodes = book.decodes.saturating_sub(1);
            self.ledger.release(DECODE);
        }
        book.output = book.output.saturating_sub(u64::from(output));
        if let Some(adapter) = adapter {
            let places = book.standing.facts().max_adapters;
            book.residents.leave(adapter, places);
        }
        if worked {
            book.standing.worked();
        }
        self.publish(&book);
    }

    /// Takes a scraped page; returns the size of the key-value cache in tokens, when known.
    pub(crate) fn scraped(&self, facts: Facts, now: Time) -> Option<f64> {
        let mut book = self.book();
        self.settle_book(&mut book, now);
        book.standing.scraped(facts, now);
        book.list_adapters();
        let facts = book.standing.facts();
        let sheet = &self.sheet;
        let count =
            |value: Option<f64>| value.filter(|value| value.is_finite()).map_or(f64::NAN, |value| value.max(0.0));
        sheet.queued.set(count(facts.queued));
        sheet.running.set(count(facts.running));
        // Capped before `count`: `min` of a NaN would turn unknown into full.
        sheet.kv_usage.set(count(facts.kv_usage.map(|usage| usage.min(1.0))));
        sheet.kv_added.set(0.0);
        let ours = f64::from(book.work.len() as u32 + book.decodes);
        // A page with only one of the two still shows a lower bound; `max` turns unknown into zero here.
        let there: f64 = [&sheet.queued, &sheet.running].map(|count| count.get().max(0.0)).iter().sum();
        sheet.outside.set(if there > ours { there - ours } else { 0.0 });
        // Then what waits may wait for something else than a place.
        let loads = facts.adapters_waiting.as_ref().is_some_and(|waiting| !waiting.is_empty());
        let is_short = loads || sheet.kv_usage.get() > KV_BOUND;
        let queued = if is_short { 0.0 } else { sheet.queued.get() };
        let progress = facts.progress;
        let places = book.batch.scraped(sheet.running.get(), queued, progress);
        sheet.places.set(places.unwrap_or(f64::NAN));
        let facts = book.standing.facts();
        sheet.asleep.store(facts.awake == Some(false), Ordering::Relaxed);
        let kv_tokens = facts.blocks.zip(facts.block_size).map(|(blocks, size)| f64::from(blocks) * f64::from(size));
        let kv_tokens = kv_tokens.filter(|tokens| *tokens > 0.0);
        sheet.kv_tokens.set(kv_tokens.unwrap_or(f64::NAN));
        sheet.prefills_then.store(book.work.len() as u32, Ordering::Relaxed);
        sheet.decodes_then.store(book.decodes, Ordering::Relaxed);
        sheet.set_scraped_at(book.standing.at());
        self.publish(&book);
        kv_tokens
    }

    /// Moves requests whose first token cannot be seen past it once its predicted time has come.
    #[inline]
    pub(crate) fn settle(&self, now: Time) {
        if self.sheet.is_due(now) {
            self.settle_due(now);
        }
    }

    #[cold]
    fn settle_due(&self, now: Time) {
        let mut book = self.book();
        self.settle_book(&mut book, now);
        self.publish(&book);
    }

    /// Where an adapter stands. `trusted`: the scraped facts are fresh.
    pub(crate) fn adapter(&self, adapter: &str, trusted: bool) -> AdapterSite {
        let book = self.book();
        let facts = book.standing.facts();
        let lists = trusted && facts.adapters_running.is_some();
        book.residents.site(adapter, lists, facts.max_adapters, self.sheet.outside.get())
    }

    /// It was away: most likely another process, with no adapter loaded and perhaps another batch.
    pub(crate) fn restarted(&self) {
        let mut book = self.book();
        book.residents.forget();
        book.batch = Batch::default();
    }

    /// Takes what the endpoint lists as its models.
    pub(crate) fn listed(&self, models: Vec<Arc<str>>) {
        self.book().standing.listed(models);
    }

    /// Whether the endpoint lists `model`; `None` when its list is not known.
    pub(crate) fn lists(&self, model: &str) -> Option<bool> {
        self.book().standing.lists(model)
    }

    /// What was learned of its speed, and from how many samples.
    pub(crate) fn learned(&self) -> (Rates, u64) {
        let book = self.book();
        (book.speed.rates(), book.speed.samples())
    }

    fn settle_book(&self, book: &mut Book, now: Time) {
        while let Some(prefill) = book.work.settle(now) {
            self.decodes(book, prefill.size);
        }
    }

    fn decodes(&self, book: &mut Book, size: u32) {
        // What another gateway sent has no size, and no place in the ledger.
        if size > 0 {
            self.ledger.resize(size, DECODE);
        } else {
            book.guest_decodes += 1;
        }
        book.decodes += 1;
    }

    fn publish(&self, book: &Book) {
        self.sheet.set_work(&book.work);
        self.sheet.output_tokens.store(book.output, Ordering::Relaxed);
        self.sheet.decodes.store(book.decodes, Ordering::Relaxed);
        self.sheet.guest_decodes.store(book.guest_decodes, Ordering::Relaxed);
        self.sheet.frozen.store(book.standing.is_frozen(), Ordering::Relaxed);
    }
}
