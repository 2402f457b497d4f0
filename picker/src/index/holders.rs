//! The endpoints that hold one block, and when each last used it.

use smallvec::SmallVec;

/// Bits of a stamp. At a thousand requests a second to one endpoint they last 8,900 years.
pub(super) const STAMP_BITS: u32 = 48;

/// Holders kept in place. Most blocks are the tails of chats, held by one endpoint and after a spill by two.
const INLINE: usize = 2;

/// An endpoint's slot number and the stamp of its last use, in one word that sorts by slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Holding(u64);

impl Holding {
    fn new(slot: u16, stamp: u64) -> Self {
        Self(u64::from(slot) << STAMP_BITS | stamp)
    }

    pub(super) fn slot(self) -> u16 {
        (self.0 >> STAMP_BITS) as u16
    }

    pub(super) fn stamp(self) -> u64 {
        self.0 & ((1 << STAMP_BITS) - 1)
    }
}

/// A small set of holdings, sorted by slot.
#[derive(Debug, Default)]
pub(super) struct Holders {
    list: SmallVec<[Holding; INLINE]>,
    signature: u32,
}

impl Holders {
    /// Notes a use. Returns the stamp of the use before. A stamp never goes back: of two requests that race down one
    /// chain the later wins on every block, or a child could outlive its parent.
    pub(super) fn claim(&mut self, slot: u16, stamp: u64) -> Option<u64> {
        match self.position(slot) {
            Ok(at) => {
                let previous = self.list[at].stamp();
                self.list[at] = Holding::new(slot, stamp.max(previous));
                Some(previous)
            }
            Err(at) => {
                self.list.insert(at, Holding::new(slot, stamp));
                self.signature ^= sign(slot);
                None
            }
        }
    }

    /// Removes the slot if it carries exactly this stamp.
    pub(super) fn release(&mut self, slot: u16, stamp: u64) -> bool {
        let Some(at) = self.position(slot).ok().filter(|at| self.list[*at].stamp() == stamp) else {
            return false;
        };
        self.list.remove(at);
        self.signature ^= sign(slot);
        if self.list.spilled() && self.list.len() <= self.list.capacity() / 4 {
            self.list.shrink_to_fit();
        }
        true
    }

    pub(super) fn stamp(&self, slot: u16) -> Option<u64> {
        self.position(slot).ok().map(|at| self.list[at].stamp())
    }

    pub(super) fn as_slice(&self) -> &[Holding] {
        &self.list
    }

    /// Equal sets of slots have equal signatures; unequal ones hardly ever.
    pub(super) fn signature(&self) -> u32 {
        self.signature
    }

    /// Memory outside the value itself.
    pub(super) fn heap_bytes(&self) -> usize {
        if self.list.spilled() { self.list.capacity() * size_of::<Holding>() } else { 0 }
    }

    fn position(&self, slot: u16) -> Result<usize, usize> {
        self.list.binary_search_by_key(&slot, |holding| holding.slot())
    }
}

/// The part of one slot in a signature. Multiplication by an odd constant keeps all slots apart and spreads their bits,
/// so that sets of neighbours do not cancel out.
pub(super) fn sign(slot: u16) -> u32 {
    let spread = (u32::from(slot) + 1).wrapping_mul(0x9e37_79b1);
    (spread ^ spread >> 15).wrapping_mul(0x85eb_ca77)
}
