//! Rankings in seconds: lower is better. Stub.

pub mod adaptive;

use crate::request::RequestInfo;
use crate::view::Candidates;

/// One named part of a cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Term {
    /// Short name, as shown by explain.
    pub name: &'static str,
    /// Unit, as shown by explain.
    pub unit: &'static str,
}

/// A table of cost terms: one row per candidate, one column per term.
#[derive(Clone, Debug, Default)]
pub struct Terms {
    width: usize,
    values: Vec<f64>,
}

impl Terms {
    /// Makes room for `candidates` rows of `width` terms, all zero.
    pub fn reset(&mut self, candidates: usize, width: usize) {
        self.width = width;
        self.values.clear();
        self.values.resize(candidates * width, 0.0);
    }

    /// Sets one term of one candidate.
    pub fn set(&mut self, candidate: usize, term: usize, value: f64) {
        self.values[candidate * self.width + term] = value;
    }

    /// One term of one candidate.
    pub fn get(&self, candidate: usize, term: usize) -> f64 {
        self.values[candidate * self.width + term]
    }

    /// The cost of one candidate: the sum of its terms.
    pub fn total(&self, candidate: usize) -> f64 {
        self.values[candidate * self.width..(candidate + 1) * self.width].iter().sum()
    }
}

/// Ranks candidates by expected cost in seconds.
pub trait Cost: Send + Sync {
    /// Name, as used in configuration.
    fn name(&self) -> &'static str;
    /// The terms, in the order of their columns.
    fn terms(&self) -> &'static [Term];
    /// Writes every term of every candidate; `terms` has been reset to the right size.
    fn cost(&self, request: &RequestInfo, candidates: &Candidates<'_>, terms: &mut Terms);
}
