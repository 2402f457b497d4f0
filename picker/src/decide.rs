//! One decision: filter, rank, select, reserve.
//!
//! Between looking and reserving, other threads decide too. What is reserved is therefore checked against the bound of the
//! decision in the same step; when another thread was first, the next endpoint in the same order is tried, and after a few
//! of those the decision is made again from what is true by then.

mod bounds;
pub(crate) mod known;
pub(crate) mod round;
mod scratch;

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use crate::decide::round::{Choice, Round};
use crate::explain::Trace;
use crate::flight::{Departure, Flight};
use crate::ledger::Load;
use crate::pool::{Endpoint, Pool};
use crate::request::{RequestInfo, Turn};
use crate::time::Time;
use crate::trial::Arm;

/// Endpoints tried on one view of the pool. Past it the view is older than what other threads did to it.
const TRIES: usize = 3;

/// Views of the pool taken before bounds that only spread load give way. Losing this often takes more threads than a
/// gateway has.
const ROUNDS: usize = 8;

/// The outcome of a decision.
#[derive(Debug)]
pub struct Pick {
    /// Where the request goes.
    pub endpoint: Arc<Endpoint>,
    /// Guard of the in-flight count; `None` when the decision was only explained.
    pub flight: Option<Flight>,
    /// Why this endpoint.
    pub reason: Reason,
    /// What the decision did for the prompt's prefix.
    pub affinity: AffinityResult,
    /// The arm that decided, in a trial. A retry must be told of it in `RequestInfo::arm`.
    pub arm: Option<Arm>,
    /// Predicted time to the first token, of queueing and prefill in the engine.
    pub predicted_ttft: Option<Duration>,
    /// Tokens of the prompt believed to be cached there.
    pub cached_tokens: u32,
    /// The other tokens of the prompt.
    pub uncached_tokens: u32,
}

/// Why an endpoint was chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// Lowest cost.
    Cost,
    /// Best score.
    Score,
    /// Owner of the ring key.
    Owner,
    /// Next on the walk: the owner was over its bound.
    Spill,
    /// Its turn.
    Rotate,
    /// Chance.
    Random,
    /// No other was left.
    Only,
}

/// What a decision did for the prefix of the prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AffinityResult {
    /// The endpoint holds the prefix, or owns its ring key.
    Hit,
    /// Another one holds or owns it, but is busier.
    Spill,
    /// Nobody holds it.
    Cold,
    /// Prefixes played no part.
    None,
}

/// Why there is no endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum NoPick {
    /// The pool has no endpoints.
    #[error("pool has no endpoints")]
    Empty,
    /// Every endpoint is down or draining.
    #[error("no endpoint is healthy")]
    NoneHealthy,
    /// No healthy endpoint serves the model or adapter.
    #[error("no healthy endpoint serves the adapter")]
    NoneServes,
    /// Every endpoint that could serve the request has been tried.
    #[error("every endpoint has been tried")]
    AllTried,
    /// Every endpoint is at `affinity.concurrency`.
    #[error("every endpoint is at its concurrency limit")]
    Full,
    /// The policy's own filters left nothing.
    #[error("no endpoint passes the filters of the policy")]
    Filtered,
}

impl Reason {
    /// The name used in metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Cost => "cost",
            Self::Score => "score",
            Self::Owner => "owner",
            Self::Spill => "spill",
            Self::Rotate => "rotate",
            Self::Random => "random",
            Self::Only => "only",
        }
    }
}

impl AffinityResult {
    /// The name used in metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Hit => "hit",
            Self::Spill => "spill",
            Self::Cold => "cold",
            Self::None => "none",
        }
    }
}

/// Decides, and reserves unless `trace` is given.
pub(crate) fn decide(
    pool: &Arc<Pool>,
    request: &RequestInfo,
    turn: Turn,
    now: Time,
    mut trace: Option<&mut Trace>,
) -> Result<Pick, NoPick> {
    let topology = pool.topology.load();
    let (arm, plan) = topology.plans.choose(request.arm, topology.ring_key(request), turn);
    let turn = arm.map_or(turn, |arm| Turn { rotation: pool.arm_turns.next(arm, trace.is_none()), ..turn });
    let mut scratch = scratch::take();
    let mut result = Err(NoPick::Full);
    for attempt in 0..=ROUNDS {
        let (mut round, left) = Round::new(pool, &topology, (arm, plan), request, turn, now, &mut scratch);
        if let Err(none) = left {
            result = Err(none);
            if let Some(trace) = trace.as_deref_mut() {
                trace.fill(&mut round, Err(none));
            }
            break;
        }
        round.rank();
        if let Some(trace) = trace.as_deref_mut() {
            let choice = round.choose().expect("a filter left at least one candidate");
            trace.fill(&mut round, Ok(choice));
            result = Ok(pick(&round, choice));
            break;
        }
        if let Some(taken) = reserve(pool, &mut round, attempt == ROUNDS) {
            result = Ok(taken);
            break;
        }
    }
    scratch::give_back(scratch);
    result
}

/// Chooses and reserves, a few times over. `None` when other threads were first each time.
fn reserve(pool: &Arc<Pool>, round: &mut Round<'_>, is_last: bool) -> Option<Pick> {
    for _ in 0..TRIES {
        let choice = round.choose()?;
        let position = round.position(choice);
        let endpoint = &round.topology.endpoints[position];
        let size = round.size_at(position);
        // At last only the absolute bound is left: an answer in time is worth more than an even spread.
        let units = if is_last { u32::MAX } else { choice.bound.units };
        let requests = if is_last { round.cap().requests } else { choice.bound.requests };
        if endpoint.state.ledger.reserve(size, Load { requests, units }) {
            let mut pick = pick(round, choice);
            let departure = Departure {
                size,
                service: Duration::from_secs_f64(round.service(position)),
                ttft: pick.predicted_ttft.unwrap_or_default(),
                uncached: f64::from(pick.uncached_tokens),
                output: round.view.output_tokens,
                believed_blocks: round.scratch.table.beliefs[position].cached_blocks as usize,
                is_guess: round.is_guess(position),
                loads_adapter: round.scratch.table.lacks_adapter(position),
            };
            pick.flight = Some(Flight::depart(pool, round.topology, endpoint, round.request, &departure, round.now));
            if let Some(key) = round.ring_key() {
                pool.known.remember(key);
            }
            return Some(pick);
        }
        round.exclude(choice.candidate);
    }
    None
}

fn pick(round: &Round<'_>, choice: Choice) -> Pick {
    let position = round.position(choice);
    let table = &round.scratch.table;
    let cached = round.held(position);
    let prompt = round.view.prompt_tokens;
    Pick {
        endpoint: round.topology.endpoints[position].clone(),
        flight: None,
        reason: choice.reason,
        affinity: round.affinity(choice),
        arm: round.arm,
        predicted_ttft: Some(Duration::from_secs_f64(table.ours[position].pending + round.service(position))),
        cached_tokens: cached as u32,
        uncached_tokens: (prompt - cached).max(0.0) as u32,
    }
}
