//! What requests have in common: system prompts, documents, and the conversation so far.
//!
//! One form covers the kinds of traffic that matter to a prefix cache. Nothing shared is a batch of unique prompts; one
//! level is shared-prefix groups; several levels are a tree, as agents make it (tool schema, then role); documents are
//! retrieval; turns are chat, each repeating all before it, replies included.

use serde::{Deserialize, Serialize};

use super::amount::Amount;
use crate::limits::{POOL, ZIPF};
use spillway_sim::Problems;

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

impl Documents {
    fn check(&self, problems: &mut Problems) {
        problems.range("pool", self.pool as f64, POOL);
        problems.range("zipf", self.zipf, ZIPF);
        problems.range("each", self.each as f64, 1.0..=100.0);
        if self.each > self.pool {
            problems.add("each", format_args!("{} of a pool of {}", self.each, self.pool));
        }
        problems.inside("tokens", |problems| self.tokens.check(problems));
    }
}

impl Turns {
    fn check(&self, problems: &mut Problems) {
        problems.range("mean", self.mean, 1.0..=10_000.0);
        problems.range("most", f64::from(self.most), 1.0..=10_000.0);
        problems.inside("think", |problems| self.think.check(problems));
        if let Some(message) = &self.message {
            problems.inside("message", |problems| message.check(problems));
        }
    }
}

impl Prompts {
    /// Says what is wrong with it.
    pub fn check(&self, problems: &mut Problems) {
        problems.each("shared", &self.shared, |level, problems| {
            problems.range("pool", level.pool as f64, POOL);
            problems.range("zipf", level.zipf, ZIPF);
            problems.range("hot", level.hot, 0.0..=1.0);
            problems.inside("tokens", |problems| level.tokens.check(problems));
        });
        if let Some(documents) = &self.documents {
            problems.inside("documents", |problems| documents.check(problems));
        }
        problems.inside("message", |problems| self.message.check(problems));
        if let Some(turns) = &self.turns {
            problems.inside("turns", |problems| turns.check(problems));
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

    /// Tokens of a prompt on the average, where answers have so many, as far as [`Amount::mean`] goes.
    pub fn tokens(&self, output: f64) -> f64 {
        let shared: f64 = self.shared.iter().map(|level| level.tokens.mean()).sum();
        let documents = self.documents.as_ref().map_or(0.0, |pool| pool.each as f64 * pool.tokens.mean());
        let before = self.turns.as_ref().map_or(0.0, |turns| {
            // The mean over requests and not over conversations: long ones have more of them.
            let turns_before = (turns.mean - 1.0).min(f64::from(turns.most - 1) / 2.0);
            turns_before * (output + turns.message.as_ref().unwrap_or(&self.message).mean())
        });
        shared + documents + self.message.mean() + before
    }
}
