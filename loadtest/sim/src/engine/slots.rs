//! The cache of a server that keeps one prompt in each place of its batch, as llama.cpp's does: by token, not by block.
//!
//! A request takes the idle slot whose content is most like it, and goes on behind the tokens they share. What a newcomer
//! gets wrong: slots that run share nothing. Two requests that begin alike and come at once are both computed whole.

use super::Engine;
use super::sequence::Sequence;

/// A slot is chosen for its content when more than one in so many tokens of the prompt are there already.
const ALIKE: usize = 10;

/// What idle slots hold.
#[derive(Debug)]
pub(super) struct Slots {
    places: usize,
    /// Least recently used first. A slot that holds nothing is not here.
    idle: Vec<Held>,
}

#[derive(Debug)]
struct Held {
    /// Adapter and salt.
    root: u64,
    tokens: Vec<u32>,
}

impl Slots {
    pub(super) fn new(places: usize) -> Self {
        Self { places, idle: Vec::new() }
    }

    /// Leading tokens that the slot chosen for them holds, while `running` others run. The last one is always computed.
    pub(super) fn find(&self, root: u64, tokens: &[u32], running: usize) -> usize {
        self.choose(root, tokens, running).map_or(0, |(_, common)| common)
    }

    /// Takes that slot.
    pub(super) fn take(&mut self, root: u64, tokens: &[u32], running: usize) {
        if let Some((place, _)) = self.choose(root, tokens, running) {
            self.idle.remove(place);
        }
    }

    /// A slot is idle again and holds these tokens.
    pub(super) fn keep(&mut self, root: u64, tokens: Vec<u32>) {
        self.idle.push(Held { root, tokens });
    }

    /// Empties slots, those first that were used longest ago, until the rest fits into `room` tokens.
    pub(super) fn fit(&mut self, room: usize) {
        let mut held: usize = self.idle.iter().map(|held| held.tokens.len()).sum();
        while held > room {
            held -= self.idle.remove(0).tokens.len();
        }
    }

    /// The slot most alike, else an empty one, which is `None`, else the one used longest ago; and what it has in common.
    fn choose(&self, root: u64, tokens: &[u32], running: usize) -> Option<(usize, usize)> {
        let common = |held: &Held| {
            let most = if held.root == root { tokens.len().saturating_sub(1) } else { 0 };
            tokens.iter().zip(&held.tokens).take(most).take_while(|(token, other)| token == other).count()
        };
        let all = self.idle.iter().map(common).enumerate();
        let best = all.max_by_key(|&(_, common)| common).filter(|&(_, common)| common * ALIKE > tokens.len());
        let empty = self.idle.len() + running < self.places;
        best.or_else(|| self.idle.first().filter(|_| !empty).map(|oldest| (0, common(oldest))))
    }
}

impl Engine {
    /// Keeps what a sequence that is gone has computed.
    pub(super) fn keep_in_slot(&mut self, mut sequence: Sequence) {
        if let Some(slots) = &mut self.slots
            && sequence.computed > 0
        {
            sequence.tokens.truncate(sequence.computed);
            slots.keep(sequence.root, sequence.tokens);
        }
    }

    /// Makes room in idle slots for blocks that were taken.
    pub(super) fn fit_slots(&mut self) {
        if let Some(slots) = &mut self.slots {
            slots.fit(self.blocks.free() * self.config.block_size);
        }
    }
}
