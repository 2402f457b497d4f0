//! `/v1/messages`.
//!
//! Prompt tokens found in the cache are not among `input_tokens` but beside them: the prompt is the sum.

use super::{Choice, Head, Out, Piece, Surface, event};
use crate::engine::Finish;
use crate::http::reply::{ApiError, ErrorShape, quoted};

#[derive(Debug, Default)]
pub(super) struct Messages {
    begun: bool,
    finish: Option<Finish>,
}

fn usage(head: &Head, output: usize) -> String {
    if head.details {
        let (rest, cached) = (head.prompt() - head.cached().min(head.prompt()), head.cached());
        format!(r#"{{"input_tokens":{rest},"output_tokens":{output},"cache_read_input_tokens":{cached}}}"#)
    } else {
        format!(r#"{{"input_tokens":{},"output_tokens":{output}}}"#, head.prompt())
    }
}

fn stop_reason(finish: Finish) -> &'static str {
    match finish {
        Finish::Stop => "end_turn",
        Finish::Length => "max_tokens",
    }
}

impl Surface for Messages {
    fn plain(&self, head: &Head, choices: &[Choice]) -> String {
        let (id, model, usage) = (quoted(&head.id), quoted(&head.model), usage(head, head.completion()));
        let text = quoted(choices.first().map_or("", |choice| &choice.text));
        let stop = choices.first().map_or("end_turn", |choice| stop_reason(choice.finish));
        format!(
            r#"{{"id":{id},"type":"message","role":"assistant","content":[{{"type":"text","text":{text}}}],"model":{model},"stop_reason":"{stop}","stop_sequence":null,"usage":{usage}}}"#
        )
    }

    fn open(&mut self, _: &Head, _: &mut Out) {}

    fn piece(&mut self, head: &Head, piece: &Piece<'_>, out: &mut Out) {
        if !std::mem::replace(&mut self.begun, true) {
            let (id, model, usage) = (quoted(&head.id), quoted(&head.model), usage(head, 0));
            out.push_back(event(
                "message_start",
                format_args!(
                    r#"{{"type":"message_start","message":{{"id":{id},"type":"message","role":"assistant","content":[],"model":{model},"stop_reason":null,"stop_sequence":null,"usage":{usage}}}}}"#
                ),
            ));
            out.push_back(event(
                "content_block_start",
                r#"{"type":"content_block_start","content_block":{"type":"text","text":""},"index":0}"#,
            ));
        }
        let text = quoted(piece.text);
        out.push_back(event(
            "content_block_delta",
            format_args!(r#"{{"type":"content_block_delta","delta":{{"type":"text_delta","text":{text}}},"index":0}}"#),
        ));
        self.finish = piece.finish;
    }

    fn close(&mut self, head: &Head, out: &mut Out) {
        let (stop, usage) = (self.finish.map_or("end_turn", stop_reason), usage(head, head.completion()));
        out.push_back(event("content_block_stop", r#"{"type":"content_block_stop","index":0}"#));
        out.push_back(event(
            "message_delta",
            format_args!(
                r#"{{"type":"message_delta","delta":{{"stop_reason":"{stop}","stop_sequence":null}},"usage":{usage}}}"#
            ),
        ));
        out.push_back(event("message_stop", r#"{"type":"message_stop"}"#));
    }

    fn error(&mut self, error: &ApiError, out: &mut Out) {
        out.push_back(event("error", error.body(ErrorShape::Anthropic)));
    }
}
