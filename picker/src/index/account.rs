//! What one endpoint is believed to hold in all: how much, how much fits, and in which order it was used.

use std::array;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use super::holders::STAMP_BITS;
use crate::pool::Slot;

/// Bytes of text in one unit of account: the smallest block. Larger blocks are whole multiples.
pub(super) const UNIT_BYTES: u64 = 256;

/// Memory of one record: 16 bytes, in a queue that may be half empty.
pub(super) const RECORD_BYTES: usize = 32;

/// Cache size of an endpoint that does not publish its own, in bytes of text: about 260,000 tokens, what an 8B model
/// leaves free on an 80 GB card after a good part went to outputs.
const UNKNOWN_CAPACITY_BYTES: u64 = 1 << 20;

/// Records an endpoint may have before the first search for those that own nothing.
const FIRST_COMPACTION: usize = 64;

/// Part of its capacity that an endpoint loses when nothing was cached of a prompt that was believed to be.
///
/// Small: a wrong belief costs one computed prefix, which would have been computed elsewhere too; a lost one makes a copy
/// that pushes out another. With 0.25 the scenarios S6 and B5 lose 5 to 8 points of their hits.
const MISS_LOSS: f64 = 0.1;

/// What one confirmed hit gives back. With [`MISS_LOSS`] it settles where about one belief in five is wrong.
const HIT_GAIN: f64 = 0.02;

/// Blocks by which server and gateway may differ without either being wrong: the server counts in its own blocks, and
/// the last token of a prompt is always computed.
const TOLERANCE_BLOCKS: usize = 1;

/// One use of a chain by one endpoint: the chain's last block, the shard it lies in, and the stamp of the use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Record {
    tail: u64,
    stamp_and_home: u64,
}

impl Record {
    pub(super) fn new(tail: u64, stamp: u64, home: u8) -> Self {
        Self { tail, stamp_and_home: stamp << u8::BITS | u64::from(home) }
    }

    pub(super) fn tail(self) -> u64 {
        self.tail
    }

    pub(super) fn stamp(self) -> u64 {
        self.stamp_and_home >> u8::BITS
    }

    pub(super) fn home(self) -> u8 {
        self.stamp_and_home as u8
    }
}

/// Uses in order, oldest first, and what bounds them.
#[derive(Debug)]
pub(super) struct Queue {
    pub(super) records: VecDeque<Record>,
    pub(super) compact_at: usize,
    capacity: u64,
    /// Share of the capacity that the server's own counts bear out.
    trust: f64,
}

impl Queue {
    /// Units that may be believed.
    pub(super) fn allowance(&self) -> u64 {
        (self.capacity as f64 * self.trust) as u64
    }

    /// Twice what is left, so that searching costs each insert a constant number of lookups.
    pub(super) fn next_compaction(records: usize) -> usize {
        (records * 2).max(FIRST_COMPACTION)
    }
}

/// The account of one endpoint.
#[derive(Debug)]
pub(super) struct Account {
    generation: AtomicU32,
    /// Stamp of the last use. Never reset, so that the blocks of a forgotten generation cannot match a later one.
    stamp: AtomicU64,
    /// Stamps up to this were forgotten.
    floor: AtomicU64,
    /// Units believed to be held. Written under the queue's lock only.
    units: AtomicU64,
    queue: Mutex<Queue>,
}

impl Default for Account {
    fn default() -> Self {
        Self {
            generation: AtomicU32::new(0),
            stamp: AtomicU64::new(0),
            floor: AtomicU64::new(0),
            units: AtomicU64::new(0),
            queue: Mutex::new(Queue {
                records: VecDeque::new(),
                compact_at: FIRST_COMPACTION,
                capacity: UNKNOWN_CAPACITY_BYTES / UNIT_BYTES,
                trust: 1.0,
            }),
        }
    }
}

impl Account {
    pub(super) fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn generation(&self) -> u32 {
        self.generation.load(Ordering::Acquire)
    }

    /// Moves on to a later generation. True for the one caller that made the move.
    pub(super) fn succeed(&self, generation: u32) -> bool {
        self.generation() < generation && self.generation.fetch_max(generation, Ordering::AcqRel) < generation
    }

    /// A stamp for one use, and the floor it is above.
    pub(super) fn next_stamp(&self) -> (u64, u64) {
        let stamp = self.stamp.fetch_add(1, Ordering::Relaxed) + 1;
        (stamp & ((1 << STAMP_BITS) - 1), self.floor())
    }

    pub(super) fn floor(&self) -> u64 {
        self.floor.load(Ordering::Acquire)
    }

    pub(super) fn identity(&self, number: u16) -> (Slot, u64) {
        (Slot::new(u32::from(number), self.generation()), self.floor())
    }

    pub(super) fn units(&self) -> u64 {
        self.units.load(Ordering::Relaxed)
    }

    /// Adds to what is believed. The guard shows that the queue is locked.
    pub(super) fn give(&self, _queue: &mut MutexGuard<'_, Queue>, units: u64) {
        self.units.store(self.units() + units, Ordering::Relaxed);
    }

    /// Takes from what is believed. The guard shows that the queue is locked.
    pub(super) fn take(&self, _queue: &mut MutexGuard<'_, Queue>, units: u64) {
        self.units.store(self.units().saturating_sub(units), Ordering::Relaxed);
    }

    /// Forgets every use so far and returns the records, whose blocks are to be cleaned up.
    pub(super) fn clear(&self) -> VecDeque<Record> {
        let mut queue = self.lock();
        self.floor.store(self.stamp.load(Ordering::Relaxed), Ordering::Release);
        self.units.store(0, Ordering::Relaxed);
        queue.trust = 1.0;
        queue.compact_at = FIRST_COMPACTION;
        std::mem::take(&mut queue.records)
    }

    pub(super) fn reset_capacity(&self) {
        self.set_capacity(UNKNOWN_CAPACITY_BYTES);
    }

    pub(super) fn set_capacity(&self, bytes: u64) {
        self.lock().capacity = bytes / UNIT_BYTES;
    }

    pub(super) fn correct(&self, believed: usize, cached: usize) {
        let mut queue = self.lock();
        let missed = believed.saturating_sub(cached.saturating_add(TOLERANCE_BLOCKS));
        if missed > 0 {
            queue.trust *= 1.0 - MISS_LOSS * (missed as f64 / believed as f64);
        } else if cached > 0 {
            queue.trust = (queue.trust + HIT_GAIN).min(1.0);
        }
    }
}

const PAGE: usize = 256;
const PAGES: usize = (1 << u16::BITS) / PAGE;

/// Accounts looked at to find one that can afford to give memory back.
const SAMPLE: usize = 16;

/// Accounts by slot number, in pages that are made when first needed and never move.
#[derive(Debug)]
pub(super) struct Accounts {
    pages: Box<[OnceLock<Box<[Account; PAGE]>>]>,
    /// One more than the largest number opened.
    opened: AtomicUsize,
    /// Where the next sample starts.
    hand: AtomicUsize,
}

impl Default for Accounts {
    fn default() -> Self {
        let pages = (0..PAGES).map(|_| OnceLock::new()).collect();
        Self { pages, opened: AtomicUsize::new(0), hand: AtomicUsize::new(0) }
    }
}

impl Accounts {
    pub(super) fn get(&self, number: u16) -> Option<&Account> {
        let number = usize::from(number);
        self.pages[number / PAGE].get().map(|page| &page[number % PAGE])
    }

    pub(super) fn get_or_open(&self, number: u16) -> &Account {
        let number = usize::from(number);
        let page = self.pages[number / PAGE].get_or_init(|| {
            self.opened.fetch_max((number / PAGE + 1) * PAGE, Ordering::Relaxed);
            Box::new(array::from_fn(|_| Account::default()))
        });
        &page[number % PAGE]
    }

    /// The account that is believed to hold most among the next few that hold anything. A look at all would make a
    /// pick at the memory bound cost what the fleet does; those with the most are soon sampled again anyway.
    pub(super) fn large(&self) -> Option<(u16, &Account)> {
        let opened = self.opened.load(Ordering::Relaxed);
        let start = self.hand.load(Ordering::Relaxed);
        let mut largest: Option<(u16, &Account)> = None;
        let mut seen = 0;
        for step in 0..opened {
            let number = ((start + step) % opened) as u16;
            let Some(account) = self.get(number).filter(|account| account.units() > 0) else {
                continue;
            };
            if largest.is_none_or(|(_, largest)| account.units() > largest.units()) {
                largest = Some((number, account));
            }
            seen += 1;
            if seen == SAMPLE {
                self.hand.store((start + step + 1) % opened, Ordering::Relaxed);
                break;
            }
        }
        largest
    }
}
