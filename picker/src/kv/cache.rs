//! One endpoint's cache as its events tell of it, shared by those who dispatch and the one who reads the events.
//!
//! Costs an endpoint without events one load of an atomic per request. The lock is held for what one change or one request
//! takes; the index is told after it.

use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use super::attribution::{Attribution, Ended, Told};
use super::{Change, Standing};
use crate::index::Index;
use crate::pool::Slot;
use crate::request::RequestInfo;
use crate::time::Time;

#[derive(Debug, Default)]
pub(crate) struct Cache {
    /// There from the first event on.
    attribution: OnceLock<Mutex<Attribution>>,
}

impl Cache {
    /// Applies changes of one rank's cache, and has the index of the endpoint follow.
    pub(crate) fn changed(&self, rank: u32, changes: &[Change], index: &Index, slot: Slot, now: Time) {
        self.attribution.get_or_init(Mutex::default);
        for change in changes {
            let mut told = Told::default();
            // For each anew: a dispatch need not wait for all of a long batch.
            if let Some(mut attribution) = self.lock() {
                attribution.apply(rank, change, &mut told, now);
            }
            told.reach(index, slot);
        }
    }

    /// Enters a request before it is sent; `None` without events.
    pub(crate) fn dispatched(&self, request: &RequestInfo, tokens: impl FnOnce() -> f64, now: Time) -> Option<u64> {
        self.attribution.get()?;
        let tokens = tokens();
        self.lock().and_then(|mut one| one.dispatched(&request.prompt, request.adapter.as_ref(), tokens, now))
    }

    /// Takes note of the first token of a request that was entered.
    pub(crate) fn first_token(&self, id: u64) {
        if let Some(mut attribution) = self.lock() {
            attribution.first_token(id);
        }
    }

    /// Takes note of the end of a request that was entered.
    pub(crate) fn ended(&self, id: u64, ended: Ended, now: Time) -> Told {
        let mut told = Told::default();
        if let Some(mut attribution) = self.lock() {
            attribution.ended(id, ended, &mut told, now);
        }
        told
    }

    /// Forgets what it is said to hold: it was away.
    pub(crate) fn forget(&self) {
        if let Some(mut attribution) = self.lock() {
            attribution.forget();
        }
    }

    /// What is known; `None` without events.
    pub(crate) fn standing(&self) -> Option<Standing> {
        self.lock().map(|attribution| attribution.standing())
    }

    fn lock(&self) -> Option<MutexGuard<'_, Attribution>> {
        Some(self.attribution.get()?.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Told {
    /// Changes what the index believes of an endpoint.
    pub(crate) fn reach(self, index: &Index, slot: Slot) {
        let Self { forget, withdrawn, restored } = self;
        if forget {
            index.forget(slot);
        } else {
            for place in withdrawn {
                index.withdraw(slot, place);
            }
        }
        for (prompt, held) in restored {
            index.insert(slot, &prompt.blocks[..held.min(prompt.blocks.len())]);
        }
    }
}
