//! The toy tokenizer: four bytes of text are a token, and a token of output is a word.
//!
//! Input and output do not use the same mapping, so generated text fed back in is as many tokens as its bytes say.

use crate::engine::{mix, mix_bytes};

/// Bytes of prompt text per token.
const BYTES_PER_TOKEN: usize = 4;
/// Tokens of one image or other medium; a 336-pixel image of 14-pixel patches has 576.
const MEDIA_TOKENS: usize = 576;

/// Output words. Some hold what stream parsers get wrong: quotes, newlines, backslashes, several bytes a character.
const WORDS: [&str; 32] = [
    " the",
    " a",
    " model",
    " serves",
    " tokens",
    " in",
    " steps",
    " and",
    " waits",
    " for",
    " blocks",
    " while",
    " others",
    " run",
    ".",
    ",",
    "\n",
    " \"quoted\"",
    " back\\slash",
    " café",
    " 日本",
    " 語",
    " 🙂",
    " data:",
    " [DONE]",
    " \u{7f}",
    "\t",
    " {",
    "}",
    " 42",
    " end",
    "ing",
];

/// Text of an output token.
pub(super) fn word(token: u32) -> &'static str {
    WORDS[token as usize % WORDS.len()]
}

/// A prompt being turned into tokens.
#[derive(Debug, Default)]
pub(super) struct Tokens {
    tokens: Vec<u32>,
    tail: Vec<u8>,
}

impl Tokens {
    /// Appends text; tokens may span two calls.
    pub(super) fn text(&mut self, text: &str) {
        let mut bytes = text.as_bytes();
        if !self.tail.is_empty() {
            let (head, rest) = bytes.split_at(bytes.len().min(BYTES_PER_TOKEN - self.tail.len()));
            self.tail.extend_from_slice(head);
            bytes = rest;
            if self.tail.len() < BYTES_PER_TOKEN {
                return;
            }
            self.flush();
        }
        let mut chunks = bytes.chunks_exact(BYTES_PER_TOKEN);
        self.tokens.extend(chunks.by_ref().map(token));
        self.tail.extend_from_slice(chunks.remainder());
    }

    /// Appends an image, a sound or another medium, named by its URL or data.
    pub(super) fn media(&mut self, payload: &str) {
        self.flush();
        let hash = mix_bytes(1, payload.as_bytes());
        self.tokens.extend((0..MEDIA_TOKENS as u64).map(|index| mix(hash, index) as u32));
    }

    /// Appends ids as they are.
    pub(super) fn ids(&mut self, ids: impl Iterator<Item = u32>) {
        self.flush();
        self.tokens.extend(ids);
    }

    /// All tokens; the last may be short of bytes.
    pub(super) fn finish(mut self) -> Vec<u32> {
        self.flush();
        self.tokens
    }

    fn flush(&mut self) {
        if !self.tail.is_empty() {
            self.tokens.push(token(&self.tail));
            self.tail.clear();
        }
    }
}

fn token(bytes: &[u8]) -> u32 {
    bytes.iter().rev().fold(0, |value, &byte| value << 8 | u32::from(byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_do_not_depend_on_how_text_is_split_into_calls() {
        let text = "The quick brown fox, 日本語 and more";
        let mut whole = Tokens::default();
        whole.text(text);
        let mut pieces = Tokens::default();
        text.chars().for_each(|c| pieces.text(&c.to_string()));
        let (whole, pieces) = (whole.finish(), pieces.finish());
        assert_eq!(whole, pieces);
        assert_eq!(whole.len(), text.len().div_ceil(4));
    }
}
