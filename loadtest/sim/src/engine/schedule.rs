//! A step: which sequences compute how many tokens, and what comes of it.
//!
//! Running sequences come first, in order of admission; waiting ones only when no block had to be taken from anyone in the
//! same step. The queue's head waits for blocks and holds up all behind it, but is passed over when only its adapter is
//! missing.

use std::time::Duration;

use super::stats::joined;
use super::step_time::POINTS_CONTEXT;
use super::{Coefficients, Engine, Event, Finish, Gauges, SequenceId, StepLoad, What};

/// A step in flight.
#[derive(Debug)]
pub(super) struct Step {
    pub(super) ends: Duration,
    /// Sequences and the tokens each computes.
    plan: Vec<(SequenceId, usize)>,
    prefill: usize,
}

/// A step being put together.
struct Draft {
    plan: Vec<(SequenceId, usize)>,
    budget: usize,
    load: StepLoad,
}

impl Engine {
    /// Counts a client request that asked for `choices` sequences.
    pub fn observe_choices(&mut self, choices: usize) {
        self.stats.params_n.observe(choices as f64);
    }

    /// Starts the next step at `now`, if there is anything to compute.
    pub(super) fn begin_step(&mut self, speed: &Coefficients, now: Duration, events: &mut Vec<Event>) {
        loop {
            let budget = self.config.max_batched_tokens.max(1);
            let mut draft = Draft { plan: Vec::new(), budget, load: StepLoad::default() };
            let preempted = self.schedule_running(&mut draft);
            if !preempted {
                self.schedule_waiting(&mut draft, now, events);
            }
            if draft.plan.is_empty() {
                // The only running sequence may have preempted itself: with its blocks free, the next round admits.
                if preempted {
                    continue;
                }
                return;
            }
            let factor = self.pace.factor(now, self.work) * self.lora.step_factor();
            self.work.steps += 1;
            let time = speed.noisy(speed.time(&draft.load).mul_f64(factor), &mut self.noise);
            // A step of no length would let one call of `advance` never return.
            let ends = now + time.max(Duration::from_nanos(1));
            self.step = Some(Step { ends, plan: draft.plan, prefill: draft.load.prefill });
            return;
        }
    }

    /// Books the tokens of a step that ends at `now`. Sequences aborted meanwhile are gone and skipped.
    pub(super) fn end_step(&mut self, step: &Step, now: Duration, events: &mut Vec<Event>) {
        let mut emitted = 0;
        for &(id, tokens) in &step.plan {
            let Some(sequence) = self.sequences.get_mut(&id) else {
                continue;
            };
            sequence.computed += tokens;
            if sequence.remaining() > 0 {
                continue;
            }
            emitted += 1;
            self.emit(id, now, events);
        }
        self.stats.steps += 1;
        self.stats.iteration_tokens.observe((step.prefill + emitted) as f64);
        self.refresh_gauges(now);
    }

    /// Gives out the next token of a sequence that is computed whole; true when it was the last.
    pub(super) fn emit(&mut self, id: SequenceId, now: Duration, events: &mut Vec<Event>) -> bool {
        let sequence = self.sequences.get_mut(&id).expect("only live sequences are computed");
        self.stats.token(sequence, now);
        sequence.first_token.get_or_insert(now);
        sequence.last_token = now;
        let (token, finish) = sequence.emit(self.config.vocabulary);
        events.push(Event { id, what: What::Token(token) });
        if let Some(finish) = finish {
            self.finish(id, finish, now);
            events.push(Event { id, what: What::Finished(finish) });
        }
        finish.is_some()
    }

    /// True when a sequence had to give up its blocks.
    fn schedule_running(&mut self, draft: &mut Draft) -> bool {
        let mut preempted = false;
        let mut place = 0;
        while place < self.running.len() && draft.budget > 0 {
            let id = self.running[place];
            let tokens = self.chunk(id, draft.budget);
            while !self.grow(id, tokens) {
                preempted = true;
                self.preempt_last();
                if place == self.running.len() {
                    // It was its own victim.
                    return true;
                }
            }
            self.plan(draft, id, tokens);
            place += 1;
        }
        preempted
    }

    fn schedule_waiting(&mut self, draft: &mut Draft, now: Duration, events: &mut Vec<Event>) {
        let mut place = 0;
        while place < self.waiting.len() && draft.budget > 0 && self.running.len() < self.config.max_seqs.max(1) {
            if !self.adapter_is_ready(place, now) {
                place += 1;
                continue;
            }
            let Some((id, tokens)) = self.enter(place, draft.budget, now, events) else { return };
            self.plan(draft, id, tokens);
        }
    }

    /// Whether the adapter of the sequence at a place of the queue is loaded; asks for it if not.
    pub(super) fn adapter_is_ready(&mut self, place: usize, now: Duration) -> bool {
        let adapter = self.sequences[&self.waiting[place]].adapter.clone();
        self.lora.is_ready(adapter.as_ref(), now, self.pace.adapter_factor(now))
    }

    /// Moves the sequence at a place of the queue into the batch, and returns it with the tokens it computes first; `None`,
    /// and nothing changed, without blocks for them.
    pub(super) fn enter(
        &mut self,
        place: usize,
        budget: usize,
        now: Duration,
        events: &mut Vec<Event>,
    ) -> Option<(SequenceId, usize)> {
        let id = self.waiting[place];
        let tokens = self.admit(id, budget)?;
        self.waiting.remove(place);
        self.running.push(id);
        let sequence = self.sequences.get_mut(&id).expect("waiting holds live sequences only");
        self.lora.acquire(sequence.adapter.as_ref());
        if sequence.scheduled.is_none() {
            sequence.scheduled = Some(now);
            sequence.cached = sequence.computed;
            self.stats.prefix_queries += sequence.prompt as u64;
            self.stats.prefix_hits += sequence.cached as u64;
            let queued = now.saturating_sub(sequence.queued);
            events.push(Event { id, what: What::Scheduled { cached: sequence.cached as u32, queued } });
        }
        Some((id, tokens))
    }

    /// Takes blocks for the first chunk of a waiting sequence, behind what the cache has of it; `None` without room.
    fn admit(&mut self, id: SequenceId, budget: usize) -> Option<usize> {
        let sequence = self.sequences.get_mut(&id).expect("waiting holds live sequences only");
        let running = self.running.len();
        let (hits, cached) = if let Some(slots) = &self.slots {
            (Vec::new(), slots.find(sequence.root, &sequence.tokens, running))
        } else {
            let hashes = sequence.matchable_hashes();
            let hits = if self.config.prefix_caching { self.blocks.matching(hashes) } else { 0 };
            (hashes[..hits].to_vec(), hits * self.config.block_size)
        };
        let tokens = limit(sequence.tokens.len() - cached, budget, self.config.longest_chunk());
        let fresh = (cached + tokens).div_ceil(self.config.block_size) - hits.len();
        sequence.blocks = self.blocks.take(&hits, fresh)?;
        sequence.start_after(cached);
        if let Some(slots) = &mut self.slots {
            slots.take(sequence.root, &sequence.tokens, running);
        }
        self.fit_slots();
        self.publish(id, tokens);
        Some(tokens)
    }

    fn chunk(&self, id: SequenceId, budget: usize) -> usize {
        limit(self.sequences[&id].remaining(), budget, self.config.longest_chunk())
    }

    /// Takes the blocks for `tokens` more; false, and nothing changed, when there are none.
    pub(super) fn grow(&mut self, id: SequenceId, tokens: usize) -> bool {
        let sequence = self.sequences.get_mut(&id).expect("running holds live sequences only");
        let short = sequence.blocks_short(tokens);
        if short > 0 {
            let Some(taken) = self.blocks.take(&[], short) else {
                return false;
            };
            sequence.blocks.extend(taken);
            self.fit_slots();
        }
        self.publish(id, tokens);
        true
    }

    /// Full blocks are findable as soon as they are scheduled: a later sequence of the same step may hit them.
    fn publish(&mut self, id: SequenceId, tokens: usize) {
        if !self.config.prefix_caching || self.slots.is_some() {
            return;
        }
        let sequence = self.sequences.get_mut(&id).expect("only live sequences are scheduled");
        let filled = sequence.filled_by(tokens);
        if !filled.is_empty() {
            self.blocks.changed(|| sequence.stored(filled.len()));
        }
        for (block, hash) in filled {
            self.blocks.publish(block, hash);
        }
    }

    fn plan(&self, draft: &mut Draft, id: SequenceId, tokens: usize) {
        let sequence = &self.sequences[&id];
        draft.budget -= tokens;
        draft.plan.push((id, tokens));
        draft.load.sequences += 1;
        if sequence.decodes() {
            draft.load.decodes += 1;
            draft.load.context += sequence.computed;
            draft.load.long_context += sequence.computed.saturating_sub(POINTS_CONTEXT);
        } else {
            draft.load.prefill += tokens;
            draft.load.attention += tokens as f64 * (sequence.computed as f64 + tokens as f64 / 2.0);
        }
    }

    /// Takes the blocks of the sequence that entered last and puts it back at the head of the queue; returns which it was.
    pub(super) fn preempt_last(&mut self) -> SequenceId {
        let victim = self.running.pop().expect("a sequence short of blocks is itself running");
        let sequence = self.sequences.get_mut(&victim).expect("running holds live sequences only");
        let freed = sequence.preempt();
        self.lora.release(sequence.adapter.as_ref());
        self.blocks.release(&freed);
        self.waiting.push_front(victim);
        self.stats.preemptions += 1;
        victim
    }

    fn finish(&mut self, id: SequenceId, finish: Finish, now: Duration) {
        let sequence = self.sequences.remove(&id).expect("only live sequences finish");
        self.running.retain(|&other| other != id);
        self.lora.release(sequence.adapter.as_ref());
        self.blocks.release(&sequence.blocks);
        self.stats.finish(&sequence, finish, now);
        self.keep_in_slot(sequence);
        self.work.requests += 1;
    }

    pub(super) fn refresh_gauges(&mut self, now: Duration) {
        let deferred = self.waiting.iter().filter(|id| !self.adapter_fits(**id, now)).count();
        self.stats.gauges = Gauges {
            running: self.running.len(),
            waiting_capacity: self.waiting.len() - deferred,
            waiting_deferred: deferred,
            kv_usage: self.kv_usage(),
        };
        let names = |ids: &mut dyn Iterator<Item = &SequenceId>| {
            joined(ids.filter_map(|id| self.sequences[id].adapter.as_ref()))
        };
        let (running, waiting) = (names(&mut self.running.iter()), names(&mut self.waiting.iter()));
        self.stats.set_adapters(running, waiting, now);
    }

    fn adapter_fits(&self, id: SequenceId, now: Duration) -> bool {
        self.lora.could_admit(self.sequences[&id].adapter.as_ref(), now)
    }
}

fn limit(tokens: usize, budget: usize, threshold: Option<usize>) -> usize {
    tokens.min(budget).min(threshold.unwrap_or(usize::MAX).max(1))
}
