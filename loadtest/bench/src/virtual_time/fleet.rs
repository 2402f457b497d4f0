//! The engines of a run, whose requests they have, and what they did.

use std::sync::Arc;
use std::time::Duration;

use spillway_picker::facts::Facts;
use spillway_sim::engine::{self, Engine, Pace, SequenceId, Stats};

/// One simulated server of a run.
#[derive(Clone, Debug)]
pub struct Endpoint {
    /// Size and speed.
    pub engine: engine::Config,
    /// What happens to its speed, and when.
    pub pace: Pace,
    /// Weight that the gateway is told.
    pub weight: f64,
    /// When gateways come to know of it; it has served nobody before.
    pub joins: Duration,
}

/// What one endpoint did in a run.
#[derive(Clone, Debug)]
pub struct EndpointTotals {
    /// What it counted in all.
    pub after: Counters,
    /// What it had counted at the end of the warm-up.
    pub before: Counters,
    /// Most requests the gateways had there at once.
    pub peak_in_flight: usize,
    /// Integral over time of the requests in the engine, in request seconds, as the engine counts them.
    pub area: f64,
}

/// The counters of a server that a report is made of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Output tokens.
    pub output: u64,
    /// Prompt tokens looked up in the prefix cache.
    pub queries: u64,
    /// Prompt tokens found there.
    pub hits: u64,
    /// Requests that had to give up their place in the cache.
    pub preemptions: u64,
    /// Loads of adapters onto the device, which no page of a real server counts.
    pub adapter_loads: u64,
}

impl Counters {
    fn of(engine: &Engine) -> Self {
        let Stats { generation_tokens, prefix_queries, prefix_hits, preemptions, .. } = *engine.stats();
        let adapter_loads = engine.adapter_loads();
        Self { output: generation_tokens, queries: prefix_queries, hits: prefix_hits, preemptions, adapter_loads }
    }
}

impl EndpointTotals {
    /// What was counted after the warm-up.
    pub fn counted(&self) -> Counters {
        let Self { after, before, .. } = self;
        Counters {
            output: after.output - before.output,
            queries: after.queries - before.queries,
            hits: after.hits - before.hits,
            preemptions: after.preemptions - before.preemptions,
            adapter_loads: after.adapter_loads - before.adapter_loads,
        }
    }
}

/// An engine, its clock and its requests.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) engine: Engine,
    /// Next time it wants to be woken; earlier calls are harmless.
    pub(super) wakes: Option<Duration>,
    /// Request of each sequence; sequences are numbered from 1.
    requests: Vec<usize>,
    pub(super) in_flight: usize,
    peak_in_flight: usize,
    area: f64,
    counted_until: Duration,
    before: Counters,
}

impl Server {
    pub(super) fn new(endpoint: &Endpoint, seed: u64) -> Self {
        let mut engine = Engine::new(endpoint.engine.clone(), seed);
        engine.set_pace(endpoint.pace.clone());
        Self {
            engine,
            wakes: None,
            requests: Vec::new(),
            in_flight: 0,
            peak_in_flight: 0,
            area: 0.0,
            counted_until: Duration::ZERO,
            before: Counters::default(),
        }
    }

    /// The warm-up is over.
    pub(super) fn warmed_up(&mut self) {
        self.before = Counters::of(&self.engine);
    }

    /// A gateway has sent a request here.
    pub(super) fn dispatched(&mut self) {
        self.in_flight += 1;
        self.peak_in_flight = self.peak_in_flight.max(self.in_flight);
    }

    pub(super) fn submit(
        &mut self,
        request: usize,
        asked: engine::Request,
        now: Duration,
    ) -> Result<(), engine::Refused> {
        self.count_until(now);
        let id = self.engine.submit(asked, now)?;
        debug_assert_eq!(id as usize, self.requests.len() + 1, "sequences are numbered in the order of their coming");
        self.requests.push(request);
        Ok(())
    }

    pub(super) fn request_of(&self, id: SequenceId) -> usize {
        self.requests[id as usize - 1]
    }

    /// Plays all that is due.
    pub(super) fn advance(&mut self, now: Duration, events: &mut Vec<engine::Event>) -> Option<Duration> {
        self.count_until(now);
        self.engine.advance(now, events)
    }

    /// Adds up the time that requests spend here, as the engine counts them. Counts change at calls only, since the
    /// driver wakes an engine for each thing that happens in it.
    fn count_until(&mut self, now: Duration) {
        let there = self.engine.running() + self.engine.waiting();
        self.area += there as f64 * now.saturating_sub(self.counted_until).as_secs_f64();
        self.counted_until = now;
    }

    pub(super) fn totals(mut self, end: Duration) -> EndpointTotals {
        self.count_until(end);
        let Self { engine, before, peak_in_flight, area, .. } = self;
        EndpointTotals { after: Counters::of(&engine), before, peak_in_flight, area }
    }

    /// What its metrics page says at this moment; `size` is the multiple of its real size that its cache is said to have.
    pub(super) fn page(&self, models: Option<&[Arc<str>]>, size: f64) -> Facts {
        let stats = self.engine.stats();
        let config = self.engine.config();
        let lists = models.map(|_| stats.adapters.iter().max_by_key(|series| series.set_at));
        let names = |list: &str| list.split(',').filter(|name| !name.is_empty()).map(Arc::from).collect::<Vec<_>>();
        Facts {
            queued: Some((stats.gauges.waiting_capacity + stats.gauges.waiting_deferred) as f64),
            running: Some(stats.gauges.running as f64),
            kv_usage: Some(stats.gauges.kv_usage),
            block_size: Some(config.block_size as u32),
            blocks: Some((config.blocks as f64 * size) as u32),
            adapters_running: lists.map(|series| series.map_or(Vec::new(), |series| names(&series.running))),
            adapters_waiting: lists.map(|series| series.map_or(Vec::new(), |series| names(&series.waiting))),
            max_adapters: models.map(|_| config.lora.slots as u32),
            models: models.map(<[Arc<str>]>::to_vec),
            awake: None,
            progress: Some(stats.generation_tokens ^ (stats.steps << 32) ^ stats.prompt_tokens.rotate_left(16)),
        }
    }
}
