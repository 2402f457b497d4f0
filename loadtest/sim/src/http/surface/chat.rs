//! `/v1/chat/completions`.
//!
//! The first chunk of each choice carries the role and an empty text, and comes together with the first token.

use std::fmt::Write as _;

use super::{Choice, FINGERPRINT, Head, Out, Piece, Surface, data, finish_reason};
use crate::http::reply::{ApiError, ErrorShape, quoted};

#[derive(Debug, Default)]
pub(super) struct Chat {
    begun: bool,
}

fn start(head: &Head) -> String {
    let (id, created, model) = (quoted(&head.id), head.created, quoted(&head.model));
    format!(r#"{{"id":{id},"object":"chat.completion.chunk","created":{created},"model":{model},"choices":["#)
}

impl Surface for Chat {
    fn plain(&self, head: &Head, choices: &[Choice]) -> String {
        let (id, created, model) = (quoted(&head.id), head.created, quoted(&head.model));
        let mut list = String::new();
        for (index, choice) in choices.iter().enumerate() {
            let comma = if index > 0 { "," } else { "" };
            let (text, finish) = (quoted(&choice.text), finish_reason(choice.finish));
            // Writing to a string does not fail.
            let _ = write!(
                list,
                r#"{comma}{{"index":{index},"message":{{"role":"assistant","content":{text},"refusal":null,"annotations":null,"audio":null,"function_call":null,"reasoning":null}},"logprobs":null,"finish_reason":"{finish}","stop_reason":null,"token_ids":null,"routed_experts":null}}"#
            );
        }
        let usage = head.usage();
        format!(
            r#"{{"id":{id},"object":"chat.completion","created":{created},"model":{model},"choices":[{list}],"service_tier":null,"system_fingerprint":"{FINGERPRINT}","usage":{usage},"prompt_logprobs":null,"prompt_token_ids":null,"prompt_text":null,"kv_transfer_params":null,"ec_transfer_params":null,"metrics":null}}"#
        )
    }

    fn open(&mut self, _: &Head, _: &mut Out) {}

    fn piece(&mut self, head: &Head, piece: &Piece<'_>, out: &mut Out) {
        let start = start(head);
        if !std::mem::replace(&mut self.begun, true) {
            let none = if head.continuous_usage {
                let prompt = head.prompt();
                format!(
                    r#","usage":{{"prompt_tokens":{prompt},"total_tokens":{prompt},"completion_tokens":0,"completion_tokens_details":null}}"#
                )
            } else {
                String::new()
            };
            for index in 0..head.counts.len() {
                out.push_back(data(format_args!(
                    r#"{start}{{"index":{index},"delta":{{"role":"assistant","content":""}},"logprobs":null,"finish_reason":null}}]{none},"prompt_token_ids":null,"prompt_text":null}}"#
                )));
            }
        }
        let (index, text, usage) = (piece.choice, quoted(piece.text), head.chunk_usage(piece.choice));
        let end = match piece.finish {
            None => format!(r#""finish_reason":null,"token_ids":null}}]{usage}}}"#),
            Some(finish) => {
                let finish = finish_reason(finish);
                // With usage asked for, the fingerprint is on the usage chunk.
                let print = if head.include_usage {
                    String::new()
                } else {
                    format!(r#","system_fingerprint":"{FINGERPRINT}""#)
                };
                format!(r#""finish_reason":"{finish}","stop_reason":null,"token_ids":null}}]{usage}{print}}}"#)
            }
        };
        out.push_back(data(format_args!(
            r#"{start}{{"index":{index},"delta":{{"content":{text}}},"logprobs":null,{end}"#
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
