//! Walks one JSON document as its bytes come, and reports the values at the places of interest.
//!
//! It is no validator: a broken document gives fewer values or none, never an error. Text that merely looks like a key,
//! such as `\"usage\"` inside a completion, is inside a string for it as for any parser. Memory does not grow with the
//! document: it keeps the containers that lead to the current place, and of any text only its first bytes.

use crate::scan::stop::plain_end;

use super::place::Place;
use super::short::Short;

/// Longest key or word of interest is `model_context_window_exceeded`, 29 bytes; numbers are shorter.
const WORD_BYTES: usize = 32;

/// Deepest container of interest is `choices[].delta.tool_calls[].function`, the seventh.
const MAX_DEPTH: usize = 8;

/// A value that stands at a place of interest.
#[derive(Clone, Copy, Debug)]
pub(super) enum Value<'a> {
    /// A string, escapes not decoded. Of a long one perhaps only the start.
    Text(&'a [u8]),
    /// A number, or `true`, `false`, `null`.
    Scalar(&'a [u8]),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token {
    Outside,
    Key,
    Text,
    /// A string nobody asked for.
    Ignored,
    Scalar,
}

#[derive(Clone, Copy, Debug)]
struct Container {
    place: Place,
    is_object: bool,
}

/// Where in the document we are.
#[derive(Clone, Debug)]
pub(super) struct Scanner {
    containers: [Container; MAX_DEPTH],
    depth: u8,
    /// Brackets open inside a value nobody asked for.
    ignored_depth: u32,
    token: Token,
    /// The last byte was a backslash in a string.
    escaped: bool,
    expects_key: bool,
    /// Place of the value that comes next.
    place: Place,
    /// Start of a token that began in an earlier piece, or has escapes.
    word: Short<WORD_BYTES>,
    complete: bool,
}

impl Default for Scanner {
    fn default() -> Self {
        Self {
            containers: [Container { place: Place::Elsewhere, is_object: false }; MAX_DEPTH],
            depth: 0,
            ignored_depth: 0,
            token: Token::Outside,
            escaped: false,
            expects_key: false,
            place: Place::Root,
            word: Short::new(),
            complete: false,
        }
    }
}

impl Scanner {
    /// Forgets the document, to begin another.
    pub(super) fn reset(&mut self) {
        self.depth = 0;
        self.ignored_depth = 0;
        self.token = Token::Outside;
        self.escaped = false;
        self.expects_key = false;
        self.place = Place::Root;
        self.complete = false;
    }

    /// Returns whether the outermost object or array was closed.
    pub(super) fn is_complete(&self) -> bool {
        self.complete
    }

    /// Reads on, calling `found` for each value at a place of interest.
    pub(super) fn feed(&mut self, bytes: &[u8], mut found: impl FnMut(Place, Value<'_>)) {
        let mut rest = bytes;
        while !self.complete && !rest.is_empty() {
            rest = match self.token {
                Token::Outside if self.ignored_depth > 0 => self.ignore(rest),
                Token::Outside => self.outside(rest, &mut found),
                Token::Key | Token::Text | Token::Ignored => self.string(rest, &mut found),
                Token::Scalar => self.scalar(rest, &mut found),
            };
        }
    }

    fn outside<'a>(&mut self, rest: &'a [u8], found: &mut impl FnMut(Place, Value<'_>)) -> &'a [u8] {
        let mut rest = rest;
        while let Some((&byte, after)) = rest.split_first() {
            rest = after;
            match byte {
                b',' => self.next_in_container(),
                b':' => self.expects_key = false,
                b' ' | b'\t' | b'\n' | b'\r' => {}
                b'"' => {
                    let token = match self.place {
                        _ if self.expects_key => Token::Key,
                        Place::Elsewhere => Token::Ignored,
                        _ => Token::Text,
                    };
                    // Nearly every string is whole and plain.
                    match plain_end(rest) {
                        Some(end) if rest[end] == b'"' => {
                            self.string_ends(token, &rest[..end], found);
                            rest = &rest[end + 1..];
                        }
                        _ => {
                            self.token = token;
                            self.word.clear();
                            return rest;
                        }
                    }
                }
                b'{' | b'[' => {
                    self.opens(byte == b'{');
                    return rest;
                }
                b'}' | b']' => {
                    self.closes();
                    if self.complete {
                        return rest;
                    }
                }
                _ if self.place == Place::Elsewhere => {
                    // What a scalar nobody asked for is made of needs no reading: no byte of it means anything here.
                }
                _ => {
                    self.token = Token::Scalar;
                    self.word.clear();
                    self.word.push(&[byte]);
                    return rest;
                }
            }
        }
        rest
    }

    fn opens(&mut self, is_object: bool) {
        let depth = usize::from(self.depth);
        if self.place == Place::Elsewhere || depth == MAX_DEPTH {
            self.ignored_depth = 1;
            return;
        }
        self.containers[depth] = Container { place: self.place, is_object };
        self.depth += 1;
        self.next_in_container();
    }

    fn closes(&mut self) {
        self.expects_key = false;
        self.place = Place::Elsewhere;
        self.depth = self.depth.saturating_sub(1);
        self.complete = self.depth == 0;
    }

    fn next_in_container(&mut self) {
        let Some(top) = usize::from(self.depth).checked_sub(1) else { return };
        let Container { place, is_object } = self.containers[top];
        self.expects_key = is_object;
        self.place = if is_object { Place::Elsewhere } else { place.item() };
    }

    fn ignore<'a>(&mut self, rest: &'a [u8]) -> &'a [u8] {
        let Some(at) = rest.iter().position(|byte| matches!(byte, b'"' | b'{' | b'}' | b'[' | b']')) else {
            return &[];
        };
        match rest[at] {
            b'"' => self.token = Token::Ignored,
            b'{' | b'[' => self.ignored_depth = self.ignored_depth.saturating_add(1),
            _ => self.ignored_depth -= 1,
        }
        &rest[at + 1..]
    }

    fn string<'a>(&mut self, rest: &'a [u8], found: &mut impl FnMut(Place, Value<'_>)) -> &'a [u8] {
        if std::mem::take(&mut self.escaped) {
            self.word.push(&rest[..1]);
            return &rest[1..];
        }
        let Some(at) = plain_end(rest) else {
            self.word.push(rest);
            return &[];
        };
        self.word.push(&rest[..at]);
        if rest[at] == b'\\' {
            self.escaped = true;
            self.word.push(b"\\");
            return &rest[at + 1..];
        }
        let word = self.word;
        self.string_ends(self.token, word.as_bytes(), found);
        self.token = Token::Outside;
        &rest[at + 1..]
    }

    fn string_ends(&mut self, token: Token, text: &[u8], found: &mut impl FnMut(Place, Value<'_>)) {
        match token {
            Token::Key => {
                let top = usize::from(self.depth).saturating_sub(1);
                self.place = self.containers[top].place.member(text);
                self.expects_key = false;
            }
            Token::Text => found(self.place, Value::Text(text)),
            _ => {}
        }
    }

    fn scalar<'a>(&mut self, rest: &'a [u8], found: &mut impl FnMut(Place, Value<'_>)) -> &'a [u8] {
        let ends = |byte: &u8| matches!(byte, b',' | b'}' | b']' | b' ' | b'\t' | b'\n' | b'\r' | b':' | b'"');
        let end = rest.iter().position(|byte| ends(byte) || matches!(byte, b'{' | b'['));
        self.word.push(&rest[..end.unwrap_or(rest.len())]);
        let Some(end) = end else { return &[] };
        found(self.place, Value::Scalar(self.word.as_bytes()));
        self.token = Token::Outside;
        &rest[end..]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<(Place, String)> {
        let (mut scanner, mut all) = (Scanner::default(), Vec::new());
        scanner.feed(text.as_bytes(), |place, value| {
            let (Value::Text(text) | Value::Scalar(text)) = value;
            all.push((place, String::from_utf8_lossy(text).into_owned()));
        });
        assert!(scanner.is_complete(), "{text}");
        all
    }

    #[test]
    fn only_values_at_places_of_interest_are_reported() {
        let text = r#" { "x" : {"usage":{"prompt_tokens":9}}, "a":[[1,{"usage":2}],"usage"],
            "usage" : { "prompt_tokens" : 3 , "completion_tokens":1,"other":{"prompt_tokens":8} },
            "choices":[{"delta":{"content":"\"usage\":{\"prompt_tokens\":7,\"x\":1}","role":"assistant"},"finish_reason":null}] } "#;
        let expected = [
            (Place::PromptTokens, "3"),
            (Place::CompletionTokens, "1"),
            (Place::Generated, r#"\"usage\":{\"prompt_tokens\":7,\"#), // as much as is kept
            (Place::FinishReason, "null"),
        ];
        assert_eq!(found(text), expected.map(|(place, text)| (place, text.to_owned())));
    }

    #[test]
    fn depth_beyond_the_deepest_place_keeps_in_step() {
        let deep = format!(r#"{{"error":{}{}, "usage":{{"prompt_tokens":3}}}}"#, "[".repeat(500), "]".repeat(500));
        assert_eq!(found(&deep), [(Place::PromptTokens, "3".to_owned())]);
    }

    #[test]
    fn a_broken_document_neither_panics_nor_completes_twice() {
        for text in ["]", "}}}", "{]", "\"", "{\"a", "{\"usage\":{\"prompt_tokens\":", "nul", "{,,:}", "{}{}"] {
            let mut scanner = Scanner::default();
            scanner.feed(text.as_bytes(), |_, _| {});
            scanner.feed(b"}]}", |_, _| {});
        }
    }
}
