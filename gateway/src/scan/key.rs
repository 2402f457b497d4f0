//! The closed set of top-level keys that are looked for.
//!
//! Keys that do not move the engine's prefix (sampling fields) are absent on purpose. So are those that move it only
//! under some templates (`chat_template_kwargs`, `reasoning_effort`, `tool_choice`): leaving one out costs a wrong
//! estimate where it does move the prefix; keying on it would send a conversation to a cold endpoint where it does not.

/// A top-level field of a request that Spillway reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
#[expect(missing_docs, reason = "each is the field of that name; `Key::name` has the spelling")]
pub enum Key {
    Model,
    Stream,
    StreamOptions,
    MaxTokens,
    MaxCompletionTokens,
    MaxOutputTokens,
    N,
    Priority,
    User,
    Metadata,
    PromptCacheKey,
    CacheSalt,
    ExtraKey,
    PreviousResponseId,
    Tools,
    Functions,
    System,
    Instructions,
    Messages,
    Prompt,
    PromptEmbeds,
    Suffix,
    Input,
    Text,
    Text1,
    Text2,
    Query,
    Queries,
    Documents,
}

impl Key {
    /// How many keys there are.
    pub const COUNT: usize = Self::ALL.len();

    /// Every key, in the order of the enum.
    pub const ALL: [Self; 29] = [
        Self::Model,
        Self::Stream,
        Self::StreamOptions,
        Self::MaxTokens,
        Self::MaxCompletionTokens,
        Self::MaxOutputTokens,
        Self::N,
        Self::Priority,
        Self::User,
        Self::Metadata,
        Self::PromptCacheKey,
        Self::CacheSalt,
        Self::ExtraKey,
        Self::PreviousResponseId,
        Self::Tools,
        Self::Functions,
        Self::System,
        Self::Instructions,
        Self::Messages,
        Self::Prompt,
        Self::PromptEmbeds,
        Self::Suffix,
        Self::Input,
        Self::Text,
        Self::Text1,
        Self::Text2,
        Self::Query,
        Self::Queries,
        Self::Documents,
    ];

    /// Length in bytes of the longest name.
    pub const MAX_NAME_BYTES: usize = 21;

    /// Returns the key's spelling in a body.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Model => "model",
            Self::Stream => "stream",
            Self::StreamOptions => "stream_options",
            Self::MaxTokens => "max_tokens",
            Self::MaxCompletionTokens => "max_completion_tokens",
            Self::MaxOutputTokens => "max_output_tokens",
            Self::N => "n",
            Self::Priority => "priority",
            Self::User => "user",
            Self::Metadata => "metadata",
            Self::PromptCacheKey => "prompt_cache_key",
            Self::CacheSalt => "cache_salt",
            Self::ExtraKey => "extra_key",
            Self::PreviousResponseId => "previous_response_id",
            Self::Tools => "tools",
            Self::Functions => "functions",
            Self::System => "system",
            Self::Instructions => "instructions",
            Self::Messages => "messages",
            Self::Prompt => "prompt",
            Self::PromptEmbeds => "prompt_embeds",
            Self::Suffix => "suffix",
            Self::Input => "input",
            Self::Text => "text",
            Self::Text1 => "text_1",
            Self::Text2 => "text_2",
            Self::Query => "query",
            Self::Queries => "queries",
            Self::Documents => "documents",
        }
    }

    /// Returns the key with this (decoded) name. Spelled out, for the compiler makes a decision tree of it.
    pub const fn from_name(name: &[u8]) -> Option<Self> {
        Some(match name {
            b"model" => Self::Model,
            b"stream" => Self::Stream,
            b"stream_options" => Self::StreamOptions,
            b"max_tokens" => Self::MaxTokens,
            b"max_completion_tokens" => Self::MaxCompletionTokens,
            b"max_output_tokens" => Self::MaxOutputTokens,
            b"n" => Self::N,
            b"priority" => Self::Priority,
            b"user" => Self::User,
            b"metadata" => Self::Metadata,
            b"prompt_cache_key" => Self::PromptCacheKey,
            b"cache_salt" => Self::CacheSalt,
            b"extra_key" => Self::ExtraKey,
            b"previous_response_id" => Self::PreviousResponseId,
            b"tools" => Self::Tools,
            b"functions" => Self::Functions,
            b"system" => Self::System,
            b"instructions" => Self::Instructions,
            b"messages" => Self::Messages,
            b"prompt" => Self::Prompt,
            b"prompt_embeds" => Self::PromptEmbeds,
            b"suffix" => Self::Suffix,
            b"input" => Self::Input,
            b"text" => Self::Text,
            b"text_1" => Self::Text1,
            b"text_2" => Self::Text2,
            b"query" => Self::Query,
            b"queries" => Self::Queries,
            b"documents" => Self::Documents,
            _ => return None,
        })
    }

    /// Returns whether the key holds prompt text, which a routing-only scan leaves alone.
    pub const fn is_prompt(self) -> bool {
        self as u8 >= Self::Tools as u8
    }
}
