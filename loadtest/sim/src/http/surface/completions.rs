//! `/v1/completions`.
//!
//! No role chunk here: the first chunk of a stream is the first token.

use std::fmt::Write as _;

use super::{Choice, FINGERPRINT, Head, Out, Piece, Surface, data, finish_reason};
use crate::http::reply::{ApiError, ErrorShape, quoted};

#[derive(Debug)]
pub(super) struct Completions;

fn start(head: &Head) -> String {
    let (id, created, model) = (quoted(&head.id), head.created, quoted(&head.model));
    format!(r#"{{"id":{id},"object":"text_completion","created":{created},"model":{model},"choices":["#)
}

impl Surface for Completions {
    fn plain(&self, head: &Head, choices: &[Choice]) -> String {
        let mut list = String::new();
        for (index, choice) in choices.iter().enumerate() {
            let comma = if index > 0 { "," } else { "" };
            let (text, finish) = (quoted(&choice.text), finish_reason(choice.finish));
            // Writing to a string does not fail.
            let _ = write!(
                list,
                r#"{comma}{{"index":{index},"text":{text},"logprobs":null,"finish_reason":"{finish}","stop_reason":null,"token_ids":null,"prompt_logprobs":null,"prompt_token_ids":null,"routed_experts":null}}"#
            );
        }
        let (start, usage) = (start(head), head.usage());
        format!(
            r#"{start}{list}],"service_tier":null,"system_fingerprint":"{FINGERPRINT}","usage":{usage},"kv_transfer_params":null,"ec_transfer_params":null,"metrics":null}}"#
        )
    }

    fn open(&mut self, _: &Head, _: &mut Out) {}

    fn piece(&mut self, head: &Head, piece: &Piece<'_>, out: &mut Out) {
        let (start, index, text) = (start(head), piece.choice, quoted(piece.text));
        let usage = head.chunk_usage(piece.choice);
        let finish = piece.finish.map_or_else(|| "null".to_owned(), |finish| quoted(finish_reason(finish)));
        let print = match piece.finish {
            Some(_) if !head.include_usage => format!(r#","system_fingerprint":"{FINGERPRINT}""#),
            _ => String::new(),
        };
        out.push_back(data(format_args!(
            r#"{start}{{"index":{index},"text":{text},"logprobs":null,"finish_reason":{finish},"stop_reason":null,"prompt_token_ids":null,"token_ids":null}}]{usage}{print}}}"#
        )));
    }

    fn close(&mut self, head: &Head, out: &mut Out) {
        if head.include_usage {
            let (start, usage) = (start(head), head.final_usage());
            out.push_back(data(format_args!(r#"{start}],"usage":{usage},"system_fingerprint":"{FINGERPRINT}"}}"#)));
        }
        out.push_back(data("[DONE]"));
    }

    fn error(&mut self, error: &ApiError, out: &mut Out) {
        out.push_back(data(error.body(ErrorShape::OpenAi)));
        out.push_back(data("[DONE]"));
    }
}
