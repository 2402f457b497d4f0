//! One server over HTTP does what it does in virtual time: same tokens, same hits, same times.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use spillway_picker::config::{Affinity, Policy};

use super::client::Client;
use super::fleet::{Servers, configs};
use super::load::{Deal, Load};
use super::seen::{Scale, Seen};
use crate::matrix::endpoints;
use crate::measure::Outcome;
use crate::measure::statistics::quantile;
use crate::scenario::{Scenario, Told};
use crate::virtual_time::{MODEL, Routing, Setup, run};
use crate::workload::text::{Rendered, render};
use crate::workload::{Trace, generate};

/// Chats whose hits do not depend on exact times: nothing is evicted, and what repeats a prompt comes long after it.
const SCENARIO: &str = "
id: One server
title: chats of three turns on one server
claim: none
fleet: [{preset: 70b-h100-tp4, sigma: 0, tail_chance: 0}]
horizon: 9
requests:
  classes:
    - prompts:
        shared: [{pool: 3, tokens: {fixed: 1000}}]
        message: {normal: {mean: 1500, deviation: 200, least: 1000, most: 2000}}
        turns: {mean: 2, most: 3, think: {fixed: 0.7}}
      output: {fixed: 20}
loads: {main: {arrivals: {even: 1.6}}}
short: [main]
";

fn scenario() -> Scenario {
    let document = serde_yaml::Deserializer::from_str(SCENARIO);
    serde_yaml::with::singleton_map_recursive::deserialize(document).unwrap()
}

fn in_virtual_time(scenario: &Scenario, trace: &Trace, prompts: &[Rendered]) -> Vec<Outcome> {
    let setup = Setup {
        fleet: &endpoints(scenario),
        trace,
        prompts,
        routing: &Routing::Picker { policy: Policy::Named("round_robin".to_owned()), affinity: Affinity::default() },
        gateways: 1,
        scrape: None,
        warm_up: Duration::ZERO,
        hop: Duration::ZERO,
        told: Told::default(),
        talk: None,
        adapters: &[],
        seed: 1,
    };
    run(&setup).unwrap().outcomes
}

async fn over_http(scenario: &Scenario, trace: &Trace) -> (Vec<Seen>, Instant) {
    let servers = Servers::start(configs(scenario, 1, 1.0, 1), false).await.unwrap();
    let clients = [Arc::new(Client::new(servers.addresses()[0]))];
    let load = Load::new(trace.clone(), |_| MODEL.to_owned());
    let origin = Instant::now() + Duration::from_millis(50);
    (load.play(&clients, Deal::Turns(0), origin, 1.0).await, origin)
}

/// Times to first token of the requests that ended, by request; their tokens have to be those of virtual time.
fn times(
    trace: &Trace,
    prompts: &[Rendered],
    expected: &[Outcome],
    (seen, origin): (Vec<Seen>, Instant),
) -> BTreeMap<usize, f64> {
    assert!(seen.iter().all(|seen| seen.failure.is_none()), "{:?}", seen.iter().find(|seen| seen.failure.is_some()));
    let scale = Scale { origin, factor: 1.0, overhead: Duration::ZERO };
    let (mut times, mut cached) = (BTreeMap::new(), 0);
    for seen in seen.iter().filter(|seen| seen.completed) {
        let usage = seen.usage.expect("the last event has usage");
        assert_eq!(usage.prompt as usize, prompts[seen.request].tokens.len(), "prompt of request {}", seen.request);
        assert_eq!(usage.completion, trace.requests[seen.request].output);
        // Those near the horizon may end on one side only.
        let Some(outcome) = expected.iter().find(|outcome| outcome.request == seen.request && outcome.completed) else {
            continue;
        };
        assert_eq!(usage.cached, outcome.cached, "tokens of request {} that were cached", seen.request);
        cached += usage.cached;
        times.insert(seen.request, scale.outcome(seen, 1).ttft(Duration::MAX).as_secs_f64());
    }
    assert!(times.len() > 20 && cached > 10_000, "{} requests, {cached} tokens cached", times.len());
    times
}

fn quantile_of(times: impl Iterator<Item = f64>, share: f64) -> f64 {
    let mut times: Vec<f64> = times.collect();
    times.sort_by(f64::total_cmp);
    quantile(&times, share)
}

#[tokio::test]
async fn one_server_over_http_does_what_it_does_in_virtual_time() {
    let scenario = scenario();
    let load = &scenario.loads["main"];
    let trace = generate(&scenario.requests, &load.arrivals, scenario.horizon(load), 1);
    let prompts: Vec<Rendered> = trace.requests.iter().map(|request| render(&trace, request, MODEL)).collect();
    let expected = in_virtual_time(&scenario, &trace, &prompts);

    // Tokens have to be equal each time. What else the machine does can only make a request later, so of its times the
    // least counts; were they wrong by themselves, they would be so each time.
    let mut least: BTreeMap<usize, f64> = BTreeMap::new();
    let mut off = Vec::new();
    for _ in 0..6 {
        let played = over_http(&scenario, &trace).await;
        for (request, time) in times(&trace, &prompts, &expected, played) {
            least.entry(request).and_modify(|least| *least = time.min(*least)).or_insert(time);
        }
        let there = |outcome: &Outcome| outcome.ttft(Duration::MAX).as_secs_f64();
        let both = expected.iter().filter(|outcome| least.contains_key(&outcome.request));
        let beyond = [0.5, 0.95].into_iter().find_map(|share| {
            let here = quantile_of(least.values().copied(), share);
            let there = quantile_of(both.clone().map(there), share);
            let is_off = (here - there).abs() > (0.03 * there).max(0.002);
            is_off.then(|| format!("quantile {share}: {here:.4} s over HTTP, {there:.4} s in virtual time"))
        });
        match beyond {
            Some(beyond) => off.push(beyond),
            None => return,
        }
    }
    panic!("more than 3 % and 2 ms off however often it is played: {off:?}");
}
