//! Looks at a response body as it passes: first token, usage, errors in the stream, and whether the stream ended as it should.
//!
//! The observer holds no text and keeps no events: every byte is scanned once, where it lies, and what is remembered is
//! a few counters. So it does not matter where the network cut the stream, how large an event is, or how long the stream
//! runs. A newcomer's mistake is to count events as tokens: one event may hold several, and only `usage` has the truth.

mod event;
mod failure;
mod finish;
mod json;
mod kind;
mod place;
mod short;
mod sse;
mod stream;
#[cfg(test)]
mod tests;
mod usage;

use bytes::Bytes;

pub use failure::error_event;
pub use finish::Finish;
pub use kind::{Dialect, Kind};
pub use usage::Usage;

use event::Event;
use json::Scanner;
use sse::Framing;
use stream::Stream;

/// What one chunk of the body held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Events with data that were completed in this chunk, of any sort. Comments are not events.
    pub events: u32,
    /// Those of them that carry generated content: text, reasoning, a tool call. Not a number of tokens.
    pub tokens: u32,
    /// Whether the first event with generated content of the whole stream is among them.
    pub first_token: bool,
    /// Whether an error event is among them. The HTTP status is long gone by then and says 200.
    pub error: bool,
    /// Whether the stream's own end marker is among them.
    pub ended: bool,
}

/// What the whole body held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Token counts as the server reported them; each is `None` when it did not.
    pub usage: Usage,
    /// Events with data.
    pub events: u64,
    /// Events with generated content. Not a number of tokens.
    pub token_events: u64,
    /// Event stream: its end marker was seen. JSON: the document is complete. Opaque: always true, nobody can tell.
    pub ended_properly: bool,
    /// Whether an error was reported inside a body whose status said success.
    pub error_in_stream: bool,
    /// Event stream: whether one was reported that the endpoint is to blame for, without the code of a 4xx status. A document
    /// may tell of an error long past, such as that of a response asked for again.
    pub at_fault: bool,
    /// Why generation ended, when the server said so. With several choices, the last one's.
    pub finish: Option<Finish>,
}

/// Watches one response body. A few hundred bytes, whatever the body.
#[derive(Clone, Debug)]
pub struct Observer {
    kind: Kind,
    framing: Framing,
    stream: Stream,
}

impl Observer {
    /// Returns an observer that has seen nothing yet.
    pub fn new(kind: Kind) -> Self {
        Self { kind, framing: Framing::default(), stream: Stream::default() }
    }

    /// Returns what the body was taken for.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Looks at the next chunk of the body. Chunks must come in order; where they were cut makes no difference.
    ///
    /// An event is reported with the chunk that completes it.
    pub fn observe(&mut self, chunk: &[u8]) -> Seen {
        let mut seen = Seen::default();
        match self.kind {
            Kind::EventStream(_) => {
                let stream = &mut self.stream;
                self.framing.feed(chunk, |piece| stream.take(piece, &mut seen));
            }
            Kind::Json => self.stream.document(chunk),
            Kind::Opaque => {}
        }
        seen
    }

    /// Returns what the body held. To be called when no more bytes come, whatever the reason.
    ///
    /// A last event without its blank line counts if it is whole. Calling again gives the same.
    pub fn finish(&mut self) -> Summary {
        match self.kind {
            Kind::EventStream(_) => self.stream.end_of_body(),
            Kind::Json => self.stream.document_summary(),
            Kind::Opaque => Summary { ended_properly: true, ..Summary::default() },
        }
    }

    /// Returns whether the bytes seen so far end between two events, so that another event can follow directly.
    ///
    /// True before the first byte. Means nothing for a body that is not an event stream.
    pub fn at_event_boundary(&self) -> bool {
        self.framing.at_boundary()
    }

    /// Returns whether the stream's own end marker was seen: whatever happens to the connection after it does no harm.
    pub fn has_ended(&self) -> bool {
        self.stream.has_ended()
    }

    /// Returns what to append to the body when its endpoint failed in the middle of it.
    ///
    /// The event has the form of the stream's dialect, carries on its sequence numbers, and starts with a blank line
    /// when the last event was cut. `None` when nothing should follow: the body is no event stream, or it has ended, or
    /// it told of an error itself (then only the closing `[DONE]` of a chat stream is returned).
    pub fn error_event(&self, message: &str) -> Option<Bytes> {
        let Kind::EventStream(dialect) = self.kind else { return None };
        if self.has_ended() {
            return None;
        }
        let at_boundary = self.at_event_boundary();
        if self.stream.has_error() {
            return failure::closing(dialect, at_boundary);
        }
        Some(failure::event(dialect, message, self.stream.next_sequence(), at_boundary))
    }
}

/// Entry for a fuzzer: any bytes, any cuts, every kind. The first byte decides the size of the pieces.
#[doc(hidden)]
pub fn fuzz(data: &[u8]) {
    let Some((&size, body)) = data.split_first() else { return };
    for kind in [Kind::EventStream(Dialect::Chat), Kind::EventStream(Dialect::Responses), Kind::Json, Kind::Opaque] {
        let mut whole = Observer::new(kind);
        whole.observe(body);
        let mut pieces = Observer::new(kind);
        for piece in body.chunks(usize::from(size).max(1)) {
            pieces.observe(piece);
        }
        assert_eq!(whole.finish(), pieces.finish(), "where the body is cut must not matter ({kind:?})");
        assert_eq!(whole.error_event("x"), pieces.error_event("x"), "nor for what is appended ({kind:?})");
    }
}
