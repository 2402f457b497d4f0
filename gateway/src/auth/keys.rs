//! The API keys of one file, as the request path looks them up: by digest, since the keys themselves are not in it.

use std::collections::{BTreeSet, HashMap};
use std::fmt::Write as _;
use std::sync::Arc;

use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;
use xxhash_rust::xxh3::xxh3_64;

use crate::config::KeyFile;

type Digest = [u8; 32];

/// Whoever holds a key.
#[derive(Debug, PartialEq, Eq)]
pub struct Caller {
    /// The tenant's name.
    pub tenant: Arc<str>,
    /// Hash of it, never 0: the tenant as the picker knows it.
    pub tenant_hash: u64,
    models: Option<BTreeSet<String>>,
}

impl Caller {
    /// Whether the key opens a model, by the name asked for.
    pub fn may_use(&self, model: &str) -> bool {
        self.models.as_ref().is_none_or(|models| models.contains(model))
    }

    /// Whether the key opens every model: the only kind that may send what a model's name cannot be read from.
    pub fn may_use_all(&self) -> bool {
        self.models.is_none()
    }
}

/// All keys of a file.
#[derive(Debug, Default)]
pub struct Keys {
    callers: HashMap<Digest, Arc<Caller>>,
}

impl Keys {
    /// Indexes a checked file.
    pub fn new(file: &KeyFile) -> Self {
        let mut callers = HashMap::new();
        for entry in &file.keys {
            let Some(digest) = parse(&entry.sha256) else { continue };
            let caller = Caller {
                tenant: entry.tenant.as_str().into(),
                tenant_hash: xxh3_64(entry.tenant.as_bytes()).max(1),
                models: entry.models.as_ref().map(|models| models.iter().cloned().collect()),
            };
            callers.insert(digest, Arc::new(caller));
        }
        Self { callers }
    }

    /// Finds whose a key is. What the look-up takes depends on digests alone, which tell nothing of a key near to one; the
    /// last comparison is in constant time all the same.
    pub fn find(&self, key: &[u8]) -> Option<Arc<Caller>> {
        let digest: Digest = Sha256::digest(key).into();
        let (known, caller) = self.callers.get_key_value(&digest)?;
        bool::from(known.ct_eq(&digest)).then(|| Arc::clone(caller))
    }

    /// Number of keys.
    pub fn len(&self) -> usize {
        self.callers.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.callers.is_empty()
    }

    /// The tenants, sorted.
    pub fn tenants(&self) -> BTreeSet<Arc<str>> {
        self.callers.values().map(|caller| Arc::clone(&caller.tenant)).collect()
    }
}

/// The digest of a key as a file of keys holds it.
pub fn hex_digest(key: &[u8]) -> String {
    hex(&Sha256::digest(key))
}

/// Bytes as hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn parse(text: &str) -> Option<Digest> {
    let mut digest = Digest::default();
    if text.len() != 2 * digest.len() || !text.is_ascii() {
        return None;
    }
    for (byte, pair) in digest.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(digest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_read_as_they_are_written() {
        let text = hex_digest(b"sk-test");
        assert_eq!(text.len(), 64);
        assert_eq!(parse(&text), Some(Sha256::digest(b"sk-test").into()));
        assert_eq!(parse(&text.to_uppercase()), parse(&text));
        for not in ["", "zz", &text[1..], &format!("{text}0"), &"é".repeat(32)] {
            assert_eq!(parse(not), None, "{not}");
        }
    }
}
