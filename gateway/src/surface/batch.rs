//! Gathers short pieces of text before they are hashed.
//!
//! An escape or a space cuts text into pieces of a few bytes, and the hasher's cost is by the piece. Long pieces are
//! hashed where they lie. How text is gathered never shows in a hash.

use spillway_picker::prefix::PrefixHasher;

use crate::scan::reader::Reader;

/// Text is gathered up to this many bytes: several blocks of the hasher, few lines of the first-level cache.
const ROOM: usize = 2048;

/// From here on a piece is worth a call of its own.
const LONG: usize = 512;

/// Text that has not been hashed yet. Empty between values.
#[derive(Debug)]
pub(super) struct Batch {
    bytes: Vec<u8>,
    len: usize,
}

impl Batch {
    /// Returns an empty batch.
    pub(super) fn new() -> Self {
        Self { bytes: vec![0; ROOM], len: 0 }
    }

    /// Adds a piece of text.
    #[inline]
    pub(super) fn push(&mut self, piece: &[u8], hasher: &mut PrefixHasher) {
        if piece.len() >= LONG || self.len + piece.len() > ROOM {
            self.make_room(piece, hasher);
        } else {
            self.add(piece);
        }
    }

    /// Adds the text of the string that starts at `reader`, if one does, and steps over it.
    pub(super) fn string(&mut self, reader: &mut Reader<'_>, hasher: &mut PrefixHasher) {
        if !reader.enter_string() {
            return;
        }
        loop {
            if let Some(run) = reader.plain_run(LONG) {
                self.flush(hasher);
                hasher.text(run);
            }
            let decoded = reader.decode_into(&mut self.bytes[self.len..]);
            self.len += decoded.len;
            if decoded.is_end {
                return;
            }
            if ROOM - self.len < Reader::LEAST_ROOM {
                self.flush(hasher);
            }
        }
    }

    /// Hashes what was gathered.
    #[inline]
    pub(super) fn flush(&mut self, hasher: &mut PrefixHasher) {
        hasher.text(&self.bytes[..self.len]);
        self.len = 0;
    }

    fn add(&mut self, piece: &[u8]) {
        self.bytes[self.len..self.len + piece.len()].copy_from_slice(piece);
        self.len += piece.len();
    }

    #[cold]
    fn make_room(&mut self, piece: &[u8], hasher: &mut PrefixHasher) {
        self.flush(hasher);
        if piece.len() >= LONG {
            hasher.text(piece);
        } else {
            self.add(piece);
        }
    }
}
