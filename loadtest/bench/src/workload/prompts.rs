//! What requests have in common: system prompts, documents, and the conversation so far.
//!
//! One form covers the kinds of traffic that matter to a prefix cache. Nothing shared is a batch of unique prompts; one
//! level is shared-prefix groups; several levels are a tree, as agents make it (tool schema, then role); documents are
//! retrieval; turns are chat, each repeating all before it, replies included.

use serde::{Deserialize, Serialize};

use super::amount::Amount;

/// The prompts of one class of requests. Lengths are in tokens.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prompts {
    /// Texts that stand first, from the outermost; each is chosen by its popularity, below the one before it.
    #[serde(default)]
    pub shared: Vec<Level>,
    /// Texts that follow them, several at once, out of one pool.
    #[serde(default)]
    pub documents: Option<Documents>,
    /// What is new in each request.
    pub message: Amount,
    /// Conversations; one turn each by default.
    #[serde(default)]
    pub turns: Option<Turns>,
}

/// A pool of shared texts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Level {
    /// How many there are.
    pub pool: usize,
    /// The k-th is asked for in proportion to `1 / k^zipf`; 0, the default, is uniform.
    #[serde(default)]
    pub zipf: f64,
    /// Length of each.
    pub tokens: Amount,
    /// A single text that takes this part of all requests, before the others share the rest; none by default.
    #[serde(default)]
    pub hot: f64,
}

/// Retrieved documents.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Documents {
    /// How many there are.
    pub pool: usize,
    /// As in [`Level`].
    #[serde(default)]
    pub zipf: f64,
    /// How many a request has.
    pub each: usize,
    /// Length of each.
    pub tokens: Amount,
    /// In one fixed order, so that requests with the same documents begin alike; else in the order drawn.
    #[serde(default)]
    pub sorted: bool,
}

/// Conversations.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Turns {
    /// Mean number of turns, geometric.
    pub mean: f64,
    /// Most turns.
    pub most: u32,
    /// Time between an answer and the next turn, seconds.
    pub think: Amount,
    /// Later messages are what tools returned, not what a user said.
    #[serde(default)]
    pub tools: bool,
    /// Length of later messages; as the first by default.
    #[serde(default)]
    pub message: Option<Amount>,
}

impl Prompts {
    /// What is wrong with it, if anything.
    pub fn check(&self) -> Result<(), String> {
        self.message.check()?;
        for level in &self.shared {
            level.tokens.check()?;
            if level.pool == 0 || !(0.0..1.0).contains(&level.hot) {
                return Err("a shared level needs a pool of at least one, and `hot` below 1".to_owned());
            }
        }
        if let Some(documents) = &self.documents {
            documents.tokens.check()?;
            if documents.each > documents.pool {
                return Err(format!("{} documents a request, of a pool of {}", documents.each, documents.pool));
            }
        }
        match &self.turns {
            Some(turns) if turns.mean < 1.0 || turns.most == 0 => Err("turns must be at least one".to_owned()),
            Some(turns) => turns.think.check().and(turns.message.as_ref().map_or(Ok(()), Amount::check)),
            None => Ok(()),
        }
    }

    /// Requests that one arrival brings on the average.
    pub fn requests_per_arrival(&self) -> f64 {
        self.turns.as_ref().map_or(1.0, |turns| {
            // Mean of a geometric number cut off at `most`.
            let again = 1.0 - 1.0 / turns.mean;
            if again <= 0.0 { 1.0 } else { (1.0 - again.powf(f64::from(turns.most))) / (1.0 - again) }
        })
    }
}
