//! One round of a decision: see, filter, rank, choose. Nothing is reserved here, so explain runs the same code.
//!
//! Candidates are counted among what the filters left; positions among all endpoints of the pool.

mod adapters;
mod walk;

use crate::decide::bounds::Bounds;
use crate::decide::scratch::Scratch;
use crate::decide::{AffinityResult, NoPick, Reason};
use crate::ledger::{self, Load};
use crate::policy::{Plan, Ranking};
use crate::pool::Pool;
use crate::pool::topology::Topology;
use crate::request::{RequestInfo, Turn};
use crate::select::{self, Select};
use crate::time::Time;
use crate::trial::Arm;
use crate::view::{Candidates, PoolView};

/// Share of a prompt below which a cached prefix is a coincidence, such as a common greeting, and losing it is no spill.
const WORTH_COUNTING: f64 = 0.1;

/// A request, and all that one decision about it is made from.
pub(crate) struct Round<'a> {
    pub(crate) pool: &'a Pool,
    pub(crate) topology: &'a Topology,
    pub(crate) plan: &'a Plan,
    /// The arm of the trial that the plan is of.
    pub(crate) arm: Option<Arm>,
    pub(crate) request: &'a RequestInfo,
    pub(crate) turn: Turn,
    pub(crate) now: Time,
    pub(crate) view: PoolView,
    pub(crate) scratch: &'a mut Scratch,
    /// Most tokens the index believes to be cached on a candidate.
    best_cached: f64,
    /// Tokens that count as cached on the ring owner though the index does not know of them; 0 for none.
    prior_cached: f64,
    /// The endpoint that only a guess says to hold the prompt.
    guessed: Option<usize>,
    /// There are gateways of which it is not known what they send where.
    any_silent: bool,
    /// Bounds of the ring, once something asked for them.
    pub(crate) bounds: Option<Bounds>,
}

/// An endpoint chosen, not yet reserved.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Choice {
    /// Among the candidates that are left.
    pub(crate) candidate: usize,
    pub(crate) reason: Reason,
    /// What the endpoint may hold, the request included.
    pub(crate) bound: Load,
}

impl<'a> Round<'a> {
    /// Looks at every endpoint and filters. On failure the table and the reasons of removal are there all the same.
    pub(crate) fn new(
        pool: &'a Pool,
        topology: &'a Topology,
        (arm, plan): (Option<Arm>, &'a Plan),
        request: &'a RequestInfo,
        turn: Turn,
        now: Time,
        scratch: &'a mut Scratch,
    ) -> (Self, Result<(), NoPick>) {
        let config = &topology.config;
        let gateways = pool.peers.gateways(config.affinity.gateways);
        let view = pool.tally.view(request, gateways, config.media_tokens, now);
        let mut round = Self {
            pool,
            topology,
            plan,
            arm,
            request,
            turn,
            now,
            view,
            scratch,
            best_cached: 0.0,
            prior_cached: 0.0,
            guessed: None,
            any_silent: pool.peers.any_silent(gateways),
            bounds: None,
        };
        round.see();
        round.scratch.homes.clear();
        let left = round.filter();
        if left.is_ok() {
            round.take_prior();
            round.spread_adapter();
        }
        (round, left)
    }

    /// The ring key, unless affinity is off.
    pub(crate) fn ring_key(&self) -> Option<u64> {
        self.topology.ring_key(self.request)
    }

    /// The candidates that are left.
    pub(crate) fn candidates(&self) -> Candidates<'_> {
        self.topology.candidates(&self.scratch.table, &self.scratch.kept, &self.view, self.now)
    }

    fn see(&mut self) {
        let Self { pool, topology, request, scratch, now, .. } = self;
        let dispatches = pool.tally.dispatches();
        let adapter = request.adapter.as_deref();
        scratch.table.read(&topology.members, &pool.kinds.speeds(), adapter, dispatches, topology.stale_after(), *now);
        if topology.reads_prefixes() && !request.prompt.blocks.is_empty() {
            topology.index.matches(&request.prompt.blocks, &mut scratch.matches);
            // At least one token is always computed.
            let most = (self.view.prompt_tokens - 1.0).max(0.0);
            for &(slot, blocks) in &scratch.matches.found {
                if let Some(position) = topology.position(slot) {
                    let cached = request.prompt.share(blocks as usize) * self.view.prompt_tokens;
                    let belief = &mut scratch.table.beliefs[position];
                    belief.cached_tokens = cached.min(most);
                    belief.cached_blocks = blocks;
                }
            }
        }
    }

    fn filter(&mut self) -> Result<(), NoPick> {
        let Self { topology, plan, request, scratch, now, view, .. } = self;
        let count = scratch.table.len();
        scratch.keep.reset(count);
        scratch.kept.clear();
        if count == 0 {
            return Err(NoPick::Empty);
        }
        scratch.all.clear();
        scratch.all.extend(0..count as u32);
        let candidates = topology.candidates(&scratch.table, &scratch.all, view, *now);
        for (filter, none) in &plan.filters {
            scratch.keep.apply(&**filter, request, &candidates);
            if scratch.keep.left() == 0 {
                return Err(*none);
            }
        }
        scratch.kept.extend((0..count).filter(|i| scratch.keep.is_kept(*i)).map(|i| i as u32));
        Ok(())
    }

    /// Tokens of the prompt to expect in the cache of the endpoint at `position`: all that the index knows, whether or not
    /// it counted in the choice.
    pub(crate) fn held(&self, position: usize) -> f64 {
        let belief = &self.scratch.table.beliefs[position];
        let known = self.request.prompt.share(belief.cached_blocks as usize) * self.view.prompt_tokens;
        belief.cached_tokens.max(known.min(self.view.prompt_tokens - 1.0))
    }

    /// Whether only a guess says that the endpoint at `position` holds the prompt.
    pub(crate) fn is_guess(&self, position: usize) -> bool {
        self.guessed == Some(position)
    }

    /// What the request counts in the ledger when sent to the endpoint at `position`.
    pub(crate) fn size_at(&self, position: usize) -> u32 {
        ledger::size(self.view.prompt_tokens - self.held(position), self.view.mean_uncached)
    }

    /// Ranks what the filters left: scores or costs into `totals`.
    pub(crate) fn rank(&mut self) {
        let Self { topology, plan, request, scratch, now, view, .. } = self;
        let Scratch { table, kept, scores, terms, totals, .. } = &mut **scratch;
        let candidates = topology.candidates(table, kept, view, *now);
        let count = kept.len();
        totals.clear();
        totals.resize(count, 0.0);
        scores.clear();
        match &plan.ranking {
            Ranking::Equal => {}
            Ranking::Weighted(scorers) => {
                scores.resize(count * scorers.len(), 0.0);
                for ((scorer, weight), scores) in scorers.iter().zip(scores.chunks_exact_mut(count)) {
                    scorer.score(request, &candidates, scores);
                    for (score, total) in scores.iter_mut().zip(totals.iter_mut()) {
                        // A scorer from outside may err; it must not make its endpoint unbeatable.
                        *score = if score.is_nan() { 0.0 } else { score.clamp(0.0, 1.0) };
                        *total += *score * weight;
                    }
                }
            }
            Ranking::Cost(cost) => {
                terms.reset(count, cost.terms().len());
                cost.cost(request, &candidates, terms);
                for (i, total) in totals.iter_mut().enumerate() {
                    let sum = terms.total(i);
                    *total = if sum.is_nan() { f64::INFINITY } else { sum };
                }
            }
        }
    }

    /// Chooses among the candidates that are left; `None` when there are none.
    pub(crate) fn choose(&mut self) -> Option<Choice> {
        if self.scratch.kept.is_empty() {
            return None;
        }
        let select = self.plan.select;
        let (candidate, reason, bound) = match select {
            Select::Walk => self.choose_on_walk(),
            Select::Min { relative, absolute } => {
                select::cheapest(&self.scratch.totals, relative, absolute, &mut self.scratch.tied);
                match self.owner_among_tied() {
                    Some(candidate) => (candidate, Reason::Owner, self.cap()),
                    None => (self.least_busy_tied(), Reason::Cost, self.cap()),
                }
            }
            Select::Max => {
                select::best(&self.scratch.totals, &mut self.scratch.tied);
                (self.least_busy_tied(), Reason::Score, self.cap())
            }
            Select::PowerOfTwo => {
                let (one, other) = select::two(self.scratch.kept.len(), self.turn);
                let totals = &self.scratch.totals;
                let other_is_better = totals[other] > totals[one];
                (if other_is_better { other } else { one }, Reason::Score, self.cap())
            }
            Select::WeightedRandom => (
                select::weighted_random(&self.scratch.totals, &self.candidates(), self.turn),
                Reason::Random,
                self.cap(),
            ),
            Select::Rotate(shares) => {
                let candidate = select::rotate(&self.candidates(), shares, self.turn.rotation);
                (candidate, Reason::Rotate, self.cap())
            }
        };
        let reason = if self.scratch.kept.len() == 1 { Reason::Only } else { reason };
        Some(Choice { candidate, reason, bound })
    }

    fn least_busy_tied(&mut self) -> usize {
        let Self { topology, scratch, view, now, turn, .. } = self;
        let Scratch { table, kept, tied, busyness, .. } = &mut **scratch;
        let candidates = topology.candidates(table, kept, view, *now);
        select::least_busy(tied, busyness, &candidates, turn.rotation)
    }

    /// The endpoint of a choice, among all of the pool.
    pub(crate) fn position(&self, choice: Choice) -> usize {
        self.scratch.kept[choice.candidate] as usize
    }

    /// Seconds the prefill of the request takes on the endpoint at `position`, alone. A minute at most: no sane rate gives
    /// more, and an insane one must not block the endpoint for an age.
    pub(crate) fn service(&self, position: usize) -> f64 {
        let rates = self.scratch.table.rates[position];
        let uncached = (self.view.prompt_tokens - self.held(position)).max(0.0);
        let seconds = rates.prefill(uncached);
        if seconds > 0.0 { seconds.min(60.0) } else { 0.0 }
    }

    /// No bound but the absolute one.
    pub(crate) fn cap(&self) -> Load {
        Load { requests: self.topology.config.affinity.concurrency.unwrap_or(u32::MAX), units: u32::MAX }
    }

    /// Another thread was first: goes on without this candidate.
    pub(crate) fn exclude(&mut self, candidate: usize) {
        let position = self.scratch.kept.remove(candidate) as usize;
        self.scratch.keep.remove(position);
        self.scratch.totals.remove(candidate);
    }

    /// What the choice did for the prompt's prefix.
    pub(crate) fn affinity(&self, choice: Choice) -> AffinityResult {
        let position = self.position(choice);
        if self.plan.select == Select::Walk {
            return match choice.reason {
                _ if self.ring_key().is_none() => AffinityResult::None,
                Reason::Spill => AffinityResult::Spill,
                _ => AffinityResult::Hit,
            };
        }
        if !self.topology.reads_prefixes() || (self.request.prompt.blocks.is_empty() && self.ring_key().is_none()) {
            AffinityResult::None
        } else if self.best_cached < WORTH_COUNTING * self.view.prompt_tokens || self.best_cached == 0.0 {
            AffinityResult::Cold
        } else if self.scratch.table.beliefs[position].cached_tokens * 2.0 >= self.best_cached {
            AffinityResult::Hit
        } else {
            AffinityResult::Spill
        }
    }
}
