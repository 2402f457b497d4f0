//! Feeds JSON in a form that is equal for all spellings of the same text.
//!
//! Only white space and escapes are made equal. The order of keys and the spelling of numbers stay, because an engine
//! renders tool definitions as they are written.

use super::decode::Name;
use super::reader::{Reader, ends_token};
use super::stop::{is_space, plain_end};

impl Reader<'_> {
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
            let Some(stop) = plain_end(self.piece) else {
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
}
