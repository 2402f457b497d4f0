//! Puts the pieces of a body together into events, and the events into what is known of the whole.

use super::finish::Finish;
use super::short::Short;
use super::sse::Piece;
use super::usage::Counts;
use super::{Event, Scanner, Seen, Summary};

/// How a chat stream says that it is over. It is no JSON, and its blank line may be missing.
const DONE: &[u8] = b"[DONE]";

/// Longest event name of interest is `response.incomplete`, 19 bytes.
const EVENT_NAME_BYTES: usize = 24;

/// The event under way, and the sum of those before.
#[derive(Clone, Debug, Default)]
pub(super) struct Stream {
    scanner: Scanner,
    event: Event,
    name: Short<EVENT_NAME_BYTES>,
    /// Bytes of [`DONE`] that the data of this event started with; more than it has once they differ.
    done: u8,
    /// `data:` lines of this event.
    lines: u32,
    total: Total,
}

#[derive(Clone, Copy, Debug, Default)]
struct Total {
    events: u64,
    tokens: u64,
    error: bool,
    at_fault: bool,
    ended: bool,
    finish: Option<Finish>,
    counts: Counts,
    next_sequence: u64,
}

impl Stream {
    pub(super) fn take(&mut self, piece: Piece<'_>, seen: &mut Seen) {
        match piece {
            Piece::DataBegins => {
                if self.lines > 0 {
                    self.data(b"\n");
                }
                self.lines = self.lines.saturating_add(1);
            }
            Piece::Data(bytes) => self.data(bytes),
            Piece::NameBegins => self.name.clear(),
            Piece::Name(bytes) => self.name.push(bytes),
            Piece::EventEnds => self.event_ends(seen),
        }
    }

    /// Reads on in a body that is one document.
    pub(super) fn document(&mut self, bytes: &[u8]) {
        let event = &mut self.event;
        self.scanner.feed(bytes, |place, value| event.note(place, value));
    }

    pub(super) fn document_summary(&self) -> Summary {
        Summary {
            usage: self.event.counts.usage(),
            ended_properly: self.scanner.is_complete(),
            error_in_stream: self.event.error.is_error,
            finish: self.event.finish,
            ..Summary::default()
        }
    }

    /// Settles an event whose blank line never came.
    pub(super) fn end_of_body(&mut self) -> Summary {
        if self.is_done() || self.scanner.is_complete() {
            self.event_ends(&mut Seen::default());
        }
        let Total { events, tokens, error, at_fault, ended, finish, counts, next_sequence: _ } = self.total;
        Summary {
            usage: counts.usage(),
            events,
            token_events: tokens,
            ended_properly: ended,
            error_in_stream: error,
            at_fault,
            finish,
        }
    }

    pub(super) fn has_ended(&self) -> bool {
        self.total.ended
    }

    pub(super) fn has_error(&self) -> bool {
        self.total.error
    }

    /// Returns the number that the next event would bear in a dialect that counts its events.
    pub(super) fn next_sequence(&self) -> u64 {
        self.total.next_sequence
    }

    fn data(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            match DONE.get(usize::from(self.done)) {
                Some(&expected) if expected == byte => self.done += 1,
                Some(_) => self.done = u8::MAX,
                None => break,
            }
        }
        self.document(bytes);
    }

    fn is_done(&self) -> bool {
        usize::from(self.done) == DONE.len()
    }

    fn event_ends(&mut self, seen: &mut Seen) {
        if self.lines > 0 {
            if !self.scanner.is_complete() {
                // Half a document is no evidence of anything.
                self.event = Event::default();
            }
            self.event.named(self.name.as_bytes());
            self.event.ends |= self.is_done();
            self.count(seen);
            self.scanner.reset();
            self.event = Event::default();
            self.done = 0;
            self.lines = 0;
        }
        self.name.clear();
    }

    fn count(&mut self, seen: &mut Seen) {
        let Event { token, error, ends, finish, counts, sequence } = self.event;
        let total = &mut self.total;
        seen.events += 1;
        seen.tokens += u32::from(token);
        seen.first_token |= token && total.tokens == 0;
        seen.error |= error.is_error;
        seen.ended |= ends;
        total.events += 1;
        total.tokens += u64::from(token);
        total.error |= error.is_error;
        total.at_fault |= error.blames_endpoint();
        total.ended |= ends;
        total.finish = finish.or(total.finish);
        total.counts.update(counts);
        total.next_sequence = sequence.map_or(total.next_sequence, |last| last.saturating_add(1));
    }
}
