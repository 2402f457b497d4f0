//! The guard of one request in flight. Dropping it releases all it holds, exactly once, whatever else happens.
//!
//! It is moved into `Event::Ended` when the caller knows how the request ended, and simply dropped when it does not: on a
//! panic, a cancelled future, a forgotten path. Either way the counts return.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::index::{Claim, Index};
use crate::kv::Ended;
use crate::pool::state::{Dispatch, FirstToken};
use crate::pool::topology::Topology;
use crate::pool::{Endpoint, Outcome, Pool, Sent, Word};
use crate::prefix::Prompt;
use crate::request::RequestInfo;
use crate::time::Time;

/// Tokens whose gaps are averaged before they count as one sample: enough to even out chunks of several tokens, few enough
/// to see a change of speed within a second of decoding.
const WINDOW_TOKENS: u32 = 32;

/// A wait as short as a step of an engine is none.
const SHORT_WAIT: Duration = Duration::from_millis(5);

/// Fewest tokens a sample is worth taking for, at the end of a stream.
const LEAST_TOKENS: u32 = 4;

/// One request in flight at one endpoint. Counted in prefill until `Event::FirstToken`, then as a decoding stream until it
/// is dropped or ended.
pub struct Flight {
    pool: Arc<Pool>,
    endpoint: Arc<Endpoint>,
    index: Arc<Index>,
    claim: Option<Claim>,
    /// Its number among those that KV events may be about.
    cache_id: Option<u64>,
    prompt: Arc<Prompt>,
    adapter: Option<Arc<str>>,
    model: Arc<str>,
    tenant: u64,
    streams: bool,
    ticket: u64,
    /// Its number in what is told to other gateways.
    told: Option<u64>,
    dispatched: Time,
    predicted_ttft: Duration,
    /// The part of it that is its own prefill.
    service: Duration,
    /// When the connection stood on which it went out, and the round trip of that connection.
    connected: Option<(Time, Duration)>,
    /// Output tokens it was expected to produce.
    output: u32,
    /// Leading blocks of the prompt that the index believed to be cached there at dispatch, until the server has said.
    believed_blocks: Option<usize>,
    /// Whether its prompt was guessed to be cached there, until the server has said.
    is_guess: bool,
    /// Whether its adapter had to be loaded first: its first token then says nothing of the endpoint's speed.
    loads_adapter: bool,
    /// Prompt tokens believed to be computed, corrected when the server says.
    uncached: f64,
    first_token: Option<Time>,
    /// Output tokens since `window_since`.
    window: u32,
    window_since: Time,
    /// Output tokens seen.
    tokens: u32,
    completion: Option<u32>,
    /// Tokens of the prompt, and of them from the cache, when the server has said.
    counted: (Option<u32>, Option<u32>),
    /// When and how it ended, once the caller has said.
    ended: Option<(Time, Outcome)>,
}

/// What was decided about a request that leaves for its endpoint.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Departure {
    /// Load units reserved.
    pub(crate) size: u32,
    /// Its own prefill time.
    pub(crate) service: Duration,
    /// When its first token is expected.
    pub(crate) ttft: Duration,
    /// Prompt tokens it will compute.
    pub(crate) uncached: f64,
    /// Tokens it is expected to produce.
    pub(crate) output: f64,
    /// Leading blocks that the index believed to be cached there.
    pub(crate) believed_blocks: usize,
    /// It was guessed that another gateway's requests have left its prompt there.
    pub(crate) is_guess: bool,
    /// Its adapter has to be loaded first.
    pub(crate) loads_adapter: bool,
}

impl Flight {
    /// Enters a request that has been reserved in the endpoint's ledger.
    pub(crate) fn depart(
        pool: &Arc<Pool>,
        topology: &Topology,
        endpoint: &Arc<Endpoint>,
        request: &RequestInfo,
        departure: &Departure,
        now: Time,
    ) -> Self {
        let Departure { size, service, ttft, uncached, output, believed_blocks, is_guess, loads_adapter } = *departure;
        pool.tally.dispatched(service, uncached, request.adapter.as_ref(), now);
        pool.kinds.judge(topology.members.len(), |position| &topology.members[position].state);
        let adapter = request.adapter.as_ref();
        let output = output as u32;
        let dispatch = Dispatch { size, service, ttft, streams: request.streams, adapter, uncached, output };
        let ticket = endpoint.state.dispatched(&dispatch, now);
        let has_blocks = topology.reads_prefixes() && !request.prompt.blocks.is_empty();
        let cache_id = endpoint.state.cache.dispatched(
            request,
            || pool.tally.tokens(&request.prompt, topology.config.media_tokens),
            now,
        );
        let claim = has_blocks.then(|| topology.index.insert(endpoint.slot, &request.prompt.blocks));
        let told = pool.peers.ticket();
        if let Some(ticket) = told {
            let is_new = claim.is_some_and(|claim| claim.blocks() > 0);
            let blocks = if is_new { &request.prompt.blocks[..] } else { &[] };
            let streams = request.streams;
            let sent = Sent { ticket, endpoint: endpoint.slot, uncached: uncached as u32, output, streams, blocks };
            pool.peers.tell(Word::Sent(sent), endpoint);
        }
        Self {
            pool: pool.clone(),
            endpoint: endpoint.clone(),
            index: topology.index.clone(),
            claim,
            cache_id,
            prompt: request.prompt.clone(),
            adapter: request.adapter.clone(),
            model: request.model.clone(),
            tenant: request.tenant,
            streams: request.streams,
            ticket,
            told,
            dispatched: now,
            predicted_ttft: ttft,
            service,
            connected: None,
            output,
            believed_blocks: Some(believed_blocks),
            is_guess,
            loads_adapter,
            uncached,
            first_token: None,
            window: 0,
            window_since: now,
            tokens: 0,
            completion: None,
            counted: (None, None),
            ended: None,
        }
    }

    /// The endpoint that serves the request.
    pub fn endpoint(&self) -> &Arc<Endpoint> {
        &self.endpoint
    }

    /// When the request was dispatched.
    pub fn dispatched(&self) -> Time {
        self.dispatched
    }

    /// Time to first token predicted at dispatch.
    pub fn predicted_ttft(&self) -> Duration {
        self.predicted_ttft
    }

    pub(crate) fn on_connected(&mut self, round_trip: Option<Duration>, now: Time) {
        let last = &self.endpoint.state.sheet.round_trip;
        if let Some(round_trip) = round_trip {
            last.set(round_trip.as_secs_f64());
        }
        // Before the first is known it counts as nothing.
        self.connected = Some((now, Duration::try_from_secs_f64(last.get()).unwrap_or_default()));
    }

    pub(crate) fn on_first_token(&mut self, now: Time) {
        if self.streams && self.first_token.is_none() {
            self.first_token = Some(now);
            if let Some(id) = self.cache_id {
                self.endpoint.state.cache.first_token(id);
            }
            self.window_since = now;
            self.tokens = 1;
            let (since, round_trip) = self.connected.unwrap_or((self.dispatched, Duration::ZERO));
            let latency = now.since(since).saturating_sub(round_trip);
            if self.loads_adapter {
                self.pool.tally.adapter_loaded(latency.saturating_sub(self.predicted_ttft));
            }
            let (known, stale_after) = self.pool.known_gateways();
            let token = FirstToken {
                latency,
                uncached: (!self.loads_adapter).then_some(self.uncached),
                mean_uncached: self.pool.tally.mean_uncached(),
                known,
                stale_after,
                dispatches: self.pool.tally.dispatches(),
            };
            self.endpoint.state.first_token(self.ticket, &token, now);
            if let Some(ticket) = self.told {
                self.pool.peers.tell(Word::FirstToken { ticket }, &self.endpoint);
            }
        }
    }

    pub(crate) fn on_token(&mut self, count: u32, now: Time) {
        if self.first_token.is_some() {
            self.tokens = self.tokens.saturating_add(count);
            self.window = self.window.saturating_add(count);
            self.endpoint.state.health.token(now);
            if self.window >= WINDOW_TOKENS {
                self.close_window(now);
            }
        }
    }

    pub(crate) fn on_usage(&mut self, prompt: Option<u32>, cached: Option<u32>, completion: Option<u32>) {
        self.completion = completion.or(self.completion);
        let Some(prompt) = prompt.filter(|prompt| *prompt > 0) else { return };
        self.pool.tally.counted(&self.prompt, prompt);
        self.counted = (Some(prompt), cached.map(|cached| cached.min(prompt)));
        if let Some(cached) = cached {
            let cached = cached.min(prompt);
            self.uncached = f64::from(prompt - cached);
            if std::mem::take(&mut self.is_guess) {
                self.pool.tally.guessed(f64::from(cached) / f64::from(prompt));
            }
            // Once a request: a second word on it is the same evidence.
            if let Some(believed) = self.believed_blocks.take().filter(|_| self.claim.is_some()) {
                let share = f64::from(cached) / f64::from(prompt);
                let blocks = (0..self.prompt.blocks.len()).take_while(|i| self.prompt.share(i + 1) <= share).count();
                self.index.correct(self.endpoint.slot, believed, blocks);
            }
        }
    }

    pub(crate) fn on_end(mut self, outcome: Outcome, now: Time) {
        self.ended = Some((now, outcome));
        let health = &self.endpoint.state.health;
        match outcome {
            Outcome::Status(429 | 503) => health.full(now),
            Outcome::ConnectFailed | Outcome::Reset | Outcome::TimedOut | Outcome::Failed | Outcome::Status(500..) => {
                health.failed(now);
            }
            Outcome::Completed => {
                health.completed();
                self.complete(now);
            }
            // What the client did, or asked for, says nothing of the endpoint.
            Outcome::ClientGone | Outcome::Status(_) => {}
        }
        // Dropping releases.
    }

    fn complete(&mut self, now: Time) {
        if self.tokens <= 1
            && let (Some(first), Some(completion)) = (self.first_token, self.completion)
        {
            // The caller does not count tokens, but the server did.
            self.window = completion.saturating_sub(1);
            self.window_since = first;
        }
        if self.window >= LEAST_TOKENS {
            self.close_window(now);
        }
        self.learn_from_whole(now);
        let output = self.completion.or((self.tokens > 0).then_some(self.tokens));
        self.pool.tally.completed(self.tenant, &self.model, now.since(self.dispatched), output);
    }

    /// An answer in one piece shows the gap between its tokens when it did not wait for others: by what was known at its dispatch,
    /// and by the page of now. Without any such sample, machines that are not alike would pass for alike for ever.
    fn learn_from_whole(&self, now: Time) {
        let state = &self.endpoint.state;
        let has_waited =
            self.predicted_ttft.saturating_sub(self.service) > SHORT_WAIT || state.sheet.queued.get() > 0.0;
        if let Some(completion) = self.completion.filter(|tokens| *tokens >= LEAST_TOKENS)
            && !self.streams
            && !has_waited
        {
            state.gap(now.since(self.dispatched).saturating_sub(self.service) / completion);
        }
    }

    fn close_window(&mut self, now: Time) {
        self.endpoint.state.gap(now.since(self.window_since) / self.window);
        self.window = 0;
        self.window_since = now;
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        let (now, outcome) = self.ended.unwrap_or_else(|| (self.pool.latest(), Outcome::ClientGone));
        let completed = outcome == Outcome::Completed;
        self.endpoint.state.ended(self.ticket, self.output, self.adapter.as_ref(), completed, now);
        if let Some(ticket) = self.told {
            self.pool.peers.tell(Word::Ended { ticket }, &self.endpoint);
        }
        // Without a first token the prompt has most likely not been computed, so it is not cached there either.
        if let Some(claim) = self.claim.take()
            && self.first_token.is_none()
            && !completed
        {
            self.index.undo(claim);
        }
        if let Some(id) = self.cache_id {
            let is_refused = matches!(outcome, Outcome::ConnectFailed | Outcome::Status(_));
            let ended = Ended {
                ran: self.first_token.is_some() || !is_refused,
                prompt: self.counted.0,
                cached: self.counted.1,
                completion: self.completion,
            };
            // After the claim was undone: what is there as a fact is believed all the same.
            self.endpoint.state.cache.ended(id, ended, now).reach(&self.index, self.endpoint.slot);
        }
    }
}

impl fmt::Debug for Flight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Flight")
            .field("endpoint", &self.endpoint.id)
            .field("dispatched", &self.dispatched)
            .field("first_token", &self.first_token)
            .finish_non_exhaustive()
    }
}
