//! Pass two's view of a body: walks one JSON value that lies across any number of chunks, pulling what it needs.
//!
//! It never fails. A scan has made sure that strings end and brackets pair; what is broken inside that (a missing
//! comma, a key that is a number) is stepped over, because the server will refuse it anyway and a hash of it hurts
//! nobody. A reader is a few words and `Copy`: a field that must wait for another is kept as a copy of the reader.

use bytes::Bytes;

use super::Value;
use super::decode::Name;
use super::stop::{is_space, string_end, structure};

/// A place in a body, and how far reading may go from there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'a> {
    /// What is left of the chunk being read.
    pub(super) piece: &'a [u8],
    /// The chunks after it.
    later: &'a [Bytes],
    /// Bytes that may be read of those.
    later_bytes: usize,
}

impl<'a> Reader<'a> {
    /// Returns a reader of bytes that are in one piece.
    pub(super) const fn of(piece: &'a [u8]) -> Self {
        Self { piece, later: &[], later_bytes: 0 }
    }

    /// Returns a reader of one value of the body.
    pub(crate) fn new(chunks: &'a [Bytes], value: Value) -> Self {
        let mut start = value.start;
        for (index, chunk) in chunks.iter().enumerate() {
            if start < chunk.len() {
                let piece = &chunk[start..chunk.len().min(start + value.len())];
                return Self { piece, later: &chunks[index + 1..], later_bytes: value.len() - piece.len() };
            }
            start -= chunk.len();
        }
        Self::of(&[])
    }

    /// Returns how many bytes are left.
    pub(crate) fn left(&self) -> usize {
        self.piece.len() + self.later_bytes
    }

    /// Makes `piece` non-empty, if anything is left.
    pub(super) fn refill(&mut self) -> bool {
        while self.piece.is_empty() {
            let Some((next, later)) = self.later.split_first() else { return false };
            if self.later_bytes == 0 {
                return false;
            }
            self.piece = &next[..next.len().min(self.later_bytes)];
            self.later = later;
            self.later_bytes -= self.piece.len();
        }
        true
    }

    /// Returns the next byte without taking it.
    #[inline]
    pub(crate) fn peek(&mut self) -> Option<u8> {
        if self.piece.is_empty() && !self.refill() {
            return None;
        }
        self.piece.first().copied()
    }

    #[inline]
    pub(super) fn take(&mut self) -> Option<u8> {
        let byte = self.peek()?;
        self.piece = &self.piece[1..];
        Some(byte)
    }

    /// Steps over white space, commas and colons.
    #[inline]
    pub(super) fn skip_between(&mut self) -> Option<u8> {
        loop {
            let byte = self.peek()?;
            if !(is_space(byte) || byte == b',' || byte == b':') {
                return Some(byte);
            }
            self.piece = &self.piece[1..];
        }
    }

    /// Enters the object or array that starts here; returns whether there was one.
    pub(crate) fn enter(&mut self) -> bool {
        let enters = matches!(self.peek(), Some(b'{' | b'['));
        if enters {
            self.take();
        }
        enters
    }

    /// Moves to the next item of an array that was entered; false at its end, which is then behind.
    pub(crate) fn next_item(&mut self) -> bool {
        match self.skip_between() {
            Some(b']' | b'}') => {
                self.take();
                false
            }
            next => next.is_some(),
        }
    }

    /// Moves to the value of the next member of an object that was entered, and returns the member's decoded key.
    /// `None` at the object's end, which is then behind.
    pub(crate) fn next_key<'b>(&mut self, name: &'b mut Name) -> Option<&'b [u8]> {
        loop {
            match self.skip_between()? {
                b'}' | b']' => {
                    self.take();
                    return None;
                }
                b'"' => break,
                _ => self.skip_value(),
            }
        }
        let key = self.name(name)?;
        match self.skip_between()? {
            b'}' | b']' => {
                self.take();
                None
            }
            _ => Some(key),
        }
    }

    /// Returns whether what is left begins with these bytes, as they are written.
    pub(crate) fn starts_with(mut self, prefix: &[u8]) -> bool {
        prefix.iter().all(|&byte| self.take() == Some(byte))
    }

    /// Returns the number or word that starts here if it has at most `N` bytes, and takes it.
    pub(crate) fn token<const N: usize>(&mut self) -> Option<Token<N>> {
        let mut token = Token { bytes: [0; N], len: 0 };
        let mut fits = true;
        while let Some(byte) = self.peek().filter(|&byte| !ends_token(byte)) {
            self.take();
            match token.bytes.get_mut(token.len) {
                Some(room) => *room = byte,
                None => fits = false,
            }
            token.len += 1;
        }
        (fits && token.len > 0).then_some(token)
    }

    /// Returns the number that starts here if it is a natural one of at most 19 digits, and takes it. Takes nothing
    /// else.
    pub(crate) fn natural(&mut self) -> Option<u64> {
        let mut ahead = *self;
        let mut number = 0;
        let mut digits = 0;
        while let Some(byte @ b'0'..=b'9') = ahead.peek() {
            ahead.take();
            number = u64::wrapping_add(u64::wrapping_mul(number, 10), u64::from(byte - b'0'));
            digits += 1;
        }
        let is_whole = matches!(digits, 1..=19) && ahead.peek().is_none_or(ends_token);
        is_whole.then(|| {
            *self = ahead;
            number
        })
    }

    /// Steps over one value.
    pub(crate) fn skip_value(&mut self) {
        match self.peek() {
            Some(b'"') => {
                self.take();
                self.skip_text();
            }
            Some(b'{' | b'[') => self.skip_nested(),
            Some(byte) if ends_token(byte) => {
                self.take();
            }
            _ => while self.peek().is_some_and(|byte| !ends_token(byte)) && self.take().is_some() {},
        }
    }

    /// Steps over the rest of a string whose quote is behind.
    fn skip_text(&mut self) {
        while self.refill() {
            match string_end(self.piece) {
                Ok(quote) => {
                    self.piece = &self.piece[quote + 1..];
                    return;
                }
                Err(is_escaped) => {
                    self.piece = &[];
                    if is_escaped {
                        self.take();
                    }
                }
            }
        }
    }

    fn skip_nested(&mut self) {
        let mut depth = 0usize;
        while self.refill() {
            let Some(stop) = structure(self.piece) else {
                self.piece = &[];
                continue;
            };
            let byte = self.piece[stop];
            self.piece = &self.piece[stop + 1..];
            match byte {
                b'"' => self.skip_text(),
                b'{' | b'[' => depth += 1,
                _ => depth = depth.saturating_sub(1),
            }
            if depth == 0 {
                return;
            }
        }
    }
}

/// Returns whether a byte outside of strings cannot be part of a number or word.
#[inline]
pub(super) fn ends_token(byte: u8) -> bool {
    is_space(byte) || matches!(byte, b',' | b':' | b'"' | b'{' | b'}' | b'[' | b']')
}

/// A number or word of at most `N` bytes.
#[derive(Debug)]
pub(crate) struct Token<const N: usize> {
    bytes: [u8; N],
    len: usize,
}

impl<const N: usize> Token<N> {
    /// Returns the token as text, empty if it is not ASCII.
    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.bytes[..self.len]).unwrap_or("")
    }
}
