//! Chained hashes of token blocks.
//!
//! It is the simulator's own function on purpose: if the gateway hashed in the same way, a test of both would only prove
//! that they agree with themselves.

/// Where a chain starts; any odd constant does. This one is the fraction of the golden ratio.
const ORIGIN: u64 = 0x9e37_79b9_7f4a_7c15;

/// Folds `value` into `state`. The finaliser is splitmix64's, which passes every bit to every other.
pub const fn mix(state: u64, value: u64) -> u64 {
    let mut x = (state.rotate_left(23) ^ value).wrapping_add(ORIGIN);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// Folds bytes into `state`, eight at a time; the length counts, so that zero bytes at the end do.
pub fn mix_bytes(state: u64, bytes: &[u8]) -> u64 {
    let words = bytes.chunks(8).map(|chunk| chunk.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte)));
    words.fold(mix(state, bytes.len() as u64), mix)
}

/// Start of the chain of an adapter and a salt.
pub(super) fn root(adapter: Option<&str>, salt: u64) -> u64 {
    let named = adapter.map_or(ORIGIN, |name| mix_bytes(mix(ORIGIN, 1), name.as_bytes()));
    mix(named, salt)
}

/// Hash of a block of `tokens` that follows the block hashed to `parent`.
pub(super) fn block(parent: u64, tokens: &[u32]) -> u64 {
    tokens.iter().fold(parent, |state, &token| mix(state, token.into()))
}
