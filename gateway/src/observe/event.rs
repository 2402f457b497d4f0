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
    pub(super) error: Told,
    /// It is the stream's end marker.
    pub(super) ends: bool,
    pub(super) finish: Option<Finish>,
    pub(super) counts: Counts,
    pub(super) sequence: Option<u64>,
}

/// The error that an event tells of, if it does.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Told {
    pub(super) is_error: bool,
    /// Whether its own code is that of a 4xx status, when it has one.
    code: Option<bool>,
    /// Whether a code beside it is, as in SGLang's flat form.
    code_beside: bool,
}

impl Told {
    pub(super) fn blames_endpoint(self) -> bool {
        self.is_error && !self.code.unwrap_or(self.code_beside)
    }
}

impl Event {
    /// Takes note of a value.
    pub(super) fn note(&mut self, place: Place, value: Value<'_>) {
        let (Value::Text(text) | Value::Scalar(text)) = value;
        let blames_client = text.len() == 3 && text.starts_with(b"4") && text.iter().all(u8::is_ascii_digit);
        match place {
            Place::ErrorCode if text != b"null" => self.error.code = Some(blames_client),
            Place::Code => self.error.code_beside = blames_client,
            _ => {}
        }
        match value {
            Value::Text(text) => match place {
                Place::Generated | Place::Delta => self.token |= !text.is_empty(),
                Place::Error | Place::ErrorCode | Place::ErrorDetail => self.error.is_error |= !text.is_empty(),
                Place::Type => self.named(text),
                // SGLang's flat form of an error.
                Place::Object => self.error.is_error |= text == b"error",
                Place::FinishReason => self.finish = Finish::of_reason(text).or(self.finish),
                // The reason, where there is one, says more than the status and may stand before it.
                Place::Status => self.finish = self.finish.or(Finish::of_status(text)),
                _ => {}
            },
            Value::Scalar(text) => match place {
                Place::Error | Place::ErrorCode | Place::ErrorDetail => {
                    self.error.is_error |= !matches!(text, b"null" | b"false");
                }
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
            b"error" => self.error.is_error = true,
            b"message_stop" | b"response.completed" | b"response.incomplete" => self.ends = true,
            b"response.failed" => {
                self.ends = true;
                self.error.is_error = true;
            }
            _ => {}
        }
    }
}
