//! The order of batches: what may be applied, what must wait, and when what is known is worth nothing any more.
//!
//! A publisher numbers its batches from 0 and never sends one again. A number that is too high says that some were lost;
//! they are asked for (*replayed*) while what comes live is held back, for a removal that is applied before the storing it
//! undoes would leave the block there for ever. A number that is too low says that it is another process. A connection
//! that broke may mean either, so the batch applied last is asked for again and compared.

use std::collections::VecDeque;

use bytes::Bytes;
use thiserror::Error;

/// Batches held back while others are replayed: what vLLM keeps for replays by default.
const MOST_HELD: usize = 10_000;

/// Bytes of them.
const MOST_HELD_BYTES: usize = 64 << 20;

/// A message of a publisher.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Its number.
    pub seq: u64,
    /// The batch, undecoded.
    pub payload: Bytes,
}

/// What a replaying publisher sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Replayed {
    /// A batch.
    Batch(Message),
    /// There are no more.
    End,
}

/// Frames that are no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("message of {parts} frames is none of a publisher's")]
pub struct NoMessage {
    parts: usize,
}

impl Message {
    /// A message as it comes live: topic, number, payload.
    pub fn live(parts: &[Bytes]) -> Result<Self, NoMessage> {
        match parts {
            [_, seq, payload] => Self::new(seq, payload).ok_or(NoMessage { parts: 3 }),
            _ => Err(NoMessage { parts: parts.len() }),
        }
    }

    /// A message of a replay: an empty frame, in newer servers the topic, number, payload.
    pub fn replayed(parts: &[Bytes]) -> Result<Replayed, NoMessage> {
        let no_message = NoMessage { parts: parts.len() };
        let ([_, seq, payload] | [_, _, seq, payload]) = parts else { return Err(no_message) };
        let message = Self::new(seq, payload).ok_or(no_message)?;
        Ok(if message.seq == u64::MAX { Replayed::End } else { Replayed::Batch(message) })
    }

    fn new(seq: &Bytes, payload: &Bytes) -> Option<Self> {
        let seq = u64::from_be_bytes(seq.as_ref().try_into().ok()?);
        Some(Self { seq, payload: payload.clone() })
    }
}

/// What is to be done, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// This batch is next.
    Apply(Bytes),
    /// Ask for the batches from this number on. An earlier question is void.
    Replay(u64),
    /// It is another process: nothing it was said to hold is there.
    Restarted,
    /// Batches were missed.
    Gap,
    /// Batches are missing for good.
    Lost,
}

/// The order of one publisher's batches.
#[derive(Debug)]
pub struct Sequence {
    can_replay: bool,
    /// The batch applied last: its number, and a hash of it.
    last: Option<(u64, u64)>,
    waiting: Option<Waiting>,
}

#[derive(Debug)]
struct Waiting {
    from: u64,
    /// The first of them is one that was applied already, to see whether it is still the same process.
    confirms: bool,
    held: VecDeque<Message>,
    held_bytes: usize,
}

impl Sequence {
    /// Nothing is known yet. `can_replay`: there is somebody to ask for what was missed.
    pub fn new(can_replay: bool) -> Self {
        Self { can_replay, last: None, waiting: None }
    }

    /// A connection stands, the first or another.
    pub fn connected(&mut self, steps: &mut Vec<Step>) {
        match (self.can_replay, self.last) {
            (true, Some((last, _))) => self.wait(last, true, steps),
            (true, None) => self.wait(0, false, steps),
            (false, Some(_)) => steps.push(Step::Lost),
            (false, None) => {}
        }
    }

    /// A message came live.
    pub fn live(&mut self, message: Message, steps: &mut Vec<Step>) {
        if let Some(waiting) = &mut self.waiting {
            waiting.held_bytes += message.payload.len();
            waiting.held.push_back(message);
            if waiting.held.len() > MOST_HELD || waiting.held_bytes > MOST_HELD_BYTES {
                self.replay_failed(steps);
            }
            return;
        }
        let Message { seq, payload } = &message;
        match self.last {
            Some((last, _)) if *seq == last.wrapping_add(1) => self.apply(message, steps),
            Some((last, hash)) if *seq == last && hash == hash_of(payload) => {}
            Some((last, _)) if *seq > last => self.missed(last + 1, message, steps),
            Some(_) => {
                self.last = None;
                steps.push(Step::Restarted);
                self.live(message, steps);
            }
            None if *seq == 0 => self.apply(message, steps),
            None => self.missed(0, message, steps),
        }
    }

    /// A message of the replay asked for last came.
    pub fn replayed(&mut self, message: Message, steps: &mut Vec<Step>) {
        let Some(waiting) = &mut self.waiting else { return };
        if std::mem::take(&mut waiting.confirms) {
            if message.seq == waiting.from {
                if self.last.is_some_and(|(_, hash)| hash == hash_of(&message.payload)) {
                    return;
                }
                return self.restarted(steps);
            }
            // Its memory does not go back so far; it may be another process or not.
            steps.push(Step::Lost);
            self.last = None;
        }
        self.apply_over(message, steps);
    }

    /// The replay is over.
    pub fn replay_ended(&mut self, steps: &mut Vec<Step>) {
        let Some(waiting) = &mut self.waiting else { return };
        if waiting.confirms {
            // What we applied last is not there: the process that sent it is gone.
            return self.restarted(steps);
        }
        let held = std::mem::take(&mut waiting.held);
        self.waiting = None;
        for message in held {
            self.apply_over(message, steps);
        }
    }

    /// The replay broke off, or never came. What was held back is applied to nothing.
    pub fn replay_failed(&mut self, steps: &mut Vec<Step>) {
        let Some(waiting) = self.waiting.take() else { return };
        steps.push(Step::Lost);
        // What is held may be of another process, with lower numbers.
        let was = self.last;
        for (at, message) in waiting.held.into_iter().enumerate() {
            if at == 0 {
                if was.is_some_and(|(last, _)| message.seq <= last) {
                    steps.push(Step::Restarted);
                }
                self.apply(message, steps);
            } else {
                self.apply_over(message, steps);
            }
        }
    }

    /// Whether a replay is awaited.
    pub fn is_waiting(&self) -> bool {
        self.waiting.is_some()
    }

    fn wait(&mut self, from: u64, confirms: bool, steps: &mut Vec<Step>) {
        let (held, held_bytes) = self.waiting.take().map_or_else(Default::default, |old| (old.held, old.held_bytes));
        self.waiting = Some(Waiting { from, confirms, held, held_bytes });
        steps.push(Step::Replay(from));
    }

    fn missed(&mut self, from: u64, message: Message, steps: &mut Vec<Step>) {
        if self.last.is_some() {
            steps.push(Step::Gap);
        }
        if self.can_replay {
            self.wait(from, false, steps);
            self.live(message, steps);
        } else {
            steps.push(Step::Lost);
            self.apply(message, steps);
        }
    }

    fn restarted(&mut self, steps: &mut Vec<Step>) {
        self.last = None;
        steps.push(Step::Restarted);
        self.wait(0, false, steps);
    }

    /// Applies a message that is next, drops one that was applied, and gives up what is missing before it.
    fn apply_over(&mut self, message: Message, steps: &mut Vec<Step>) {
        let next = self.last.map_or(0, |(last, _)| last.wrapping_add(1));
        if message.seq < next {
            return;
        }
        if message.seq > next && steps.last() != Some(&Step::Lost) {
            steps.push(Step::Lost);
        }
        self.apply(message, steps);
    }

    fn apply(&mut self, message: Message, steps: &mut Vec<Step>) {
        self.last = Some((message.seq, hash_of(&message.payload)));
        steps.push(Step::Apply(message.payload));
    }
}

fn hash_of(payload: &[u8]) -> u64 {
    xxhash_rust::xxh3::xxh3_64(payload)
}
