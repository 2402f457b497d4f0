//! What a round of a decision asks the ring: who owns the key, who comes next, and what to believe of a prefix nobody is
//! known to hold.
//!
//! Places on the walk are noted for scorers only as far as the decision itself has to go.

use std::cmp::Reverse;

use crate::decide::Reason;
use crate::decide::bounds::Bounds;
use crate::decide::round::Round;
use crate::decide::scratch::Scratch;
use crate::filter::Keep;
use crate::ledger::{self, Load};
use crate::ring::{Ring, Seen};
use crate::view::table::{Ours, Table};

/// Endpoints on the walk of a key where several gateways keep its prefix: the owner, and the next for when it is busy.
const HOMES: usize = 2;

/// The most there are while those before are busy.
const MOST_HOMES: usize = 16;

/// Requests at an endpoint, over the mean of all, from which it is busy. A prefix that is asked for more than two endpoints can
/// bear needs more homes; one that merely clumps does not.
const BUSY: f64 = 1.5;

/// Share of what is known to be cached elsewhere that counts as cached on the owner.
const GUESS_KNOWN: f64 = 0.75;

/// What is known of a prompt may be a part, such as a common greeting. Below this share of the prompt, such a match does not
/// stand against what other gateways have most likely done.
const WELL_KNOWN: f64 = 0.5;

impl Round<'_> {
    /// With several gateways, a prefix counts as cached where any of them would send it: a copy that one of them made off
    /// the walk is used by none of the others, and pushes out what all of them use. What half of the endpoints hold, such as
    /// the start that all prompts share, is nobody's own copy and counts everywhere.
    pub(super) fn take_prior(&mut self) {
        let Scratch { table, kept, .. } = &*self.scratch;
        self.best_cached = kept.iter().map(|i| table.beliefs[*i as usize].cached_tokens).fold(0.0, f64::max);
        let Some(key) = self.ring_key().filter(|_| self.topology.reads_prefixes()) else { return };
        // What is too short to be cached has no home.
        if self.any_silent && !self.request.prompt.blocks.is_empty() {
            self.find_homes(key);
            self.discount_copies();
            let prompt = self.view.prompt_tokens;
            let is_unknown = self.best_cached < WELL_KNOWN * prompt;
            let guess = if is_unknown { self.view.guess * prompt } else { GUESS_KNOWN * self.best_cached };
            if let Some(owner) = self.scratch.homes.first().map(|owner| *owner as usize)
                && self.scratch.table.beliefs[owner].cached_tokens < guess
            {
                self.scratch.table.beliefs[owner].cached_tokens = guess;
                self.prior_cached = guess;
                self.guessed = is_unknown.then_some(owner);
            }
        }
        if self.plan.walks_first {
            self.walk(key);
        }
    }

    /// Off the homes of a prefix, lets no more of it count than half of the candidates hold.
    fn discount_copies(&mut self) {
        let Self { topology, scratch, request, view, .. } = self;
        let Scratch { table, matches, kept, .. } = &mut **scratch;
        let half = kept.len().div_ceil(2).max(1);
        let common = if matches.found.len() < half {
            0.0
        } else {
            let (_, (_, blocks), _) =
                matches.found.select_nth_unstable_by_key(half - 1, |(_, blocks)| Reverse(*blocks));
            request.prompt.share(*blocks as usize) * view.prompt_tokens
        };
        let holders = matches.found.iter().filter_map(|(slot, _)| topology.position(*slot));
        for position in holders {
            let belief = &mut table.beliefs[position];
            if belief.is_away {
                belief.cached_tokens = belief.cached_tokens.min(common);
            }
        }
    }

    /// Notes the homes of a prefix: the first endpoints on the walk of its key, and one more for each of them that is busy. All
    /// gateways see about the same, since what others sent counts.
    fn find_homes(&mut self, key: u64) {
        let Self { topology, scratch, .. } = self;
        let Scratch { table, keep, kept, seen, homes, .. } = &mut **scratch;
        let mean = kept.iter().map(|i| table.busyness(*i as usize)).sum::<f64>() / kept.len() as f64;
        let busy = (BUSY * mean).max(mean + topology.config.affinity.min_slack);
        let mut wanted = HOMES;
        for position in topology.ring.walk(key, seen).filter(|position| keep.is_kept(*position)) {
            homes.push(position as u32);
            wanted += usize::from(table.busyness(position) > busy);
            if homes.len() >= wanted.min(MOST_HOMES) {
                break;
            }
        }
        for position in kept.iter() {
            table.beliefs[*position as usize].is_away = true;
        }
        for position in homes.iter() {
            table.beliefs[*position as usize].is_away = false;
        }
    }

    fn bounds(&mut self) -> Bounds {
        // One size for all endpoints, and not less than what is reserved at the one chosen: which of them has room must not
        // depend on which holds the prefix.
        let cached = self.prior_cached;
        *self.bounds.get_or_insert_with(|| {
            let Self { topology, plan, scratch, view, .. } = self;
            let eligible = scratch.kept.iter().map(|i| &scratch.table.ours[*i as usize]);
            let size = ledger::size(view.prompt_tokens - cached, view.mean_uncached);
            Bounds::new(eligible, &topology.config.affinity, size, plan.counts_requests)
        })
    }

    /// The first eligible endpoint with room on the walk of `key`, and whether it is the first eligible at all. Notes the
    /// places it passes.
    fn walk(&mut self, key: u64) -> Option<(usize, bool)> {
        let bounds = self.bounds();
        let Self { topology, scratch, .. } = self;
        let Scratch { table, keep, kept, seen, .. } = &mut **scratch;
        walk(&topology.ring, table, (keep, kept), seen, bounds, key, |_| true)
    }

    /// Inside the tie band, a prefix that nobody holds goes where its kin went before, or will go on other gateways. Keys
    /// never met keep rotating when there is only this gateway: nobody gains if they go to their owner.
    pub(super) fn owner_among_tied(&mut self) -> Option<usize> {
        let key = self.ring_key().filter(|key| {
            self.plan.reads_prefixes
                && self.best_cached == 0.0
                && (self.view.gateways > 1 || self.pool.known.knows(*key))
        })?;
        let bounds = self.bounds();
        let Self { topology, scratch, .. } = self;
        let Scratch { table, keep, kept, seen, tied, .. } = &mut **scratch;
        // Candidates are in order of position, so both lists are sorted.
        let candidate_at = |position: usize| kept.binary_search(&(position as u32)).ok();
        let is_tied = |position: usize| candidate_at(position).is_some_and(|i| tied.binary_search(&(i as u32)).is_ok());
        let (position, _) = walk(&topology.ring, table, (keep, kept), seen, bounds, key, is_tied)?;
        candidate_at(position)
    }

    pub(super) fn choose_on_walk(&mut self) -> (usize, Reason, Load) {
        let key = self.ring_key();
        let start = key.unwrap_or(self.turn.random);
        let bounds = self.bounds();
        let (position, is_owner, limit) = if let Some((position, is_owner)) = self.walk(start) {
            (position, is_owner, bounds.limit(self.scratch.table.ours[position].weight))
        } else {
            let (position, is_owner) = self.least_loaded_on_walk(start, bounds);
            (position, is_owner, bounds.limit_over(&self.scratch.table.ours[position]))
        };
        let candidate =
            self.scratch.kept.binary_search(&(position as u32)).expect("a walk ends at an eligible endpoint");
        let reason = match (key, is_owner) {
            (None, _) => Reason::Random,
            (Some(_), true) => Reason::Owner,
            (Some(_), false) => Reason::Spill,
        };
        (candidate, reason, limit)
    }

    /// Every endpoint is over its bound: the least loaded, the first such on the walk.
    fn least_loaded_on_walk(&mut self, key: u64, bounds: Bounds) -> (usize, bool) {
        let Self { topology, scratch, .. } = self;
        let Scratch { table, keep, kept, seen, .. } = &mut **scratch;
        let relative = |i: usize| bounds.relative(&table.ours[i]);
        let least = kept.iter().map(|i| relative(*i as usize)).fold(f64::INFINITY, f64::min);
        let mut eligible = topology.ring.walk(key, seen).filter(|position| keep.is_kept(*position)).enumerate();
        let found = eligible.find(|(_, position)| relative(*position) <= least);
        let (place, position) = found.expect("the least loaded endpoint is on every walk");
        (position, place == 0)
    }

    /// Notes the place of every endpoint on the walk, as far as the decision has not. Only for explain, after the choice.
    pub(crate) fn complete_walk(&mut self) {
        let Some(key) = self.ring_key() else { return };
        let Self { topology, scratch, .. } = self;
        let Scratch { table, seen, .. } = &mut **scratch;
        for (place, position) in topology.ring.walk(key, seen).enumerate() {
            table.beliefs[position].ring_position = place as u32;
        }
    }
}

/// The first eligible endpoint that has room and is `wanted` on the walk of `key`, and whether it is the first eligible at
/// all. Notes the places it passes.
fn walk(
    ring: &Ring,
    table: &mut Table,
    (keep, kept): (&Keep, &[u32]),
    seen: &mut Seen,
    bounds: Bounds,
    key: u64,
    wanted: impl Fn(usize) -> bool,
) -> Option<(usize, bool)> {
    let fits = |ours: &[Ours], i: usize| wanted(i) && bounds.has_room(&ours[i]);
    // Without this look, a full pool would be walked once round.
    if !kept.iter().any(|i| fits(&table.ours, *i as usize)) {
        return None;
    }
    let mut is_owner = true;
    for (place, position) in ring.walk(key, seen).enumerate() {
        table.beliefs[position].ring_position = place as u32;
        if keep.is_kept(position) {
            if fits(&table.ours, position) {
                return Some((position, is_owner));
            }
            is_owner = false;
        }
    }
    None
}
