//! Reads the content of a message: a string, or parts of many kinds.
//!
//! A string and a single text part with that string hash alike, for most templates render them alike. A part's fields
//! may come in any order; a field that comes too early for its place is kept as a reader and read when its turn comes.

use spillway_picker::prefix::{Mark, PrefixHasher};

use super::batch::Batch;
use super::media::fingerprint;
use crate::scan::decode::Name;
use crate::scan::reader::Reader;

/// Parts may hold parts (a tool's result holds text and images). Nothing real goes deeper than two.
const MAX_DEPTH: u32 = 8;

/// Feeds one prompt to the hasher, and knows how far it has come.
pub(super) struct Feeder<'h> {
    pub(super) hasher: &'h mut PrefixHasher,
    batch: Batch,
    /// Whether there are tools, system text or messages, as opposed to a bare prompt.
    pub(super) has_head: bool,
    /// Whether a message other than of the system has begun.
    pub(super) head_ended: bool,
    pub(super) has_user: bool,
    depth: u32,
}

/// What a content part is, as its `type` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Text,
    Thinking,
    ToolUse,
    ToolResult,
    Media,
    Unknown,
}

impl Part {
    fn of(kind: &[u8]) -> Self {
        match kind {
            b"text" | b"input_text" | b"output_text" | b"summary_text" | b"reasoning_text" | b"refusal" => Self::Text,
            b"thinking" => Self::Thinking,
            b"tool_use" | b"server_tool_use" => Self::ToolUse,
            b"tool_result" => Self::ToolResult,
            b"image_url" | b"input_image" | b"image" | b"image_embeds" | b"image_pil" | b"input_audio"
            | b"audio_url" | b"audio" | b"audio_embeds" | b"video_url" | b"video" | b"input_video" | b"file"
            | b"input_file" | b"document" => Self::Media,
            _ => Self::Unknown,
        }
    }
}

/// The fields of a part that are read in their turn.
#[derive(Default)]
struct Fields<'a> {
    text: Option<Reader<'a>>,
    id: Option<Reader<'a>>,
    name: Option<Reader<'a>>,
    input: Option<Reader<'a>>,
    content: Option<Reader<'a>>,
}

impl<'h> Feeder<'h> {
    /// Returns a feeder at the beginning of a prompt.
    pub(super) fn new(hasher: &'h mut PrefixHasher) -> Self {
        Self { hasher, batch: Batch::new(), has_head: false, head_ended: false, has_user: false, depth: 0 }
    }

    /// Says that the whole prompt has been fed.
    pub(super) fn end(self) {
        if self.has_head && !self.head_ended {
            self.hasher.head_ends();
        }
    }

    /// Feeds a string's text; anything else in its raw form.
    pub(super) fn text(&mut self, reader: &mut Reader<'_>) {
        let Self { hasher, batch, .. } = self;
        if hasher.is_full() {
            return self.skip(reader);
        }
        if reader.peek() == Some(b'"') {
            batch.string(reader, hasher);
        } else {
            reader.canonical(|piece| batch.push(piece, hasher));
        }
        batch.flush(hasher);
    }

    /// Counts a value without reading it, at its raw size.
    pub(super) fn skip(&mut self, reader: &mut Reader<'_>) {
        let quotes = if reader.peek() == Some(b'"') { 2 } else { 0 };
        let before = reader.left();
        reader.skip_value();
        self.hasher.skipped((before - reader.left()).saturating_sub(quotes));
    }

    /// Feeds an optional field under its mark; `null` counts as absent.
    pub(super) fn field(&mut self, mark: Mark, reader: Option<Reader<'_>>) {
        if let Some(mut reader) = reader.and_then(present) {
            self.hasher.mark(mark);
            self.text(&mut reader);
        }
    }

    /// Feeds a medium by the hash of all of it.
    pub(super) fn media(&mut self, reader: &mut Reader<'_>) {
        self.hasher.media(fingerprint(reader));
    }

    /// Feeds a value in canonical JSON. Of an object the member `cache_control` is left out: it is addressed to the
    /// API, moves from turn to turn and never reaches the model.
    pub(super) fn raw(&mut self, reader: &mut Reader<'_>) {
        let Self { hasher, batch, .. } = self;
        if hasher.is_full() {
            return self.skip(reader);
        }
        reader.canonical_without(b"cache_control", |piece| batch.push(piece, hasher));
        batch.flush(hasher);
    }

    /// Feeds content in any of its forms, and steps over it.
    pub(super) fn content(&mut self, reader: &mut Reader<'_>) {
        match reader.peek() {
            Some(b'n') => reader.skip_value(),
            Some(b'[') => {
                reader.enter();
                while reader.next_item() {
                    self.part(reader);
                }
            }
            _ => self.part(reader),
        }
    }

    /// Feeds one part, and steps over it.
    pub(super) fn part(&mut self, reader: &mut Reader<'_>) {
        if reader.peek() != Some(b'{') || self.depth >= MAX_DEPTH {
            self.hasher.mark(Mark::Content);
            return self.text(reader);
        }
        self.depth += 1;
        self.object(reader);
        self.depth -= 1;
    }

    fn object(&mut self, reader: &mut Reader<'_>) {
        let mut whole = *reader;
        let mut part = None;
        let mut is_fed = false;
        let mut fields = Fields::default();
        let mut name = Name::new();
        reader.enter();
        while let Some(key) = reader.next_key(&mut name) {
            let field = match key {
                b"type" => {
                    let mut kind = Name::new();
                    part = Some(reader.name(&mut kind).map_or(Part::Unknown, Part::of));
                    continue;
                }
                // The usual case, in which nothing is read twice.
                b"text" if part == Some(Part::Text) && !is_fed => {
                    self.hasher.mark(Mark::Content);
                    self.text(reader);
                    is_fed = true;
                    continue;
                }
                b"text" | b"refusal" | b"thinking" => &mut fields.text,
                b"id" | b"tool_use_id" => &mut fields.id,
                b"name" => &mut fields.name,
                b"input" => &mut fields.input,
                b"content" => &mut fields.content,
                _ => {
                    reader.skip_value();
                    continue;
                }
            };
            *field = Some(*reader);
            reader.skip_value();
        }
        if is_fed {
            return;
        }
        let Fields { text, id, name, input, content } = fields;
        match part {
            Some(Part::Text) => self.field(Mark::Content, text),
            None if text.is_some() => self.field(Mark::Content, text),
            Some(Part::Thinking) => self.field(Mark::Reasoning, text),
            Some(Part::ToolUse) => {
                self.hasher.mark(Mark::ToolCall);
                self.field(Mark::ToolCallId, id);
                self.field(Mark::Name, name);
                self.field(Mark::Arguments, input);
            }
            Some(Part::ToolResult) => {
                self.field(Mark::ToolCallId, id);
                if let Some(mut content) = content {
                    self.content(&mut content);
                }
            }
            Some(Part::Media) => self.media(&mut whole),
            Some(Part::Unknown) | None => {
                self.hasher.mark(Mark::Raw);
                self.raw(&mut whole);
            }
        }
    }
}

/// Returns the reader unless its value is `null`.
pub(super) fn present(mut reader: Reader<'_>) -> Option<Reader<'_>> {
    (reader.peek() != Some(b'n')).then_some(reader)
}
