//! `/v1/chat/completions` as llama.cpp's server writes it.
//!
//! The first chunk's content is null, the finish chunk's delta is empty, and `timings` come with the last chunk.

use super::{Choice, Head, Out, Piece, Surface, data, finish_reason};
use crate::http::reply::{ApiError, ErrorShape, quoted};

/// llama.cpp's name of its build.
const FINGERPRINT: &str = "b0-unknown";

#[derive(Debug, Default)]
pub(super) struct Chat {
    begun: bool,
}

fn chunk(head: &Head, choices: &str, rest: &str) -> bytes::Bytes {
    let (id, created, model) = (quoted(&head.id), head.created, quoted(&head.model));
    data(format_args!(
        r#"{{"choices":[{choices}],"created":{created},"id":{id},"model":{model},"system_fingerprint":"{FINGERPRINT}","object":"chat.completion.chunk"{rest}}}"#
    ))
}

fn usage(head: &Head) -> String {
    let (prompt, cached, completion) = (head.prompt(), head.cached(), head.completion());
    format!(
        r#""usage":{{"completion_tokens":{completion},"prompt_tokens":{prompt},"total_tokens":{},"prompt_tokens_details":{{"cached_tokens":{cached}}}}}"#,
        prompt + completion
    )
}

fn timings(head: &Head) -> String {
    let (cached, computed, completion) =
        (head.cached(), head.prompt() - head.cached().min(head.prompt()), head.completion());
    format!(
        r#""timings":{{"cache_n":{cached},"prompt_n":{computed},"prompt_ms":1.0,"prompt_per_token_ms":1.0,"prompt_per_second":1000.0,"predicted_n":{completion},"predicted_ms":1.0,"predicted_per_token_ms":1.0,"predicted_per_second":1000.0}}"#
    )
}

impl Surface for Chat {
    fn plain(&self, head: &Head, choices: &[Choice]) -> String {
        let (id, created, model) = (quoted(&head.id), head.created, quoted(&head.model));
        let list: Vec<String> = choices
            .iter()
            .enumerate()
            .map(|(index, choice)| {
                let (text, finish) = (quoted(&choice.text), finish_reason(choice.finish));
                format!(
                    r#"{{"finish_reason":"{finish}","index":{index},"message":{{"role":"assistant","content":{text}}}}}"#
                )
            })
            .collect();
        let (list, usage, timings) = (list.join(","), usage(head), timings(head));
        format!(
            r#"{{"choices":[{list}],"created":{created},"model":{model},"system_fingerprint":"{FINGERPRINT}","object":"chat.completion",{usage},"id":{id},{timings}}}"#
        )
    }

    fn open(&mut self, _: &Head, _: &mut Out) {}

    fn piece(&mut self, head: &Head, piece: &Piece<'_>, out: &mut Out) {
        let index = piece.choice;
        if !std::mem::replace(&mut self.begun, true) {
            for index in 0..head.counts.len() {
                let role = format!(
                    r#"{{"finish_reason":null,"index":{index},"delta":{{"role":"assistant","content":null}}}}"#
                );
                out.push_back(chunk(head, &role, ""));
            }
        }
        let text = quoted(piece.text);
        let delta = format!(r#"{{"finish_reason":null,"index":{index},"delta":{{"content":{text}}}}}"#);
        out.push_back(chunk(head, &delta, ""));
        if let Some(finish) = piece.finish {
            let finish = finish_reason(finish);
            let rest = if head.include_usage { String::new() } else { format!(",{}", timings(head)) };
            let end = format!(r#"{{"finish_reason":"{finish}","index":{index},"delta":{{}}}}"#);
            out.push_back(chunk(head, &end, &rest));
        }
    }

    fn close(&mut self, head: &Head, out: &mut Out) {
        if head.include_usage {
            out.push_back(chunk(head, "", &format!(",{},{}", usage(head), timings(head))));
        }
        out.push_back(data("[DONE]"));
    }

    fn error(&mut self, error: &ApiError, out: &mut Out) {
        out.push_back(data(error.body(ErrorShape::LlamaCpp)));
    }
}
