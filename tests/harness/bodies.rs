//! Request bodies.

use bytes::Bytes;
use serde_json::json;
use xxhash_rust::xxh3::xxh3_64;

/// A chat request for the default sixteen tokens.
pub(crate) fn chat(prompt: &str) -> Bytes {
    json!({"model": "sim-model", "messages": [{"role": "user", "content": prompt}]}).to_string().into()
}

/// A streamed chat request for so many tokens.
pub(crate) fn streamed(prompt: &str, tokens: u32) -> Bytes {
    let messages = json!([{"role": "user", "content": prompt}]);
    json!({"model": "sim-model", "messages": messages, "stream": true, "max_tokens": tokens}).to_string().into()
}

/// A valid chat request of exactly so many bytes. The filling is a field that servers ignore, of noise: a byte that is
/// lost, doubled or moved changes the hash.
pub(crate) fn json_of_size(size: usize) -> Bytes {
    const START: &str =
        r#"{"model":"sim-model","max_tokens":1,"messages":[{"role":"user","content":"hi"}],"padding":""#;
    const END: &str = r#""}"#;
    let filling = size.checked_sub(START.len() + END.len()).expect("smaller than any request");
    [START.as_bytes(), &noise(filling, size as u64), END.as_bytes()].concat().into()
}

/// Letters and digits, the same for the same seed. Blocks of 4 KiB that differ by the number they begin with: made fast
/// enough that 20 MiB do not keep the test's own sims from answering.
pub(crate) fn noise(size: usize, seed: u64) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(seed);
    let block: Vec<u8> = std::iter::repeat_with(|| random.alphanumeric() as u8).take(4080).collect();
    let mut noise = Vec::with_capacity(size + 4096);
    for number in 0_u64.. {
        if noise.len() >= size {
            break;
        }
        noise.extend_from_slice(format!("{:016x}", seed.wrapping_add(number)).as_bytes());
        noise.extend_from_slice(&block);
    }
    noise.truncate(size);
    noise
}

/// The hash that a sim reports of a body it received.
pub(crate) fn hash(body: &[u8]) -> String {
    format!("{:016x}", xxh3_64(body))
}
