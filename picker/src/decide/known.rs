//! Which ring keys this gateway has met lately. Bounded, lossy, without a lock.
//!
//! It forgets a key when another falls on its place. A key forgotten too early is placed like one never met, which costs
//! nothing but a chance to find its old home.

use std::sync::atomic::{AtomicU64, Ordering};

/// Keys remembered, at most: 256 KB a pool, ten minutes of conversations at fifty fresh ones a second.
const PLACES: usize = 1 << 15;

/// Ring keys met lately.
#[derive(Debug)]
pub(crate) struct KnownKeys {
    places: Box<[AtomicU64]>,
}

impl Default for KnownKeys {
    fn default() -> Self {
        Self { places: (0..PLACES).map(|_| AtomicU64::new(0)).collect() }
    }
}

impl KnownKeys {
    pub(crate) fn knows(&self, key: u64) -> bool {
        // A key of 0 is as unlikely as any other one key; it then counts as known from the start.
        self.place(key).load(Ordering::Relaxed) == key
    }

    pub(crate) fn remember(&self, key: u64) {
        self.place(key).store(key, Ordering::Relaxed);
    }

    fn place(&self, key: u64) -> &AtomicU64 {
        &self.places[key as usize % PLACES]
    }
}
