//! What a gateway tells the others, kept until it is on its way.

use std::sync::{Mutex, PoisonError};

use spillway_picker::pool::{Endpoint, Sent, Slot, Tell, Word};

/// A word that outlives its request.
#[derive(Clone, Debug)]
pub(super) enum Kept {
    Sent { ticket: u64, endpoint: Slot, uncached: u32, output: u32, streams: bool, blocks: Vec<u64> },
    FirstToken { ticket: u64 },
    Ended { ticket: u64 },
}

impl Kept {
    pub(super) fn word(&self) -> Word<'_> {
        match *self {
            Self::Sent { ticket, endpoint, uncached, output, streams, ref blocks } => {
                Word::Sent(Sent { ticket, endpoint, uncached, output, streams, blocks })
            }
            Self::FirstToken { ticket } => Word::FirstToken { ticket },
            Self::Ended { ticket } => Word::Ended { ticket },
        }
    }
}

/// What was said and not yet taken.
#[derive(Debug, Default)]
pub(super) struct Words(Mutex<Vec<Kept>>);

impl Words {
    pub(super) fn take(&self) -> Vec<Kept> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Tell for Words {
    fn tell(&self, word: Word<'_>, _: &Endpoint) {
        let kept = match word {
            Word::Sent(Sent { ticket, endpoint, uncached, output, streams, blocks }) => {
                Kept::Sent { ticket, endpoint, uncached, output, streams, blocks: blocks.to_vec() }
            }
            Word::FirstToken { ticket } => Kept::FirstToken { ticket },
            Word::Ended { ticket } => Kept::Ended { ticket },
        };
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(kept);
    }
}
