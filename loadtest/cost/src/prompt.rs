//! The request bodies: chats as clients write them, of a given size.

use bytes::Bytes;
use serde::Serialize;

use crate::client::Reply;

/// A request as the common clients write it: in this order, the role before the content.
#[derive(Serialize)]
struct Chat<'a> {
    model: &'a str,
    messages: &'a [Message],
    stream: bool,
    max_tokens: u64,
    temperature: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    seed: Option<u64>,
}

#[derive(Serialize)]
struct Message {
    role: &'static str,
    content: String,
}

/// The model that the origin lists.
pub const MODEL: &str = "tiny";

/// What every chat begins with, as the chats of one product do: a prefix that endpoints hold already.
const SYSTEM: &str = "You are a careful assistant for the operators of a large fleet.\nAnswer in short sentences.\n\
    When you do not know, say so.\n";

const WORDS: [&str; 16] = [
    "request",
    "the",
    "a",
    "latency",
    "and",
    "of",
    "endpoint",
    "cache",
    "is",
    "under",
    "load",
    "to",
    "when",
    "queue",
    "token",
    "\u{201c}why\u{201d}",
];

/// Different chats in rotation: most requests to a model begin like one before them, and none like all.
pub struct Prompts {
    bodies: Vec<Bytes>,
    next: usize,
}

impl Prompts {
    /// Chats of about `size` bytes of JSON, with a line break every dozen words.
    pub fn new(size: usize, reply: Reply) -> Self {
        // Enough that no processor cache holds them all, within 16 MiB.
        let count = (16 * 1024 * 1024 / size).clamp(8, 256);
        Self { bodies: (0..count).map(|seed| chat(size, seed as u64, reply)).collect(), next: 0 }
    }

    /// The next in rotation.
    pub fn turn(&mut self) -> Bytes {
        self.next = (self.next + 1) % self.bodies.len();
        self.bodies[self.next].clone()
    }
}

fn chat(size: usize, seed: u64, reply: Reply) -> Bytes {
    let (stream, max_tokens, pace) = match reply {
        Reply::Whole => (false, 256, None),
        Reply::Stream { events, pace } => (true, events, Some(pace.as_micros() as u64)),
    };
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut messages = vec![Message { role: "system", content: SYSTEM.repeat((size / 1000).clamp(1, 30)) }];
    let written = |messages: &[Message]| {
        let chat = Chat { model: MODEL, messages, stream, max_tokens, temperature: 0.7, seed: pace };
        serde_json::to_string(&chat).expect("texts and numbers are JSON")
    };
    // Turns of at most 4 KiB, as in a long conversation.
    loop {
        let room = size.saturating_sub(written(&messages).len());
        if room < 200 {
            return written(&messages).into();
        }
        let mut text = String::new();
        let mut words = 0;
        while text.len() + text.matches('\n').count() < (room - 100).min(4096) {
            // Knuth's linear congruential generator: the same chats in every run.
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            text.push_str(WORDS[(state >> 33) as usize % WORDS.len()]);
            words += 1;
            text.push(if words % 12 == 0 { '\n' } else { ' ' });
        }
        let role = if messages.len() % 2 == 1 { "user" } else { "assistant" };
        messages.push(Message { role, content: text });
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_chat_has_the_size_asked_for() {
        for size in [2_000, 38_000, 1_000_000] {
            let body = chat(size, 3, Reply::Stream { events: 20, pace: Duration::from_millis(20) });
            assert!(body.len().abs_diff(size) < 200, "{} bytes for {size}", body.len());
        }
    }

    #[test]
    fn chats_differ_by_seed_and_agree_by_run() {
        assert_ne!(chat(2_000, 1, Reply::Whole), chat(2_000, 2, Reply::Whole));
        assert_eq!(chat(2_000, 1, Reply::Whole), chat(2_000, 1, Reply::Whole));
    }
}
