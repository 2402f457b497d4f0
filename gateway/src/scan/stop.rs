//! The two searches that decide how fast a body is scanned: to the end of a run of string text, and to the next
//! bracket or quote outside of strings.
//!
//! Both first look at a few bytes by hand: most strings of a request are short, and a vectorised search costs more to
//! start than such a string has bytes.

/// Bytes looked at one by one before a vectorised search starts. Roughly where the two cost the same.
const BY_HAND: usize = 16;

/// Bytes tested at once outside of strings: two vector registers of the smallest common size.
const BLOCK: usize = 32;

/// Returns the offset of the first `"` or `\`.
#[inline]
pub(super) fn string_stop(bytes: &[u8]) -> Option<usize> {
    let head = &bytes[..bytes.len().min(BY_HAND)];
    if let Some(at) = head.iter().position(|&byte| byte == b'"' || byte == b'\\') {
        return Some(at);
    }
    if bytes.len() <= BY_HAND {
        return None;
    }
    memchr::memchr2(b'"', b'\\', &bytes[BY_HAND..]).map(|at| at + BY_HAND)
}

/// Returns the offset of the first `"`, `{`, `}`, `[` or `]`.
#[inline]
pub(super) fn structure_stop(bytes: &[u8]) -> Option<usize> {
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

/// Returns whether the byte is a quote or a bracket. The two kinds of bracket differ in one bit.
#[inline]
const fn is_structure(byte: u8) -> bool {
    let folded = byte | 0x20;
    folded == b'{' || folded == b'}' || byte == b'"'
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
