//! What must hold under every policy there is, whatever it ranks by.

use std::collections::BTreeSet;

use proptest::prelude::*;
use spillway_picker::facts::Facts;
use spillway_picker::pool::{EndpointSpec, Event, Outcome, Slot};
use spillway_picker::registry::Registry;

use crate::support::{Fleet, at, config, counted, hash, page, plain, policies, request, specs};

/// Policies that draw at random, or by the hash of a key.
const BY_CHANCE: [&str; 3] = ["power_of_two", "random", "ring"];

/// Policies that give an endpoint of three times the weight three times the load.
const BY_WEIGHT: [&str; 6] =
    ["least_request", "least_tokens", "power_of_two", "random", "ring", "weighted_round_robin"];

#[test]
fn equal_endpoints_share_what_is_outstanding_evenly() {
    for policy in policies() {
        let mut fleet = Fleet::new(config(policy), 4);
        let _held: Vec<_> = (0..400).map(|i| fleet.pick(&request(1_000 + i, 2_000), at(i))).collect();
        let counts = fleet.in_flight(at(400));
        // 100 each; four standard deviations of a draw are 35.
        let slack = if BY_CHANCE.contains(&policy) { 35 } else { 2 };
        assert!(counts.iter().all(|count| count.abs_diff(100) <= slack), "{policy}: {counts:?}");
    }
}

#[test]
fn equal_endpoints_share_what_comes_one_by_one_evenly() {
    for policy in policies() {
        let mut fleet = Fleet::new(config(policy), 4);
        let mut picks = Vec::new();
        for i in 0..400 {
            let mut pick = fleet.pick(&request(1_000 + i, 2_000), at(i * 500));
            fleet.first_token(&mut pick, at(i * 500 + 30));
            drop(pick.flight.take());
            picks.push(pick);
        }
        let counts = counted(&picks);
        let slack = if BY_CHANCE.contains(&policy) { 35 } else { 10 };
        assert!(counts.len() == 4, "{policy}: {counts:?}");
        assert!(counts.values().all(|count| count.abs_diff(100) <= slack), "{policy}: {counts:?}");
    }
}

#[test]
fn weights_count_where_it_is_documented() {
    for policy in policies() {
        let mut weighted = specs(2);
        weighted[1].weight = 3.0;
        let mut fleet = Fleet::of(config(policy), weighted);
        let _held: Vec<_> = (0..400).map(|i| fleet.pick(&request(1_000 + i, 2_000), at(0))).collect();
        let heavy = fleet.in_flight(at(0))[1];
        if BY_WEIGHT.contains(&policy) {
            assert!(heavy.abs_diff(300) <= 35, "{policy}: {heavy} of 400 on three quarters of the weight");
        } else if ["round_robin", "weighted_round_robin_learned"].contains(&policy) {
            assert_eq!(heavy, 200, "{policy} does not look at weights");
        }
    }
}

#[test]
fn nothing_goes_where_a_filter_forbids() {
    for policy in policies() {
        let mut fleet = Fleet::new(config(policy), 5);
        for position in 0..5 {
            fleet.scrape(position, page(f64::from(position as u8), 1.0, 1), at(0));
        }
        let (down, draining, tried) = (fleet.slot(0), fleet.slot(1), fleet.slot(2));
        fleet.pool.observe(Event::Probed { endpoint: down, healthy: false }, at(0));
        fleet.pool.observe(Event::Drain { endpoint: draining, draining: true }, at(0));
        let mut used = BTreeSet::new();
        let mut held = Vec::new();
        for i in 0..200 {
            let mut request = request(i % 20, 3_000);
            request.tried.push(tried);
            let pick = fleet.pick(&request, at(i));
            used.insert(pick.endpoint.slot);
            held.push(pick);
        }
        assert_eq!(used, BTreeSet::from([fleet.slot(3), fleet.slot(4)]), "{policy}");
    }
}

#[test]
fn equal_input_gives_an_equal_decision() {
    for policy in policies() {
        let run = || -> Vec<(Slot, String)> {
            let mut fleet = Fleet::new(config(policy), 6);
            let mut held = std::collections::VecDeque::new();
            let mut seen = Vec::new();
            for i in 0..300_u64 {
                if i % 10 == 0 {
                    fleet.scrape(i as usize % 6, page((i % 4) as f64, (i % 7) as f64, i), at(i * 10));
                }
                let mut pick = fleet.pick(&request(hash(i) % 12, 1_000 + hash(i) % 9_000), at(i * 10));
                seen.push((pick.endpoint.slot, format!("{:?}", (pick.reason, pick.affinity, pick.predicted_ttft))));
                if i % 2 == 0 {
                    fleet.first_token(&mut pick, at(i * 10 + hash(i) % 9));
                }
                held.push_back(pick);
                if held.len() > 8 {
                    let pick = held.pop_front().expect("more than eight");
                    fleet.end(pick, Outcome::Completed, at(i * 10 + 9));
                }
            }
            seen
        };
        assert_eq!(run(), run(), "{policy}");
    }
}

#[test]
fn a_policy_switched_live_keeps_counts_and_learning() {
    let mut fleet = Fleet::new(config("adaptive"), 3);
    let mut held: Vec<_> = (0..12).map(|i| fleet.pick(&request(i, 4_000), at(i))).collect();
    for pick in held.iter_mut().take(6) {
        fleet.first_token(pick, at(40));
    }
    for policy in policies() {
        let before = fleet.pool.snapshot(at(50));
        fleet.pool.configure(config(policy), &Registry::default()).expect("it exists");
        assert_eq!(fleet.pool.snapshot(at(50)), before, "{policy}: what is known of the endpoints has changed");
        assert!(before.iter().any(|endpoint| endpoint.latency_seconds.is_some()), "{before:?}");
        held.push(fleet.pick(&request(1, 4_000), at(50)));
    }
    drop(held);
    let left: Vec<_> = fleet.pool.snapshot(at(60)).iter().map(|one| (one.in_flight, one.outstanding_tokens)).collect();
    assert_eq!(left, [(0, 0); 3], "what was sent under one policy is given back under another");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn no_value_is_undefined_whatever_is_known(
        facts in proptest::collection::vec((prop::num::f64::ANY, prop::num::f64::ANY, prop::num::f64::ANY), 1..6),
        bytes in prop_oneof![Just(0_u64), Just(u64::MAX), 1_u64..100_000],
        // Weights of a thousand are allowed, and their rings take seconds to build.
        weight in prop_oneof![Just(f64::NAN), Just(f64::INFINITY), Just(-1.0), Just(0.0), 0.01_f64..5.0],
        sent in 0_u64..8,
    ) {
        for policy in policies() {
            let specs = specs(facts.len()).into_iter().map(|spec| EndpointSpec { weight, ..spec }).collect();
            let mut fleet = Fleet::of(config(policy), specs);
            for (position, (queued, running, kv_usage)) in facts.iter().enumerate() {
                let facts = Facts {
                    queued: Some(*queued),
                    running: Some(*running),
                    kv_usage: Some(*kv_usage),
                    ..Facts::default()
                };
                fleet.scrape(position, facts, at(0));
            }
            let mut held: Vec<_> = (0..sent).map(|i| fleet.pick(&plain(bytes), at(i))).collect();
            if let Some(pick) = held.first_mut() {
                fleet.first_token(pick, at(20));
            }
            let trace = fleet.explain(&plain(bytes), at(30));
            prop_assert!(trace.chosen.is_some(), "{}:\n{}", policy, trace);
            for endpoint in &trace.endpoints {
                prop_assert!(!endpoint.total.is_some_and(f64::is_nan), "{}:\n{}", policy, trace);
                prop_assert!(endpoint.values.iter().all(|value| !value.is_nan()), "{}:\n{}", policy, trace);
            }
        }
    }
}
