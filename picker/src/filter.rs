//! Filters say yes or no to each endpoint.
//!
//! A filter removes only what cannot serve the request, or must not. What would merely serve it worse is for scorers: a
//! filter that is too eager turns a slow answer into none.

mod builtin;

use crate::request::RequestInfo;
use crate::view::Candidates;

pub(crate) use builtin::{Concurrency, Demoted, Healthy, Serves, Tried};

/// Says which candidates may serve a request.
pub trait Filter: Send + Sync {
    /// Name, as used in configuration and shown by explain.
    fn name(&self) -> &'static str;
    /// Removes those that may not. Positions are those of `candidates`; some may already be removed.
    fn retain(&self, request: &RequestInfo, candidates: &Candidates<'_>, keep: &mut Keep);
}

/// Which candidates are left, and which filter removed the others.
#[derive(Clone, Debug, Default)]
pub struct Keep {
    removed_by: Vec<Option<&'static str>>,
    filter: &'static str,
    left: usize,
}

impl Keep {
    /// Whether the candidate at `i` is left.
    pub fn is_kept(&self, i: usize) -> bool {
        self.removed_by[i].is_none()
    }

    /// Removes the candidate at `i`; no effect on one that is gone.
    pub fn remove(&mut self, i: usize) {
        if self.removed_by[i].is_none() {
            self.removed_by[i] = Some(self.filter);
            self.left -= 1;
        }
    }

    /// Removes every candidate for which `is_wanted` is false.
    pub fn retain(&mut self, mut is_wanted: impl FnMut(usize) -> bool) {
        for i in 0..self.removed_by.len() {
            if self.removed_by[i].is_none() && !is_wanted(i) {
                self.remove(i);
            }
        }
    }

    /// How many are left.
    pub fn left(&self) -> usize {
        self.left
    }

    pub(crate) fn reset(&mut self, len: usize) {
        self.removed_by.clear();
        self.removed_by.resize(len, None);
        self.left = len;
    }

    /// Runs one filter.
    pub(crate) fn apply(&mut self, filter: &dyn Filter, request: &RequestInfo, candidates: &Candidates<'_>) {
        self.filter = filter.name();
        filter.retain(request, candidates, self);
    }

    pub(crate) fn removed_by(&self, i: usize) -> Option<&'static str> {
        self.removed_by[i]
    }
}
