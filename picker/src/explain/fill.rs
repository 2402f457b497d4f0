//! Copies what a round of a decision saw and did into a trace.

use crate::decide::NoPick;
use crate::decide::round::{Choice, Round};
use crate::explain::{Column, EndpointTrace, FactTrace, Trace};
use crate::ledger::UNIT;
use crate::policy::Ranking;
use crate::pool::Freshness;
use crate::view::table::{OFF_WALK, Scraped};

impl Trace {
    /// Replaces whatever the trace held.
    pub(crate) fn fill(&mut self, round: &mut Round<'_>, outcome: Result<Choice, NoPick>) {
        let choice = outcome.ok();
        let chosen = choice.map(|choice| round.position(choice));
        let affinity = choice.map(|choice| round.affinity(choice));
        round.complete_walk();
        let plan = round.plan;
        *self = Self {
            policy: plan.name.clone(),
            arm: round.arm,
            ring_key: round.ring_key().map(|key| format!("{key:016x}")),
            prompt_tokens: round.view.prompt_tokens as u32,
            output_tokens: round.view.output_tokens as u32,
            columns: columns(&plan.ranking),
            lower_is_better: matches!(plan.ranking, Ranking::Cost(_)),
            endpoints: (0..round.scratch.table.len()).map(|position| endpoint(round, position, chosen)).collect(),
            chosen: chosen.map(|position| round.topology.endpoints[position].id.clone()),
            reason: choice.map(|choice| choice.reason),
            affinity,
            none: outcome.err(),
        };
    }
}

fn columns(ranking: &Ranking) -> Vec<Column> {
    match ranking {
        Ranking::Equal => Vec::new(),
        Ranking::Weighted(scorers) => scorers
            .iter()
            .map(|(scorer, weight)| Column {
                name: scorer.name().to_owned(),
                unit: "score".to_owned(),
                weight: *weight,
            })
            .collect(),
        Ranking::Cost(cost) => cost
            .terms()
            .iter()
            .map(|term| Column { name: term.name.to_owned(), unit: term.unit.to_owned(), weight: 1.0 })
            .collect(),
    }
}

fn endpoint(round: &Round<'_>, position: usize, chosen: Option<usize>) -> EndpointTrace {
    let endpoint = &round.topology.endpoints[position];
    let scratch = &*round.scratch;
    let table = &scratch.table;
    let (ours, scraped, belief) = (&table.ours[position], &table.scraped[position], &table.beliefs[position]);
    let candidate = scratch.kept.binary_search(&(position as u32)).ok();
    EndpointTrace {
        endpoint: endpoint.id.clone(),
        chosen: chosen == Some(position),
        removed_by: scratch.keep.removed_by(position),
        values: candidate.map(|candidate| values(round, candidate)).unwrap_or_default(),
        total: candidate.and_then(|candidate| scratch.totals.get(candidate).copied()),
        ring_position: (belief.ring_position != OFF_WALK).then_some(belief.ring_position),
        bound: round.bounds.filter(|_| candidate.is_some()).map(|bounds| bounds.shown(ours.weight)),
        load: f64::from(ours.load.units) / f64::from(UNIT),
        demoted: table.service[position].is_demoted,
        in_flight: ours.load.requests,
        outside: f64::from(ours.guests) + scraped.outside,
        prefills: ours.prefills,
        decodes: ours.decodes,
        pending_seconds: ours.pending,
        outstanding_tokens: endpoint.state.sheet.outstanding_tokens(),
        cached_tokens: belief.cached_tokens,
        predicted_ttft_seconds: ours.pending + round.service(position),
        facts: facts(scraped),
    }
}

fn values(round: &Round<'_>, candidate: usize) -> Vec<f64> {
    let scratch = &*round.scratch;
    match &round.plan.ranking {
        Ranking::Equal => Vec::new(),
        Ranking::Weighted(scorers) => {
            let count = scratch.kept.len();
            (0..scorers.len()).map(|scorer| scratch.scores[scorer * count + candidate]).collect()
        }
        Ranking::Cost(cost) => (0..cost.terms().len()).map(|term| scratch.terms.get(candidate, term)).collect(),
    }
}

fn facts(scraped: &Scraped) -> Vec<FactTrace> {
    // The size of the cache does not change while an engine runs, so it is used whatever its age.
    let facts = [
        ("queued", scraped.queued, true),
        ("running", scraped.running, true),
        ("kv_usage", scraped.kv_usage, true),
        ("kv_tokens", scraped.kv_tokens, false),
    ];
    facts
        .map(|(name, value, goes_stale)| {
            let value = (!value.is_nan()).then_some(value);
            let why = match scraped.freshness {
                Freshness::Never => "never scraped",
                Freshness::Stale if goes_stale => "stale",
                Freshness::Frozen if goes_stale => "frozen",
                _ => "not on the page",
            };
            let unknown = value.is_none().then_some(why);
            FactTrace { name, value, age_seconds: (!scraped.age.is_nan()).then_some(scraped.age), unknown }
        })
        .into()
}
