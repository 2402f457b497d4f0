//! The event a client gets when the endpoint failed in the middle of its stream.
//!
//! The status has gone out as 200, so this is the only way to say it: without the event, clients record a short answer
//! as a finished one.

use bytes::Bytes;

use super::kind::Dialect;

/// Type of the error in the forms of OpenAI, as in the gateway's own error replies for a failed endpoint.
const KIND: &str = "upstream_error";

/// Returns the error event of a dialect, for a place between two events. A chat stream is closed as well.
pub fn error_event(dialect: Dialect, message: &str) -> Bytes {
    event(dialect, message, 0, true)
}

pub(super) fn event(dialect: Dialect, message: &str, sequence: u64, at_boundary: bool) -> Bytes {
    let message = serde_json::Value::from(message);
    let lead = lead(at_boundary);
    let error = format!(r#"{{"message":{message},"type":"{KIND}","param":null,"code":null}}"#);
    Bytes::from(match dialect {
        Dialect::Chat => format!("{lead}data: {{\"error\":{error}}}\n\ndata: [DONE]\n\n"),
        // The flat members are the documented form; clients raise an error on the nested one.
        Dialect::Responses => format!(
            "{lead}event: error\ndata: {{\"type\":\"error\",\"sequence_number\":{sequence},\"code\":\"{KIND}\",\"message\":{message},\"param\":null,\"error\":{error}}}\n\n"
        ),
        Dialect::Messages => format!(
            "{lead}event: error\ndata: {{\"type\":\"error\",\"error\":{{\"type\":\"api_error\",\"message\":{message}}}}}\n\n"
        ),
    })
}

/// Returns what still has to follow after an error event of the endpoint's own.
pub(super) fn closing(dialect: Dialect, at_boundary: bool) -> Option<Bytes> {
    match dialect {
        Dialect::Chat => Some(Bytes::from(format!("{}data: [DONE]\n\n", lead(at_boundary)))),
        Dialect::Responses | Dialect::Messages => None,
    }
}

/// Ends the line and the event that was cut, whichever of the two are open.
fn lead(at_boundary: bool) -> &'static str {
    if at_boundary { "" } else { "\n\n" }
}
