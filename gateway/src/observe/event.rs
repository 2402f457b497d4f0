//! What one event, or one JSON reply, says.

use super::finish::Finish;
use super::json::Value;
use super::place::Place;
use super::usage::Counts;

/// The facts of one document, gathered in any order of its keys.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Event {
    /// It has generated content.
    pub(super) token: bool,
    pub(super) error: bool,
    /// It is the stream's end marker.
    pub(super) ends: bool,
    pub(super) finish: Option<Finish>,
    pub(super) counts: Counts,
    pub(super) sequence: Option<u64>,
}

impl Event {
    /// Takes note of a value.
    pub(super) fn note(&mut self, place: Place, value: Value<'_>) {
        match value {
            Value::Text(word) => match place {
                Place::Generated | Place::Delta => self.token |= !word.is_empty(),
                Place::Error => self.error |= !word.is_empty(),
                Place::Type => self.named(word.as_bytes()),
                // SGLang's flat form of an error.
                Place::Object => self.error |= word.as_bytes() == b"error",
                Place::FinishReason => self.finish = finish_reason(word.is_empty(), word.as_bytes()).or(self.finish),
                // The reason, where there is one, says more than the status and may stand before it.
                Place::Status => self.finish = self.finish.or(Finish::of_status(word.as_bytes())),
                _ => {}
            },
            Value::Scalar(word) => match place {
                Place::Error => self.error |= !matches!(word.as_bytes(), b"null" | b"false"),
                Place::SequenceNumber => {
                    self.sequence = std::str::from_utf8(word.as_bytes()).ok().and_then(|text| text.parse().ok());
                }
                _ => self.counts.note(place, word.as_bytes()),
            },
        }
    }

    /// Takes note of the event's name, which stands in its `event:` line, in its `type`, or in both.
    pub(super) fn named(&mut self, name: &[u8]) {
        match name {
            b"error" => self.error = true,
            b"message_stop" | b"response.completed" | b"response.incomplete" => self.ends = true,
            b"response.failed" => {
                self.ends = true;
                self.error = true;
            }
            _ => {}
        }
    }
}

fn finish_reason(is_empty: bool, reason: &[u8]) -> Option<Finish> {
    // Text too long to be kept reads as empty, but is a reason all the same.
    if !is_empty && reason.is_empty() { Some(Finish::Other) } else { Finish::of_reason(reason) }
}
