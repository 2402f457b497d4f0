//! One fixed list of requests per seed, replayed for every policy that is compared.
//!
//! It holds what each request consists of, not its text: that is made from it, alike for a run in virtual time and one
//! over HTTP. What a newcomer gets wrong: the start of a later turn is not a time but a pause after the end of another
//! request, so traces of chats and closed loops depend on the fleet in their times, and in nothing else.

use std::time::Duration;

/// A list of requests.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Trace {
    /// In the order of their making; those with a time are in the order of it.
    pub requests: Vec<Request>,
    /// Nothing is sent from here on.
    pub horizon: Duration,
}

/// When a request is sent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Start {
    /// At this time.
    At(Duration),
    /// So long after another request, earlier in the list, has ended.
    After {
        /// Place of the other in the list.
        request: usize,
        /// Time between.
        pause: Duration,
    },
}

/// One request.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// When it is sent.
    pub start: Start,
    /// The messages of its prompt, in order.
    pub messages: Vec<Message>,
    /// Output tokens: what it asks for and gets.
    pub output: u32,
    /// LoRA adapter, by number.
    pub adapter: Option<usize>,
    /// Tenant, by number.
    pub tenant: Option<usize>,
    /// How important it is.
    pub priority: Priority,
    /// Whether the answer is streamed.
    pub streams: bool,
    /// Decides the reply.
    pub seed: u64,
    /// Number of its conversation.
    pub conversation: u64,
}

/// How important a request is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Priority {
    /// Served before all else.
    Critical,
    /// The usual.
    #[default]
    Standard,
    /// First to be refused.
    Sheddable,
}

/// One message of a prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// Who speaks.
    pub role: Role,
    /// What is said.
    pub text: Text,
}

/// Who speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The operator of the application.
    System,
    /// Its user.
    User,
    /// The model.
    Assistant,
    /// A tool.
    Tool,
}

/// What a message says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Text {
    /// So many words of an endless text with this number.
    Words {
        /// Equal numbers, equal texts.
        segment: u64,
        /// Its length; a word is a token.
        tokens: u32,
    },
    /// What was answered to another request, earlier in the list.
    Reply {
        /// Place of the other in the list.
        request: usize,
    },
}

impl Role {
    /// Its name in a request body.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::User => "user",
            Self::Assistant => "assistant",
            Self::Tool => "tool",
        }
    }
}

impl Trace {
    /// Tokens of text in a request's prompt, without those that a chat template adds.
    pub fn prompt_tokens(&self, request: &Request) -> u32 {
        let tokens = |message: &Message| match message.text {
            Text::Words { tokens, .. } => tokens,
            Text::Reply { request } => self.requests[request].output,
        };
        request.messages.iter().map(tokens).sum()
    }

    /// Those who wait for each request to end, by place in the list.
    pub fn followers(&self) -> Vec<Vec<usize>> {
        let mut followers = vec![Vec::new(); self.requests.len()];
        for (place, request) in self.requests.iter().enumerate() {
            if let Start::After { request: before, .. } = request.start {
                followers[before].push(place);
            }
        }
        followers
    }
}
