//! The other time model: prefills one after the other in a single lane, tokens of those that run each at its own time.
//!
//! Small, transparent and pessimistic: what waits behind a long prefill waits for all of it, which is where caching and
//! knowing the backlog pay. A claim about routing should hold under this model and under the step model.
//!
//! What a newcomer gets wrong: an abort does not shorten the lane. The times of those behind it are set when they enter.

use std::collections::BTreeSet;
use std::time::Duration;

use super::{Engine, Event, SequenceId};

/// Speed of an engine with one lane for prefills.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Serial {
    /// From the end of a prefill to its first token, ms.
    pub overhead_ms: f64,
    /// Prefill, us per token that is not cached.
    pub prefill_us: f64,
    /// Gap between two tokens of a sequence that runs alone, ms.
    pub gap_ms: f64,
    /// Factor of that gap when as many run as may; in proportion between.
    pub crowding: f64,
}

impl Serial {
    /// Time that the prefill of so many uncached tokens holds the lane.
    pub fn prefill(&self, tokens: usize) -> Duration {
        Duration::from_secs_f64(self.prefill_us.max(0.0) * 1e-6 * tokens as f64)
    }

    /// From the end of a prefill to its first token.
    pub fn overhead(&self) -> Duration {
        Duration::from_secs_f64(self.overhead_ms.max(0.0) * 1e-3)
    }

    /// Gap between two tokens while `running` of at most `slots` sequences run.
    pub fn gap(&self, running: usize, slots: usize) -> Duration {
        let others = running.saturating_sub(1) as f64 / slots.saturating_sub(1).max(1) as f64;
        Duration::from_secs_f64((self.gap_ms * 1e-3 * (1.0 + (self.crowding - 1.0) * others)).max(0.0))
    }
}

/// The lane, and what those that run have coming.
#[derive(Debug, Default)]
pub(super) struct Lane {
    free_at: Duration,
    /// Next token of each running sequence.
    due: BTreeSet<(Duration, SequenceId)>,
}

impl Lane {
    /// The next token of all.
    pub(super) fn next(&self) -> Option<Duration> {
        self.due.first().map(|&(time, _)| time)
    }

    /// When the last prefill in the lane ends.
    pub(super) fn free_at(&self) -> Duration {
        self.free_at
    }

    /// A sequence is gone.
    pub(super) fn forget(&mut self, id: SequenceId) {
        self.due.retain(|&(_, other)| other != id);
    }
}

impl Engine {
    /// Plays the tokens due at `now`, then lets in who finds a place.
    pub(super) fn play_lane(&mut self, speed: &Serial, now: Duration, events: &mut Vec<Event>) {
        let mut preempted = false;
        while let Some(&(time, id)) = self.lane.due.first() {
            if time > now {
                break;
            }
            self.lane.due.pop_first();
            let Some(sequence) = self.sequences.get_mut(&id) else { continue };
            sequence.computed = sequence.tokens.len();
            if self.emit(id, now, events) {
                continue;
            }
            while !self.grow(id, 1) {
                preempted = true;
                let victim = self.preempt_last();
                self.lane.forget(victim);
                if victim == id {
                    break;
                }
            }
            if self.running.contains(&id) {
                let gap = speed.gap(self.running.len(), self.config.max_seqs).mul_f64(self.pace.factor(now, self.work));
                self.lane.due.insert((now + gap, id));
            }
        }
        // Who has just given up its blocks would take them back from those it gave them to.
        if !preempted || self.running.is_empty() {
            self.enter_lane(speed, now, events);
        }
        self.refresh_gauges(now);
    }

    fn enter_lane(&mut self, speed: &Serial, now: Duration, events: &mut Vec<Event>) {
        let mut place = 0;
        while place < self.waiting.len() && self.running.len() < self.config.max_seqs.max(1) {
            if !self.adapter_is_ready(place, now) {
                place += 1;
                continue;
            }
            let Some((id, tokens)) = self.enter(place, usize::MAX, now, events) else { return };
            let slow = self.pace.factor(now, self.work);
            self.work.steps += 1;
            self.lane.free_at = self.lane.free_at.max(now) + speed.prefill(tokens).mul_f64(slow);
            self.lane.due.insert((self.lane.free_at + speed.overhead().mul_f64(slow), id));
        }
    }
}
