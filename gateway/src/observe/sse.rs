//! Cuts an event stream into fields and events, wherever the network cut it into pieces.
//!
//! Lines end with LF, CR or CRLF, mixed at will; the space after the colon is optional; a byte order mark may come
//! first. A CR at the end of a piece ends its line at once: the LF that may follow belongs to it.

use memchr::memchr2;

use super::short::Short;

const BYTE_ORDER_MARK: &[u8] = &[0xEF, 0xBB, 0xBF];

/// The longest field name of interest is `event`; one byte more tells it from a longer name.
const FIELD_NAME_BYTES: usize = 6;

/// A step in an event. Data and names come in as many pieces as the network made of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Piece<'a> {
    /// A `data:` line begins. From the second one of an event on, a newline stands before it.
    DataBegins,
    Data(&'a [u8]),
    /// An `event:` line begins. It replaces any earlier one of the same event.
    NameBegins,
    Name(&'a [u8]),
    /// A blank line. The event may be empty.
    EventEnds,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    Data,
    Name,
    /// Comments, `id`, `retry`, and what the specification does not know.
    Other,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    /// At the start of a line, or in its name.
    FieldName,
    /// Directly after the colon, where one space counts nothing.
    Colon(Field),
    Value(Field),
}

/// Where in the stream's syntax we are.
#[derive(Clone, Debug)]
pub(super) struct Framing {
    at: At,
    name: Short<FIELD_NAME_BYTES>,
    /// The last byte was a CR.
    after_cr: bool,
    /// Bytes of the byte order mark seen so far; all of them once that question is settled.
    mark: u8,
    /// A field has begun since the last blank line.
    in_event: bool,
}

impl Default for Framing {
    fn default() -> Self {
        Self { at: At::FieldName, name: Short::new(), after_cr: false, mark: 0, in_event: false }
    }
}

impl Framing {
    /// Reads on, calling `on` for each step.
    pub(super) fn feed(&mut self, chunk: &[u8], mut on: impl FnMut(Piece<'_>)) {
        let mut rest = self.after_mark(chunk);
        while let Some((&byte, after)) = rest.split_first() {
            if std::mem::take(&mut self.after_cr) && byte == b'\n' {
                rest = after;
                continue;
            }
            match self.at {
                At::FieldName => {
                    match byte {
                        b'\r' | b'\n' => self.line_ends(byte, &mut on),
                        b':' => self.at = At::Colon(self.field_begins(&mut on)),
                        _ => self.name.push(&[byte]),
                    }
                    rest = after;
                }
                At::Colon(field) => {
                    self.at = At::Value(field);
                    if byte == b' ' {
                        rest = after;
                    }
                }
                At::Value(field) => {
                    let end = memchr2(b'\r', b'\n', rest).unwrap_or(rest.len());
                    let (value, at_end) = rest.split_at(end);
                    match field {
                        Field::Data => on(Piece::Data(value)),
                        Field::Name => on(Piece::Name(value)),
                        Field::Other => {}
                    }
                    rest = at_end;
                    if let Some((&byte, after)) = rest.split_first() {
                        self.line_ends(byte, &mut on);
                        rest = after;
                    }
                }
            }
        }
    }

    /// Returns whether an event may follow directly. Never after a CR: the LF that makes it a CRLF may be missing.
    pub(super) fn at_boundary(&self) -> bool {
        let at_line_start = self.at == At::FieldName && self.name.is_empty() && !self.after_cr;
        let in_mark = (1..BYTE_ORDER_MARK.len()).contains(&usize::from(self.mark));
        at_line_start && !self.in_event && !in_mark
    }

    fn after_mark<'a>(&mut self, chunk: &'a [u8]) -> &'a [u8] {
        let mut rest = chunk;
        while let Some(&expected) = BYTE_ORDER_MARK.get(usize::from(self.mark)) {
            let Some((&byte, after)) = rest.split_first() else { break };
            if byte == expected {
                self.mark += 1;
                rest = after;
            } else {
                // Half a mark is the start of a field name nobody knows.
                self.name.push(&BYTE_ORDER_MARK[..usize::from(self.mark)]);
                self.mark = BYTE_ORDER_MARK.len() as u8;
            }
        }
        rest
    }

    fn field_begins(&mut self, on: &mut impl FnMut(Piece<'_>)) -> Field {
        // A line that starts with the colon is a comment, and no part of any event.
        self.in_event |= !self.name.is_empty();
        match self.name.as_bytes() {
            b"data" => {
                on(Piece::DataBegins);
                Field::Data
            }
            b"event" => {
                on(Piece::NameBegins);
                Field::Name
            }
            _ => Field::Other,
        }
    }

    fn line_ends(&mut self, byte: u8, on: &mut impl FnMut(Piece<'_>)) {
        if self.at == At::FieldName {
            if self.name.is_empty() {
                self.in_event = false;
                on(Piece::EventEnds);
            } else {
                // A field without a colon has an empty value.
                self.field_begins(on);
            }
        }
        self.at = At::FieldName;
        self.name.clear();
        self.after_cr = byte == b'\r';
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Events as (name, data) after the rules of the specification.
    fn events(pieces: &[&[u8]]) -> Vec<(String, String)> {
        let mut framing = Framing::default();
        let (mut all, mut name, mut data, mut lines) = (Vec::new(), Vec::new(), Vec::new(), 0);
        for piece in pieces {
            framing.feed(piece, |piece| match piece {
                Piece::DataBegins => {
                    if lines > 0 {
                        data.push(b'\n');
                    }
                    lines += 1;
                }
                Piece::Data(bytes) => data.extend_from_slice(bytes),
                Piece::NameBegins => name.clear(),
                Piece::Name(bytes) => name.extend_from_slice(bytes),
                Piece::EventEnds => {
                    let (name, data) = (std::mem::take(&mut name), std::mem::take(&mut data));
                    if std::mem::take(&mut lines) > 0 {
                        let text = |bytes| String::from_utf8(bytes).unwrap();
                        all.push((text(name), text(data)));
                    }
                }
            });
        }
        all
    }

    #[test]
    fn every_line_end_and_field_form_is_read_at_every_cut() {
        let expected = vec![
            (String::new(), "a".to_owned()),
            ("e".to_owned(), "b\nc".to_owned()),
            (String::new(), " d:d".to_owned()),
            (String::new(), String::new()),
        ];
        for end in ["\n", "\r", "\r\n"] {
            let text = "\u{feff}: comment|data: a||event: x|event:e|id: 7|data:b|data: c|retry: 1||event: only||:||data:  d:d|unknown: z||data||data: cut"
                .replace('|', end);
            let bytes = text.as_bytes();
            assert_eq!(events(&[bytes]), expected, "line end {end:?}");
            for cut in 0..=bytes.len() {
                let (left, right) = bytes.split_at(cut);
                assert_eq!(events(&[left, right]), expected, "line end {end:?} cut at {cut}");
            }
        }
    }

    #[test]
    fn a_boundary_is_where_the_next_event_can_start() {
        for (text, expected) in [
            ("", true),
            ("data: a\n\n", true),
            ("data: a\r\n\r\n", true),
            ("data: a\n\n: keep-alive\n", true),
            ("data: a\n", false),
            ("data: a", false),
            ("data: a\r\n\r", false),
            (": keep", false),
            ("da", false),
            ("event: x\n", false),
        ] {
            let mut framing = Framing::default();
            framing.feed(text.as_bytes(), |_| {});
            assert_eq!(framing.at_boundary(), expected, "{text:?}");
        }
    }
}
