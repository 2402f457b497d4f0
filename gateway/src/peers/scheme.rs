//! What block hashes mean, as a number: gateways that hash prompts in another way must not believe each other's hashes.
//!
//! It is made of the hashes of a fixed request and not counted by hand, so that a change of what is fed to the hasher, and in
//! which order, changes it as surely as a change of the hash.

use bytes::Bytes;
use spillway_picker::prefix::Depths;
use xxhash_rust::xxh3::xxh3_64;

use crate::scan::Scanner;
use crate::surface::{Inspected, Surface};

/// Requests with all that prompts commonly have.
const REQUESTS: [(&str, &str); 3] = [
    (
        "/v1/chat/completions",
        r#"{"model":"m","tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}],"messages":[{"role":"system","content":"s TEXT"},{"role":"user","content":[{"type":"text","text":"TEXT u"},{"type":"image_url","image_url":{"url":"data:,a"}}]},{"role":"assistant","content":null,"tool_calls":[{"id":"1","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"1","content":"TEXT t"}]}"#,
    ),
    ("/v1/messages", r#"{"model":"m","system":"TEXT","messages":[{"role":"user","content":"TEXT"}],"max_tokens":1}"#),
    ("/v1/completions", r#"{"model":"m","prompt":"TEXT \u00e9"}"#),
];

/// Returns the number of this build.
pub fn scheme() -> u32 {
    let text = "All that stands before the question is what prompts share. ".repeat(20);
    let mut hashes = Vec::new();
    for (path, body) in REQUESTS {
        let body = Bytes::from(body.replace("TEXT", &text));
        let mut scanner = Scanner::new();
        scanner.feed(&body).expect("the request is good");
        let scan = scanner.finish().expect("the request is whole");
        let chunks = [body];
        let surface = Surface::classify("POST", path);
        let inspected = Inspected::new(surface, scan, &chunks).expect("the request is good");
        let hasher = inspected.hash(&chunks, Depths::default());
        let prompt = inspected.prompt(hasher, &chunks, "m", "", None);
        hashes.extend(prompt.blocks.iter().flat_map(|block| block.to_le_bytes()));
    }
    xxh3_64(&hashes) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    /// When this fails, gateways of this build and of the one before will not believe each other's hashes; they still count
    /// each other's requests. If that is meant, write the new number here.
    #[test]
    fn the_hashes_of_this_build_are_those_of_the_one_before() {
        assert_eq!(scheme(), 2_267_126_782);
    }
}
