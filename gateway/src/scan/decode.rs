//! Decodes strings, piece by piece as they lie in the chunks.
//!
//! Escapes may be cut anywhere by the borders of chunks. Text that JSON allows and UTF-8 does not (lone surrogates) and
//! escapes that JSON does not know decode to something, always the same: an engine's parser may be laxer than ours.

use super::reader::Reader;
use super::stop::plain_end;
use crate::lanes;

/// Bytes of a key that are kept. Longer keys are never among those asked for.
pub(crate) const NAME_ROOM: usize = 32;

/// What the character after a backslash stands for; zero where that is not one ASCII character.
static SIMPLE_ESCAPES: [u8; 256] = {
    let mut table = [0; 256];
    let pairs = [
        (b'"', b'"'),
        (b'\\', b'\\'),
        (b'/', b'/'),
        (b'n', b'\n'),
        (b't', b'\t'),
        (b'r', b'\r'),
        (b'b', 0x08),
        (b'f', 0x0C),
    ];
    let mut at = 0;
    while at < pairs.len() {
        table[pairs[at].0 as usize] = pairs[at].1;
        at += 1;
    }
    table
};

/// Bytes without an escape after which a search for the next one pays.
const LONG_RUN: usize = 128;

/// What was decoded of a string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Decoded {
    /// Bytes of text.
    pub(crate) len: usize,
    /// Whether the string's end is behind.
    pub(crate) is_end: bool,
}

impl<'a> Reader<'a> {
    /// Decodes the short string that starts here into `name` and returns it; empty if it does not fit, `None` (with the
    /// value stepped over) if no string starts here.
    pub(crate) fn name<'b>(&mut self, name: &'b mut Name) -> Option<&'b [u8]> {
        if self.peek() != Some(b'"') {
            self.skip_value();
            return None;
        }
        name.len = 0;
        self.string(|piece| name.push(piece));
        Some(name.get())
    }

    /// Decodes the string that starts here into `sink`, piece by piece. Does nothing if no string starts here.
    #[inline]
    pub(crate) fn string(&mut self, mut sink: impl FnMut(&[u8])) {
        if self.peek() != Some(b'"') {
            return;
        }
        self.take();
        while self.refill() {
            let Some(stop) = plain_end(self.piece) else {
                sink(self.piece);
                self.piece = &[];
                continue;
            };
            if stop > 0 {
                sink(&self.piece[..stop]);
            }
            let is_escape = self.piece[stop] == b'\\';
            self.piece = &self.piece[stop + 1..];
            if !is_escape {
                return;
            }
            match self.simple_escape() {
                Some(byte) => sink(&[byte]),
                None => sink(self.escape().bytes()),
            }
        }
    }

    /// Steps into the string that starts here; returns whether one does.
    pub(crate) fn enter_string(&mut self) -> bool {
        let enters = self.peek() == Some(b'"');
        if enters {
            self.take();
        }
        enters
    }

    /// Takes the text that follows inside of a string up to an escape, its end or the end of the chunk, if that is at
    /// least `least` bytes. Such text can be used where it lies.
    pub(crate) fn plain_run(&mut self, least: usize) -> Option<&'a [u8]> {
        if self.piece.len() < least {
            return None;
        }
        let stop = plain_end(self.piece).unwrap_or(self.piece.len());
        if stop < least {
            return None;
        }
        let (run, rest) = self.piece.split_at(stop);
        self.piece = rest;
        Some(run)
    }

    /// Decodes what follows inside of a string into `room`, many bytes at a time: with an escape in every line, a call
    /// for each run between two of them costs more than the bytes do.
    ///
    /// Stops at the string's end, which is then behind; when `room` has less than [`LEAST_ROOM`](Self::LEAST_ROOM) left;
    /// and in text that has gone on without an escape for so long that [`plain_run`](Self::plain_run) may be the better
    /// way.
    pub(crate) fn decode_into(&mut self, room: &mut [u8]) -> Decoded {
        let mut len = 0;
        while room.len() - len >= Self::LEAST_ROOM && self.refill() {
            let (copied, stops) = copy_plain(self.piece, &mut room[len..]);
            self.piece = &self.piece[copied..];
            len += copied;
            if copied >= LONG_RUN && !stops {
                return Decoded { len, is_end: false };
            }
            match self.piece {
                [b'"', rest @ ..] => {
                    self.piece = rest;
                    return Decoded { len, is_end: true };
                }
                [b'\\', letter, rest @ ..] if SIMPLE_ESCAPES[usize::from(*letter)] != 0 && len < room.len() => {
                    room[len] = SIMPLE_ESCAPES[usize::from(*letter)];
                    len += 1;
                    self.piece = rest;
                    continue;
                }
                _ => {}
            }
            if room.len() - len < Self::LEAST_ROOM || !(stops || self.piece.len() < lanes::WIDTH) {
                continue;
            }
            // An escape that is not one letter or is cut by the chunk's end, or one of the last bytes of a chunk.
            match self.take() {
                Some(b'"') => return Decoded { len, is_end: true },
                Some(b'\\') => {
                    let char = self.escape();
                    room[len..len + char.bytes().len()].copy_from_slice(char.bytes());
                    len += char.bytes().len();
                }
                Some(byte) => {
                    room[len] = byte;
                    len += 1;
                }
                None => {}
            }
        }
        Decoded { len, is_end: self.left() == 0 }
    }

    /// Room that [`decode_into`](Self::decode_into) needs to make progress: so many are written at once.
    pub(crate) const LEAST_ROOM: usize = lanes::WIDTH;

    /// Decodes the string that starts here if it has at most `max_bytes`; `None` if it is longer or no string.
    /// Lone surrogates become U+FFFD.
    pub(crate) fn owned_string(&mut self, max_bytes: usize) -> Option<String> {
        if self.peek() != Some(b'"') {
            return None;
        }
        let mut bytes = Vec::new();
        let mut fits = true;
        self.string(|piece| {
            fits &= bytes.len() + piece.len() <= max_bytes;
            if fits {
                bytes.extend_from_slice(piece);
            }
        });
        fits.then(|| {
            String::from_utf8(bytes).unwrap_or_else(|bad| String::from_utf8_lossy(bad.as_bytes()).into_owned())
        })
    }

    /// Decodes the escape whose backslash is behind if it stands for one ASCII character; else takes nothing.
    #[inline]
    fn simple_escape(&mut self) -> Option<u8> {
        let byte = SIMPLE_ESCAPES[usize::from(*self.piece.first()?)];
        if byte == 0 {
            return None;
        }
        self.piece = &self.piece[1..];
        Some(byte)
    }

    /// Decodes the escape whose backslash is behind. One that JSON does not know stays as it is written.
    pub(super) fn escape(&mut self) -> Utf8 {
        self.refill();
        if let Some(byte) = self.simple_escape() {
            return Utf8::of(&[byte]);
        }
        match self.take() {
            Some(b'u') => self.code_unit().map_or(Utf8::of(b"\\u"), |unit| self.code_point(unit)),
            Some(byte) => Utf8::of(&[b'\\', byte]),
            None => Utf8::of(b"\\"),
        }
    }

    /// Takes four hex digits, or nothing if there are not four.
    fn code_unit(&mut self) -> Option<u16> {
        let mut ahead = *self;
        let mut unit = 0;
        for _ in 0..4 {
            let digit = char::from(ahead.take()?).to_digit(16)?;
            unit = unit << 4 | digit;
        }
        *self = ahead;
        u16::try_from(unit).ok()
    }

    /// Joins a high surrogate with the low one that follows it, if one does.
    fn code_point(&mut self, unit: u16) -> Utf8 {
        let mut ahead = *self;
        if (0xD800..0xDC00).contains(&unit)
            && ahead.take() == Some(b'\\')
            && ahead.take() == Some(b'u')
            && let Some(low @ 0xDC00..0xE000) = ahead.code_unit()
        {
            *self = ahead;
            return Utf8::of_code(0x1_0000 + ((u32::from(unit) - 0xD800) << 10) + (u32::from(low) - 0xDC00));
        }
        Utf8::of_code(u32::from(unit))
    }
}

/// Copies plain text up to the first `"` or `\`, or until [`LONG_RUN`] bytes are copied, or until less than
/// [`lanes::WIDTH`] bytes are left on either side. Returns how many bytes that were, and whether such a stop follows. More
/// of `to` may be overwritten.
#[inline]
fn copy_plain(from: &[u8], to: &mut [u8]) -> (usize, bool) {
    let blocks = from.as_chunks().0.iter().zip(to.as_chunks_mut().0);
    let mut copied = 0;
    for (from, to) in blocks.take(LONG_RUN / lanes::WIDTH) {
        *to = *from;
        if let Some(plain) = lanes::quote_or_backslash(*from) {
            return (copied + plain, true);
        }
        copied += lanes::WIDTH;
    }
    (copied, false)
}

/// Decodes a key that was cut out raw, into `room`; `None` if it has more bytes than fit.
pub(super) fn unescape_name<'r>(raw: &[u8], room: &'r mut [u8]) -> Option<&'r [u8]> {
    let mut reader = Reader::of(raw);
    let mut len = 0;
    while reader.left() > 0 {
        let stop = plain_end(reader.piece).unwrap_or(reader.piece.len());
        let (run, rest) = reader.piece.split_at(stop);
        room.get_mut(len..len + run.len())?.copy_from_slice(run);
        len += run.len();
        reader.piece = rest;
        if reader.take().is_some() {
            let char = reader.escape();
            room.get_mut(len..len + char.bytes().len())?.copy_from_slice(char.bytes());
            len += char.bytes().len();
        }
    }
    Some(&room[..len])
}

/// Room for one decoded key.
#[derive(Debug)]
pub(crate) struct Name {
    bytes: [u8; NAME_ROOM],
    len: usize,
}

impl Name {
    /// Returns an empty room.
    pub(crate) const fn new() -> Self {
        Self { bytes: [0; NAME_ROOM], len: 0 }
    }

    /// Returns the key; empty if it did not fit.
    fn get(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or(b"")
    }

    fn push(&mut self, piece: &[u8]) {
        if let Some(room) = self.bytes.get_mut(self.len..self.len + piece.len()) {
            room.copy_from_slice(piece);
        }
        self.len += piece.len();
    }
}

/// What one escape stands for: a code point in UTF-8, or the escape itself.
pub(super) struct Utf8 {
    bytes: [u8; 4],
    len: usize,
}

impl Utf8 {
    fn of(text: &[u8]) -> Self {
        let mut bytes = [0; 4];
        bytes[..text.len()].copy_from_slice(text);
        Self { bytes, len: text.len() }
    }

    /// A lone surrogate is encoded as if it were a character: three bytes that no valid UTF-8 has, one form for each.
    fn of_code(code: u32) -> Self {
        let mut bytes = [0; 4];
        if let Some(char) = char::from_u32(code) {
            let len = char.encode_utf8(&mut bytes).len();
            return Self { bytes, len };
        }
        bytes = [0xE0 | (code >> 12) as u8, 0x80 | (code >> 6 & 0x3F) as u8, 0x80 | (code & 0x3F) as u8, 0];
        Self { bytes, len: 3 }
    }

    /// Returns the text.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}
