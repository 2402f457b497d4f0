//! `/v1/responses`.
//!
//! A reply cut by its limit ends with `response.completed` all the same; only the status inside says `incomplete`.

use super::{Choice, Head, Out, Piece, Surface, event};
use crate::engine::Finish;
use crate::http::reply::{ApiError, quoted};

#[derive(Debug, Default)]
pub(super) struct Responses {
    sequence: u32,
    begun: bool,
    text: String,
    finish: Option<Finish>,
}

/// Id of the one output message, derived from that of the response.
fn item_id(head: &Head) -> String {
    quoted(&format!("msg_{}", head.id.trim_start_matches("resp_")))
}

fn part(text: &str, logprobs: &str) -> String {
    format!(r#"{{"annotations":[],"text":{},"type":"output_text","logprobs":{logprobs}}}"#, quoted(text))
}

fn item(head: &Head, text: &str) -> String {
    let (id, part) = (item_id(head), part(text, "null"));
    format!(r#"{{"id":{id},"content":[{part}],"role":"assistant","status":"completed","type":"message","phase":null}}"#)
}

/// The response object: while it runs (`None`), or when it ended.
fn response(head: &Head, ended: Option<(&str, Finish)>) -> String {
    let (id, created, model, limit) = (quoted(&head.id), head.created, quoted(&head.model), head.max_tokens);
    let (output, usage) = match ended {
        None => (String::new(), "null".to_owned()),
        Some((text, _)) => {
            let (prompt, cached, completion) = (head.prompt(), head.cached(), head.completion());
            let total = prompt + completion;
            let usage = format!(
                r#"{{"input_tokens":{prompt},"input_tokens_details":{{"cached_tokens":{cached},"cache_write_tokens":0,"input_tokens_per_turn":[],"cached_tokens_per_turn":[]}},"output_tokens":{completion},"output_tokens_details":{{"reasoning_tokens":0,"tool_output_tokens":0,"output_tokens_per_turn":[],"tool_output_tokens_per_turn":[]}},"total_tokens":{total}}}"#
            );
            (item(head, text), usage)
        }
    };
    let (status, details) = match ended {
        None => ("in_progress", "null"),
        Some((_, Finish::Stop)) => ("completed", "null"),
        Some((_, Finish::Length)) => ("incomplete", r#"{"reason":"max_output_tokens"}"#),
    };
    format!(
        r#"{{"id":{id},"created_at":{created},"incomplete_details":{details},"instructions":null,"metadata":null,"model":{model},"object":"response","output":[{output}],"parallel_tool_calls":true,"temperature":1.0,"tool_choice":"none","tools":[],"top_p":1.0,"background":false,"max_output_tokens":{limit},"max_tool_calls":null,"previous_response_id":null,"prompt":null,"reasoning":null,"service_tier":"auto","status":"{status}","text":null,"top_logprobs":null,"truncation":"disabled","usage":{usage},"user":null,"presence_penalty":0.0,"frequency_penalty":0.0,"kv_transfer_params":null,"ec_transfer_params":null,"input_messages":null,"output_messages":null}}"#
    )
}

impl Responses {
    /// Writes an event; `members` are those before `sequence_number`, `after` those between it and `type`.
    fn emit(&mut self, name: &str, members: &str, after: &str, out: &mut Out) {
        let number = self.sequence;
        self.sequence += 1;
        out.push_back(event(name, format_args!(r#"{{{members},"sequence_number":{number}{after},"type":"{name}"}}"#)));
    }
}

impl Surface for Responses {
    fn plain(&self, head: &Head, choices: &[Choice]) -> String {
        let first = choices.first().map_or(("", Finish::Stop), |choice| (choice.text.as_str(), choice.finish));
        response(head, Some(first))
    }

    fn open(&mut self, head: &Head, out: &mut Out) {
        let members = format!(r#""response":{}"#, response(head, None));
        self.emit("response.created", &members, "", out);
        self.emit("response.in_progress", &members, "", out);
    }

    fn piece(&mut self, head: &Head, piece: &Piece<'_>, out: &mut Out) {
        let id = item_id(head);
        if !std::mem::replace(&mut self.begun, true) {
            let added = format!(
                r#""item":{{"id":{id},"content":[],"role":"assistant","status":"in_progress","type":"message","phase":null}},"output_index":0"#
            );
            self.emit("response.output_item.added", &added, "", out);
            let added = format!(r#""content_index":0,"item_id":{id},"output_index":0,"part":{}"#, part("", "[]"));
            self.emit("response.content_part.added", &added, "", out);
        }
        let delta = quoted(piece.text);
        let members = format!(r#""content_index":0,"delta":{delta},"item_id":{id},"logprobs":[],"output_index":0"#);
        self.emit("response.output_text.delta", &members, "", out);
        self.text.push_str(piece.text);
        self.finish = piece.finish;
    }

    fn close(&mut self, head: &Head, out: &mut Out) {
        let (id, text) = (item_id(head), std::mem::take(&mut self.text));
        let done = format!(r#""content_index":0,"item_id":{id},"logprobs":[],"output_index":0"#);
        self.emit("response.output_text.done", &done, &format!(r#","text":{}"#, quoted(&text)), out);
        let done = format!(r#""content_index":0,"item_id":{id},"output_index":0,"part":{}"#, part(&text, "null"));
        self.emit("response.content_part.done", &done, "", out);
        let done = format!(r#""item":{},"output_index":0"#, item(head, &text));
        self.emit("response.output_item.done", &done, "", out);
        let ended = (text.as_str(), self.finish.unwrap_or(Finish::Stop));
        let members = format!(r#""response":{}"#, response(head, Some(ended)));
        self.emit("response.completed", &members, "", out);
    }

    fn error(&mut self, error: &ApiError, out: &mut Out) {
        let (code, message) = (error.status.as_u16(), quoted(&error.message));
        let members = format!(r#""code":"{code}","message":{message},"param":null"#);
        self.emit("error", &members, "", out);
    }
}
