//! Pass two's view of a body: walks one JSON value that lies across any number of chunks, pulling what it needs.
//!
//! It never fails. A scan has made sure that strings end and brackets pair; what is broken inside that (a missing
//! comma, a key that is a number) is stepped over, because the server will refuse it anyway and a hash of it hurts
//! nobody. A reader is a few words and `Copy`: a field that must wait for another is kept as a copy of the reader.

use bytes::Bytes;

use super::Value;
use super::stop::{is_space, string_stop, structure_stop};

/// Bytes of a key that are kept. Longer keys are never among those asked for.
pub(crate) const NAME_ROOM: usize = 32;

/// A place in a body, and how far reading may go from there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'a> {
    /// What is left of the chunk being read.
    piece: &'a [u8],
    /// The chunks after it.
    later: &'a [Bytes],
    /// Bytes that may be read of those.
    later_bytes: usize,
}

impl<'a> Reader<'a> {
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
        Self { piece: &[], later: &[], later_bytes: 0 }
    }

    /// Returns how many bytes are left.
    pub(crate) fn left(&self) -> usize {
        self.piece.len() + self.later_bytes
    }

    /// Makes `piece` non-empty, if anything is left.
    fn refill(&mut self) -> bool {
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
    fn take(&mut self) -> Option<u8> {
        let byte = self.peek()?;
        self.piece = &self.piece[1..];
        Some(byte)
    }

    /// Steps over white space, commas and colons.
    #[inline]
    fn skip_between(&mut self) -> Option<u8> {
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
        name.len = 0;
        self.string(|piece| name.push(piece));
        match self.skip_between()? {
            b'}' | b']' => {
                self.take();
                None
            }
            _ => Some(name.get()),
        }
    }

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

    /// Returns whether what is left begins with these bytes, as they are written.
    pub(crate) fn starts_with(mut self, prefix: &[u8]) -> bool {
        prefix.iter().all(|&byte| self.take() == Some(byte))
    }

    /// Decodes the string that starts here into `sink`, piece by piece. Does nothing if no string starts here.
    #[inline]
    pub(crate) fn string(&mut self, mut sink: impl FnMut(&[u8])) {
        if self.peek() != Some(b'"') {
            return;
        }
        self.take();
        while self.refill() {
            let Some(stop) = string_stop(self.piece) else {
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
            sink(self.escape().bytes());
        }
    }

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
            let Some(stop) = string_stop(self.piece) else {
                self.piece = &[];
                continue;
            };
            let is_escape = self.piece[stop] == b'\\';
            self.piece = &self.piece[stop + 1..];
            if !is_escape {
                return;
            }
            self.take();
        }
    }

    fn skip_nested(&mut self) {
        let mut depth = 0usize;
        while self.refill() {
            let Some(stop) = structure_stop(self.piece) else {
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

    /// Feeds one value in canonical form: no white space outside of strings, and no escapes inside but `\"` and `\\`.
    /// Order and spelling of everything else stay. Equal forms mean equal JSON text up to white space and escapes.
    pub(crate) fn canonical(&mut self, mut sink: impl FnMut(&[u8])) {
        let mut depth = 0usize;
        while self.refill() {
            let piece = self.piece;
            // What needs no change is fed in runs as long as possible: `from` is where the pending one begins.
            let mut from = 0;
            let mut at = 0;
            while at < piece.len() {
                let byte = piece[at];
                if byte == b'"' {
                    sink(&piece[from..=at]);
                    self.piece = &piece[at + 1..];
                    self.canonical_text(&mut sink);
                    if depth == 0 {
                        return;
                    }
                    break;
                }
                if depth == 0 && ends_token(byte) && !matches!(byte, b'{' | b'[') {
                    sink(&piece[from..at]);
                    self.piece = &piece[at..];
                    return;
                }
                at += 1;
                match byte {
                    b'{' | b'[' => depth += 1,
                    b'}' | b']' => {
                        depth -= 1;
                        if depth == 0 {
                            sink(&piece[from..at]);
                            self.piece = &piece[at..];
                            return;
                        }
                    }
                    _ if is_space(byte) => {
                        sink(&piece[from..at - 1]);
                        from = at;
                    }
                    _ => {}
                }
                if at == piece.len() {
                    sink(&piece[from..]);
                    self.piece = &[];
                }
            }
        }
    }

    /// Like [`canonical`](Self::canonical), without the members of the object that have this key. Members of members
    /// stay.
    pub(crate) fn canonical_without(&mut self, dropped: &[u8], mut sink: impl FnMut(&[u8])) {
        if self.peek() != Some(b'{') {
            return self.canonical(sink);
        }
        self.take();
        sink(b"{");
        let mut name = Name::new();
        loop {
            self.skip_between();
            let mut key = *self;
            match self.next_key(&mut name) {
                None => break,
                Some(key) if key == dropped => {
                    self.skip_value();
                    continue;
                }
                Some(_) => {}
            }
            key.canonical(&mut sink);
            sink(b":");
            self.canonical(&mut sink);
            sink(b",");
        }
        sink(b"}");
    }

    /// Feeds the rest of a string whose quote is behind and fed, in canonical form and with its closing quote.
    fn canonical_text(&mut self, sink: &mut impl FnMut(&[u8])) {
        while self.refill() {
            let Some(stop) = string_stop(self.piece) else {
                sink(self.piece);
                self.piece = &[];
                continue;
            };
            let is_escape = self.piece[stop] == b'\\';
            let run = &self.piece[..stop + usize::from(!is_escape)];
            if !run.is_empty() {
                sink(run);
            }
            self.piece = &self.piece[stop + 1..];
            if !is_escape {
                return;
            }
            let char = self.escape();
            if matches!(char.bytes(), b"\"" | b"\\") {
                sink(b"\\");
            }
            sink(char.bytes());
        }
    }

    /// Decodes the escape whose backslash is behind. One that JSON does not know stays as it is written.
    fn escape(&mut self) -> Utf8 {
        let Some(byte) = self.take() else { return Utf8::of(b"\\") };
        match byte {
            b'"' | b'\\' | b'/' => Utf8::of(&[byte]),
            b'n' => Utf8::of(b"\n"),
            b't' => Utf8::of(b"\t"),
            b'r' => Utf8::of(b"\r"),
            b'b' => Utf8::of(b"\x08"),
            b'f' => Utf8::of(b"\x0c"),
            b'u' => self.code_unit().map_or(Utf8::of(b"\\u"), |unit| self.code_point(unit)),
            _ => Utf8::of(&[b'\\', byte]),
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

/// Returns whether a byte outside of strings cannot be part of a number or word.
#[inline]
fn ends_token(byte: u8) -> bool {
    is_space(byte) || matches!(byte, b',' | b':' | b'"' | b'{' | b'}' | b'[' | b']')
}

/// Decodes a key that was cut out raw, into `room`; `None` if it has more bytes than fit.
pub(super) fn unescape_name<'r>(raw: &[u8], room: &'r mut [u8]) -> Option<&'r [u8]> {
    let mut reader = Reader { piece: raw, later: &[], later_bytes: 0 };
    let mut len = 0;
    while reader.left() > 0 {
        let stop = string_stop(reader.piece).unwrap_or(reader.piece.len());
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

/// What one escape stands for: a code point in UTF-8, or the escape itself.
struct Utf8 {
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

    fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}
