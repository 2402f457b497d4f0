//! Feeds what reaches the model's prompt to the hasher, in one order whatever the order in the body.
//!
//! Which fields count, and in which role, is the table [`keys`] and the match in [`feed`]. How messages and their
//! content are read is in `conversation` and `content`.

use bytes::Bytes;
use spillway_picker::prefix::{Mark, PrefixHasher};

use super::Surface;
use super::content::Feeder;
use crate::scan::reader::Reader;
use crate::scan::{Key, Kind, Scan};

/// Bytes that a token id which is not hashed counts for in the token estimate: the prior of bytes per token.
const BYTES_PER_TOKEN: usize = 4;

/// Returns the fields that make up a surface's prompt, in the order in which they are hashed.
pub(super) const fn keys(surface: Surface) -> &'static [Key] {
    match surface {
        Surface::ChatCompletions => &[Key::Tools, Key::Functions, Key::Messages],
        Surface::Messages => &[Key::Tools, Key::System, Key::Messages],
        Surface::Responses => &[Key::Tools, Key::Instructions, Key::Input],
        Surface::Completions => &[Key::Prompt, Key::PromptEmbeds, Key::Suffix],
        Surface::Embeddings => &[Key::Messages, Key::Input],
        Surface::Rerank => &[Key::Query, Key::Queries, Key::Text1, Key::Text2, Key::Documents],
        Surface::OtherJson => &[
            Key::Tools,
            Key::Functions,
            Key::System,
            Key::Instructions,
            Key::Messages,
            Key::Prompt,
            Key::PromptEmbeds,
            Key::Suffix,
            Key::Input,
            Key::Text,
            Key::Query,
            Key::Documents,
        ],
        // No token of these is ever prefilled.
        Surface::CountTokens
        | Surface::Tokenize
        | Surface::Form
        | Surface::Models
        | Surface::Model
        | Surface::ResponseById
        | Surface::MethodNotAllowed { .. }
        | Surface::Unknown => &[],
    }
}

/// Feeds the prompt of a body to `hasher`.
pub(super) fn feed(surface: Surface, scan: &Scan, chunks: &[Bytes], hasher: &mut PrefixHasher) {
    let mut feeder = Feeder::new(hasher);
    for &key in keys(surface) {
        let Some(value) = scan.value(key).filter(|value| value.kind != Kind::Null) else { continue };
        let mut reader = Reader::new(chunks, value);
        match key {
            Key::Tools | Key::Functions => feeder.tools(reader),
            Key::System | Key::Instructions => feeder.system(reader),
            Key::Messages => feeder.conversation(reader),
            Key::Input if surface == Surface::Responses => feeder.conversation(reader),
            Key::PromptEmbeds => feeder.media(&mut reader),
            Key::Documents => feeder.documents(reader),
            Key::Suffix => feeder.field(Mark::Suffix, Some(reader)),
            _ => feeder.plain(reader),
        }
    }
    feeder.end();
}

impl Feeder<'_> {
    /// Feeds tool definitions as they are written, for the server renders them in that order. `cache_control` is
    /// addressed to the API, not to the model.
    fn tools(&mut self, mut reader: Reader<'_>) {
        self.has_head = true;
        let is_list = reader.peek() == Some(b'[') && reader.enter();
        while !is_list || reader.next_item() {
            self.hasher.mark(Mark::Tools);
            self.raw(&mut reader);
            if !is_list {
                return;
            }
        }
    }

    /// Feeds a prompt that is a string, token ids, or a list of either. Of a list only the first is hashed: each is a
    /// prompt of its own, and the engine starts with the first. The others count towards the size.
    fn plain(&mut self, mut reader: Reader<'_>) {
        if reader.peek() != Some(b'[') {
            return self.text(&mut reader);
        }
        reader.enter();
        let mut is_first = true;
        while reader.next_item() {
            match (reader.peek(), is_first) {
                (Some(b'-' | b'0'..=b'9'), true) => return self.token_ids(&mut reader),
                (Some(b'['), true) => {
                    reader.enter();
                    if reader.next_item() {
                        self.token_ids(&mut reader);
                    }
                }
                (Some(b'['), false) => {
                    reader.enter();
                    while reader.next_item() {
                        reader.skip_value();
                        self.hasher.skipped(BYTES_PER_TOKEN);
                    }
                }
                (_, true) => self.text(&mut reader),
                (_, false) => self.skip(&mut reader),
            }
            is_first = false;
        }
    }

    /// Feeds ids up to the end of their list; the reader is at the first.
    fn token_ids(&mut self, reader: &mut Reader<'_>) {
        loop {
            match reader.natural() {
                Some(id) => self.hasher.token_id(id),
                None => self.raw(reader),
            }
            if !reader.next_item() {
                return;
            }
        }
    }

    /// Feeds every document of a rerank request, each apart from the others.
    fn documents(&mut self, mut reader: Reader<'_>) {
        if reader.peek() != Some(b'[') {
            return self.content(&mut reader);
        }
        reader.enter();
        while reader.next_item() {
            self.hasher.mark(Mark::Document);
            self.text(&mut reader);
        }
    }
}
