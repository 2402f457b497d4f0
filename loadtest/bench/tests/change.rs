//! A fleet that changes under load: an endpoint that is slowed for a while, and one that joins with an empty cache.

use std::path::Path;
use std::time::Duration;

use spillway_bench::matrix::{HOP, endpoints, routing};
use spillway_bench::measure::Outcome;
use spillway_bench::scenario::Scenario;
use spillway_bench::virtual_time::{Endpoint, MODEL, Setup, run};
use spillway_bench::workload::generate;
use spillway_bench::workload::text::{Rendered, render};

/// A scenario of the repository.
fn scenario(file: &str) -> Scenario {
    Scenario::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../scenarios").join(file)).expect("it can be used")
}

/// What comes of so many seconds of a load under the default policy.
fn play(scenario: &Scenario, load: &str, fleet: &[Endpoint], seconds: u64, seed: u64) -> Vec<Outcome> {
    let load = &scenario.loads[load];
    let trace = generate(&scenario.requests, &load.arrivals, Duration::from_secs(seconds), seed);
    let prompts: Vec<Rendered> = trace.requests.iter().map(|request| render(&trace, request, MODEL)).collect();
    let setup = Setup {
        fleet,
        trace: &trace,
        prompts: &prompts,
        routing: &routing("adaptive", scenario, load.gateways),
        gateways: load.gateways,
        scrape: load.scrape(),
        warm_up: Duration::ZERO,
        hop: HOP,
        told: load.told,
        talk: None,
        adapters: &[],
        seed,
    };
    let run = run(&setup).expect("the policy exists");
    run.check().expect("no law is broken");
    run.outcomes
}

/// Requests that an endpoint got of those sent between two seconds, over an equal share of them.
fn of_equal_share(outcomes: &[Outcome], endpoint: usize, endpoints: usize, from: u64, until: u64) -> f64 {
    let between = Duration::from_secs(from)..Duration::from_secs(until);
    let sent = || outcomes.iter().filter(|outcome| between.contains(&outcome.sent));
    let got = sent().filter(|outcome| outcome.endpoint == Some(endpoint)).count();
    got as f64 * endpoints as f64 / sent().count() as f64
}

#[test]
fn an_endpoint_slowed_by_a_fifth_loses_share_within_15_s_and_regains_it() {
    const SLOWED: u64 = 25;
    const WELL: u64 = 50;
    let mut scenario = scenario("s10a.yaml");
    let [fault] = scenario.faults.as_mut_slice() else { panic!("one fault: {:?}", scenario.faults) };
    (fault.at, fault.lasts) = (Duration::from_secs(SLOWED), Some(Duration::from_secs(WELL - SLOWED)));
    let slowed = fault.endpoint;
    let fleet = endpoints(&scenario);
    let outcomes = play(&scenario, "120/s", &fleet, 75, 1);
    let share = |from, until| of_equal_share(&outcomes, slowed, fleet.len(), from, until);
    let (before, while_slow, after) = (share(5, SLOWED), share(SLOWED + 5, SLOWED + 15), share(WELL + 5, WELL + 15));
    assert!((0.95..1.05).contains(&before), "{before:.3} of an equal share before");
    assert!((0.65..0.9).contains(&while_slow), "{while_slow:.3} while it does 0.8 of what it did");
    assert!((0.93..1.07).contains(&after), "{after:.3} when it is well again");
}

/// Of an equal share, what the last endpoint gets that joins after half a minute: in the first seconds, and after another half
/// minute.
fn shares_of_a_new_one(file: &str, load: &str) -> (f64, f64) {
    const JOINS: u64 = 30;
    let scenario = scenario(file);
    let mut fleet = endpoints(&scenario);
    let newest = fleet.len() - 1;
    fleet[newest].joins = Duration::from_secs(JOINS);
    let outcomes = play(&scenario, load, &fleet, JOINS + 60, 1);
    let share = |from, until| of_equal_share(&outcomes, newest, fleet.len(), JOINS + from, JOINS + until);
    (share(0, 5), share(30, 60))
}

#[test]
fn an_endpoint_that_joins_with_an_empty_cache_is_neither_flooded_nor_starved() {
    for (file, load) in [("s6.yaml", "20/s"), ("b3.yaml", "20/s")] {
        let (first, later) = shares_of_a_new_one(file, load);
        assert!(first < 1.5, "{first:.2} of an equal share in the first seconds of {file}, {load}");
        assert!(later > 0.5, "{later:.2} of an equal share after half a minute of {file}, {load}");
    }
}

#[test]
#[ignore = "it is flooded: with no streams yet it looks cheap until its queue costs as much as the streams elsewhere"]
fn an_endpoint_that_joins_where_nothing_is_shared_is_not_flooded() {
    let (first, later) = shares_of_a_new_one("s2.yaml", "120/s");
    assert!(first < 1.5, "{first:.2} of an equal share in the first seconds");
    assert!(later > 0.5, "{later:.2} of an equal share after half a minute");
}
