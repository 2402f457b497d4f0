//! The engine without a GPU: continuous batching, paged KV cache, prefix cache, LoRA slots.
//!
//! There is no clock here. [`Engine::advance`] plays everything that happens up to a time the caller names, at the exact
//! model times at which it happens, so a late caller changes nothing about the outcome: a run in virtual time and a run
//! behind HTTP with the same arrivals are the same run.

mod blocks;
mod change;
mod config;
mod hash;
mod histogram;
mod lora;
mod outlook;
mod pace;
mod preset;
mod schedule;
mod sequence;
mod serial;
mod slots;
mod stats;
mod step_time;

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use blocks::Blocks;
pub use change::CacheChange;
pub use config::{Config, Speed};
pub use hash::{mix, mix_bytes};
pub use histogram::Histogram;
pub use lora::LoraConfig;
use lora::LoraSlots;
use pace::Work;
pub use pace::{Pace, Slowness, SpeedFault};
pub use preset::Preset;
use schedule::Step;
use sequence::Sequence;
pub use sequence::output_token;
use serial::Lane;
pub use serial::Serial;
use slots::Slots;
pub use stats::{AdapterSeries, Gauges, Stats};
pub use step_time::{Coefficients, StepLoad};

/// Names one sequence of one engine; never used again, not even after [`Engine::reset`].
pub type SequenceId = u64;

/// What one sequence asks for.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// Prompt tokens; at least one.
    pub prompt: Vec<u32>,
    /// The most tokens to generate; at least one.
    pub max_tokens: u32,
    /// Ends of itself after so many tokens, if that comes before `max_tokens`.
    pub stop_after: Option<u32>,
    /// LoRA adapter by name; `None` is the base model.
    pub adapter: Option<Arc<str>>,
    /// Separates cache entries of equal tokens; 0 is "no salt".
    pub salt: u64,
    /// Decides the output tokens, together with nothing else.
    pub seed: u64,
}

/// Why a sequence ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finish {
    /// Reached `stop_after`.
    Stop,
    /// Reached `max_tokens`.
    Length,
}

/// Something that happened to one sequence, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// The sequence.
    pub id: SequenceId,
    /// What happened to it.
    pub what: What,
}

/// The kinds of [`Event`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// Entered the batch for the first time (not after a preemption).
    Scheduled {
        /// Prompt tokens found in the prefix cache.
        cached: u32,
        /// Model time spent waiting for it.
        queued: Duration,
    },
    /// One output token.
    Token(u32),
    /// The end; nothing follows.
    Finished(Finish),
}

/// Why a request cannot be served at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// Prompt plus `max_tokens` would not fit the whole KV cache.
    TooLong {
        /// Tokens the cache holds.
        capacity: usize,
    },
    /// The prompt has no token, or no token is asked for.
    Empty,
}

/// One model server's engine.
#[derive(Debug)]
pub struct Engine {
    config: Config,
    blocks: Blocks,
    /// The prompt cache, where it is not in the blocks.
    slots: Option<Slots>,
    lora: LoraSlots,
    sequences: HashMap<SequenceId, Sequence>,
    /// In the front end until the time of the key.
    arriving: BTreeSet<(Duration, SequenceId)>,
    waiting: VecDeque<SequenceId>,
    /// In order of admission: the last one is preempted first.
    running: Vec<SequenceId>,
    step: Option<Step>,
    lane: Lane,
    stats: Stats,
    noise: fastrand::Rng,
    pace: Pace,
    work: Work,
    /// Time of what was played last.
    clock: Duration,
    /// The last time the caller named: when an abort happens.
    seen: Duration,
    /// An abort made room at this time, and nobody has looked yet who can use it.
    room: Option<Duration>,
    next_id: SequenceId,
}

impl Engine {
    /// An idle engine with an empty cache. Equal `config` and `seed`, equal behaviour.
    pub fn new(config: Config, seed: u64) -> Self {
        Self {
            blocks: Blocks::new(config.usable_blocks()),
            slots: (config.prefix_caching && config.slots).then(|| Slots::new(config.max_seqs.max(1))),
            lora: LoraSlots::new(config.lora.clone()),
            sequences: HashMap::new(),
            arriving: BTreeSet::new(),
            waiting: VecDeque::new(),
            running: Vec::new(),
            step: None,
            lane: Lane::default(),
            stats: Stats::new(config.max_model_len),
            noise: fastrand::Rng::with_seed(seed),
            pace: Pace::default(),
            work: Work::default(),
            clock: Duration::ZERO,
            seen: Duration::ZERO,
            room: None,
            next_id: 1,
            config,
        }
    }

    /// Takes a request that arrives at `now`. It enters the queue after the front-end delay.
    pub fn submit(&mut self, request: Request, now: Duration) -> Result<SequenceId, Refused> {
        if request.prompt.is_empty() || request.max_tokens == 0 {
            return Err(Refused::Empty);
        }
        let capacity = self.config.usable_blocks() * self.config.block_size;
        if request.prompt.len() + request.max_tokens as usize > capacity {
            return Err(Refused::TooLong { capacity });
        }
        self.seen = self.seen.max(now);
        let id = self.next_id;
        self.next_id += 1;
        let ready = now + self.config.front_end(request.prompt.len());
        self.sequences.insert(id, Sequence::new(request, now, self.config.block_size));
        self.arriving.insert((ready, id));
        Ok(id)
    }

    /// Ends a sequence, as of the last time that was named, and frees what it holds. False when it is not known (any more).
    pub fn abort(&mut self, id: SequenceId) -> bool {
        let Some(sequence) = self.sequences.remove(&id) else {
            return false;
        };
        if let Some(place) = self.running.iter().position(|&other| other == id) {
            self.running.remove(place);
            self.lane.forget(id);
            self.lora.release(sequence.adapter.as_ref());
        } else if let Some(place) = self.waiting.iter().position(|&other| other == id) {
            self.waiting.remove(place);
        } else {
            self.arriving.retain(|&(_, other)| other != id);
        }
        self.blocks.release(&sequence.blocks);
        self.keep_in_slot(sequence);
        self.stats.aborted += 1;
        self.room = Some(self.seen);
        if self.sequences.is_empty() {
            // No later step would correct the gauges of an engine that has just run dry.
            self.stats.gauges = Gauges::default();
        }
        true
    }

    /// Plays everything due up to `now`, in order, and returns the time of the next thing to come: `None` when idle.
    pub fn advance(&mut self, now: Duration, events: &mut Vec<Event>) -> Option<Duration> {
        self.seen = self.seen.max(now);
        loop {
            let next = self.next_time()?;
            if next > now {
                return Some(next);
            }
            self.play(next, events);
        }
    }

    /// Replaces what slows it. Faults that were there before and still are go on; what has begun is not changed.
    pub fn set_pace(&mut self, mut pace: Pace) {
        pace.continues(&self.pace);
        self.pace = pace;
    }

    /// Whether an adapter is on the device at this moment.
    pub fn holds_adapter(&self, adapter: &Arc<str>) -> bool {
        self.lora.holds(adapter, self.seen)
    }

    /// Drops every sequence, the cache and all counters, as a restart does. Ids go on counting.
    pub fn reset(&mut self) {
        let seed = self.noise.u64(..);
        let fresh = Self::new(self.config.clone(), seed);
        let old = std::mem::replace(self, fresh);
        if old.blocks.is_recording() {
            self.blocks.record();
        }
        self.pace = old.pace;
        self.pace.restart();
        self.clock = old.clock;
        self.seen = old.seen;
        self.next_id = old.next_id;
    }

    /// From here on keeps what changes in the cache, for [`take_changes`](Self::take_changes).
    pub fn record_changes(&mut self) {
        self.blocks.record();
    }

    /// What has changed in the cache since it was last asked. Nothing while a clear is all there is: real engines tell of
    /// it with the step that follows.
    pub fn take_changes(&mut self) -> Vec<CacheChange> {
        self.blocks.take_changes()
    }

    /// Empties the prefix cache; false, and nothing done, while a sequence has blocks.
    pub fn clear_cache(&mut self) -> bool {
        self.blocks.clear()
    }

    /// How many tokens of a live sequence the cache holds at this moment. Reserves nothing; 0 when it is not known.
    pub fn cached_tokens(&mut self, id: SequenceId) -> usize {
        let Some(sequence) = self.sequences.get_mut(&id) else { return 0 };
        match &self.slots {
            Some(slots) => slots.find(sequence.root, &sequence.tokens, self.running.len()),
            None if self.config.prefix_caching => {
                self.blocks.matching(sequence.matchable_hashes()) * self.config.block_size
            }
            None => 0,
        }
    }

    /// Counters, histograms, and the gauges as of the end of the last step.
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// The configuration it runs with.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Sequences in the batch at this moment.
    pub fn running(&self) -> usize {
        self.running.len()
    }

    /// Sequences not yet in the batch at this moment, those in the front end included.
    pub fn waiting(&self) -> usize {
        self.waiting.len() + self.arriving.len()
    }

    /// Loads of adapters onto the device begun since the start or the last reset.
    pub fn adapter_loads(&self) -> u64 {
        self.lora.loads()
    }

    /// Every sequence not yet ended, in order of submission.
    pub fn active(&self) -> Vec<SequenceId> {
        let mut ids: Vec<_> = self.sequences.keys().copied().collect();
        ids.sort_unstable();
        ids
    }

    /// Blocks no sequence refers to; cached ones count as free.
    pub fn free_blocks(&self) -> usize {
        self.blocks.free()
    }

    /// Fraction of blocks that sequences refer to, 0 to 1.
    pub fn kv_usage(&self) -> f64 {
        self.blocks.used() as f64 / self.blocks.total() as f64
    }

    fn next_time(&self) -> Option<Duration> {
        if let Some(step) = &self.step {
            return Some(step.ends);
        }
        let arrival = self.arriving.first().map(|&(time, _)| time);
        // Without a step in flight and with no token due only a LoRA load can keep a waiting sequence out of the batch, or
        // that nobody has looked since an abort.
        let (load, room) =
            if self.waiting.is_empty() { (None, None) } else { (self.lora.next_ready(self.clock), self.room) };
        [arrival, load, room, self.lane.next()].into_iter().flatten().min()
    }

    fn play(&mut self, time: Duration, events: &mut Vec<Event>) {
        self.clock = time;
        self.room = None;
        self.queue_arrivals(time);
        match self.config.speed {
            Speed::Steps(speed) => {
                if let Some(step) = self.step.take() {
                    self.end_step(&step, time, events);
                }
                self.begin_step(&speed, time, events);
            }
            Speed::Serial(speed) => self.play_lane(&speed, time, events),
        }
    }

    fn queue_arrivals(&mut self, time: Duration) {
        while let Some(&(ready, id)) = self.arriving.first() {
            if ready > time {
                return;
            }
            self.arriving.pop_first();
            if let Some(sequence) = self.sequences.get_mut(&id) {
                sequence.queued = ready;
                self.waiting.push_back(id);
            }
        }
    }
}

#[cfg(test)]
mod tests;
