//! A run: the requests of a trace over modelled endpoints, in the order of events.
//!
//! A picker hears what a gateway would: first tokens of streams, usage and ends, and metrics pages at their interval. While
//! nothing is in flight no page is read but the last one before the next request: nothing on it changes.

use std::collections::BTreeMap;
use std::sync::Arc;

use spillway_picker::facts::Facts;
use spillway_picker::flight::Flight;

use super::agenda::Agenda;
use super::endpoints::{Modelled, cache_bytes};
use super::model::{Job, Model, Step};
use super::picker::Decider;
use super::work::{Asked, Work};

/// Tokens in a block of a modelled cache; vLLM's.
const BLOCK_TOKENS: f64 = 16.0;

/// Most reads of the pages in a run: a day at ten a second. A longer trace has them less often.
const MOST_READS: u64 = 864_000;

/// What came of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Played {
    /// Of each request of the work, in its order.
    pub outcomes: Vec<Outcome>,
    /// Requests that got no endpoint, by the code they would have been refused with.
    pub refused: BTreeMap<&'static str, usize>,
}

/// What came of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Outcome {
    /// The number of its endpoint.
    pub endpoint: Option<usize>,
    /// Tokens of its prompt that were cached there.
    pub cached: f64,
    /// From its head to its first token, seconds.
    pub ttft: Option<f64>,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Happening {
    /// The metrics pages are read.
    Pages,
    /// An endpoint has something to do.
    Wake(usize),
}

struct Run<'a> {
    work: &'a Work<'a>,
    endpoints: &'a [Modelled],
    decider: Decider,
    agenda: Agenda<Happening>,
    models: Vec<Model>,
    wakes: Vec<Option<u64>>,
    flights: Vec<Option<Flight>>,
    /// Whether servers say how many tokens were cached.
    says_cached: bool,
    played: Played,
    next: usize,
    steps: Vec<Step>,
}

/// Plays a run to its end.
pub fn play(work: &Work<'_>, endpoints: &[Modelled], decider: Decider) -> Played {
    let model = |one: &Modelled| Model::new(one.speed, cache_bytes(work, one.cache_tokens));
    let mut run = Run {
        work,
        endpoints,
        agenda: Agenda::new(),
        models: endpoints.iter().map(model).collect(),
        wakes: vec![None; endpoints.len()],
        flights: std::iter::repeat_with(|| None).take(work.asked.len()).collect(),
        says_cached: work.asked.iter().any(|asked| asked.recorded.request.cached.is_some()),
        played: Played { outcomes: vec![Outcome::default(); work.asked.len()], refused: BTreeMap::new() },
        next: 0,
        steps: Vec::new(),
        decider,
    };
    if let (Some(first), Decider::Pool(_)) = (work.asked.first(), &run.decider) {
        run.agenda.add(first.leaves(), Happening::Pages);
    }
    loop {
        let arrival = work.asked.get(run.next).map(Asked::leaves);
        match (run.agenda.next(arrival), arrival) {
            (Some((now, Happening::Pages)), _) => run.pages(now),
            (Some((now, Happening::Wake(endpoint))), _) => run.wake(endpoint, now),
            (None, Some(now)) => run.arrives(now),
            (None, None) => break,
        }
    }
    run.played
}

impl Run<'_> {
    fn arrives(&mut self, now: u64) {
        let request = self.next;
        self.next += 1;
        let asked = &self.work.asked[request];
        let prompt = Arc::new(self.work.prompt(asked));
        let endpoint = match &mut self.decider {
            Decider::Recorded => {
                let there = |id: &Arc<str>| self.endpoints.iter().position(|one| one.spec.id == *id);
                let Some(endpoint) = asked.endpoint().and_then(there) else { return };
                endpoint
            }
            Decider::Pool(picker) => match picker.decide(asked, &prompt, now) {
                Ok((endpoint, flight)) => {
                    self.flights[request] = Some(flight);
                    endpoint
                }
                Err(code) => {
                    *self.played.refused.entry(code).or_default() += 1;
                    return;
                }
            },
        };
        self.played.outcomes[request].endpoint = Some(endpoint);
        self.advance(endpoint, now);
        let job = Job { request, prompt, tokens: asked.tokens, output: asked.output };
        self.models[endpoint].submit(job, now);
        self.plan(endpoint);
    }

    fn wake(&mut self, endpoint: usize, now: u64) {
        // One that has been planned anew since is not due.
        if self.wakes[endpoint] == Some(now) {
            self.wakes[endpoint] = None;
            self.advance(endpoint, now);
            self.plan(endpoint);
        }
    }

    fn plan(&mut self, endpoint: usize) {
        let next = self.models[endpoint].next();
        if self.wakes[endpoint] != next {
            self.wakes[endpoint] = next;
            if let Some(next) = next {
                self.agenda.add(next, Happening::Wake(endpoint));
            }
        }
    }

    fn advance(&mut self, endpoint: usize, now: u64) {
        let mut steps = std::mem::take(&mut self.steps);
        self.models[endpoint].advance(now, &mut steps);
        for step in steps.drain(..) {
            match step {
                Step::FirstToken { request, cached } => self.first_token(request, cached, now),
                Step::Ended { request } => self.ended(request, now),
            }
        }
        self.steps = steps;
    }

    fn first_token(&mut self, request: usize, cached: f64, now: u64) {
        let asked = &self.work.asked[request];
        let outcome = &mut self.played.outcomes[request];
        outcome.cached = cached;
        outcome.ttft = Some(now.saturating_sub(asked.recorded.request.at * 1_000) as f64 * 1e-9);
        if let (Decider::Pool(picker), Some(flight)) = (&self.decider, &mut self.flights[request]) {
            picker.first_token(flight, now);
        }
    }

    fn ended(&mut self, request: usize, now: u64) {
        if let (Decider::Pool(picker), Some(flight)) = (&mut self.decider, self.flights[request].take()) {
            let cached = self.says_cached.then_some(self.played.outcomes[request].cached as u32);
            picker.ended(flight, &self.work.asked[request], cached, now);
        }
    }

    fn pages(&mut self, now: u64) {
        let Decider::Pool(picker) = &self.decider else { return };
        for (number, (model, endpoint)) in self.models.iter().zip(self.endpoints).enumerate() {
            picker.scraped(number, page(model, endpoint), now);
        }
        let Some(arrival) = self.work.asked.get(self.next).map(Asked::leaves) else { return };
        let last = self.work.asked.last().map_or(0, Asked::leaves);
        let interval = u64::try_from(picker.scrape.as_nanos()).unwrap_or(u64::MAX).max(last / MOST_READS).max(1);
        let is_idle = self.models.iter().all(|model| model.next().is_none());
        let skipped = if is_idle { arrival.saturating_sub(now) / interval } else { 1 };
        self.agenda.add(now.saturating_add(skipped.max(1).saturating_mul(interval)), Happening::Pages);
    }
}

/// What the metrics page of a modelled endpoint would say.
fn page(model: &Model, endpoint: &Modelled) -> Facts {
    let usage = |tokens: f64| (model.active_tokens() as f64 / tokens.max(1.0)).min(1.0);
    Facts {
        queued: Some(model.queued() as f64),
        running: Some(model.running() as f64),
        kv_usage: endpoint.cache_tokens.map(usage),
        block_size: endpoint.cache_tokens.map(|_| BLOCK_TOKENS as u32),
        blocks: endpoint.cache_tokens.map(|tokens| (tokens / BLOCK_TOKENS) as u32),
        ..Facts::default()
    }
}

#[cfg(test)]
mod tests {
    use spillway_picker::registry::Registry;

    use super::*;
    use crate::config::Pool;
    use crate::trace::Trace;
    use crate::trace::line::{Line, Part, Request, VERSION};
    use crate::what_if::{Fits, Report, modelled};

    /// Conversations of three turns, each longer than the one before, at three endpoints in turn.
    fn trace() -> Trace {
        let part = Part { version: VERSION, start: "2026-01-01T00:00:00Z".to_owned(), spillway: String::new() };
        let mut lines = vec![Line::Trace(part)];
        for number in 0..240_u64 {
            let (chat, turn) = (number % 40, number / 80);
            let tokens = 256 * (turn as u32 + 1);
            let ttft = 3_000 + 100 * u64::from(tokens);
            lines.push(Line::Request(Box::new(Request {
                at: number * 30_000,
                pool: "p".into(),
                model: "m".into(),
                stream: true,
                blocks: (1..=4 * (turn + 1)).map(|block| chat * 1_000 + block).collect(),
                ring: Some(chat),
                bytes: u64::from(tokens) * 4,
                prompt: Some(tokens),
                cached: Some(0),
                output: Some(11),
                endpoint: Some(format!("http://e:{}", number % 3).into()),
                picked: Some(1_000),
                ttft: Some(ttft),
                duration: ttft + 10 * 5_000,
                status: 200,
                ..Request::default()
            })));
        }
        let lines: Vec<String> = lines.iter().map(|line| serde_json::to_string(line).unwrap()).collect();
        Trace::read(lines.join("\n").as_bytes()).unwrap()
    }

    #[test]
    fn a_run_is_the_same_each_time_and_a_trace_of_the_model_is_predicted_well() {
        let trace = trace();
        let work = Work::of(&trace, &"p".into());
        assert_eq!((work.asked.len(), trace.bad.count), (240, 0));
        let fits = Fits::of(&work, |_| 0.0);
        let there = modelled(&work, &fits, None, Some(0.0));
        let recorded = play(&work, &there, Decider::Recorded);
        assert!(recorded.outcomes.iter().all(|outcome| outcome.cached.abs() < 1e-9), "no cache, no hit");
        let error = Report::new(&work, &fits, &there, &recorded).model_error.unwrap();
        assert!(error.ttft_ratio.p90 < 0.02, "the trace is what the model says: {error:?}");

        let decide = || {
            let there = modelled(&work, &fits, None, None);
            let decider = Decider::pool(&Pool::default(), None, &Registry::default(), &there).unwrap();
            play(&work, &there, decider)
        };
        let (one, other) = (decide(), decide());
        assert_eq!(one, other);
        assert!(one.refused.is_empty() && one.outcomes.iter().all(|outcome| outcome.ttft.is_some()));
        assert!(one.outcomes.iter().any(|outcome| outcome.cached > 200.0), "turns find the ones before them");
    }

    #[test]
    fn a_limit_of_the_pool_refuses_what_comes_above_it() {
        let trace = trace();
        let work = Work::of(&trace, &"p".into());
        let fits = Fits { shared: crate::what_if::Speed { prefill: 1e6, ..Default::default() }, ..Fits::default() };
        let there = modelled(&work, &fits, None, None);
        let mut pool = Pool::default();
        pool.limits.in_flight = Some(5);
        let played = play(&work, &there, Decider::pool(&pool, None, &Registry::default(), &there).unwrap());
        assert_eq!(played.refused, BTreeMap::from([("in_flight", 235)]));
    }
}
