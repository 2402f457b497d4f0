//! The few places in a reply's JSON that mean something to a gateway, as a small tree walked key by key.
//!
//! The three dialects share one tree: none of their keys clash, and a server that mixes them is still understood.
//! What is not in the tree is skipped unread.

/// Where in the document a value stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Nobody asked.
    Elsewhere,
    /// The document itself.
    Root,
    Choices,
    Choice,
    /// `choices[].delta`.
    ChoiceDelta,
    /// `delta` at the top: a string in Responses, an object in Messages.
    Delta,
    /// `content_block` of Messages.
    ContentBlock,
    /// Model output of any sort: any text at or below it is a sign of tokens.
    Generated,
    /// `response` of Responses events.
    Response,
    /// `message` of `message_start`.
    Message,
    Usage,
    UsageDetails,
    PromptTokens,
    CompletionTokens,
    CachedTokens,
    CacheReadTokens,
    CacheWrittenTokens,
    FinishReason,
    /// `status` of a response object.
    Status,
    /// `incomplete_details` of a response object.
    Incomplete,
    /// `error` at the top: text or object.
    Error,
    /// Anything else within an error.
    ErrorDetail,
    /// `code` of an error, a number or text.
    ErrorCode,
    /// `code` at the top, of an error or of something else.
    Code,
    /// `type` at the top, which repeats the name of the event.
    Type,
    /// `object` at the top.
    Object,
    SequenceNumber,
}

impl Place {
    /// Returns the place of the member `key` of an object that stands here.
    pub(super) fn member(self, key: &[u8]) -> Self {
        match self {
            Self::Root => match key {
                b"choices" => Self::Choices,
                b"usage" => Self::Usage,
                b"delta" => Self::Delta,
                b"type" => Self::Type,
                b"response" => Self::Response,
                b"message" => Self::Message,
                b"content_block" => Self::ContentBlock,
                b"error" => Self::Error,
                b"object" => Self::Object,
                b"code" => Self::Code,
                b"sequence_number" => Self::SequenceNumber,
                b"status" => Self::Status,
                b"incomplete_details" => Self::Incomplete,
                b"stop_reason" => Self::FinishReason,
                _ => Self::Elsewhere,
            },
            Self::Choice => match key {
                b"delta" => Self::ChoiceDelta,
                b"text" => Self::Generated,
                b"finish_reason" => Self::FinishReason,
                _ => Self::Elsewhere,
            },
            Self::ChoiceDelta => match key {
                b"content" | b"reasoning" | b"reasoning_content" | b"refusal" | b"tool_calls" | b"function_call"
                | b"audio" => Self::Generated,
                _ => Self::Elsewhere,
            },
            Self::Delta => match key {
                b"text" | b"thinking" | b"partial_json" => Self::Generated,
                b"stop_reason" => Self::FinishReason,
                _ => Self::Elsewhere,
            },
            Self::ContentBlock => match key {
                // A tool's name is generated text, and with it such a block starts.
                b"text" | b"thinking" | b"name" => Self::Generated,
                _ => Self::Elsewhere,
            },
            Self::Response => match key {
                b"usage" => Self::Usage,
                b"status" => Self::Status,
                b"incomplete_details" => Self::Incomplete,
                b"error" => Self::Error,
                _ => Self::Elsewhere,
            },
            Self::Message if key == b"usage" => Self::Usage,
            Self::Incomplete if key == b"reason" => Self::FinishReason,
            Self::Usage => match key {
                b"prompt_tokens" | b"input_tokens" => Self::PromptTokens,
                b"completion_tokens" | b"output_tokens" => Self::CompletionTokens,
                b"prompt_tokens_details" | b"input_tokens_details" => Self::UsageDetails,
                b"cache_read_input_tokens" => Self::CacheReadTokens,
                b"cache_creation_input_tokens" => Self::CacheWrittenTokens,
                _ => Self::Elsewhere,
            },
            Self::UsageDetails if key == b"cached_tokens" => Self::CachedTokens,
            Self::Error if key == b"code" => Self::ErrorCode,
            Self::Error | Self::ErrorDetail => Self::ErrorDetail,
            Self::Generated => self,
            _ => Self::Elsewhere,
        }
    }

    /// Returns the place of the items of an array that stands here.
    pub(super) fn item(self) -> Self {
        match self {
            Self::Choices => Self::Choice,
            Self::Error | Self::ErrorDetail => Self::ErrorDetail,
            Self::Generated => self,
            _ => Self::Elsewhere,
        }
    }
}
