//! A stream of events as it arrives: each event with its time, every byte kept, and how it ended.

use std::time::Instant;

use bytes::Bytes;
use http::Response;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use serde_json::Value;

/// One event.
#[derive(Clone, Debug)]
pub(crate) struct Event {
    /// The `event:` field, empty if there is none.
    pub(crate) name: String,
    /// The `data:` field.
    pub(crate) data: String,
    /// When its last byte arrived.
    pub(crate) at: Instant,
}

impl Event {
    /// The data as JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.data).unwrap_or_else(|error| panic!("{error} in event {:?}", self.data))
    }
}

/// How a response body ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// As its framing says.
    Proper,
    /// The connection or the stream broke.
    Broken,
}

/// Reads the events of a response.
#[derive(Debug)]
pub(crate) struct Events {
    body: Incoming,
    /// Every byte so far.
    bytes: Vec<u8>,
    /// Where the next event begins.
    next: usize,
    end: Option<End>,
    error: Option<hyper::Error>,
}

impl Events {
    /// The events of a response; panics if it is something else.
    pub(crate) fn of(response: Response<Incoming>) -> Self {
        let (head, body) = response.into_parts();
        let kind = head.headers.get("content-type").and_then(|value| value.to_str().ok()).unwrap_or("");
        assert!(kind.starts_with("text/event-stream"), "{} with content-type {kind:?} is no stream", head.status);
        Self { body, bytes: Vec::new(), next: 0, end: None, error: None }
    }

    /// The next event, as soon as it is whole; `None` at the end.
    pub(crate) async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.take() {
                return Some(event);
            }
            self.more().await?;
        }
    }

    /// All events to come, and how the stream ended.
    pub(crate) async fn rest(&mut self) -> (Vec<Event>, End) {
        let mut events = Vec::new();
        while let Some(event) = self.next().await {
            events.push(event);
        }
        (events, self.end.expect("no event follows only at the end"))
    }

    /// Why it broke, if it did.
    pub(crate) fn error(&self) -> Option<&hyper::Error> {
        self.error.as_ref()
    }

    async fn more(&mut self) -> Option<()> {
        if self.end.is_some() {
            return None;
        }
        loop {
            match self.body.frame().await {
                None => self.end = Some(End::Proper),
                Some(Err(error)) => {
                    self.end = Some(End::Broken);
                    self.error = Some(error);
                }
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) if !data.is_empty() => {
                        let data: Bytes = data;
                        self.bytes.extend_from_slice(&data);
                        return Some(());
                    }
                    _ => continue,
                },
            }
            return None;
        }
    }

    fn take(&mut self) -> Option<Event> {
        loop {
            let rest = &self.bytes[self.next..];
            let end = rest.windows(2).position(|two| two == b"\n\n")?;
            let text = String::from_utf8(rest[..end].to_vec()).expect("events are UTF-8");
            self.next += end + 2;
            let field = |name: &str| {
                let of_line = |line: &str| Some(line.strip_prefix(name)?.strip_prefix(':')?.trim_start().to_owned());
                text.lines().filter_map(of_line).collect::<Vec<_>>().join("\n")
            };
            let (name, data) = (field("event"), field("data"));
            if !data.is_empty() {
                return Some(Event { name, data, at: Instant::now() });
            }
        }
    }
}
