//! What is asked of a fleet: arrivals, lengths, what prompts share, and the fixed trace that comes of them.

mod amount;
mod arrivals;
mod generate;
mod prompts;
pub mod random;
pub mod replay;
pub mod text;
pub mod trace;

use serde::{Deserialize, Serialize};

pub use amount::{Amount, Part};
pub use arrivals::Arrivals;
pub use generate::generate;
pub use prompts::{Documents, Level, Prompts, Turns};
pub use replay::Replay;
pub use trace::{Request, Start, Trace};

use crate::limits::{ADAPTERS, POOL, SHARE, ZIPF};
use spillway_sim::Problems;

/// What requests are like, apart from when they come.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// Kinds of requests; a load that is a recording needs none.
    #[serde(default)]
    pub classes: Vec<Class>,
    /// LoRA adapters; none by default.
    #[serde(default)]
    pub adapters: Option<Choice>,
    /// Tenants; none by default.
    #[serde(default)]
    pub tenants: Option<Choice>,
    /// Shares of critical, standard and sheddable requests.
    #[serde(default = "all_standard")]
    pub priorities: [f64; 3],
    /// Share of requests that stream, 0 to 1; all by default.
    #[serde(default = "one")]
    pub streaming: f64,
}

/// One kind of requests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Class {
    /// Share of all arrivals, relative to the other kinds.
    #[serde(default = "one")]
    pub share: f64,
    /// Prompts.
    pub prompts: Prompts,
    /// Output tokens.
    pub output: Amount,
}

/// A pool to choose from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Choice {
    /// How many there are.
    pub pool: usize,
    /// The k-th is asked for in proportion to `1 / k^zipf`; 0, the default, is uniform.
    #[serde(default)]
    pub zipf: f64,
}

const fn one() -> f64 {
    1.0
}

const fn all_standard() -> [f64; 3] {
    [0.0, 1.0, 0.0]
}

impl Workload {
    /// Says what is wrong with it.
    pub fn check(&self, problems: &mut Problems) {
        problems.each("classes", &self.classes, |class, problems| {
            problems.range("share", class.share, SHARE);
            problems.inside("prompts", |problems| class.prompts.check(problems));
            problems.inside("output", |problems| class.output.check(problems));
        });
        for (key, choice, limits) in [("adapters", &self.adapters, ADAPTERS), ("tenants", &self.tenants, POOL)] {
            if let Some(Choice { pool, zipf }) = choice {
                problems.inside(key, |problems| {
                    problems.range("pool", *pool as f64, limits);
                    problems.range("zipf", *zipf, ZIPF);
                });
            }
        }
        for (number, share) in self.priorities.iter().enumerate() {
            problems.range(&format!("priorities[{number}]"), *share, 0.0..=*SHARE.end());
        }
        if self.priorities.iter().all(|share| *share == 0.0) {
            problems.add("priorities", "all three are zero");
        }
        problems.range("streaming", self.streaming, 0.0..=1.0);
    }

    /// Requests that one arrival brings on the average.
    pub fn requests_per_arrival(&self) -> f64 {
        let shares: f64 = self.classes.iter().map(|class| class.share).sum();
        self.classes.iter().map(|class| class.prompts.requests_per_arrival() * class.share / shares).sum()
    }

    /// Tokens of a prompt on the average, over all requests.
    pub fn tokens_per_request(&self) -> f64 {
        let share = |class: &Class| class.share * class.prompts.requests_per_arrival();
        let shares: f64 = self.classes.iter().map(share).sum();
        self.classes.iter().map(|class| class.prompts.tokens(class.output.mean()) * share(class) / shares).sum()
    }
}

#[cfg(test)]
mod tests;
