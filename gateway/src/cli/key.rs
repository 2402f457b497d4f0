//! `spillway key`: makes an API key and the entry that lets it in.

use anyhow::Context as _;

use super::say;
use crate::auth::keys::{hex, hex_digest};

/// Bytes of randomness in a key. As many as its digest has: guessing one is no easier than the other.
const RANDOM_BYTES: usize = 32;

/// What keys begin with, so that scanners for leaked secrets and people know one.
const PREFIX: &str = "sw-";

/// Prints the key on standard error, and on standard output only what may be kept: the entry for the file of keys.
pub(super) fn make(tenant: &str, from_stdin: bool) -> anyhow::Result<()> {
    let key = if from_stdin {
        let mut text = String::new();
        std::io::stdin().read_line(&mut text).context("cannot read standard input")?;
        let key = text.trim().to_owned();
        anyhow::ensure!(!key.is_empty(), "standard input holds no key");
        key
    } else {
        let mut bytes = [0; RANDOM_BYTES];
        getrandom::fill(&mut bytes).map_err(|error| anyhow::anyhow!("no randomness: {error}"))?;
        let key = format!("{PREFIX}{}", hex(&bytes));
        eprintln!("key for {tenant}, shown this once: {key}");
        key
    };
    // JSON is YAML, and quotes whatever the name holds.
    let tenant = serde_json::Value::from(tenant);
    say(format_args!("  - {{tenant: {tenant}, sha256: {}}}\n", hex_digest(key.as_bytes())))
}
