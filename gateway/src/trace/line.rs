//! The lines of a trace: JSON, one object each, of one key that says what it is.
//!
//! Times are in microseconds, sizes in bytes. What is not known, zero or false where that is the rule, is left out. Readers
//! pass over keys they do not know, so a key may be added without another version.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// The version written, and the only one read.
pub const VERSION: u32 = 1;

/// One line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Line {
    /// Recording begins; what follows is told from here.
    Trace(Part),
    /// Something is known of an endpoint.
    Endpoint(Size),
    /// A request has ended.
    Request(Box<Request>),
}

/// The head of a part. A file has several when recording began several times.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Part {
    /// [`VERSION`].
    pub version: u32,
    /// When times of this part are 0, RFC 3339 in UTC.
    #[serde(default)]
    pub start: String,
    /// The release that wrote it.
    #[serde(default)]
    pub spillway: String,
}

/// The size of an endpoint's cache, as its metrics page said.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Size {
    /// Its pool.
    pub pool: Arc<str>,
    /// `scheme://host:port`.
    pub endpoint: Arc<str>,
    /// Tokens in its key-value cache.
    pub kv_tokens: u64,
}

/// One request that led to a pool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// When its head had been read.
    pub at: u64,
    /// The pool it led to.
    pub pool: Arc<str>,
    /// The name sent on.
    pub model: Arc<str>,
    /// Whether that is a LoRA adapter.
    #[serde(default, skip_serializing_if = "is_default")]
    pub adapter: bool,
    /// Whether the answer was asked for as a stream.
    #[serde(default, skip_serializing_if = "is_default")]
    pub stream: bool,
    /// The client's limit on output tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u32>,
    /// The last hash of the prompt's chain that some line before has; those that lead to it are the same.
    #[serde(default, with = "hex::one", skip_serializing_if = "Option::is_none")]
    pub after: Option<u64>,
    /// The hashes that follow it.
    #[serde(default, with = "hex::many", skip_serializing_if = "Vec::is_empty")]
    pub blocks: Vec<u64>,
    /// What the ring was asked for.
    #[serde(default, with = "hex::one", skip_serializing_if = "Option::is_none")]
    pub ring: Option<u64>,
    /// Bytes of the prompt's text.
    #[serde(default, skip_serializing_if = "is_default")]
    pub bytes: u64,
    /// Of these, bytes of 0x80 and above.
    #[serde(default, skip_serializing_if = "is_default")]
    pub wide: u64,
    /// Images, sounds and files in it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub media: u32,
    /// Tokens in it that were sent as ids.
    #[serde(default, skip_serializing_if = "is_default")]
    pub token_ids: u64,
    /// Tokens of the prompt, as the gateway estimated them.
    #[serde(default, skip_serializing_if = "is_default")]
    pub estimate: u32,
    /// Tokens of the prompt, as the server counted them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<u32>,
    /// Of these, from its cache, as the server says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cached: Option<u32>,
    /// Tokens of output: as the server counted them, else as many as were seen in the stream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<u32>,
    /// The endpoint of the last attempt; none when there was none to be had.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<Arc<str>>,
    /// Attempts, where it took more than one.
    #[serde(default, skip_serializing_if = "is_default")]
    pub attempts: u32,
    /// From `at` until that endpoint was picked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub picked: Option<u64>,
    /// From `at` to the first output token of a stream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttft: Option<u64>,
    /// From `at` to the end.
    pub duration: u64,
    /// The status the client got; 499 when it left first.
    pub status: u16,
    /// What went wrong, in a word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Hashes as sixteen hexadecimal digits each, several without anything between.
mod hex {
    /// Digits of one hash.
    const DIGITS: usize = 16;

    fn parse<E: serde::de::Error>(digits: &[u8]) -> Result<u64, E> {
        let wrong = || E::custom("a hash is sixteen hexadecimal digits");
        // `from_str_radix` would take a sign.
        if digits.len() != DIGITS || !digits.iter().all(u8::is_ascii_hexdigit) {
            return Err(wrong());
        }
        let text = std::str::from_utf8(digits).map_err(|_| wrong())?;
        u64::from_str_radix(text, 16).map_err(|_| wrong())
    }

    pub(super) mod one {
        use serde::{Deserialize, Deserializer, Serializer};

        #[expect(clippy::ref_option, reason = "serde passes the field by reference")]
        pub(in crate::trace::line) fn serialize<S: Serializer>(hash: &Option<u64>, out: S) -> Result<S::Ok, S::Error> {
            out.collect_str(&format_args!("{:016x}", hash.unwrap_or_default()))
        }

        pub(in crate::trace::line) fn deserialize<'de, D: Deserializer<'de>>(
            input: D,
        ) -> Result<Option<u64>, D::Error> {
            super::parse(String::deserialize(input)?.as_bytes()).map(Some)
        }
    }

    pub(super) mod many {
        use std::fmt::Write as _;

        use serde::{Deserialize, Deserializer, Serializer};

        pub(in crate::trace::line) fn serialize<S: Serializer>(hashes: &[u64], out: S) -> Result<S::Ok, S::Error> {
            let mut text = String::with_capacity(hashes.len() * super::DIGITS);
            for hash in hashes {
                let _ = write!(text, "{hash:016x}");
            }
            out.serialize_str(&text)
        }

        pub(in crate::trace::line) fn deserialize<'de, D: Deserializer<'de>>(input: D) -> Result<Vec<u64>, D::Error> {
            let text = String::deserialize(input)?;
            text.as_bytes().chunks(super::DIGITS).map(super::parse).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    prop_compose! {
        fn request()(
            numbers in prop::array::uniform6(any::<u64>()),
            counts in prop::array::uniform4(any::<u32>()),
            names in prop::array::uniform3("[ -~é\n\"]{0,12}"),
            given in prop::array::uniform8(any::<bool>()),
            flags in any::<(bool, bool)>(),
            blocks in prop::collection::vec(any::<u64>(), 0..5),
            (after, ring, status) in any::<(Option<u64>, Option<u64>, u16)>(),
        ) -> Request {
            let [at, bytes, wide, token_ids, time, duration] = numbers;
            let [media, estimate, attempts, count] = counts;
            let [pool, model, endpoint] = names;
            let maybe = |index: usize| given[index].then_some(count);
            let moment = |index: usize| given[index].then_some(time);
            Request {
                at, pool: pool.into(), model: model.into(), adapter: flags.0, stream: flags.1, max_tokens: maybe(0),
                after, blocks, ring, bytes, wide, media, token_ids, estimate, prompt: maybe(1), cached: maybe(2),
                output: maybe(3), endpoint: given[4].then(|| endpoint.clone().into()), attempts, picked: moment(5),
                ttft: moment(6), duration, status, error: given[7].then_some(endpoint),
            }
        }
    }

    proptest! {
        #[test]
        fn a_line_reads_back_as_it_was_written(request in request()) {
            let line = Line::Request(Box::new(request));
            let text = serde_json::to_string(&line).unwrap();
            prop_assert!(!text.contains('\n'), "{text}");
            prop_assert_eq!(serde_json::from_str::<Line>(&text).unwrap(), line);
        }

        #[test]
        fn any_text_is_a_line_or_an_error(text in "\\PC*|\\{\"request\":\\{\"(after|blocks)\":\"[0-9a-fé+]{0,40}\"\\}\\}") {
            let _ = serde_json::from_str::<Line>(&text);
        }
    }

    #[test]
    fn what_is_the_rule_is_left_out() {
        let request = Request { at: 5, pool: "p".into(), model: "m".into(), ..Request::default() };
        let text = serde_json::to_string(&Line::Request(Box::new(request))).unwrap();
        assert_eq!(text, r#"{"request":{"at":5,"pool":"p","model":"m","duration":0,"status":0}}"#);
    }
}
