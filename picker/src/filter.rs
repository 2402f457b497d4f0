//! Filters say yes or no to each endpoint.
//!
//! A filter removes only what cannot serve the request, or must not. What would merely serve it worse is for scorers: a
//! filter that is too eager turns a slow answer into none.

mod builtin;

use crate::request::RequestInfo;
use crate::view::Candidates;

pub(crate) use builtin::{Concurrency, Demoted, InService, Serves, Tried};

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
    /// Per candidate: 0 when left, else the number of the filter, counted from 1.
    removed_by: Vec<u8>,
    filters: Vec<&'static str>,
    left: usize,
}

impl Keep {
    /// Whether the candidate at `i` is left.
    pub fn is_kept(&self, i: usize) -> bool {
        self.removed_by[i] == 0
    }

    /// Removes the candidate at `i`; no effect on one that is gone.
    pub fn remove(&mut self, i: usize) {
        if self.removed_by[i] == 0 {
            self.removed_by[i] = self.number();
            self.left -= 1;
        }
    }

    /// Removes every candidate for which `is_wanted` is false.
    pub fn retain(&mut self, mut is_wanted: impl FnMut(usize) -> bool) {
        let number = self.number();
        for (i, removed_by) in self.removed_by.iter_mut().enumerate() {
            if *removed_by == 0 && !is_wanted(i) {
                *removed_by = number;
                self.left -= 1;
            }
        }
    }

    /// How many are left.
    pub fn left(&self) -> usize {
        self.left
    }

    pub(crate) fn reset(&mut self, len: usize) {
        self.removed_by.clear();
        self.removed_by.resize(len, 0);
        self.filters.clear();
        self.left = len;
    }

    /// Runs one filter.
    pub(crate) fn apply(&mut self, filter: &dyn Filter, request: &RequestInfo, candidates: &Candidates<'_>) {
        self.filters.push(filter.name());
        filter.retain(request, candidates, self);
    }

    pub(crate) fn removed_by(&self, i: usize) -> Option<&'static str> {
        let number = usize::from(self.removed_by[i]);
        (number > 0).then(|| self.filters.get(number - 1).copied().unwrap_or("filter"))
    }

    /// Number of the filter at work. Past 255 filters they share the last one.
    fn number(&self) -> u8 {
        u8::try_from(self.filters.len()).unwrap_or(u8::MAX).max(1)
    }
}
