//! How replies look on each API surface, plain and streamed, key for key as vLLM writes them.
//!
//! Bytes are written by hand, not by a serializer: the order of keys is part of what clients and gateways get used to.

mod chat;
mod completions;
mod llamacpp;
mod messages;
mod responses;

use std::collections::VecDeque;

use bytes::Bytes;

use super::reply::ApiError;
use crate::engine::Finish;

/// A generating surface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// `/v1/chat/completions`
    Chat,
    /// `/v1/completions`
    Completions,
    /// `/v1/responses`
    Responses,
    /// `/v1/messages`
    Messages,
}

/// What vLLM puts into `system_fingerprint`: version and a hash of the deployment.
const FINGERPRINT: &str = "vllm-0.32.0-255235f3";

/// What is the same for the whole reply, and its counts so far.
#[derive(Debug)]
pub(super) struct Head {
    pub(super) id: String,
    /// Unix time in seconds.
    pub(super) created: u64,
    pub(super) model: String,
    pub(super) prompt: usize,
    pub(super) cached: usize,
    /// Output tokens by choice.
    pub(super) counts: Vec<u32>,
    /// What every count in `usage` is multiplied by; 1 unless a fault spoils it.
    pub(super) usage_factor: f64,
    /// Whether cached tokens are shown.
    pub(super) details: bool,
    pub(super) include_usage: bool,
    pub(super) continuous_usage: bool,
    pub(super) max_tokens: u32,
}

impl Head {
    fn prompt(&self) -> usize {
        self.reported(self.prompt)
    }

    fn cached(&self) -> usize {
        self.reported(self.cached)
    }

    fn completion(&self) -> usize {
        self.reported(self.counts.iter().sum::<u32>() as usize)
    }

    fn reported(&self, tokens: usize) -> usize {
        (tokens as f64 * self.usage_factor) as usize
    }

    /// `usage` of a plain reply of the OpenAI surfaces, with its nulls.
    fn usage(&self) -> String {
        let (prompt, completion) = (self.prompt(), self.completion());
        let details =
            if self.details { format!(r#"{{"cached_tokens":{}}}"#, self.cached()) } else { "null".to_owned() };
        format!(
            r#"{{"prompt_tokens":{prompt},"total_tokens":{},"completion_tokens":{completion},"prompt_tokens_details":{details},"completion_tokens_details":null}}"#,
            prompt + completion
        )
    }

    /// `usage` of the last chunk of a stream, without nulls.
    fn final_usage(&self) -> String {
        let (prompt, completion) = (self.prompt(), self.completion());
        let details = if self.details {
            format!(r#","prompt_tokens_details":{{"cached_tokens":{}}}"#, self.cached())
        } else {
            String::new()
        };
        format!(
            r#"{{"prompt_tokens":{prompt},"total_tokens":{},"completion_tokens":{completion}{details}}}"#,
            prompt + completion
        )
    }

    /// The member that carries usage on every chunk, or nothing.
    fn chunk_usage(&self, choice: usize) -> String {
        if !self.continuous_usage {
            return String::new();
        }
        let (prompt, completion) = (self.prompt(), self.reported(self.counts[choice] as usize));
        format!(
            r#","usage":{{"prompt_tokens":{prompt},"total_tokens":{},"completion_tokens":{completion},"completion_tokens_details":null}}"#,
            prompt + completion
        )
    }
}

/// A whole choice of a plain reply.
#[derive(Debug)]
pub(super) struct Choice {
    pub(super) text: String,
    pub(super) finish: Finish,
}

/// The next bit of one choice of a stream.
#[derive(Debug)]
pub(super) struct Piece<'a> {
    pub(super) choice: usize,
    pub(super) text: &'a str,
    pub(super) finish: Option<Finish>,
}

/// Events of a stream, one element each.
pub(super) type Out = VecDeque<Bytes>;

/// Writes the replies of one surface. Streams call the methods in order; `head.counts` is kept by the caller.
pub(super) trait Surface: Send {
    /// A whole reply.
    fn plain(&self, head: &Head, choices: &[Choice]) -> String;
    /// Events that come before anything is known.
    fn open(&mut self, head: &Head, out: &mut Out);
    /// Events for new output.
    fn piece(&mut self, head: &Head, piece: &Piece<'_>, out: &mut Out);
    /// Events after the last piece.
    fn close(&mut self, head: &Head, out: &mut Out);
    /// Events for a failure in the middle; nothing follows.
    fn error(&mut self, error: &ApiError, out: &mut Out);
}

impl Kind {
    /// The writer of this surface.
    pub(super) fn surface(self, llama_cpp: bool) -> Box<dyn Surface> {
        match self {
            Self::Chat if llama_cpp => Box::new(llamacpp::Chat::default()),
            Self::Chat => Box::new(chat::Chat::default()),
            Self::Completions => Box::new(completions::Completions),
            Self::Responses => Box::new(responses::Responses::default()),
            Self::Messages => Box::new(messages::Messages::default()),
        }
    }

    /// What an id of this surface begins with.
    pub(super) const fn id_prefix(self) -> &'static str {
        match self {
            Self::Chat | Self::Messages => "chatcmpl-",
            Self::Completions => "cmpl-",
            Self::Responses => "resp_",
        }
    }
}

fn finish_reason(finish: Finish) -> &'static str {
    match finish {
        Finish::Stop => "stop",
        Finish::Length => "length",
    }
}

fn data(json: impl std::fmt::Display) -> Bytes {
    format!("data: {json}\n\n").into()
}

fn event(name: &str, json: impl std::fmt::Display) -> Bytes {
    format!("event: {name}\ndata: {json}\n\n").into()
}
