//! Gives each candidate a score in [0, 1].

use crate::request::RequestInfo;
use crate::view::Candidates;

/// Scores candidates; higher is better.
pub trait Scorer: Send + Sync {
    /// Name, as used in configuration.
    fn name(&self) -> &'static str;
    /// Writes one score in [0, 1] per candidate; equal candidates get equal scores.
    fn score(&self, request: &RequestInfo, candidates: &Candidates<'_>, scores: &mut [f64]);
}
