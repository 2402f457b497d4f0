//! Searches of sixteen bytes at once, for text whose stops are too close together for a vectorised search of any length to
//! pay its start.

use wide::u8x16;

/// Bytes looked at together: a vector that every x86-64 and aarch64 processor has.
pub(crate) const WIDTH: usize = 16;

/// Returns the offset of the first `"`.
#[inline]
pub(crate) fn quote(block: [u8; WIDTH]) -> Option<usize> {
    first(equal(u8x16::new(block), b'"'))
}

/// Returns the offset of the first `"` or `\`.
#[inline]
pub(crate) fn quote_or_backslash(block: [u8; WIDTH]) -> Option<usize> {
    let block = u8x16::new(block);
    first(equal(block, b'"') | equal(block, b'\\'))
}

/// Returns the offset of the first `"`, `{`, `}`, `[` or `]`.
#[inline]
pub(crate) fn quote_or_bracket(block: [u8; WIDTH]) -> Option<usize> {
    let block = u8x16::new(block);
    // The two kinds of bracket differ in one bit.
    let folded = block | u8x16::splat(0x20);
    first(equal(block, b'"') | equal(folded, b'{') | equal(folded, b'}'))
}

#[inline]
fn equal(block: u8x16, byte: u8) -> u8x16 {
    block.simd_eq(u8x16::splat(byte))
}

#[inline]
fn first(hits: u8x16) -> Option<usize> {
    let mask = hits.to_bitmask();
    (mask != 0).then(|| mask.trailing_zeros() as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every byte at every place, before every other kind of stop.
    #[test]
    fn they_find_what_a_plain_search_finds() {
        type Search = fn([u8; WIDTH]) -> Option<usize>;
        let searches: [(&[u8], Search); 3] =
            [(b"\"", quote), (b"\"\\", quote_or_backslash), (b"\"{}[]", quote_or_bracket)];
        for filler in [0, b'a', b'!', b'#', b']', b'Z', 0xFB, 0xFF] {
            for place in 0..WIDTH {
                for byte in 0..=u8::MAX {
                    for later in [filler, b'"', b'\\', b'{'] {
                        let mut block = [filler; WIDTH];
                        block[(place + 3).min(WIDTH - 1)] = later;
                        block[place] = byte;
                        for (stops, search) in searches {
                            let expected = block.iter().position(|byte| stops.contains(byte));
                            assert_eq!(search(block), expected, "{block:?} for {stops:?}");
                        }
                    }
                }
            }
        }
    }
}
