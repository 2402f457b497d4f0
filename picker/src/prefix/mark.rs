//! What stands between two stretches of text.
//!
//! A mark opens what follows it, and the next mark closes that; there are no closing marks. The codes go into hashes
//! that gateways of different versions compare with each other, so a code, once given, keeps its meaning.

/// Who speaks in a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// `system`, wherever it stands: a field of its own or a message.
    System,
    /// `developer`.
    Developer,
    /// `user`.
    User,
    /// `assistant` or `model`.
    Assistant,
    /// `tool`, `function` or `ipython`: what a tool answered.
    Tool,
    /// Any other. Feed the role's own name as text, then [`Mark::Content`].
    Other,
}

/// Separates what the text alone would run together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mark {
    /// A tool definition follows; one mark for each, its JSON as text.
    Tools,
    /// System text or instructions follow, as a field of the request. Same as `Message(Role::System)`: both render
    /// alike.
    System,
    /// A message follows.
    Message(Role),
    /// Content or one content part follows.
    Content,
    /// The name of a speaker or of a called tool follows.
    Name,
    /// A call of a tool follows.
    ToolCall,
    /// The id of a call follows.
    ToolCallId,
    /// The arguments of a call follow.
    Arguments,
    /// Reasoning follows.
    Reasoning,
    /// A document, a query or another part that a rerank or embedding request names follows.
    Document,
    /// The suffix of a fill-in-the-middle prompt follows.
    Suffix,
    /// A raw JSON value follows, byte for byte: something that reaches the prompt in a form this gateway does not know.
    Raw,
}

/// A mark, or a change of what the stream holds that the hasher records by itself.
#[derive(Clone, Copy)]
pub(crate) enum Seam {
    Mark(Mark),
    /// Text follows token ids.
    Text,
    /// Token ids follow text.
    TokenIds,
    /// The next token id has these high bits.
    WideTokenId(u64),
    /// The payload hash of a medium follows.
    Medium,
}

impl Seam {
    /// A code that no other seam has, and a value.
    pub(crate) fn encode(self) -> (u16, u64) {
        let code = match self {
            Self::Mark(mark) => return (mark.code(), 0),
            Self::WideTokenId(high) => return (0x203, high),
            Self::Text => 0x201,
            Self::TokenIds => 0x202,
            Self::Medium => 0x204,
        };
        (code, 0)
    }
}

impl Mark {
    fn code(self) -> u16 {
        match self {
            Self::Tools => 1,
            Self::Content => 3,
            Self::Name => 4,
            Self::ToolCall => 5,
            Self::ToolCallId => 6,
            Self::Arguments => 7,
            Self::Reasoning => 8,
            Self::Document => 9,
            Self::Suffix => 10,
            Self::Raw => 11,
            Self::System | Self::Message(Role::System) => 0x100,
            Self::Message(Role::Developer) => 0x101,
            Self::Message(Role::User) => 0x102,
            Self::Message(Role::Assistant) => 0x103,
            Self::Message(Role::Tool) => 0x104,
            Self::Message(Role::Other) => 0x105,
        }
    }
}
