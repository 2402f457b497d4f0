//! Why a generation ended, in one vocabulary for all dialects.

/// Class of a finish reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Finish {
    /// The model was done, or met a stop sequence.
    Stop,
    /// A limit on tokens cut it.
    Length,
    /// It called a tool.
    ToolCalls,
    /// A content filter or a refusal.
    Filtered,
    /// The server gave up: aborted, failed, cancelled.
    Aborted,
    /// A reason this program does not know.
    Other,
}

impl Finish {
    /// Returns the name used in logs and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::Length => "length",
            Self::ToolCalls => "tool_calls",
            Self::Filtered => "filtered",
            Self::Aborted => "aborted",
            Self::Other => "other",
        }
    }

    /// Returns the class of a reason's text. `None` for an empty one, which servers send while they go on.
    pub(super) fn of_reason(reason: &[u8]) -> Option<Self> {
        Some(match reason {
            b"" => return None,
            b"stop" | b"end_turn" | b"stop_sequence" | b"eos_token" => Self::Stop,
            b"length" | b"max_tokens" | b"max_output_tokens" | b"model_context_window_exceeded" => Self::Length,
            b"tool_calls" | b"function_call" | b"tool_use" => Self::ToolCalls,
            b"content_filter" | b"refusal" => Self::Filtered,
            b"abort" | b"error" => Self::Aborted,
            _ => Self::Other,
        })
    }

    /// Returns the class of a response object's status; `None` while it is under way.
    pub(super) fn of_status(status: &[u8]) -> Option<Self> {
        match status {
            b"completed" => Some(Self::Stop),
            b"incomplete" => Some(Self::Length),
            b"failed" | b"cancelled" => Some(Self::Aborted),
            _ => None,
        }
    }
}
