//! Finds the few top-level fields of a request body that routing needs, while the body arrives.
//!
//! Nothing is deserialised and nothing is re-serialised: a [`Scan`] is byte ranges into the body as sent. What a
//! newcomer gets wrong: this is no validator. A body is refused only if it is no JSON object or ends early; whatever
//! else is odd about it is for the server to judge, because engines accept what a strict parser would not.

mod canonical;
pub(crate) mod decode;
pub mod fuzz;
mod key;
pub(crate) mod reader;
mod scanner;
mod splice;
pub(crate) mod stop;
#[cfg(test)]
mod tests;
#[cfg(test)]
pub(crate) mod written;

use std::ops::Range;

pub use key::Key;
pub use scanner::Scanner;
pub use splice::{splice_model, spliced_len};

/// Containers that may be open at once. Python's parser, which most engines use, stops near this depth too.
pub const MAX_DEPTH: usize = 1000;

/// Why a body cannot be routed. Positions are byte offsets in the body; no text of the body is ever included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScanError {
    /// No byte but white space.
    #[error("request body is empty")]
    Empty,
    /// The first character is not `{`: another JSON value, or no JSON at all.
    #[error("request body is not a JSON object (byte {at})")]
    NotAnObject {
        /// Where the object should have begun.
        at: usize,
    },
    /// The body ends before the object does.
    #[error("request body ends inside the JSON object (byte {at})")]
    Cut {
        /// Length of the body.
        at: usize,
    },
    /// The object is broken where the scanner looks: at its top level, or in how brackets pair.
    #[error("request body is not valid JSON: expected {expected} at byte {at}")]
    Syntax {
        /// Where the scanner stopped.
        at: usize,
        /// What would have been right there.
        expected: &'static str,
    },
    /// More than [`MAX_DEPTH`] containers are open.
    #[error("request body nests more than {MAX_DEPTH} levels deep (byte {at})")]
    TooDeep {
        /// The bracket that was one too many.
        at: usize,
    },
    /// Something other than white space follows the object.
    #[error("request body goes on after the JSON object (byte {at})")]
    Trailing {
        /// The first byte that should not be there.
        at: usize,
    },
}

/// What sort of JSON value a field holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A string.
    String,
    /// A number, or one of `NaN`, `Infinity`, `-Infinity`, which Python reads and writes.
    Number,
    /// `true`.
    True,
    /// `false`.
    False,
    /// `null`.
    Null,
    /// An object.
    Object,
    /// An array.
    Array,
}

/// Where a field's raw value lies: offsets in the whole body, quotes and brackets included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Value {
    /// What sort of value it is.
    pub kind: Kind,
    /// Offset of its first byte.
    pub start: usize,
    /// Offset just past its last byte.
    pub end: usize,
}

impl Value {
    /// Returns the value's place as a range.
    pub fn range(self) -> Range<usize> {
        self.start..self.end
    }

    /// Returns the raw length in bytes.
    pub fn len(self) -> usize {
        self.end - self.start
    }

    /// Returns whether the value has no bytes, which no value of a finished scan has.
    pub fn is_empty(self) -> bool {
        self.start == self.end
    }
}

/// The wanted top-level fields of one body. Of a repeated key the last counts, as in Python's `json`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scan {
    values: [Option<Value>; Key::COUNT],
    body_bytes: usize,
}

impl Scan {
    /// Returns where the value of `key` lies, if the body has the key.
    pub fn value(&self, key: Key) -> Option<Value> {
        self.values[key as usize]
    }

    /// Returns the length of the whole body.
    pub fn body_bytes(&self) -> usize {
        self.body_bytes
    }
}
