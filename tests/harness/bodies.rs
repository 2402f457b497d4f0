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

/// Letters and digits without a pattern, the same for the same seed.
pub(crate) fn noise(size: usize, seed: u64) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(seed);
    std::iter::repeat_with(|| random.alphanumeric() as u8).take(size).collect()
}

/// The hash that a sim reports of a body it received.
pub(crate) fn hash(body: &[u8]) -> String {
    format!("{:016x}", xxh3_64(body))
}
