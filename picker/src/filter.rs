//! Says yes or no to each endpoint.

use crate::request::RequestInfo;
use crate::view::Candidates;

/// Which candidates are left.
#[derive(Clone, Debug, Default)]
pub struct Keep {
    kept: Vec<bool>,
}

impl Keep {
    /// Whether the candidate at `i` is left.
    pub fn is_kept(&self, i: usize) -> bool {
        self.kept[i]
    }

    /// Removes the candidate at `i`.
    pub fn remove(&mut self, i: usize) {
        self.kept[i] = false;
    }
}

/// Says which candidates may serve a request.
pub trait Filter: Send + Sync {
    /// Name, as used in configuration.
    fn name(&self) -> &'static str;
    /// Removes those that may not. Positions are those of `candidates`; some may already be removed.
    fn retain(&self, request: &RequestInfo, candidates: &Candidates<'_>, keep: &mut Keep);
}
