//! The searches that decide how fast a body is scanned: to the end of a string, to the end of a run of plain text in
//! it, and to the next bracket or quote outside of strings.
//!
//! Each first looks at a few bytes, eight at a time: most strings of a request are short, and a vectorised search costs
//! more to start than such a string has bytes.

/// Bytes looked at before a vectorised search starts. Roughly where the two cost the same.
const SHORT: usize = 16;

/// Bytes tested at once outside of strings: two vector registers of the smallest common size.
const BLOCK: usize = 32;

/// One in each byte of a word.
const ONES: u64 = 0x0101_0101_0101_0101;

/// A quote in each byte of a word.
const QUOTES: u64 = ONES * 0x22;

/// A backslash in each byte of a word.
const BACKSLASHES: u64 = ONES * 0x5C;

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
    let mut at = 0;
    while at < SHORT {
        let Some(word) = word(bytes, at) else {
            return bytes[at..].iter().position(|byte| *byte == b'"').map(|offset| at + offset);
        };
        let hit = zeros(word ^ QUOTES);
        if hit != 0 {
            return Some(at + first(hit));
        }
        at += 8;
    }
    memchr::memchr(b'"', &bytes[SHORT..]).map(|at| at + SHORT)
}

/// Returns the offset of the first `"` or `\`.
#[inline]
pub(super) fn plain_end(bytes: &[u8]) -> Option<usize> {
    let mut at = 0;
    while at < SHORT {
        let Some(word) = word(bytes, at) else {
            return bytes[at..].iter().position(|byte| matches!(byte, b'"' | b'\\')).map(|offset| at + offset);
        };
        let hit = zeros(word ^ QUOTES) | zeros(word ^ BACKSLASHES);
        if hit != 0 {
            return Some(at + first(hit));
        }
        at += 8;
    }
    memchr::memchr2(b'"', b'\\', &bytes[SHORT..]).map(|at| at + SHORT)
}

/// Returns how many of the bytes come before the first `"` or `\`; `None` if none of them is one.
#[inline]
pub(super) fn plain_prefix(bytes: [u8; 8]) -> Option<usize> {
    let word = u64::from_le_bytes(bytes);
    let hit = zeros(word ^ QUOTES) | zeros(word ^ BACKSLASHES);
    (hit != 0).then(|| first(hit))
}

/// Returns the offset of the first `"`, `{`, `}`, `[` or `]`.
#[inline]
pub(super) fn structure(bytes: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        let block = &bytes[at..bytes.len().min(at + BLOCK)];
        // A fixed length lets the compiler test the whole block with vectors, which pays for long runs of numbers.
        if let (true, Ok(block)) = (at > 0, <&[u8; BLOCK]>::try_from(block))
            && !block.iter().fold(false, |any, &byte| any | is_structure(byte))
        {
            at += BLOCK;
            continue;
        }
        if let Some(offset) = block.iter().position(|&byte| is_structure(byte)) {
            return Some(at + offset);
        }
        at += block.len();
        if at == bytes.len() {
            return None;
        }
    }
}

/// Returns whether the byte is a quote or a bracket. The two kinds of bracket differ in one bit. No short circuits,
/// which would keep the compiler from testing many bytes at once.
#[inline]
#[expect(clippy::needless_bitwise_bool, reason = "a branch would cost more than it saves")]
const fn is_structure(byte: u8) -> bool {
    let folded = byte | 0x20;
    (folded == b'{') | (folded == b'}') | (byte == b'"')
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

/// Returns eight bytes as a word whose lowest byte is the first.
#[inline]
fn word(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk().map(|word| u64::from_le_bytes(*word))
}

/// Returns a word in which the lowest set bit is in the first byte of `word` that is zero; zero if none is.
#[inline]
const fn zeros(word: u64) -> u64 {
    word.wrapping_sub(ONES) & !word & (ONES << 7)
}

/// Returns which byte the lowest set bit is in.
#[inline]
const fn first(hit: u64) -> usize {
    (hit.trailing_zeros() / 8) as usize
}
