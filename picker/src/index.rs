//! Where prefixes are believed to be: from the hash of a block to the endpoints that hold it.
//!
//! Belief starts when a request is dispatched, not when it is answered, so that a burst of one prefix sticks together.
//! It is bounded per endpoint by the size of that endpoint's own cache, and like there the prefix used least recently
//! goes first, from its end. What a newcomer gets wrong: there is no list of blocks to reorder when a prefix is used.
//! Each use writes one stamp on every block of the chain and adds one record, the chain's last block and the stamp, to
//! the endpoint's queue. A record owns the blocks that still carry its stamp; to evict is to take the oldest record
//! and walk from its block towards the root until a newer stamp. Hence a parent is never older than its child, and
//! what an endpoint holds of a chain is always an unbroken start of it.

mod account;
mod holders;
mod matches;
mod shard;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};

use crate::pool::Slot;

pub use matches::Matches;

use account::{Account, Accounts, Queue, RECORD_BYTES, Record, UNIT_BYTES};
use shard::{NODE_BYTES, Node, SHARDS, Shard};

/// Blocks of a chain that lie in one shard and take one lock: 4 KiB of prompt at the start. Chains that share a system
/// prompt meet in its shard and part from there, so that no shard grows with the whole index.
const SEGMENT: usize = 16;

/// Records of forgotten endpoints that one insert cleans up. More than one insert adds, so the rest always shrinks.
const SWEEP: usize = 4;

/// Rounds of eviction that one insert spends on the memory bound, so that no single pick pays for a long overshoot.
const MEMORY_ROUNDS: usize = 8;

/// One round takes a sixteenth of an endpoint's belief, so that a large one shrinks fast, ...
const MEMORY_SHARE: u64 = 16;

/// ... and at least this many units, more than most inserts add, so that the bound holds on a fleet of small ones.
const MEMORY_UNITS: u64 = 64;

/// Block hashes and who holds them, shared by all threads.
///
/// A lookup costs what the holders of the prompt cost, not what the fleet does. At most 65,536 endpoints; a slot past
/// that is never believed to hold anything.
#[derive(Debug)]
pub struct Index {
    shards: Box<[RwLock<Shard>]>,
    accounts: Accounts,
    /// Records of endpoints that were forgotten, whose blocks are still to be cleaned up.
    forgotten: Mutex<VecDeque<(u16, VecDeque<Record>)>>,
    forgotten_records: AtomicUsize,
    bytes: AtomicUsize,
    bound: usize,
}

/// What one insert added. Hand it to [`Index::undo`] when the request failed; drop it to keep the belief.
#[derive(Clone, Copy, Debug, Default)]
pub struct Claim {
    slot: u16,
    blocks: u32,
    record: Record,
}

impl Claim {
    /// Blocks that were not believed to be there before.
    pub fn blocks(&self) -> u32 {
        self.blocks
    }
}

/// Where one block of a chain is found again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    hash: u64,
    home: u8,
}

impl Place {
    /// The place of block number `at` of a chain; `None` past its end.
    pub fn of(blocks: &[u64], at: usize) -> Option<Self> {
        let hash = *blocks.get(at)?;
        Some(Self { hash, home: Shard::home(blocks[at / SEGMENT * SEGMENT]) })
    }

    /// The block's hash.
    pub fn hash(self) -> u64 {
        self.hash
    }
}

/// How far a record is taken back.
#[derive(Clone, Copy)]
struct Limit {
    units: u64,
    blocks: u32,
}

/// What was taken back, and the record of what was not.
struct Released {
    units: u64,
    rest: Option<Record>,
}

impl Index {
    /// Returns an empty index that stays within about `memory_bytes`. Past that the endpoints with the largest belief
    /// lose their oldest part.
    pub fn new(memory_bytes: usize) -> Self {
        Self {
            shards: (0..SHARDS).map(|_| RwLock::default()).collect(),
            accounts: Accounts::default(),
            forgotten: Mutex::default(),
            forgotten_records: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
            bound: memory_bytes,
        }
    }

    /// Believes that the endpoint holds the whole chain, and that it was used last. Evicts what no longer fits there.
    ///
    /// Call it when the request is dispatched. A slot of an older generation than one already seen is ignored; a newer
    /// one starts from nothing.
    pub fn insert(&self, slot: Slot, blocks: &[u64]) -> Claim {
        let (Some(tail), Some((number, account))) = (blocks.last(), self.admit(slot)) else {
            return Claim::default();
        };
        let (stamp, floor) = account.next_stamp();
        let (mut units, mut bytes, mut first_added) = (0, 0, None);
        let (mut parent, mut home) = (0, 0);
        for (segment, hashes) in blocks.chunks(SEGMENT).enumerate() {
            let parent_home = home;
            home = Shard::home(hashes[0]);
            let mut shard = self.shards[usize::from(home)].write().unwrap_or_else(PoisonError::into_inner);
            for (offset, hash) in hashes.iter().enumerate() {
                let depth = segment * SEGMENT + offset;
                let node = shard.entry(*hash).or_insert_with(|| {
                    bytes += NODE_BYTES;
                    let parent_home = if offset == 0 { parent_home } else { home };
                    Node::new(parent, parent_home, depth)
                });
                let heap_bytes = node.holders.heap_bytes();
                if node.holders.claim(number, stamp).is_none_or(|previous| previous <= floor) {
                    units += u64::from(node.units);
                    first_added.get_or_insert(depth);
                }
                bytes += node.holders.heap_bytes() - heap_bytes;
                parent = *hash;
            }
        }
        self.bytes.fetch_add(bytes + RECORD_BYTES, Ordering::Relaxed);
        let record = Record::new(*tail, stamp, home);
        self.push(number, account, record, units);
        self.evict(number, account);
        self.sweep(SWEEP);
        self.hold_memory_bound();
        Claim { slot: number, blocks: first_added.map_or(0, |first| (blocks.len() - first) as u32), record }
    }

    /// Takes back what a failed request's insert added, save what another request has claimed since.
    ///
    /// A request that found the prefix already claimed added nothing, so after a failed burst the belief goes with the
    /// claim of the first; an endpoint that is really gone is to be [forgotten](Self::forget).
    pub fn undo(&self, claim: Claim) {
        let Claim { slot, blocks, record } = claim;
        let Some(account) = self.accounts.get(slot).filter(|_| blocks > 0) else {
            return;
        };
        let released = self.release(slot, record, Limit { units: u64::MAX, blocks });
        if let Some(rest) = released.rest {
            // The blocks above were there before and carry this claim's stamp, so they need a record to be evicted by.
            self.bytes.fetch_add(RECORD_BYTES, Ordering::Relaxed);
            self.push(slot, account, rest, 0);
        }
        let mut queue = account.lock();
        if record.stamp() > account.floor() {
            account.take(&mut queue, released.units);
        }
    }

    /// Ends the belief that the endpoint holds one block: the server said that it let go of it. What follows the block in
    /// its chains is then not found either. Returns whether it was believed.
    pub fn withdraw(&self, slot: Slot, place: Place) -> bool {
        let Some((number, account)) = self.known(slot) else {
            return false;
        };
        let mut shard = self.shards[usize::from(place.home)].write().unwrap_or_else(PoisonError::into_inner);
        let stamp = shard.get(place.hash).and_then(|node| node.holders.stamp(number));
        // What was forgotten is cleaned up by its own record, which must find its chain whole.
        let Some(stamp) = stamp.filter(|stamp| *stamp > account.floor()) else {
            return false;
        };
        let Some(left) = shard.release(place.hash, number, stamp) else {
            return false;
        };
        drop(shard);
        self.bytes.fetch_sub(left.freed_bytes, Ordering::Relaxed);
        // The blocks above of the same use need a record to be evicted by, since that of their chain ends here.
        let above = Record::new(left.parent, stamp, left.parent_home);
        let above = (left.parent != 0 && self.owns(number, above)).then_some(above);
        let mut queue = account.lock();
        if stamp <= account.floor() {
            drop(queue);
            self.bury_records(number, above.into_iter().collect());
            return true;
        }
        account.take(&mut queue, u64::from(left.units));
        // A use's records go from its deepest block to its first, as they are to be evicted.
        let first = queue.records.partition_point(|record| record.stamp() < stamp);
        let end = queue.records.partition_point(|record| record.stamp() <= stamp);
        let of_block = (first..end).find(|at| queue.records[*at].tail() == place.hash);
        match (of_block, above) {
            (Some(at), Some(above)) => queue.records[at] = above,
            (Some(at), None) => {
                queue.records.remove(at);
                self.bytes.fetch_sub(RECORD_BYTES, Ordering::Relaxed);
            }
            (None, Some(above)) => {
                let mut deeper = queue.records.range(first..end);
                let at = deeper.position(|record| self.depth(*record).is_some_and(|depth| depth < left.depth));
                queue.records.insert(at.map_or(end, |at| first + at), above);
                self.bytes.fetch_add(RECORD_BYTES, Ordering::Relaxed);
            }
            (None, None) => {}
        }
        true
    }

    /// Finds who is believed to hold the start of a chain, and how many leading blocks of it.
    ///
    /// Walks while anyone holds the next block. Allocates nothing once `out` has grown to the usual number of holders.
    pub fn matches(&self, blocks: &[u64], out: &mut Matches) {
        out.clear();
        let clean = self.forgotten_records.load(Ordering::Relaxed) == 0;
        let mut depth = 0;
        for hashes in blocks.chunks(SEGMENT) {
            let home = usize::from(Shard::home(hashes[0]));
            let shard = self.shards[home].read().unwrap_or_else(PoisonError::into_inner);
            for hash in hashes {
                let Some(node) = shard.get(*hash) else {
                    return out.end(depth);
                };
                if depth == 0 {
                    out.start(&node.holders, |number| {
                        self.accounts.get(number).map(|account| account.identity(number))
                    });
                } else {
                    out.step(&node.holders, depth, clean);
                }
                if out.is_over() {
                    return;
                }
                depth += 1;
            }
        }
        out.end(depth);
    }

    /// Learns from what the server said it took from its cache, for a request sent there while `believed_blocks` of its
    /// prompt were believed cached.
    ///
    /// The chain itself stays: having served the request, the server holds all of it. But a server that had less than
    /// believed keeps less than believed, so the endpoint's capacity shrinks, in the end to nothing for one that does
    /// not cache at all, and grows back with every confirmed hit.
    pub fn correct(&self, slot: Slot, believed_blocks: usize, cached_blocks: usize) {
        if let Some((number, account)) = self.known(slot) {
            account.correct(believed_blocks, cached_blocks);
            self.evict(number, account);
        }
    }

    /// Drops all belief about an endpoint, at once: it restarted, slept or is gone. Its blocks are cleaned up by later
    /// inserts.
    pub fn forget(&self, slot: Slot) {
        if let Some((number, account)) = self.known(slot) {
            self.bury(number, account);
        }
    }

    /// Sets how many bytes of prompt text an endpoint's cache holds. Until set it is 1 MiB.
    pub fn set_capacity(&self, slot: Slot, bytes: u64) {
        if let Some((_, account)) = self.admit(slot) {
            account.set_capacity(bytes);
        }
    }

    /// Memory in use, estimated from above.
    pub fn memory_bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Bytes of prompt text that an endpoint is believed to hold.
    pub fn held_bytes(&self, slot: Slot) -> u64 {
        self.known(slot).map_or(0, |(_, account)| account.units() * UNIT_BYTES)
    }

    /// The account of a slot, made if need be, and moved on to the slot's generation.
    fn admit(&self, slot: Slot) -> Option<(u16, &Account)> {
        let number = u16::try_from(slot.index()).ok()?;
        let account = self.accounts.get_or_open(number);
        if account.succeed(slot.generation()) {
            account.reset_capacity();
            self.bury(number, account);
        }
        (account.generation() == slot.generation()).then_some((number, account))
    }

    /// The account of a slot, if it has one in this generation.
    fn known(&self, slot: Slot) -> Option<(u16, &Account)> {
        let number = u16::try_from(slot.index()).ok()?;
        let account = self.accounts.get(number)?;
        (account.generation() == slot.generation()).then_some((number, account))
    }

    /// Adds a record and the units it brought; drops records that own nothing when there are too many of them.
    fn push(&self, number: u16, account: &Account, record: Record, units: u64) {
        let mut queue = account.lock();
        if record.stamp() <= account.floor() {
            // Forgotten while the blocks were being claimed.
            drop(queue);
            return self.bury_records(number, VecDeque::from([record]));
        }
        // At the back, save for what an undone claim leaves.
        let at = queue.records.iter().rposition(|other| other.stamp() <= record.stamp()).map_or(0, |before| before + 1);
        queue.records.insert(at, record);
        account.give(&mut queue, units);
        if queue.records.len() > queue.compact_at {
            let before = queue.records.len();
            queue.records.retain(|record| self.owns(number, *record));
            queue.compact_at = Queue::next_compaction(queue.records.len());
            self.bytes.fetch_sub((before - queue.records.len()) * RECORD_BYTES, Ordering::Relaxed);
        }
    }

    /// Whether the record's last block still carries its stamp.
    fn owns(&self, number: u16, record: Record) -> bool {
        let shard = self.shards[usize::from(record.home())].read().unwrap_or_else(PoisonError::into_inner);
        shard.get(record.tail()).is_some_and(|node| node.holders.stamp(number) == Some(record.stamp()))
    }

    /// The depth of a record's last block, if anyone still holds it.
    fn depth(&self, record: Record) -> Option<u16> {
        let shard = self.shards[usize::from(record.home())].read().unwrap_or_else(PoisonError::into_inner);
        shard.get(record.tail()).map(|node| node.depth)
    }

    /// Evicts an endpoint's oldest blocks until it is within its capacity.
    fn evict(&self, number: u16, account: &Account) {
        loop {
            let queue = account.lock();
            let excess = account.units().saturating_sub(queue.allowance());
            if excess == 0 || !self.release_oldest(number, account, queue, excess) {
                return;
            }
        }
    }

    /// Takes back up to `units` from the oldest record. False when there is none.
    fn release_oldest(&self, number: u16, account: &Account, mut queue: MutexGuard<'_, Queue>, units: u64) -> bool {
        let Some(record) = queue.records.pop_front() else {
            return false;
        };
        // Queue and shards are never locked together on the way down.
        drop(queue);
        let released = self.release(number, record, Limit { units, blocks: u32::MAX });
        let mut queue = account.lock();
        let current = record.stamp() > account.floor();
        if current {
            account.take(&mut queue, released.units);
        }
        match released.rest {
            Some(rest) if current => queue.records.push_front(rest),
            Some(rest) => {
                drop(queue);
                self.bury_records(number, VecDeque::from([rest]));
            }
            None => {
                self.bytes.fetch_sub(RECORD_BYTES, Ordering::Relaxed);
            }
        }
        true
    }

    /// Walks from a record's block towards the root and removes the endpoint from every block with the record's stamp.
    fn release(&self, number: u16, record: Record, limit: Limit) -> Released {
        let (mut units, mut blocks, mut bytes) = (0, 0, 0);
        let (mut tail, mut home) = (record.tail(), record.home());
        let mut rest = None;
        'walk: while tail != 0 {
            let mut shard = self.shards[usize::from(home)].write().unwrap_or_else(PoisonError::into_inner);
            let here = home;
            while tail != 0 && home == here {
                if units >= limit.units || blocks >= limit.blocks {
                    rest = Some(Record::new(tail, record.stamp(), home));
                    break 'walk;
                }
                let Some(left) = shard.release(tail, number, record.stamp()) else {
                    break 'walk;
                };
                units += u64::from(left.units);
                blocks += 1;
                bytes += left.freed_bytes;
                (tail, home) = (left.parent, left.parent_home);
            }
        }
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        Released { units, rest }
    }

    fn bury(&self, number: u16, account: &Account) {
        let records = account.clear();
        self.bury_records(number, records);
    }

    fn bury_records(&self, number: u16, records: VecDeque<Record>) {
        if !records.is_empty() {
            self.forgotten_records.fetch_add(records.len(), Ordering::Relaxed);
            self.forgotten.lock().unwrap_or_else(PoisonError::into_inner).push_back((number, records));
        }
    }

    /// Cleans up after up to `records` records of forgotten endpoints. Returns whether there were any.
    fn sweep(&self, records: usize) -> bool {
        if self.forgotten_records.load(Ordering::Relaxed) == 0 {
            return false;
        }
        for _ in 0..records {
            let mut forgotten = self.forgotten.lock().unwrap_or_else(PoisonError::into_inner);
            let Some((number, queue)) = forgotten.front_mut() else {
                return true;
            };
            let number = *number;
            let record = queue.pop_front();
            if queue.is_empty() {
                forgotten.pop_front();
            }
            drop(forgotten);
            if let Some(record) = record {
                self.release(number, record, Limit { units: u64::MAX, blocks: u32::MAX });
                self.bytes.fetch_sub(RECORD_BYTES, Ordering::Relaxed);
                self.forgotten_records.fetch_sub(1, Ordering::Relaxed);
            }
        }
        true
    }

    /// Makes endpoints with a large belief pay while the whole is over its bound.
    fn hold_memory_bound(&self) {
        for _ in 0..MEMORY_ROUNDS {
            if self.memory_bytes() <= self.bound {
                return;
            }
            if self.sweep(SWEEP) {
                continue;
            }
            let Some((number, account)) = self.accounts.large() else {
                return;
            };
            let target = account.units().saturating_sub((account.units() / MEMORY_SHARE).max(MEMORY_UNITS));
            loop {
                let excess = account.units().saturating_sub(target);
                if excess == 0 || !self.release_oldest(number, account, account.lock(), excess) {
                    break;
                }
            }
        }
    }
}
