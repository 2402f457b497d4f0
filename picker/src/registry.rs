//! Names of filters, scorers and policies, and what they build.

use thiserror::Error;

/// A policy that cannot be built.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum PolicyError {
    /// No policy, filter or scorer has this name.
    #[error("no {kind} is named `{name}`; there are: {known}")]
    Unknown {
        /// `policy`, `filter` or `scorer`.
        kind: &'static str,
        /// The name asked for.
        name: String,
        /// The names that exist, sorted, with commas.
        known: String,
    },
    /// A weight that is not a finite number of at least 0.
    #[error("weight of scorer `{name}` must be a finite number of at least 0, not {weight}")]
    Weight {
        /// The scorer.
        name: String,
        /// The weight given.
        weight: f64,
    },
}

/// What policies are made of, by name.
#[derive(Debug, Default)]
pub struct Registry {}
