//! What sort of body a response has, decided by the response and never by what the request asked for.
//!
//! A request with `stream: true` may well be answered by a plain JSON error.

/// The vocabulary of a surface's event stream.
///
/// All of them are read alike; it decides the form of an error event that is appended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// `/v1/chat/completions` and `/v1/completions`: `data:` lines of chunks, then `data: [DONE]`.
    Chat,
    /// `/v1/responses`: named events up to `response.completed`, `.incomplete` or `.failed`.
    Responses,
    /// `/v1/messages`: named events up to `message_stop`.
    Messages,
}

/// How a response body is to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Server-sent events.
    EventStream(Dialect),
    /// One JSON document, as a reply that does not stream has it.
    Json,
    /// Anything else: passed on unread.
    Opaque,
}

impl Kind {
    /// Returns how to read a body, from its response's status and `content-type` and `content-encoding` headers.
    ///
    /// Error replies and compressed bodies are opaque. `dialect` is that of the surface the request came in on.
    pub fn of(status: u16, content_type: Option<&[u8]>, content_encoding: Option<&[u8]>, dialect: Dialect) -> Self {
        let plain = content_encoding.is_none_or(|coding| coding.is_empty() || coding.eq_ignore_ascii_case(b"identity"));
        if !(200..300).contains(&status) || !plain {
            return Self::Opaque;
        }
        let media_type = content_type.and_then(|value| value.split(|&byte| byte == b';').next()).unwrap_or_default();
        let media_type = media_type.trim_ascii().to_ascii_lowercase();
        match media_type.as_slice() {
            b"text/event-stream" => Self::EventStream(dialect),
            b"application/json" => Self::Json,
            other if other.ends_with(b"+json") => Self::Json,
            _ => Self::Opaque,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_response_decides_what_its_body_is() {
        let stream = Kind::EventStream(Dialect::Chat);
        for (status, content_type, coding, expected) in [
            (200, Some("text/event-stream; charset=utf-8"), None, stream),
            (200, Some("Text/Event-Stream"), Some("identity"), stream),
            (200, Some("text/event-stream"), Some("gzip"), Kind::Opaque),
            (200, Some("application/json"), None, Kind::Json),
            (200, Some(" application/problem+json ;x=y"), None, Kind::Json),
            (200, Some("application/x-ndjson"), None, Kind::Opaque),
            (200, None, None, Kind::Opaque),
            (429, Some("application/json"), None, Kind::Opaque),
            (503, Some("text/event-stream"), None, Kind::Opaque),
        ] {
            let kind = Kind::of(status, content_type.map(str::as_bytes), coding.map(str::as_bytes), Dialect::Chat);
            assert_eq!(kind, expected, "{status} {content_type:?} {coding:?}");
        }
    }
}
