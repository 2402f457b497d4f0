//! The words of a prompt, and how it is rendered for both who look at it: the engine as tokens, the gateway as text.
//!
//! A word is one token of the simulator's tokenizer, about five bytes long with its space. The gateway is not told: it
//! starts from its own ratio of bytes to tokens and learns from what servers count.

use std::sync::{Arc, LazyLock};

use spillway_picker::prefix::{Depths, Mark, PrefixHasher, Prompt, Role as Speaker, scope};
use spillway_sim::engine::{mix, output_token};
use spillway_sim::tokenizer::{self, Tokens};

use super::trace::{Request, Role, Text, Trace};

/// Words to choose from: enough that two texts do not meet by chance.
const LEXICON: usize = 4_096;

struct Word {
    text: String,
    token: u32,
}

static WORDS: LazyLock<Vec<Word>> = LazyLock::new(|| {
    (0..LEXICON as u64)
        .map(|number| {
            let text = spell(number);
            let mut tokens = Tokens::default();
            tokens.text(&text);
            let tokens = tokens.finish();
            assert_eq!(tokens.len(), 1, "{text:?} must be one token");
            Word { text, token: tokens[0] }
        })
        .collect()
});

/// A space and two to six letters, in proportion to what English has.
fn spell(number: u64) -> String {
    const LETTERS: &[u8; 20] = b"etaoinshrdlucmfwypvb";
    const LENGTHS: [usize; 8] = [2, 3, 3, 4, 4, 5, 5, 6];
    let mut bits = mix(0x5eed, number);
    let length = LENGTHS[(bits % 8) as usize];
    bits /= 8;
    let mut text = String::from(" ");
    for _ in 0..length {
        text.push(char::from(LETTERS[(bits % 20) as usize]));
        bits /= 20;
    }
    text
}

fn word(segment: u64, index: u32) -> &'static Word {
    &WORDS[(mix(segment, u64::from(index)) % LEXICON as u64) as usize]
}

/// Token `index` of the reply to a request.
fn reply_token(request: &Request, index: u32) -> u32 {
    output_token(request.seed, index, Some(tokenizer::vocabulary()))
}

/// The text of a message.
pub fn text(trace: &Trace, text: Text) -> String {
    let mut all = String::new();
    each(trace, text, |word, _| all.push_str(word));
    all
}

fn each(trace: &Trace, text: Text, mut take: impl FnMut(&str, u32)) {
    match text {
        Text::Words { segment, tokens } => (0..tokens).for_each(|index| {
            let word = word(segment, index);
            take(&word.text, word.token);
        }),
        Text::Reply { request } => {
            let request = &trace.requests[request];
            (0..request.output).for_each(|index| {
                let token = reply_token(request, index);
                take(tokenizer::word(token), token);
            });
        }
    }
}

/// A request's prompt as the two see it.
#[derive(Debug)]
pub struct Rendered {
    /// As the engine does, marks of roles included.
    pub tokens: Vec<u32>,
    /// As the gateway does.
    pub prompt: Arc<Prompt>,
}

/// Renders a prompt as a gateway with default settings and a server with the simulator's chat template do.
pub fn render(trace: &Trace, request: &Request, model: &str) -> Rendered {
    let mut tokens = Vec::new();
    let mut hasher = PrefixHasher::new(Depths::default());
    let (mut head_ended, mut has_user) = (false, false);
    let mut piece = String::new();
    for message in &request.messages {
        if message.role != Role::System && !head_ended {
            hasher.head_ends();
            head_ended = true;
        }
        hasher.mark(Mark::Message(match message.role {
            Role::System => Speaker::System,
            Role::User => Speaker::User,
            Role::Assistant => Speaker::Assistant,
            Role::Tool => Speaker::Tool,
        }));
        tokens.push(role_token(message.role));
        piece.clear();
        each(trace, message.text, |word, token| {
            piece.push_str(word);
            tokens.push(token);
        });
        hasher.text(piece.as_bytes());
        if message.role == Role::User && !has_user {
            hasher.first_user_ends();
            has_user = true;
        }
    }
    if !head_ended {
        hasher.head_ends();
    }
    tokens.push(role_token(Role::Assistant));
    Rendered { tokens, prompt: Arc::new(hasher.finish(scope(model, "", None), None)) }
}

fn role_token(role: Role) -> u32 {
    static MARKS: LazyLock<[u32; 4]> = LazyLock::new(|| {
        [Role::System, Role::User, Role::Assistant, Role::Tool].map(|role| {
            let mut tokens = Tokens::default();
            tokens.special(&format!("<|{}|>", role.as_str()));
            tokens.finish()[0]
        })
    });
    MARKS[match role {
        Role::System => 0,
        Role::User => 1,
        Role::Assistant => 2,
        Role::Tool => 3,
    }]
}
