//! One number for an image, a recording or a file, from all of its bytes.
//!
//! The payload is hashed as it is written (a data URL, a URL, an id), never decoded: the same picture by URL and by
//! data differs here though it does not for the engine. That is a miss, not an error.

use xxhash_rust::xxh3::{Xxh3, xxh3_64_with_seed};

use crate::scan::decode::Name;
use crate::scan::reader::Reader;

/// Objects nested deeper than this are hashed by their text: no medium is, and recursion must end.
const MAX_DEPTH: u32 = 8;

/// Seeds that keep a string, a list and an object with equal content apart.
const STRING: u64 = 1;
const LIST: u64 = 2;
const OBJECT: u64 = 3;
const OTHER: u64 = 4;

/// Returns the hash of the value at the reader, and steps over it. The order of members does not count, nor do members
/// that are `null`, nor `cache_control`.
pub(super) fn fingerprint(reader: &mut Reader<'_>) -> u64 {
    at_depth(reader, 0)
}

fn at_depth(reader: &mut Reader<'_>, depth: u32) -> u64 {
    match reader.peek() {
        Some(b'"') => {
            let mut hash = Xxh3::with_seed(STRING);
            reader.string(|piece| hash.update(piece));
            hash.digest()
        }
        Some(b'[') if depth < MAX_DEPTH => {
            let mut hash = LIST;
            reader.enter();
            while reader.next_item() {
                hash = xxh3_64_with_seed(&at_depth(reader, depth + 1).to_le_bytes(), hash);
            }
            hash
        }
        Some(b'{') if depth < MAX_DEPTH => {
            let mut sum = 0u64;
            let mut name = Name::new();
            reader.enter();
            while let Some(key) = reader.next_key(&mut name) {
                if key == b"cache_control" || reader.peek() == Some(b'n') {
                    reader.skip_value();
                    continue;
                }
                let seed = xxh3_64_with_seed(key, OBJECT);
                // A sum, so that the order of members does not matter; each term is a hash of key and value together.
                sum = sum.wrapping_add(xxh3_64_with_seed(&at_depth(reader, depth + 1).to_le_bytes(), seed));
            }
            xxh3_64_with_seed(&sum.to_le_bytes(), OBJECT)
        }
        _ => {
            let mut hash = Xxh3::with_seed(OTHER);
            reader.canonical(|piece| hash.update(piece));
            hash.digest()
        }
    }
}
