//! The bodies of a trace's requests, written before they are due.
//!
//! Those whose text is known from the start are written before the run; a later turn of a chat, when the answer to the one
//! before has come, since it repeats that answer as it was received.

use bytes::Bytes;

use crate::workload::text::text;
use crate::workload::trace::{Message, Request, Text, Trace};

/// The body of one request, in the order of keys in which clients write them. `reply` is the text received as the answer to
/// another request.
pub(super) fn write(trace: &Trace, request: &Request, model: &str, reply: impl Fn(usize) -> String) -> Bytes {
    let quoted = |text: &str| serde_json::Value::from(text).to_string();
    let message = |message: &Message| {
        let said = match message.text {
            words @ Text::Words { .. } => text(trace, words),
            Text::Reply { request } => reply(request),
        };
        format!(r#"{{"role":"{}","content":{}}}"#, message.role.as_str(), quoted(&said))
    };
    let messages = request.messages.iter().map(message).collect::<Vec<_>>().join(",");
    let streams = if request.streams { r#","stream":true,"stream_options":{"include_usage":true}"# } else { "" };
    let (model, output) = (quoted(model), request.output);
    format!(r#"{{"model":{model},"messages":[{messages}],"max_tokens":{output},"ignore_eos":true{streams}}}"#).into()
}

/// Whether its text depends on an answer.
pub(super) fn waits(request: &Request) -> bool {
    request.messages.iter().any(|message| matches!(message.text, Text::Reply { .. }))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;
    use crate::workload::trace::{Role, Start};

    #[test]
    fn a_body_asks_for_what_the_trace_says_and_repeats_what_was_answered() {
        let words = |role, segment, tokens| Message { role, text: Text::Words { segment, tokens } };
        let reply = Message { role: Role::Assistant, text: Text::Reply { request: 0 } };
        let request = Request {
            start: Start::At(Duration::ZERO),
            messages: vec![words(Role::System, 1, 3), words(Role::User, 2, 2), reply, words(Role::User, 3, 1)],
            output: 7,
            adapter: None,
            tenant: None,
            priority: crate::workload::trace::Priority::Standard,
            streams: true,
            seed: 0,
            conversation: 1,
        };
        assert!(waits(&request));
        let body = write(&Trace::default(), &request, "tiny", |_| " \"q\"\n".to_owned());
        let value: serde_json::Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(
            (&value["model"], &value["max_tokens"], &value["ignore_eos"]),
            (&json!("tiny"), &json!(7), &json!(true))
        );
        assert_eq!((&value["stream"], &value["stream_options"]["include_usage"]), (&json!(true), &json!(true)));
        assert_eq!(value["messages"][2], json!({"role": "assistant", "content": " \"q\"\n"}));
        assert_eq!(value["messages"][0]["content"].as_str().unwrap().split(' ').count(), 4, "a blank before each word");
        assert_eq!(value["messages"].as_array().unwrap().len(), 4);
    }
}
