//! What a pool has to say, kept until the next packet goes.
//!
//! It is filled in the middle of decisions, so nothing here waits: a word is written into memory that is there already, in the
//! form in which it goes out, and where there is no room it is dropped and counted. A lost word costs a prefix computed twice,
//! or an endpoint that looks busier than it is until the next count.

use std::sync::{Arc, Mutex, PoisonError};

use prometheus::IntCounter;
use spillway_picker::pool::{Endpoint, Tell, Word};
use tokio::sync::Notify;

use super::place::hash_of;
use super::records::Record;

/// Bytes that may wait: several hundred requests with long prompts, a hundred times what gathers in the 5 ms between two
/// packets at a thousand requests a second.
const MOST_WAITING: usize = 1 << 20;

/// Takes the words of one pool.
pub struct Mouth {
    words: Mutex<Vec<u8>>,
    wake: Arc<Notify>,
    dropped: IntCounter,
}

impl Mouth {
    /// One that has nothing to say yet. `wake` is told when it has.
    pub fn new(wake: Arc<Notify>, dropped: IntCounter) -> Self {
        Self { words: Mutex::default(), wake, dropped }
    }

    /// Takes what has been said, as records one after the other, and leaves the memory of `spare` for what follows.
    pub fn swap(&self, spare: &mut Vec<u8>) {
        spare.clear();
        std::mem::swap(spare, &mut *self.words.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

impl Tell for Mouth {
    fn tell(&self, word: Word<'_>, endpoint: &Endpoint) {
        let record = Record::of(word, hash_of(&endpoint.id));
        let mut words = self.words.lock().unwrap_or_else(PoisonError::into_inner);
        if words.len() >= MOST_WAITING {
            drop(words);
            self.dropped.inc();
            return;
        }
        let is_first = words.is_empty();
        record.encode(&mut words);
        drop(words);
        // Not for each: the others are found when this one is taken.
        if is_first {
            self.wake.notify_one();
        }
    }
}
