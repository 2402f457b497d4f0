//! The searches that decide how fast a body is scanned: to the end of a string, to the end of a run of plain text in
//! it, and to the next bracket or quote outside of strings.
//!
//! Each first looks at a few bytes, [`lanes::WIDTH`] at a time: most strings of a request are short, and a vectorised
//! search of any length costs more to start than such a string has bytes.

use crate::lanes;

/// Bytes looked at before a vectorised search starts. Roughly where the two cost the same.
const SHORT: usize = 2 * lanes::WIDTH;

/// Returns the offset of the quote that ends a string, given what follows its first quote or a whole escape.
///
/// `Err` if the string goes on past these bytes; its value says whether a backslash at their end escapes what follows.
///
/// A quote ends the string if the run of backslashes before it is of even length. Looking back from quotes is cheaper
/// than stopping at each backslash, for most escapes are line ends.
#[inline]
pub(super) fn string_end(bytes: &[u8]) -> Result<usize, bool> {
    let mut from = 0;
    while let Some(stop) = find_quote(&bytes[from..]) {
        let quote = from + stop;
        if !is_escaped(&bytes[from..quote]) {
            return Ok(quote);
        }
        from = quote + 1;
    }
    Err(is_escaped(&bytes[from..]))
}

/// Returns whether the bytes end in an odd number of backslashes.
#[inline]
fn is_escaped(bytes: &[u8]) -> bool {
    bytes.iter().rev().take_while(|byte| **byte == b'\\').count() % 2 == 1
}

#[inline]
fn find_quote(bytes: &[u8]) -> Option<usize> {
    match soon(bytes, lanes::quote, |byte| byte == b'"') {
        Soon::At(at) => Some(at),
        Soon::Nowhere => None,
        Soon::Later => memchr::memchr(b'"', &bytes[SHORT..]).map(|at| at + SHORT),
    }
}

/// Returns the offset of the first `"` or `\`.
#[inline]
pub(crate) fn plain_end(bytes: &[u8]) -> Option<usize> {
    match soon(bytes, lanes::quote_or_backslash, |byte| matches!(byte, b'"' | b'\\')) {
        Soon::At(at) => Some(at),
        Soon::Nowhere => None,
        Soon::Later => memchr::memchr2(b'"', b'\\', &bytes[SHORT..]).map(|at| at + SHORT),
    }
}

/// Returns the offset of the first `"`, `{`, `}`, `[` or `]`.
#[inline]
pub(super) fn structure(bytes: &[u8]) -> Option<usize> {
    let mut at = 0;
    while let Some(block) = bytes.get(at..).and_then(<[u8]>::first_chunk) {
        if let Some(offset) = lanes::quote_or_bracket(*block) {
            return Some(at + offset);
        }
        at += lanes::WIDTH;
    }
    bytes[at..].iter().position(|byte| matches!(byte, b'"' | b'{' | b'}' | b'[' | b']')).map(|offset| at + offset)
}

/// Where a byte is, as far as its first [`SHORT`] bytes tell.
enum Soon {
    At(usize),
    Nowhere,
    Later,
}

/// Looks at the first [`SHORT`] bytes. `is_stop` says of one byte what `first_in` says of many.
#[inline]
fn soon(bytes: &[u8], first_in: impl Fn([u8; lanes::WIDTH]) -> Option<usize>, is_stop: impl Fn(u8) -> bool) -> Soon {
    let mut at = 0;
    while at < SHORT {
        let Some(block) = bytes.get(at..).and_then(<[u8]>::first_chunk) else {
            let offset = bytes[at..].iter().position(|byte| is_stop(*byte));
            return offset.map_or(Soon::Nowhere, |offset| Soon::At(at + offset));
        };
        if let Some(offset) = first_in(*block) {
            return Soon::At(at + offset);
        }
        at += lanes::WIDTH;
    }
    Soon::Later
}

/// Returns whether JSON counts the byte as white space.
#[inline]
pub(super) const fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\n' | b'\r' | b'\t')
}

/// Returns whether the byte may be part of a number or of a word such as `null` or `-Infinity`.
#[inline]
pub(super) const fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.')
}
