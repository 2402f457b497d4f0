//! Memory that decisions use again and again, one set per thread.
//!
//! It is taken out of its place for the length of a decision, so a scorer that itself decides gets a set of its own.

use std::cell::Cell;

use crate::cost::Terms;
use crate::filter::Keep;
use crate::index::Matches;
use crate::ring::Seen;
use crate::view::table::Table;

thread_local! {
    static SPARE: Cell<Option<Box<Scratch>>> = const { Cell::new(None) };
}

/// Reusable memory of one decision.
#[derive(Default)]
pub(crate) struct Scratch {
    /// What is known of every endpoint of the pool.
    pub(crate) table: Table,
    /// 0, 1, 2, ..: every endpoint as a candidate, for the filters.
    pub(crate) all: Vec<u32>,
    pub(crate) keep: Keep,
    /// The endpoints that are left, as positions in the pool.
    pub(crate) kept: Vec<u32>,
    pub(crate) matches: Matches,
    /// Scores, one stretch of candidates per scorer.
    pub(crate) scores: Vec<f64>,
    pub(crate) terms: Terms,
    /// Score or cost of each candidate.
    pub(crate) totals: Vec<f64>,
    pub(crate) tied: Vec<u32>,
    pub(crate) busyness: Vec<f64>,
    pub(crate) seen: Seen,
    /// Positions of the homes of the prompt's prefix, its owner first; empty with one gateway.
    pub(crate) homes: Vec<u32>,
}

/// Takes the thread's spare set, or makes one.
pub(crate) fn take() -> Box<Scratch> {
    SPARE.take().unwrap_or_default()
}

/// Gives a set back for the next decision.
pub(crate) fn give_back(scratch: Box<Scratch>) {
    SPARE.set(Some(scratch));
}
