//! Rankings in a unit of their own, mostly seconds: lower is better.
//!
//! A cost is a sum of named terms, so that `explain` can show what made an endpoint expensive. Unlike a score, a cost is
//! not scaled to its rivals: 80 ms stay 80 ms whoever else is a candidate.

pub mod adaptive;
pub(crate) mod cache_aware;
pub(crate) mod least_latency;
pub(crate) mod pxbs;

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

/// A table of cost terms, a row per candidate and a column per term. Made to be reused: it keeps its memory.
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
        self.row_mut(candidate)[term] = value;
    }

    /// One term of one candidate.
    pub fn get(&self, candidate: usize, term: usize) -> f64 {
        self.row(candidate)[term]
    }

    /// All terms of one candidate.
    pub fn row(&self, candidate: usize) -> &[f64] {
        &self.values[candidate * self.width..][..self.width]
    }

    /// All terms of one candidate, to be written.
    pub fn row_mut(&mut self, candidate: usize) -> &mut [f64] {
        &mut self.values[candidate * self.width..][..self.width]
    }

    /// The cost of one candidate: the sum of its terms. Infinite when one of them is.
    pub fn total(&self, candidate: usize) -> f64 {
        self.row(candidate).iter().sum()
    }
}

/// Ranks candidates by expected cost, in seconds unless its terms say otherwise.
pub trait Cost: Send + Sync {
    /// Name, as used in configuration.
    fn name(&self) -> &'static str;

    /// The terms, in the order of their columns.
    fn terms(&self) -> &'static [Term];

    /// Writes every term of every candidate; `terms` has been reset to the right size. No term is negative or not a
    /// number; an infinite one rules a candidate out while there is another.
    fn cost(&self, request: &RequestInfo, candidates: &Candidates<'_>, terms: &mut Terms);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_used_again_remembers_nothing() {
        let mut terms = Terms::default();
        terms.reset(2, 3);
        terms.set(1, 2, f64::INFINITY);
        terms.set(1, 0, 0.5);
        assert!(terms.total(1).is_infinite());
        assert_eq!(terms.row(0), [0.0; 3]);
        terms.reset(3, 2);
        assert!((0..3).all(|candidate| terms.total(candidate).abs() < 1e-12), "{terms:?}");
    }
}
