//! What a request says about itself, for routing: read from a finished [`Scan`] and the chunks it was made from.

use std::ops::Range;

use bytes::Bytes;
use spillway_picker::prefix::{Depths, PrefixHasher, Prompt, scope};

use super::{Surface, prompt};
use crate::scan::decode::Name;
use crate::scan::reader::Reader;
use crate::scan::{Key, Kind, Scan, Value};

/// Longest model name that is looked up, in bytes of UTF-8. Far above any real name, and small enough to log.
pub const MAX_MODEL_BYTES: usize = 1024;

/// Longest `user`, `prompt_cache_key` or `previous_response_id` that is used; longer ones count as absent. OpenAI's own
/// limit for the first two is 64 characters.
const MAX_ID_BYTES: usize = 1024;

/// Why a body that is a JSON object cannot be routed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InspectError {
    /// `model` is a number, an object or the like.
    #[error("model must be a string")]
    ModelNotString,
    /// `model` has more than [`MAX_MODEL_BYTES`].
    #[error("model is longer than {MAX_MODEL_BYTES} bytes")]
    ModelTooLong,
}

impl InspectError {
    /// Returns the field at fault, for `error.param`.
    pub const fn param(self) -> &'static str {
        match self {
            Self::ModelNotString | Self::ModelTooLong => "model",
        }
    }
}

/// The routing fields of one request. Values of an unexpected type count as absent, `model` excepted: the server will
/// say what is wrong with them.
#[derive(Clone, Debug)]
pub struct Inspected {
    /// The API that is spoken.
    pub surface: Surface,
    /// The model asked for. `None` when the field is absent, `null` or empty.
    pub model: Option<String>,
    /// The raw value of `model`, for [`splice_model`](crate::scan::splice_model). Present whenever the field is.
    pub model_range: Option<Range<usize>>,
    /// Whether a stream is asked for.
    pub stream: bool,
    /// Whether the stream is to end with usage (`stream_options.include_usage`).
    pub include_usage: bool,
    /// Most tokens the client wants back: `max_completion_tokens`, else `max_tokens`, else `max_output_tokens`.
    pub max_tokens: Option<u32>,
    /// Choices asked for; 1 when absent.
    pub n: u32,
    /// `priority` as the engine would read it. Whether a client may choose it is the listener's matter.
    pub priority: Option<i64>,
    /// `user`, or `metadata.user_id` of the Anthropic API.
    pub user: Option<String>,
    /// The client's own affinity key.
    pub prompt_cache_key: Option<String>,
    /// Separates prefix caches: requests with different salts share nothing.
    pub cache_salt: Option<String>,
    /// The stored response this one continues.
    pub previous_response_id: Option<String>,
    /// Length of the whole body.
    pub body_bytes: usize,
    scan: Scan,
}

impl Inspected {
    /// Reads the routing fields. `chunks` is the body that `scan` was made from.
    pub fn new(surface: Surface, scan: Scan, chunks: &[Bytes]) -> Result<Self, InspectError> {
        let field = |key| scan.value(key).map(|value| (value, Reader::new(chunks, value)));
        let id = |key| field(key).and_then(|(_, mut reader)| reader.owned_string(MAX_ID_BYTES));
        let count = |key| field(key).and_then(|(value, reader)| count(value, reader));
        Ok(Self {
            surface,
            model: field(Key::Model).map_or(Ok(None), |(value, reader)| model(value, reader))?,
            model_range: scan.value(Key::Model).map(Value::range),
            stream: field(Key::Stream).is_some_and(|(value, reader)| is_true(value, reader)),
            include_usage: field(Key::StreamOptions)
                .and_then(|(_, reader)| member(reader, b"include_usage"))
                .is_some_and(|mut reader| reader.token::<4>().is_some_and(|token| token.text() == "true")),
            max_tokens: count(Key::MaxCompletionTokens)
                .or_else(|| count(Key::MaxTokens))
                .or_else(|| count(Key::MaxOutputTokens)),
            n: count(Key::N).map_or(1, |n| n.max(1)),
            priority: field(Key::Priority)
                .and_then(|(_, mut reader)| reader.token::<24>())
                .and_then(|token| token.text().parse().ok()),
            user: id(Key::User).or_else(|| {
                let (_, metadata) = field(Key::Metadata)?;
                member(metadata, b"user_id")?.owned_string(MAX_ID_BYTES)
            }),
            prompt_cache_key: id(Key::PromptCacheKey),
            // Never cut: two salts must not become one.
            cache_salt: field(Key::CacheSalt).and_then(|(_, mut reader)| reader.owned_string(usize::MAX)),
            previous_response_id: id(Key::PreviousResponseId),
            body_bytes: scan.body_bytes(),
            scan,
        })
    }

    /// Hashes the prompt's text. What else belongs to its identity is added by [`prompt`](Self::prompt).
    pub fn hash(&self, chunks: &[Bytes], depths: Depths) -> PrefixHasher {
        let mut hasher = PrefixHasher::new(depths);
        prompt::feed(self.surface, &self.scan, chunks, &mut hasher);
        hasher
    }

    /// Ends what [`hash`](Self::hash) began, once it is known what model name goes on and in which cache scope the tenant
    /// is. `session` is the value of a configured session header; `prompt_cache_key` goes before it.
    pub fn prompt(
        &self,
        hasher: PrefixHasher,
        chunks: &[Bytes],
        model_sent: &str,
        tenant_scope: &str,
        session: Option<&[u8]>,
    ) -> Prompt {
        let salt = self.salt(chunks);
        let explicit = self.prompt_cache_key.as_deref().map(str::as_bytes).or(session).filter(|key| !key.is_empty());
        hasher.finish(scope(model_sent, tenant_scope, salt.as_deref()), explicit)
    }

    /// Returns the prompt's raw size and nothing else, without reading it: for pools with `affinity: off`. Media are
    /// not told from text here.
    pub fn unread_prompt(&self) -> Prompt {
        let raw = prompt::keys(self.surface).iter().filter_map(|&key| self.scan.value(key)).map(Value::len);
        Prompt { bytes: raw.sum::<usize>() as u64, ..Prompt::default() }
    }

    /// Joins `cache_salt` and `SGLang`'s `extra_key`, which does the same.
    fn salt(&self, chunks: &[Bytes]) -> Option<String> {
        let Some(extra) = self.scan.value(Key::ExtraKey).filter(|value| value.kind != Kind::Null) else {
            return self.cache_salt.clone();
        };
        let mut joined = self.cache_salt.clone().unwrap_or_default().into_bytes();
        joined.push(0);
        Reader::new(chunks, extra).canonical(|piece| joined.extend_from_slice(piece));
        Some(String::from_utf8_lossy(&joined).into_owned())
    }
}

fn model(value: Value, mut reader: Reader<'_>) -> Result<Option<String>, InspectError> {
    match value.kind {
        Kind::Null => Ok(None),
        Kind::String => match reader.owned_string(MAX_MODEL_BYTES) {
            Some(name) => Ok(Some(name).filter(|name| !name.is_empty())),
            None => Err(InspectError::ModelTooLong),
        },
        Kind::Number | Kind::True | Kind::False | Kind::Object | Kind::Array => Err(InspectError::ModelNotString),
    }
}

/// Reads a boolean as the Python engines do: they take 1 and "true" for true as well.
fn is_true(value: Value, mut reader: Reader<'_>) -> bool {
    match value.kind {
        Kind::True => true,
        Kind::Number => reader.token::<3>().is_some_and(|token| matches!(token.text(), "1" | "1.0")),
        Kind::String => reader.owned_string(4).is_some_and(|text| {
            ["true", "t", "yes", "y", "on", "1"].iter().any(|word| text.eq_ignore_ascii_case(word))
        }),
        Kind::False | Kind::Null | Kind::Object | Kind::Array => false,
    }
}

/// Reads a count of tokens or choices. Negative ones are absent, larger ones than fit are the largest that does.
fn count(value: Value, mut reader: Reader<'_>) -> Option<u32> {
    if value.kind != Kind::Number {
        return None;
    }
    let number = reader.token::<32>()?.text().parse::<f64>().ok()?;
    (number >= 0.0).then_some(number as u32)
}

/// Returns a reader at the value of one member of an object; of a repeated key, the last.
fn member<'a>(mut object: Reader<'a>, wanted: &[u8]) -> Option<Reader<'a>> {
    let mut found = None;
    let mut name = Name::new();
    if object.peek() == Some(b'{') && object.enter() {
        while let Some(key) = object.next_key(&mut name) {
            if key == wanted {
                found = Some(object);
            }
            object.skip_value();
        }
    }
    found
}
