//! What the gateway itself answers when it cannot pass a server's answer on.
//!
//! A client sees one JSON shape per API with the status SDKs act upon; facts for the operator go to the access log, never
//! into the body.

use std::time::Duration;

use bytes::Bytes;
use pingora_core::Result;
use pingora_http::ResponseHeader;
use serde_json::{Value, json};

use crate::surface::ErrorShape;

/// Why a request is not served. Every variant is final: it is what the client gets.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Refusal {
    /// The body is not a JSON object, or is cut.
    #[error("the request body is not a valid JSON object: {0}")]
    BadBody(String),
    /// Framing or headers that no well-meant client sends.
    #[error("{0}")]
    BadRequest(&'static str),
    /// The client stopped sending before the body was whole.
    #[error("the request body did not arrive in time")]
    SlowBody,
    /// No model where one is needed.
    #[error("this request needs a model: set \"model\" in the JSON body, or let the operator configure default_model")]
    ModelRequired,
    /// `model` is there and cannot be a name.
    #[error("\"model\" must be a string of 1 to 1,024 bytes")]
    BadModel,
    /// No API key where one is needed.
    #[error("an API key is needed: send it as `Authorization: Bearer KEY`")]
    NoKey,
    /// An API key that nobody has.
    #[error("the API key is not valid")]
    BadKey,
    /// The key does not open this model.
    #[error("the API key may not use the model `{0}`")]
    ModelForbidden(String),
    /// A name that leads nowhere.
    #[error("the model `{0}` does not exist; GET /v1/models lists what does")]
    UnknownModel(String),
    /// A path this gateway does not carry.
    #[error("no such path: {0}")]
    UnknownPath(String),
    /// The path is known, the method is not.
    #[error("method not allowed on this path; use {0}")]
    MethodNotAllowed(&'static str),
    /// Larger than `limits.body`.
    #[error("the request body is larger than {0} bytes")]
    TooLarge(u64),
    /// Header section larger than `limits.headers`.
    #[error("the request headers are larger than {0} bytes")]
    HeadersTooLarge(u64),
    /// A body encoding that is not read.
    #[error("content-encoding is not supported; send the body as plain JSON")]
    Encoding,
    /// The pool's `limits.in_flight`.
    #[error("too many requests in flight for this model; try again shortly")]
    InFlight,
    /// Process-wide body memory is used up.
    #[error("the gateway holds as many request bodies as it may; try again shortly")]
    Memory,
    /// Nothing in the pool can take it.
    #[error("no endpoint is available for this model")]
    NoEndpoint,
    /// Every endpoint is at `affinity.concurrency`.
    #[error("every endpoint for this model is at its limit; try again shortly")]
    Saturated,
    /// Endpoints failed before the first byte and the retries are spent.
    #[error("the model server could not be reached or closed the connection before it answered")]
    Failed,
    /// No answer within a deadline.
    #[error("the model server did not answer in time")]
    TimedOut,
    /// Our own fault.
    #[error("internal error")]
    Internal,
}

/// Where SDKs are told to come back: long enough not to hammer, short enough that a drained queue is not left idle.
const COME_BACK: Duration = Duration::from_secs(1);

impl Refusal {
    /// Every value of [`code`](Self::code).
    pub const CODES: [&str; 21] = [
        "invalid_json",
        "bad_request",
        "request_timeout",
        "model_required",
        "invalid_model",
        "missing_api_key",
        "invalid_api_key",
        "model_forbidden",
        "model_not_found",
        "not_found",
        "method_not_allowed",
        "request_too_large",
        "headers_too_large",
        "unsupported_encoding",
        "in_flight",
        "memory",
        "no_endpoint",
        "saturated",
        "endpoint_failed",
        "endpoint_timeout",
        "internal",
    ];

    /// The message where an answer has begun and will not be finished.
    pub fn in_stream(&self) -> String {
        match self {
            Self::Failed => "the model server broke off its answer".to_owned(),
            Self::TimedOut => "the model server did not go on with its answer in time".to_owned(),
            other => other.to_string(),
        }
    }

    /// The HTTP status.
    pub fn status(&self) -> u16 {
        match self {
            Self::BadBody(_) | Self::BadRequest(_) | Self::ModelRequired | Self::BadModel => 400,
            Self::NoKey | Self::BadKey => 401,
            Self::ModelForbidden(_) => 403,
            Self::UnknownModel(_) | Self::UnknownPath(_) => 404,
            Self::MethodNotAllowed(_) => 405,
            Self::SlowBody => 408,
            Self::TooLarge(_) => 413,
            Self::Encoding => 415,
            Self::InFlight | Self::Saturated => 429,
            Self::HeadersTooLarge(_) => 431,
            Self::Internal => 500,
            Self::Failed => 502,
            Self::Memory | Self::NoEndpoint => 503,
            Self::TimedOut => 504,
        }
    }

    /// The `type` of the OpenAI shape.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::NoKey | Self::BadKey => "authentication_error",
            Self::ModelForbidden(_) => "permission_error",
            Self::InFlight => "rate_limit_exceeded",
            Self::Saturated => "overloaded",
            Self::Memory | Self::NoEndpoint => "service_unavailable",
            Self::Failed | Self::TimedOut => "upstream_error",
            Self::Internal => "internal_error",
            _ => "invalid_request_error",
        }
    }

    /// The `code` of the OpenAI shape; also the `reason` in metrics and the access log.
    pub fn code(&self) -> &'static str {
        match self {
            Self::BadBody(_) => "invalid_json",
            Self::BadRequest(_) => "bad_request",
            Self::SlowBody => "request_timeout",
            Self::ModelRequired => "model_required",
            Self::BadModel => "invalid_model",
            Self::NoKey => "missing_api_key",
            Self::BadKey => "invalid_api_key",
            Self::ModelForbidden(_) => "model_forbidden",
            Self::UnknownModel(_) => "model_not_found",
            Self::UnknownPath(_) => "not_found",
            Self::MethodNotAllowed(_) => "method_not_allowed",
            Self::TooLarge(_) => "request_too_large",
            Self::HeadersTooLarge(_) => "headers_too_large",
            Self::Encoding => "unsupported_encoding",
            Self::InFlight => "in_flight",
            Self::Memory => "memory",
            Self::NoEndpoint => "no_endpoint",
            Self::Saturated => "saturated",
            Self::Failed => "endpoint_failed",
            Self::TimedOut => "endpoint_timeout",
            Self::Internal => "internal",
        }
    }

    /// The request field at fault, where one is.
    fn param(&self) -> Option<&'static str> {
        matches!(self, Self::ModelRequired | Self::BadModel | Self::UnknownModel(_) | Self::ModelForbidden(_))
            .then_some("model")
    }

    /// How long a client should wait before it tries again, where trying again can help.
    pub fn retry_after(&self) -> Option<Duration> {
        matches!(self.status(), 429 | 503).then_some(COME_BACK)
    }

    /// Whether the connection must close because part of the request may still be on its way.
    pub fn closes(&self) -> bool {
        matches!(
            self,
            Self::BadRequest(_)
                | Self::SlowBody
                | Self::TooLarge(_)
                | Self::HeadersTooLarge(_)
                | Self::Encoding
                | Self::Memory
        )
    }

    /// The `type` of the Anthropic shape.
    fn anthropic_kind(&self) -> &'static str {
        match self.status() {
            401 => "authentication_error",
            403 => "permission_error",
            404 => "not_found_error",
            413 => "request_too_large",
            429 => "rate_limit_error",
            503 => "overloaded_error",
            400..=499 => "invalid_request_error",
            _ => "api_error",
        }
    }

    /// The body in the shape of the API that was called.
    pub fn body(&self, shape: ErrorShape) -> Bytes {
        let value: Value = match shape {
            ErrorShape::OpenAi => json!({"error": {
                "message": self.to_string(), "type": self.kind(), "param": self.param(), "code": self.code(),
            }}),
            ErrorShape::Anthropic => json!({"type": "error", "error": {
                "type": self.anthropic_kind(), "message": self.to_string(),
            }}),
        };
        Bytes::from(value.to_string())
    }

    /// The response head for a body of `length` bytes. `jitter` in [0, 1) spreads returning clients.
    pub fn head(&self, length: usize, jitter: f64) -> Result<ResponseHeader> {
        let mut head = ResponseHeader::build(self.status(), Some(6))?;
        head.insert_header("content-type", "application/json")?;
        head.insert_header("content-length", length)?;
        if let Some(wait) = self.retry_after() {
            let millis = (wait.as_secs_f64() * 1000.0 * (0.5 + jitter)) as u64;
            head.insert_header("retry-after", wait.as_secs().max(1))?;
            head.insert_header("retry-after-ms", millis)?;
        }
        if let Self::MethodNotAllowed(allowed) = self {
            head.insert_header("allow", *allowed)?;
        }
        if let Self::NoKey | Self::BadKey = self {
            head.insert_header("www-authenticate", "Bearer")?;
        }
        if let Self::TimedOut = self {
            // The work may still run on the server: an SDK's blind retry would double it.
            head.insert_header("x-should-retry", "false")?;
        }
        Ok(head)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_model_is_told_in_the_shape_of_the_api() {
        let refusal = Refusal::UnknownModel("no\"pe".into());
        let openai: Value = serde_json::from_slice(&refusal.body(ErrorShape::OpenAi)).unwrap();
        assert_eq!(openai["error"]["code"], "model_not_found");
        assert_eq!(openai["error"]["param"], "model");
        assert!(openai["error"]["message"].as_str().unwrap().contains("no\"pe"));
        let anthropic: Value = serde_json::from_slice(&refusal.body(ErrorShape::Anthropic)).unwrap();
        assert_eq!(anthropic["type"], "error");
        assert_eq!(anthropic["error"]["type"], "not_found_error");
    }

    #[test]
    fn every_code_is_listed() {
        let listed: std::collections::BTreeSet<_> = Refusal::CODES.into_iter().collect();
        assert_eq!(listed.len(), Refusal::CODES.len());
        let all = [
            Refusal::BadBody(String::new()),
            Refusal::BadRequest(""),
            Refusal::SlowBody,
            Refusal::ModelRequired,
            Refusal::BadModel,
            Refusal::NoKey,
            Refusal::BadKey,
            Refusal::ModelForbidden(String::new()),
            Refusal::UnknownModel(String::new()),
            Refusal::UnknownPath(String::new()),
            Refusal::MethodNotAllowed(""),
            Refusal::TooLarge(0),
            Refusal::HeadersTooLarge(0),
            Refusal::Encoding,
            Refusal::InFlight,
            Refusal::Memory,
            Refusal::NoEndpoint,
            Refusal::Saturated,
            Refusal::Failed,
            Refusal::TimedOut,
            Refusal::Internal,
        ];
        for refusal in &all {
            assert!(listed.contains(refusal.code()), "{refusal:?} is counted under a code that is not listed");
        }
        assert_eq!(all.len(), listed.len(), "a code that no refusal has");
    }

    #[test]
    fn what_can_be_retried_says_when() {
        let head = Refusal::InFlight.head(10, 0.5).unwrap();
        assert_eq!(head.headers["retry-after"], "1");
        assert_eq!(head.headers["retry-after-ms"], "1000");
        assert!(Refusal::BadModel.head(10, 0.5).unwrap().headers.get("retry-after").is_none());
    }
}
