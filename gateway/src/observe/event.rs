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
            Value::Text(text) => match place {
                Place::Generated | Place::Delta => self.token |= !text.is_empty(),
                Place::Error => self.error |= !text.is_empty(),
                Place::Type => self.named(text),
                // SGLang's flat form of an error.
                Place::Object => self.error |= text == b"error",
                Place::FinishReason => self.finish = Finish::of_reason(text).or(self.finish),
                // The reason, where there is one, says more than the status and may stand before it.
                Place::Status => self.finish = self.finish.or(Finish::of_status(text)),
                _ => {}
            },
            Value::Scalar(text) => match place {
                Place::Error => self.error |= !matches!(text, b"null" | b"false"),
                Place::SequenceNumber => {
                    self.sequence = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
                }
                _ => self.counts.note(place, text),
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
