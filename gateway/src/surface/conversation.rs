//! Reads system text and messages: of chat completions, of Anthropic's messages, and the items of responses.
//!
//! The order of a message's fields does not count. It is read in one pass if `role` comes before `content`, as it
//! nearly always does; every other field waits for the end of the message.

use spillway_picker::prefix::{Mark, Role};

use super::content::{Feeder, present};
use crate::scan::decode::Name;
use crate::scan::reader::Reader;

/// Claude Code puts a line of this form first in `system`, different in each request. vLLM drops it before the model
/// sees it; hashed, it would make every prompt differ from its first byte.
const BILLING_LINE: &[u8] = b"\"x-anthropic-billing-header:";

/// The fields of a message, or of an item of responses, that wait for the end of it, in the order in which they are
/// fed.
#[derive(Default)]
struct Fields<'a> {
    content: Option<Reader<'a>>,
    reasoning: Option<Reader<'a>>,
    name: Option<Reader<'a>>,
    tool_calls: Option<Reader<'a>>,
    /// The single call of the old functions API.
    function_call: Option<Reader<'a>>,
    call_id: Option<Reader<'a>>,
    arguments: Option<Reader<'a>>,
    output: Option<Reader<'a>>,
    summary: Option<Reader<'a>>,
    refusal: Option<Reader<'a>>,
    images: Option<Reader<'a>>,
}

/// What an item of responses is, when its `type` says so. Chat messages have no type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Item {
    Message,
    Call,
    CallOutput,
    Reasoning,
    Unknown,
}

impl Item {
    fn of(kind: &[u8]) -> Self {
        match kind {
            b"message" => Self::Message,
            b"function_call" | b"custom_tool_call" => Self::Call,
            b"function_call_output" | b"custom_tool_call_output" => Self::CallOutput,
            b"reasoning" => Self::Reasoning,
            _ => Self::Unknown,
        }
    }

    /// Who says an item that has no role.
    const fn role(self) -> Role {
        match self {
            Self::Call | Self::Reasoning => Role::Assistant,
            Self::CallOutput => Role::Tool,
            Self::Message | Self::Unknown => Role::Other,
        }
    }
}

impl Feeder<'_> {
    /// Feeds a field of system text: a string or parts.
    pub(super) fn system(&mut self, mut reader: Reader<'_>) {
        self.has_head = true;
        self.hasher.mark(Mark::System);
        if reader.peek() != Some(b'[') {
            return self.content(&mut reader);
        }
        reader.enter();
        while reader.next_item() {
            if is_billing_line(reader) {
                reader.skip_value();
            } else {
                self.part(&mut reader);
            }
        }
    }

    /// Feeds all messages. A string stands for one message of the user.
    pub(super) fn conversation(&mut self, mut reader: Reader<'_>) {
        self.has_head = true;
        if reader.peek() != Some(b'[') {
            self.begin(Role::User);
            self.content(&mut reader);
            return self.message_ends(Role::User);
        }
        reader.enter();
        while reader.next_item() {
            if reader.peek() == Some(b'{') {
                self.message(&mut reader);
            } else {
                self.begin(Role::Other);
                self.raw(&mut reader);
            }
        }
    }

    /// Opens a message; the first that is not the system's ends the head.
    fn begin(&mut self, role: Role) {
        if !matches!(role, Role::System | Role::Developer) && !self.head_ended {
            self.hasher.head_ends();
            self.head_ended = true;
        }
        self.hasher.mark(Mark::Message(role));
    }

    fn message_ends(&mut self, role: Role) {
        if role == Role::User && !self.has_user {
            self.hasher.first_user_ends();
            self.has_user = true;
        }
    }

    fn message(&mut self, reader: &mut Reader<'_>) {
        let whole = *reader;
        let mut role = None;
        let mut item = Item::Message;
        let mut fields = Fields::default();
        let mut name = Name::new();
        reader.enter();
        while let Some(key) = reader.next_key(&mut name) {
            let field = match key {
                b"role" if role.is_none() => {
                    role = Some(self.role(reader));
                    continue;
                }
                b"type" => {
                    let mut kind = Name::new();
                    item = reader.name(&mut kind).map_or(Item::Unknown, Item::of);
                    continue;
                }
                // The usual case, in which nothing is read twice.
                b"content" if role.is_some() && fields.content.is_none() => {
                    self.content(reader);
                    continue;
                }
                b"content" => &mut fields.content,
                b"reasoning" | b"reasoning_content" => &mut fields.reasoning,
                b"name" => &mut fields.name,
                b"tool_calls" => &mut fields.tool_calls,
                b"function_call" => &mut fields.function_call,
                b"tool_call_id" | b"call_id" => &mut fields.call_id,
                b"arguments" | b"input" => &mut fields.arguments,
                b"output" => &mut fields.output,
                b"summary" => &mut fields.summary,
                b"refusal" => &mut fields.refusal,
                b"images" => &mut fields.images,
                _ => {
                    reader.skip_value();
                    continue;
                }
            };
            *field = Some(*reader);
            reader.skip_value();
        }
        let speaker = role.unwrap_or_else(|| {
            self.begin(item.role());
            item.role()
        });
        if role.is_none() && item == Item::Unknown {
            let mut whole = whole;
            self.hasher.mark(Mark::Raw);
            self.raw(&mut whole);
        } else {
            self.fields(item, &fields);
        }
        self.message_ends(speaker);
    }

    /// Feeds what was kept of a message, in a fixed order.
    fn fields(&mut self, item: Item, fields: &Fields<'_>) {
        let Fields {
            content,
            reasoning,
            name,
            tool_calls,
            function_call,
            call_id,
            arguments,
            output,
            summary,
            refusal,
            images,
        } = *fields;
        for mut content in [content, refusal, summary].into_iter().flatten() {
            self.content(&mut content);
        }
        self.field(Mark::Reasoning, reasoning);
        if item == Item::Call {
            self.hasher.mark(Mark::ToolCall);
        }
        self.field(Mark::ToolCallId, call_id);
        self.field(Mark::Name, name);
        self.field(Mark::Arguments, arguments);
        if let Some(mut output) = output {
            self.content(&mut output);
        }
        if let Some(mut calls) = tool_calls.and_then(present) {
            calls.enter();
            while calls.next_item() {
                self.tool_call(&mut calls);
            }
        }
        if let Some(mut call) = function_call.and_then(present) {
            self.tool_call(&mut call);
        }
        if let Some(mut images) = images.and_then(present) {
            images.enter();
            while images.next_item() {
                self.media(&mut images);
            }
        }
    }

    /// Reads a role and opens its message.
    fn role(&mut self, reader: &mut Reader<'_>) -> Role {
        let mut own_name = *reader;
        let mut name = Name::new();
        let role = match reader.name(&mut name).unwrap_or(b"") {
            b"user" => Role::User,
            b"assistant" | b"model" => Role::Assistant,
            b"system" => Role::System,
            b"developer" => Role::Developer,
            b"tool" | b"function" | b"ipython" => Role::Tool,
            _ => Role::Other,
        };
        self.begin(role);
        if role == Role::Other {
            self.text(&mut own_name);
        }
        role
    }

    /// Feeds one call: `{id, function: {name, arguments}}`, or the name and arguments alone.
    fn tool_call(&mut self, reader: &mut Reader<'_>) {
        self.hasher.mark(Mark::ToolCall);
        if reader.peek() != Some(b'{') {
            return self.raw(reader);
        }
        let (mut id, mut called, mut arguments) = (None, None, None);
        let mut name = Name::new();
        let mut levels = 1;
        reader.enter();
        // The members of `function` (or `custom`) are read as if they were the call's own.
        while levels > 0 {
            let field = match reader.next_key(&mut name) {
                None => {
                    levels -= 1;
                    continue;
                }
                Some(b"function" | b"custom") if levels == 1 && reader.peek() == Some(b'{') => {
                    reader.enter();
                    levels = 2;
                    continue;
                }
                Some(b"id") => &mut id,
                Some(b"name") => &mut called,
                Some(b"arguments" | b"input") => &mut arguments,
                Some(_) => {
                    reader.skip_value();
                    continue;
                }
            };
            *field = Some(*reader);
            reader.skip_value();
        }
        self.field(Mark::ToolCallId, id);
        self.field(Mark::Name, called);
        self.field(Mark::Arguments, arguments);
    }
}

/// Returns whether the part at the reader is a text that begins with [`BILLING_LINE`].
fn is_billing_line(mut part: Reader<'_>) -> bool {
    let mut name = Name::new();
    if part.peek() == Some(b'{') && part.enter() {
        while let Some(key) = part.next_key(&mut name) {
            if key == b"text" {
                return part.starts_with(BILLING_LINE);
            }
            part.skip_value();
        }
    }
    false
}
