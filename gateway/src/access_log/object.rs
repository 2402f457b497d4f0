//! Writes one flat JSON object, field by field.
//!
//! By hand, because a line is written for every request and nearly all of it is names, plain text and small numbers.

use std::io::Write as _;
use std::time::{Duration, SystemTime};

/// An object being written.
pub(super) struct Object<'a> {
    out: &'a mut Vec<u8>,
    is_empty: bool,
}

impl<'a> Object<'a> {
    pub(super) fn open(out: &'a mut Vec<u8>) -> Self {
        out.push(b'{');
        Self { out, is_empty: true }
    }

    pub(super) fn close(self) {
        self.out.push(b'}');
    }

    /// A text, unless it is empty.
    pub(super) fn text(&mut self, key: &str, text: &str) {
        if text.is_empty() {
            return;
        }
        self.key(key);
        if text.bytes().any(|byte| matches!(byte, 0..0x20 | b'"' | b'\\')) {
            let _ = serde_json::to_writer(&mut *self.out, text);
        } else {
            self.quoted(text);
        }
    }

    /// A number, if there is one.
    pub(super) fn number(&mut self, key: &str, number: impl Into<Option<u64>>) {
        if let Some(number) = number.into() {
            self.key(key);
            self.digits(number);
        }
    }

    pub(super) fn flag(&mut self, key: &str, flag: bool) {
        self.key(key);
        self.out.extend_from_slice(if flag { b"true" } else { b"false" });
    }

    /// A time span in milliseconds, to the nearest microsecond.
    pub(super) fn millis(&mut self, key: &str, span: Option<Duration>) {
        let Some(span) = span else { return };
        self.key(key);
        let micros = u64::try_from((span.as_nanos() + 500) / 1000).unwrap_or(u64::MAX);
        self.digits(micros / 1000);
        let [tens, ones] = [micros / 10 % 10, micros % 10].map(|digit| b'0' + digit as u8);
        self.out.extend_from_slice(&[b'.', b'0' + (micros / 100 % 10) as u8, tens, ones]);
    }

    /// A moment as RFC 3339 in UTC, to the millisecond.
    pub(super) fn time(&mut self, key: &str, time: SystemTime) {
        self.key(key);
        let _ = write!(self.out, "\"{}\"", humantime::format_rfc3339_millis(time));
    }

    fn key(&mut self, key: &str) {
        if !self.is_empty {
            self.out.push(b',');
        }
        self.is_empty = false;
        self.quoted(key);
        self.out.push(b':');
    }

    fn quoted(&mut self, text: &str) {
        self.out.push(b'"');
        self.out.extend_from_slice(text.as_bytes());
        self.out.push(b'"');
    }

    fn digits(&mut self, number: u64) {
        self.out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
    }
}
