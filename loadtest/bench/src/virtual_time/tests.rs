//! Runs as a whole: laws of queues, and that a policy is given nothing it could not know.

use std::time::Duration;

use spillway_picker::config::{Affinity, Policy};
use spillway_sim::engine::{Pace, Preset};

use super::*;
use crate::measure::Outcome;
use crate::scenario::Told;
use crate::workload::text::{Rendered, render};
use crate::workload::{Arrivals, Trace, Workload, generate};

const HOP: Duration = Duration::from_micros(250);

fn trace(load: &Arrivals, seconds: u64, seed: u64) -> Trace {
    let text = "classes: [{prompts: {shared: [{pool: 6, tokens: {fixed: 800}}], message: {fixed: 200}},
                 output: {exponential: {mean: 60, most: 400}}}]";
    let document = serde_yaml::Deserializer::from_str(text);
    let workload: Workload = serde_yaml::with::singleton_map_recursive::deserialize(document).unwrap();
    generate(&workload, load, Duration::from_secs(seconds), seed)
}

fn play(trace: &Trace, policy: &str, endpoints: usize) -> Run {
    let prompts: Vec<Rendered> = trace.requests.iter().map(|request| render(trace, request, "model")).collect();
    let routing = match policy {
        "oracle" => Routing::Oracle,
        name => Routing::Picker { policy: Policy::Named(name.to_owned()), affinity: Affinity::default() },
    };
    let fleet = vec![
        Endpoint {
            engine: Preset::Llama8bH100.config(),
            pace: Pace::default(),
            weight: 1.0,
            joins: Duration::ZERO
        };
        endpoints
    ];
    let setup = Setup {
        fleet: &fleet,
        trace,
        prompts: &prompts,
        routing: &routing,
        gateways: 1,
        scrape: Some(Duration::from_millis(100)),
        warm_up: Duration::from_secs(5),
        hop: HOP,
        told: Told::default(),
        talk: None,
        adapters: &[],
        seed: 3,
    };
    run(&setup).unwrap()
}

#[test]
fn laws_hold_under_every_policy() {
    let trace = trace(&Arrivals::Poisson(40.0), 30, 1);
    for policy in ["round_robin", "random", "least_request", "hyperpod", "ring", "adaptive", "oracle"] {
        let run = play(&trace, policy, 4);
        run.check().unwrap_or_else(|broken| panic!("{policy}: {broken}"));
        assert!(run.outcomes.len() > 1_000, "{policy}: {}", run.outcomes.len());
    }
}

#[test]
fn equal_setups_give_equal_runs() {
    let trace = trace(&Arrivals::Poisson(20.0), 20, 1);
    let strip = |run: Run| {
        let timeless = |outcome| Outcome { decision: Duration::ZERO, ..outcome };
        run.outcomes.into_iter().map(timeless).collect::<Vec<_>>()
    };
    assert_eq!(strip(play(&trace, "adaptive", 4)), strip(play(&trace, "adaptive", 4)));
}

#[test]
fn nobody_is_served_faster_than_the_hops_allow() {
    let trace = trace(&Arrivals::Poisson(5.0), 20, 1);
    for outcome in play(&trace, "adaptive", 2).outcomes {
        if let (Some(first), Some(reached)) = (outcome.first, outcome.reached) {
            assert_eq!(reached.saturating_sub(outcome.sent), HOP);
            assert!(first >= outcome.sent + HOP * 2);
        }
    }
}

#[test]
fn a_later_turn_is_sent_after_the_answer_to_the_one_before() {
    let load = Arrivals::Closed { users: 5, think: crate::workload::Amount::Fixed(1.5), requests: 8 };
    let trace = trace(&load, 30, 1);
    let run = play(&trace, "round_robin", 2);
    let sent = |request| run.outcomes.iter().find(|outcome| outcome.request == request);
    let mut seen = 0;
    for outcome in &run.outcomes {
        if let crate::workload::Start::After { request, pause } = trace.requests[outcome.request].start {
            let before = sent(request).expect("it was sent before");
            assert_eq!(Some(outcome.sent), before.last.map(|last| last + pause));
            seen += 1;
        }
    }
    assert!(seen > 10, "{seen}");
}

#[test]
fn one_engine_is_one_engine_under_every_policy() {
    let trace = trace(&Arrivals::Poisson(10.0), 20, 1);
    let times = |policy| play(&trace, policy, 1).outcomes.into_iter().map(|outcome| outcome.first).collect::<Vec<_>>();
    assert_eq!(times("round_robin"), times("adaptive"), "with one endpoint there is nothing to choose");
}
