//! The toy tokenizer: a token is a word with the space before it.
//!
//! A token begins at each space, newline and tab, at each of `. , { }`, and after seven bytes. English prose comes to 4.1
//! to 4.6 bytes a token, one long word to 7, JSON to fewer than 4. A gateway that has learnt nothing yet assumes 4: the
//! difference is on purpose, so that a test sees it learn.
//!
//! What a newcomer gets wrong: output is not drawn from all tokens but from [`vocabulary`], whose words read back as the
//! tokens they were. That is why a reply sent back in the next turn of a chat is found in the cache, as on a real server.

use std::sync::LazyLock;

use crate::engine::{mix, mix_bytes};

/// Longest token in bytes.
const LONGEST: usize = 7;
/// Tokens of one image or other medium; a 336-pixel image of 14-pixel patches has 576.
const MEDIA_TOKENS: u64 = 576;
/// What is hashed with text, and what keeps other things from being taken for it.
const TEXT: u64 = 0;
const MEDIA: u64 = 1;
const SPECIAL: u64 = 2;

/// Output words: each begins a token and holds only that one. Some are what stream parsers get wrong: quotes, newlines,
/// backslashes, several bytes a character, what looks like the protocol around them.
const WORDS: [&str; 32] = [
    " the", " a", " model", " serves", " tokens", " in", " steps", " and", " waits", " for", " blocks", " while",
    " others", " run", " then", " 42", " end", ".", ",", "\n", "\t", "{", "}", " \"q\"", " b\\s", " café", " 日本",
    " 語", " 🙂", " data:", " [DONE]", " \u{7f}",
];

static VOCABULARY: LazyLock<[u32; WORDS.len()]> = LazyLock::new(|| WORDS.map(|word| id(TEXT, word.as_bytes())));

/// Tokens of the output words. Any row of their words, put together, reads back as exactly these tokens.
pub fn vocabulary() -> &'static [u32] {
    &*VOCABULARY
}

/// Text of an output token; " the" for one that is not of the [`vocabulary`].
pub fn word(token: u32) -> &'static str {
    let place = VOCABULARY.iter().position(|&known| known == token);
    WORDS[place.unwrap_or(0)]
}

/// A prompt being turned into tokens.
#[derive(Clone, Debug, Default)]
pub struct Tokens {
    done: Vec<u32>,
    /// Bytes of the token that has begun.
    tail: [u8; LONGEST],
    length: usize,
}

impl Tokens {
    /// Appends text. A token may span two calls: only what they come to together counts.
    pub fn text(&mut self, text: &str) {
        for &byte in text.as_bytes() {
            if begins(byte) {
                self.flush();
            }
            self.tail[self.length] = byte;
            self.length += 1;
            if self.length == LONGEST {
                self.flush();
            }
        }
    }

    /// Appends a mark such as `<|user|>`, one token whatever its length. Text that looks like it is not it.
    pub fn special(&mut self, mark: &str) {
        self.flush();
        self.done.push(id(SPECIAL, mark.as_bytes()));
    }

    /// Appends an image, a sound or another medium, named by its URL or data: 576 tokens.
    pub fn media(&mut self, payload: &str) {
        self.flush();
        let hash = mix_bytes(MEDIA, payload.as_bytes());
        self.done.extend((0..MEDIA_TOKENS).map(|index| mix(hash, index) as u32));
    }

    /// Appends token ids as they are.
    pub fn ids(&mut self, ids: impl Iterator<Item = u32>) {
        self.flush();
        self.done.extend(ids);
    }

    /// All tokens.
    pub fn finish(mut self) -> Vec<u32> {
        self.flush();
        self.done
    }

    fn flush(&mut self) {
        if self.length > 0 {
            self.done.push(id(TEXT, &self.tail[..self.length]));
            self.length = 0;
        }
    }
}

fn begins(byte: u8) -> bool {
    matches!(byte, b' ' | b'\n' | b'\t' | b'.' | b',' | b'{' | b'}')
}

fn id(kind: u64, bytes: &[u8]) -> u32 {
    mix_bytes(kind, bytes) as u32
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    fn tokens(text: &str) -> Vec<u32> {
        let mut tokens = Tokens::default();
        tokens.text(text);
        tokens.finish()
    }

    #[test]
    fn a_token_is_a_word_with_the_space_before_it_and_no_longer_than_seven_bytes() {
        let parts = |parts: &[&str]| parts.iter().map(|part| id(TEXT, part.as_bytes())).collect::<Vec<_>>();
        assert_eq!(tokens("The model waits."), parts(&["The", " model", " waits", "."]));
        assert_eq!(tokens("internationally"), parts(&["interna", "tionall", "y"]));
        assert_eq!(tokens("a  b\n\tc,{d}"), parts(&["a", " ", " b", "\n", "\tc", ",", "{d", "}"]));
        assert!(tokens("").is_empty());
    }

    #[test]
    fn english_has_a_little_more_than_four_bytes_a_token() {
        let text = "The simulated server keeps blocks of tokens that begin alike, so a second question about the same \
                    document is answered without reading all of it again. What is not kept has to be computed.";
        let bytes = text.len() as f64 / tokens(text).len() as f64;
        assert!((4.1..4.6).contains(&bytes), "{bytes} bytes a token");
    }

    #[test]
    fn a_mark_is_one_token_that_no_text_is() {
        let mut with_mark = Tokens::default();
        with_mark.text("ab");
        with_mark.special("<|assistant|>");
        with_mark.text("cd");
        let with_mark = with_mark.finish();
        assert_eq!((with_mark.len(), with_mark[0], with_mark[2]), (3, tokens("ab")[0], tokens("cd")[0]));
        assert!(!tokens("<|assistant|>").contains(&with_mark[1]));
    }

    #[test]
    fn the_words_are_all_different_and_an_unknown_token_has_one_too() {
        assert_eq!(vocabulary().iter().collect::<HashSet<_>>().len(), WORDS.len());
        assert!(vocabulary().iter().zip(WORDS).all(|(&token, text)| word(token) == text));
        assert_eq!(word(12_345), " the");
    }

    proptest! {
        #[test]
        fn any_row_of_words_reads_back_as_the_tokens_it_was(row in proptest::collection::vec(0..WORDS.len(), 0..200)) {
            let ids: Vec<u32> = row.iter().map(|&index| vocabulary()[index]).collect();
            let text: String = ids.iter().map(|&token| word(token)).collect();
            prop_assert_eq!(tokens(&text), ids);
        }

        #[test]
        fn where_text_is_cut_between_calls_changes_nothing(pieces in proptest::collection::vec("[a-d .,{}\n\t日🙂]{0,12}", 0..20)) {
            let mut cut = Tokens::default();
            for piece in &pieces {
                cut.text(piece);
            }
            prop_assert_eq!(cut.finish(), tokens(&pieces.concat()));
        }
    }
}
