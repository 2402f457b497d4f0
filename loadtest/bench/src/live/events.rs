//! Reads a stream of events as it comes, wherever it is cut.
//!
//! An event is one `data:` line, as every engine writes it. What a newcomer gets wrong: not every event is a token. The
//! first one carries a role and an empty text, the last one usage and no text.

use std::borrow::Cow;

use serde::Deserialize;
use serde::de::IgnoredAny;

/// Cuts a stream into the data of its events.
#[derive(Debug, Default)]
pub(super) struct Lines {
    rest: Vec<u8>,
}

/// What one event says.
#[derive(Debug, PartialEq)]
pub(super) enum Said<'a> {
    /// Output.
    Text(Cow<'a, str>),
    /// How many tokens there were.
    Usage(Usage),
    /// The stream is whole.
    Done,
    /// The server has failed.
    Error,
    /// Nothing of interest.
    Other,
}

/// Tokens as the server counted them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Usage {
    pub(super) prompt: u32,
    pub(super) cached: u32,
    pub(super) completion: u32,
}

#[derive(Deserialize)]
struct UsageObject {
    prompt_tokens: u32,
    completion_tokens: u32,
    prompt_tokens_details: Option<Details>,
}

#[derive(Deserialize)]
struct Details {
    cached_tokens: Option<u32>,
}

#[derive(Deserialize)]
struct Chunk<'a> {
    #[serde(borrow, default)]
    choices: Vec<Choice<'a>>,
    usage: Option<UsageObject>,
    error: Option<IgnoredAny>,
}

#[derive(Deserialize)]
struct Choice<'a> {
    #[serde(borrow, alias = "message")]
    delta: Option<Delta<'a>>,
}

#[derive(Deserialize)]
struct Delta<'a> {
    #[serde(borrow)]
    content: Option<Cow<'a, str>>,
}

impl From<UsageObject> for Usage {
    fn from(usage: UsageObject) -> Self {
        let cached = usage.prompt_tokens_details.and_then(|details| details.cached_tokens);
        Self { prompt: usage.prompt_tokens, cached: cached.unwrap_or(0), completion: usage.completion_tokens }
    }
}

impl Lines {
    /// Takes the next piece of the stream; `each` gets the data of every event that it completes.
    pub(super) fn feed(&mut self, piece: &[u8], mut each: impl FnMut(&[u8])) {
        self.rest.extend_from_slice(piece);
        let mut begin = 0;
        while let Some(length) = self.rest[begin..].iter().position(|&byte| byte == b'\n') {
            let line = &self.rest[begin..begin + length];
            if let Some(data) = line.trim_ascii_end().strip_prefix(b"data:") {
                each(data.trim_ascii_start());
            }
            begin += length + 1;
        }
        self.rest.drain(..begin);
    }
}

/// Understands the data of an event.
pub(super) fn said(data: &[u8]) -> Said<'_> {
    if data == b"[DONE]" {
        return Said::Done;
    }
    let Ok(chunk) = serde_json::from_slice::<Chunk<'_>>(data) else { return Said::Error };
    if chunk.error.is_some() {
        return Said::Error;
    }
    let text = chunk.choices.into_iter().find_map(|choice| choice.delta?.content.filter(|text| !text.is_empty()));
    match (text, chunk.usage) {
        (Some(text), _) => Said::Text(text),
        (None, Some(usage)) => Said::Usage(usage.into()),
        (None, None) => Said::Other,
    }
}

/// Text and usage of an answer that came in one piece; `None` if it is no such answer.
pub(super) fn whole(body: &[u8]) -> Option<(String, Usage)> {
    let chunk: Chunk<'_> = serde_json::from_slice(body).ok()?;
    let text = chunk.choices.into_iter().find_map(|choice| choice.delta?.content)?;
    Some((text.into_owned(), chunk.usage?.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: &str = "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n\
        data: {\"choices\":[{\"delta\":{\"content\":\" data:\\n\"}}]}\r\n\r\n\
        data: {\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":1,\"total_tokens\":10,\
        \"prompt_tokens_details\":{\"cached_tokens\":4}}}\n\ndata: [DONE]\n\n";

    #[test]
    fn a_stream_says_the_same_wherever_it_is_cut() {
        for cut in 0..=STREAM.len() {
            let (mut lines, mut all) = (Lines::default(), Vec::new());
            for piece in [&STREAM.as_bytes()[..cut], &STREAM.as_bytes()[cut..]] {
                lines.feed(piece, |data| all.push(format!("{:?}", said(data))));
            }
            let expected = [
                Said::Other,
                Said::Text(" data:\n".into()),
                Said::Usage(Usage { prompt: 9, cached: 4, completion: 1 }),
                Said::Done,
            ];
            assert_eq!(all, expected.map(|said| format!("{said:?}")), "cut at {cut}");
        }
    }

    #[test]
    fn an_error_in_the_middle_is_one() {
        assert_eq!(said(br#"{"error":{"message":"engine is dead"}}"#), Said::Error);
        assert_eq!(said(b"not json"), Said::Error);
    }

    #[test]
    fn a_whole_answer_has_its_text_and_usage() {
        let body = br#"{"choices":[{"message":{"content":" a b"}}],"usage":{"prompt_tokens":3,"completion_tokens":2,"prompt_tokens_details":null}}"#;
        assert_eq!(whole(body), Some((" a b".to_owned(), Usage { prompt: 3, cached: 0, completion: 2 })));
        assert_eq!(whole(b"{}"), None);
    }
}
