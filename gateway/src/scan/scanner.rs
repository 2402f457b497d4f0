//! Pass one: a byte machine over the top level of the object, fed chunk by chunk.
//!
//! Its state is a few hundred bytes whatever the size of the body. A nested value is skipped by tracking strings and
//! brackets only, so that a prompt costs about what finding its closing quote costs.

use super::decode::unescape_name;
use super::stop::{is_space, is_token, plain_end, string_end, structure};
use super::{Key, Kind, MAX_DEPTH, Scan, ScanError, Value};

/// The byte order mark that some clients put first. Python's `json.loads` skips it, and so do we.
const BOM: [u8; 3] = [0xEF, 0xBB, 0xBF];

/// Room for the longest wanted key with every character written as `\uXXXX`. A longer key is none of ours.
const KEY_ROOM: usize = Key::MAX_NAME_BYTES * 6;

/// Length of `-Infinity`, the longest word that is a value.
const WORD_ROOM: usize = 9;

/// What the next byte is expected to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Before the object; so many bytes of a byte order mark are seen.
    Start(u8),
    /// After `{`: a key or `}`.
    FirstKey,
    /// After `,`: a key.
    NextKey,
    /// Inside a key.
    InKey,
    /// Inside a key, after a backslash.
    InKeyEscape,
    /// After a key: `:`.
    Colon,
    /// After `:`: a value.
    Value,
    /// Inside a number or word.
    Token,
    /// Inside a nested container, outside its strings.
    Nested,
    /// Inside a string value, nested or not.
    Text,
    /// The same, after a backslash.
    TextEscape,
    /// After a value: `,` or `}`.
    AfterValue,
    /// After the object: white space only.
    End,
}

/// Finds the wanted fields while a body arrives. See [`Scan`] for what comes of it.
#[derive(Clone, Debug)]
pub struct Scanner {
    state: State,
    routing_only: bool,
    /// Bytes of the chunks fed before.
    seen: usize,
    key: Fixed<KEY_ROOM>,
    wanted: Option<Key>,
    value_kind: Kind,
    value_start: usize,
    word: Fixed<WORD_ROOM>,
    word_is_number: bool,
    nesting: Nesting,
    values: [Option<Value>; Key::COUNT],
    failed: Option<ScanError>,
}

impl Default for Scanner {
    fn default() -> Self {
        Self::new()
    }
}

impl Scanner {
    /// Returns a scanner that has seen nothing.
    pub fn new() -> Self {
        Self {
            state: State::Start(0),
            routing_only: false,
            seen: 0,
            key: Fixed::new(),
            wanted: None,
            value_kind: Kind::Null,
            value_start: 0,
            word: Fixed::new(),
            word_is_number: false,
            nesting: Nesting::default(),
            values: [None; Key::COUNT],
            failed: None,
        }
    }

    /// Returns a scanner that does not even locate prompts, for when no pool has affinity on.
    pub fn routing_only() -> Self {
        Self { routing_only: true, ..Self::new() }
    }

    /// Takes the next bytes of the body. An error is final: the body can be refused without reading the rest.
    pub fn feed(&mut self, chunk: &[u8]) -> Result<(), ScanError> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        let result = self.run(chunk);
        self.seen += chunk.len();
        self.failed = result.err();
        result
    }

    /// Says that the body is whole and returns what was found.
    pub fn finish(self) -> Result<Scan, ScanError> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        match self.state {
            State::End => Ok(Scan { values: self.values, body_bytes: self.seen }),
            State::Start(0 | 3) => Err(ScanError::Empty),
            State::Start(_) => Err(ScanError::NotAnObject { at: 0 }),
            _ => Err(ScanError::Cut { at: self.seen }),
        }
    }

    fn run(&mut self, chunk: &[u8]) -> Result<(), ScanError> {
        let mut at = 0;
        while at < chunk.len() {
            match self.state {
                State::Text => at = self.text(chunk, at),
                State::Nested => at = self.nested(chunk, at)?,
                State::Token => at = self.token(chunk, at)?,
                State::InKey => at = self.in_key(chunk, at),
                State::TextEscape => {
                    self.state = State::Text;
                    at += 1;
                }
                State::InKeyEscape => {
                    self.key.push(&chunk[at..=at]);
                    self.state = State::InKey;
                    at += 1;
                }
                _ => {
                    let byte = chunk[at];
                    if !is_space(byte) || matches!(self.state, State::Start(1 | 2)) {
                        self.punctuation(byte, self.seen + at)?;
                        if self.state == State::Token {
                            continue; // The token's first byte is its content.
                        }
                    }
                    at += 1;
                }
            }
        }
        Ok(())
    }

    /// Takes one byte that is not white space where a bracket, quote, comma, colon or value must be.
    fn punctuation(&mut self, byte: u8, at: usize) -> Result<(), ScanError> {
        self.state = match (self.state, byte) {
            (State::Start(0 | 3), b'{') => State::FirstKey,
            (State::Start(seen @ 0..3), byte) if at == usize::from(seen) && byte == BOM[at] => State::Start(seen + 1),
            (State::Start(_), _) => return Err(ScanError::NotAnObject { at }),
            (State::FirstKey | State::NextKey, b'"') => {
                self.key.clear();
                State::InKey
            }
            (State::FirstKey | State::AfterValue, b'}') => State::End,
            (State::FirstKey, _) => return Err(ScanError::Syntax { at, expected: "a key or `}`" }),
            (State::NextKey, _) => return Err(ScanError::Syntax { at, expected: "a key" }),
            (State::Colon, b':') => State::Value,
            (State::Colon, _) => return Err(ScanError::Syntax { at, expected: "`:`" }),
            (State::Value, byte) => self.value(byte, at)?,
            (State::AfterValue, b',') => State::NextKey,
            (State::AfterValue, _) => return Err(ScanError::Syntax { at, expected: "`,` or `}`" }),
            (State::End, _) => return Err(ScanError::Trailing { at }),
            (state, _) => state,
        };
        Ok(())
    }

    fn value(&mut self, byte: u8, at: usize) -> Result<State, ScanError> {
        self.value_start = at;
        Ok(match byte {
            b'"' => {
                self.value_kind = Kind::String;
                State::Text
            }
            b'{' | b'[' => {
                self.value_kind = if byte == b'{' { Kind::Object } else { Kind::Array };
                self.nesting.open(byte, at)?;
                State::Nested
            }
            _ if is_token(byte) => {
                self.word.clear();
                self.word_is_number = byte == b'-' || byte.is_ascii_digit();
                State::Token
            }
            _ => return Err(ScanError::Syntax { at, expected: "a value" }),
        })
    }

    fn in_key(&mut self, chunk: &[u8], at: usize) -> usize {
        let rest = &chunk[at..];
        let Some(stop) = plain_end(rest) else {
            self.key.push(rest);
            return chunk.len();
        };
        self.key.push(&rest[..stop]);
        if rest[stop] == b'\\' {
            self.key.push(b"\\");
            self.state = State::InKeyEscape;
        } else {
            self.wanted = self.key.get().and_then(wanted_key).filter(|key| !(self.routing_only && key.is_prompt()));
            self.state = State::Colon;
        }
        at + stop + 1
    }

    fn text(&mut self, chunk: &[u8], at: usize) -> usize {
        match string_end(&chunk[at..]) {
            Ok(quote) => {
                let end = at + quote + 1;
                self.state = if self.nesting.depth == 0 { self.ended(self.seen + end) } else { State::Nested };
                end
            }
            Err(is_escaped) => {
                if is_escaped {
                    self.state = State::TextEscape;
                }
                chunk.len()
            }
        }
    }

    fn nested(&mut self, chunk: &[u8], mut at: usize) -> Result<usize, ScanError> {
        while let Some(stop) = structure(&chunk[at..]) {
            at += stop + 1;
            match chunk[at - 1] {
                b'"' => {
                    self.state = State::Text;
                    at = self.text(chunk, at);
                    if self.state != State::Nested {
                        return Ok(at);
                    }
                }
                open @ (b'{' | b'[') => self.nesting.open(open, self.seen + at - 1)?,
                close => {
                    self.nesting.close(close, self.seen + at - 1)?;
                    if self.nesting.depth == 0 {
                        self.state = self.ended(self.seen + at);
                        return Ok(at);
                    }
                }
            }
        }
        Ok(chunk.len())
    }

    fn token(&mut self, chunk: &[u8], at: usize) -> Result<usize, ScanError> {
        let rest = &chunk[at..];
        let len = rest.iter().position(|&byte| !is_token(byte)).unwrap_or(rest.len());
        let piece = &rest[..len];
        self.word.push(piece);
        self.word_is_number &= piece.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E'));
        if len < rest.len() {
            self.value_kind = match self.word.get() {
                Some(b"true") => Kind::True,
                Some(b"false") => Kind::False,
                Some(b"null") => Kind::Null,
                Some(b"NaN" | b"Infinity" | b"-Infinity") => Kind::Number,
                _ if self.word_is_number => Kind::Number,
                _ => return Err(ScanError::Syntax { at: self.value_start, expected: "a value" }),
            };
            self.state = self.ended(self.seen + at + len);
        }
        Ok(at + len)
    }

    /// Notes a value that ends just before `end`.
    fn ended(&mut self, end: usize) -> State {
        if let Some(key) = self.wanted {
            self.values[key as usize] = Some(Value { kind: self.value_kind, start: self.value_start, end });
        }
        State::AfterValue
    }
}

fn wanted_key(raw: &[u8]) -> Option<Key> {
    if memchr::memchr(b'\\', raw).is_none() {
        return Key::from_name(raw);
    }
    let mut name = [0; Key::MAX_NAME_BYTES];
    Key::from_name(unescape_name(raw, &mut name)?)
}

/// Up to `N` bytes in place; more than that is remembered only as "too long".
#[derive(Clone, Debug)]
struct Fixed<const N: usize> {
    bytes: [u8; N],
    len: usize,
}

impl<const N: usize> Fixed<N> {
    const fn new() -> Self {
        Self { bytes: [0; N], len: 0 }
    }

    const fn clear(&mut self) {
        self.len = 0;
    }

    fn push(&mut self, piece: &[u8]) {
        if let Some(room) = self.bytes.get_mut(self.len..self.len.saturating_add(piece.len())) {
            room.copy_from_slice(piece);
        }
        self.len = self.len.saturating_add(piece.len());
    }

    fn get(&self) -> Option<&[u8]> {
        self.bytes.get(..self.len)
    }
}

/// Which brackets are open below the top level: one bit each, set for a `{`.
#[derive(Clone, Debug, Default)]
struct Nesting {
    depth: usize,
    objects: [u64; MAX_DEPTH.div_ceil(64)],
}

impl Nesting {
    fn open(&mut self, bracket: u8, at: usize) -> Result<(), ScanError> {
        // The top-level object is a level as well, but has no bit.
        if self.depth + 1 >= MAX_DEPTH {
            return Err(ScanError::TooDeep { at });
        }
        let bit = 1 << (self.depth % 64);
        let word = &mut self.objects[self.depth / 64];
        *word = if bracket == b'{' { *word | bit } else { *word & !bit };
        self.depth += 1;
        Ok(())
    }

    fn close(&mut self, bracket: u8, at: usize) -> Result<(), ScanError> {
        self.depth -= 1;
        let is_object = self.objects[self.depth / 64] >> (self.depth % 64) & 1 == 1;
        match (is_object, bracket) {
            (true, b'}') | (false, b']') => Ok(()),
            (true, _) => Err(ScanError::Syntax { at, expected: "`}`" }),
            (false, _) => Err(ScanError::Syntax { at, expected: "`]`" }),
        }
    }
}
