//! Gathers short pieces of text before they are hashed.
//!
//! An escape or a space cuts text into pieces of a few bytes, and the hasher's cost is by the piece. Long pieces are
//! hashed where they lie. How text is gathered never shows in a hash.

use spillway_picker::prefix::PrefixHasher;

/// Text is gathered up to this many bytes: several blocks of the hasher, few lines of the first-level cache.
const ROOM: usize = 2048;

/// From here on a piece is worth a call of its own.
const LONG: usize = 512;

/// Pieces that have not been hashed yet. Empty between values.
#[derive(Debug)]
pub(super) struct Batch {
    bytes: Vec<u8>,
}

impl Batch {
    /// Returns an empty batch.
    pub(super) fn new() -> Self {
        Self { bytes: Vec::with_capacity(ROOM) }
    }

    /// Adds a piece of text.
    #[inline]
    pub(super) fn push(&mut self, piece: &[u8], hasher: &mut PrefixHasher) {
        if piece.len() >= LONG || self.bytes.len() + piece.len() > ROOM {
            self.make_room(piece, hasher);
        } else {
            self.bytes.extend_from_slice(piece);
        }
    }

    /// Hashes what was gathered.
    #[inline]
    pub(super) fn flush(&mut self, hasher: &mut PrefixHasher) {
        hasher.text(&self.bytes);
        self.bytes.clear();
    }

    #[cold]
    fn make_room(&mut self, piece: &[u8], hasher: &mut PrefixHasher) {
        self.flush(hasher);
        if piece.len() >= LONG {
            hasher.text(piece);
        } else {
            self.bytes.extend_from_slice(piece);
        }
    }
}
