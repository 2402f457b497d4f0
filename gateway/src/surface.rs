//! Which API a request speaks, judged by method and path alone, and what follows from that.
//!
//! What a newcomer gets wrong: this list is also the fence. A path that is not on it (an engine's `/sleep`,
//! `/reset_prefix_cache`, `/v1/load_lora_adapter`) is unknown to clients of the gateway, whatever the engine offers.

mod batch;
mod content;
mod conversation;
mod inspect;
mod media;
mod prompt;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

pub use inspect::{InspectError, Inspected, MAX_MODEL_BYTES};

/// The APIs that Spillway tells apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Surface {
    /// `POST /v1/chat/completions`.
    ChatCompletions,
    /// `POST /v1/completions`: a bare prompt.
    Completions,
    /// `POST /v1/embeddings` and its kin (`/pooling`, `/classify`).
    Embeddings,
    /// `POST /v1/responses`.
    Responses,
    /// `POST /v1/messages`, Anthropic's API.
    Messages,
    /// `POST /v1/messages/count_tokens`: tokenises and never reaches a GPU.
    CountTokens,
    /// Rerank and score, under all their paths.
    Rerank,
    /// Tokenize and detokenize.
    Tokenize,
    /// Any other `POST` below `/v1/`: passed on by its `model`.
    OtherJson,
    /// Multipart uploads (audio transcription and translation, image edits): the model is a form field.
    Form,
    /// `GET /v1/models`: answered by the gateway.
    Models,
    /// `GET /v1/models/{id}`: answered by the gateway; see [`model_in_path`].
    Model,
    /// A stored response by its id: get, delete or cancel; see [`response_in_path`]. There is no model in it.
    ResponseById,
    /// The path is known, but not with this method.
    MethodNotAllowed {
        /// What the `Allow` header must say.
        allow: &'static str,
    },
    /// Not served.
    Unknown,
}

/// The form in which a client expects errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorShape {
    /// `{"error":{"message","type","param","code"}}`.
    OpenAi,
    /// `{"type":"error","error":{"type","message"}}`.
    Anthropic,
}

impl Surface {
    /// Returns the surface of a request. `path` has no query; it is compared exactly, as the engines do.
    pub fn classify(method: &str, path: &str) -> Self {
        let (surface, allow) = match path {
            "/v1/chat/completions" => (Self::ChatCompletions, "POST"),
            "/v1/completions" => (Self::Completions, "POST"),
            "/v1/embeddings" | "/v1/classify" | "/classify" | "/pooling" => (Self::Embeddings, "POST"),
            "/v1/responses" => (Self::Responses, "POST"),
            "/v1/messages" => (Self::Messages, "POST"),
            "/v1/messages/count_tokens" => (Self::CountTokens, "POST"),
            "/v1/rerank" | "/v2/rerank" | "/rerank" | "/v1/score" | "/score" => (Self::Rerank, "POST"),
            "/v1/tokenize" | "/tokenize" | "/v1/detokenize" | "/detokenize" => (Self::Tokenize, "POST"),
            "/v1/audio/transcriptions" | "/v1/audio/translations" | "/v1/images/edits" | "/v1/images/variations" => {
                (Self::Form, "POST")
            }
            "/v1/models" => (Self::Models, "GET, HEAD"),
            // These have no model, and must reach every endpoint or none.
            "/v1/load_lora_adapter" | "/v1/unload_lora_adapter" | "/v1/files" | "/v1/batches" => return Self::Unknown,
            _ if model_in_path(path).is_some() => (Self::Model, "GET, HEAD"),
            _ => match path.strip_prefix("/v1/responses/").map(|id| id.split_once('/')) {
                Some(None) if response_in_path(path).is_some() => (Self::ResponseById, "GET, DELETE"),
                Some(Some((_, "cancel"))) if response_in_path(path).is_some() => (Self::ResponseById, "POST"),
                _ if method == "POST" && is_plain_v1(path) => (Self::OtherJson, "POST"),
                _ => return Self::Unknown,
            },
        };
        if allow.split(", ").any(|allowed| allowed == method) { surface } else { Self::MethodNotAllowed { allow } }
    }

    /// Returns the name by which metrics and logs know the surface.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ChatCompletions => "chat_completions",
            Self::Completions => "completions",
            Self::Embeddings => "embeddings",
            Self::Responses => "responses",
            Self::Messages => "messages",
            Self::CountTokens => "count_tokens",
            Self::Rerank => "rerank",
            Self::Tokenize => "tokenize",
            Self::OtherJson => "other",
            Self::Form => "form",
            Self::Models => "models",
            Self::Model => "model",
            Self::ResponseById => "response_by_id",
            Self::MethodNotAllowed { .. } | Self::Unknown => "unknown",
        }
    }

    /// Returns whether the body is a JSON object to be scanned for its model.
    pub const fn reads_body(self) -> bool {
        match self {
            Self::ChatCompletions
            | Self::Completions
            | Self::Embeddings
            | Self::Responses
            | Self::Messages
            | Self::CountTokens
            | Self::Rerank
            | Self::Tokenize
            | Self::OtherJson => true,
            Self::Form
            | Self::Models
            | Self::Model
            | Self::ResponseById
            | Self::MethodNotAllowed { .. }
            | Self::Unknown => false,
        }
    }

    /// Returns the form in which this surface reports errors.
    pub const fn error_shape(self) -> ErrorShape {
        match self {
            Self::Messages | Self::CountTokens => ErrorShape::Anthropic,
            _ => ErrorShape::OpenAi,
        }
    }

    /// Returns whether an answer may be a stream of events, if the request asks for it.
    pub const fn can_stream(self) -> bool {
        matches!(
            self,
            Self::ChatCompletions
                | Self::Completions
                | Self::Responses
                | Self::Messages
                | Self::OtherJson
                | Self::Form
                | Self::ResponseById
        )
    }
}

/// Returns the id in `/v1/models/{id}`, percent-decoded. It may hold slashes, written as such or as `%2F`.
pub fn model_in_path(path: &str) -> Option<Cow<'_, str>> {
    percent_decoded(path.strip_prefix("/v1/models/").filter(|id| !id.is_empty())?)
}

/// Returns a part of a path with its escapes decoded; `None` when that is not text.
pub(crate) fn percent_decoded(part: &str) -> Option<Cow<'_, str>> {
    if !part.contains('%') {
        return Some(Cow::Borrowed(part));
    }
    let mut decoded = Vec::with_capacity(part.len());
    let mut bytes = part.bytes();
    while let Some(byte) = bytes.next() {
        decoded.push(match byte {
            b'%' => {
                let mut digit = || char::from(bytes.next()?).to_digit(16);
                (digit()? << 4 | digit()?) as u8
            }
            byte => byte,
        });
    }
    String::from_utf8(decoded).ok().map(Cow::Owned)
}

/// Returns the id in `/v1/responses/{id}` and `/v1/responses/{id}/cancel`.
pub fn response_in_path(path: &str) -> Option<&str> {
    let rest = path.strip_prefix("/v1/responses/")?;
    let id = rest.strip_suffix("/cancel").unwrap_or(rest);
    let is_id = !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte));
    is_id.then_some(id)
}

/// Returns whether the path lies below `/v1/` however a server may normalise it: no dot segments, escapes or empty
/// segments, with which a client could reach around the fence.
fn is_plain_v1(path: &str) -> bool {
    path.strip_prefix("/v1/").is_some_and(|rest| {
        rest.split('/').all(|segment| {
            !matches!(segment, "" | "." | "..")
                && segment.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.:".contains(&byte))
        })
    })
}
