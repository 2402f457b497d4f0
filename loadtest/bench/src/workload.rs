//! What is asked of a fleet: arrivals, lengths, what prompts share, and the fixed trace that comes of them.

mod amount;
mod arrivals;
mod generate;
mod prompts;
pub mod random;
pub mod text;
pub mod trace;

use serde::{Deserialize, Serialize};

pub use amount::{Amount, Part};
pub use arrivals::Arrivals;
pub use generate::generate;
pub use prompts::{Documents, Level, Prompts, Turns};
pub use trace::{Request, Start, Trace};

/// What requests are like, apart from when they come.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// Kinds of requests.
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
    /// What is wrong with it, if anything.
    pub fn check(&self) -> Result<(), String> {
        if self.classes.is_empty() {
            return Err("a workload needs at least one class of requests".to_owned());
        }
        for class in &self.classes {
            if !class.share.is_finite() || class.share <= 0.0 {
                return Err(format!("share must be positive, not {}", class.share));
            }
            class.prompts.check()?;
            class.output.check()?;
        }
        let total: f64 = self.priorities.iter().sum();
        if self.priorities.iter().any(|share| *share < 0.0) || total <= 0.0 {
            return Err("priorities are three shares, none negative and not all zero".to_owned());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
