//! Answers that are not streams, and the error shapes of the servers we copy.

use hyper::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use hyper::{Response, StatusCode};

use super::body::{AnyBody, whole};
use crate::engine::Refused;

/// A response before its exchange is attached.
pub(super) type Answer = Response<AnyBody>;

/// Whose error shape a path answers with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ErrorShape {
    /// vLLM's `{"error": {message, type, param, code}}`.
    OpenAi,
    /// `{"type": "error", "error": {type, message}}`.
    Anthropic,
    /// llama.cpp's `{"error": {code, message, type}}`.
    LlamaCpp,
}

/// A request that cannot be served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ApiError {
    pub(super) status: StatusCode,
    /// vLLM's name of the kind.
    pub(super) kind: &'static str,
    pub(super) message: String,
    pub(super) param: Option<String>,
}

impl ApiError {
    /// What vLLM raises itself.
    pub(super) fn bad_request(message: impl Into<String>, param: Option<&str>) -> Self {
        let param = param.map(str::to_owned);
        Self { status: StatusCode::BAD_REQUEST, kind: "BadRequestError", message: message.into(), param }
    }

    /// What its request validation raises.
    pub(super) fn invalid(kind: &str, place: &str, message: &str, rest: &str) -> Self {
        Self {
            status: StatusCode::BAD_REQUEST,
            kind: "Bad Request",
            message: format!(
                "1 validation error:\n  {{'type': '{kind}', 'loc': '{place}', 'msg': '{message}', 'input': {rest}}}"
            ),
            param: Some(place.to_owned()),
        }
    }

    /// An unknown model.
    pub(super) fn no_model(name: &str, aliases: &str) -> Self {
        Self {
            status: StatusCode::NOT_FOUND,
            kind: "NotFoundError",
            message: format!("The model `{name}` does not exist. Valid aliases: {aliases}."),
            param: Some("model".to_owned()),
        }
    }

    /// A full queue.
    pub(super) fn queue_full(limit: usize) -> Self {
        Self {
            status: StatusCode::SERVICE_UNAVAILABLE,
            kind: "Service Unavailable",
            message: format!("The engine's queue is full (max_num_queued_reqs={limit})."),
            param: None,
        }
    }

    /// An engine that lost the request.
    pub(super) fn engine_dead() -> Self {
        Self::internal("EngineCore encountered an issue. See stack trace (above) for the root cause.")
    }

    /// Anything else that is the server's fault.
    pub(super) fn internal(message: &str) -> Self {
        Self {
            status: StatusCode::INTERNAL_SERVER_ERROR,
            kind: "InternalServerError",
            message: message.to_owned(),
            param: None,
        }
    }

    pub(super) fn refused(refused: Refused) -> Self {
        match refused {
            Refused::TooLong { capacity } => {
                Self::bad_request(format!("The request needs more than the {capacity} tokens of the KV cache."), None)
            }
            Refused::Empty => Self::bad_request("The decoder prompt cannot be empty", None),
        }
    }

    pub(super) fn body(&self, shape: ErrorShape) -> String {
        let (message, kind, code) = (quoted(&self.message), quoted(self.kind), self.status.as_u16());
        match shape {
            ErrorShape::OpenAi => {
                let param = self.param.as_deref().map_or_else(|| "null".to_owned(), quoted);
                format!(r#"{{"error":{{"message":{message},"type":{kind},"param":{param},"code":{code}}}}}"#)
            }
            ErrorShape::Anthropic => format!(r#"{{"type":"error","error":{{"type":{kind},"message":{message}}}}}"#),
            ErrorShape::LlamaCpp => {
                let kind = if self.status.is_client_error() { "invalid_request_error" } else { "server_error" };
                format!(r#"{{"error":{{"code":{code},"message":{message},"type":"{kind}"}}}}"#)
            }
        }
    }

    pub(super) fn answer(&self, shape: ErrorShape) -> Answer {
        json(self.status, self.body(shape))
    }
}

pub(super) fn json(status: StatusCode, body: impl Into<String>) -> Answer {
    with_type(status, "application/json", body.into())
}

pub(super) fn text(status: StatusCode, body: impl Into<String>) -> Answer {
    with_type(status, "text/plain; charset=utf-8", body.into())
}

pub(super) fn with_type(status: StatusCode, content_type: &'static str, body: String) -> Answer {
    let mut answer = empty(status);
    *answer.body_mut() = whole(body);
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    answer
}

pub(super) fn empty(status: StatusCode) -> Answer {
    let mut answer = Response::new(whole(""));
    *answer.status_mut() = status;
    answer
}

/// Sets a header unless its value cannot be one.
pub(super) fn set(answer: &mut Response<impl Sized>, name: &'static str, value: &str) {
    if let Ok(value) = HeaderValue::from_bytes(value.as_bytes()) {
        answer.headers_mut().insert(HeaderName::from_static(name), value);
    }
}

/// A JSON string.
pub(super) fn quoted(text: &str) -> String {
    serde_json::to_string(text).expect("any text can be a JSON string")
}
