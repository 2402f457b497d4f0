//! The default policy: even where nothing tells endpoints apart, sticky where a prefix does.

use std::sync::Arc;

use spillway_picker::decide::AffinityResult;
use spillway_picker::pool::Outcome;
use spillway_picker::request::RequestInfo;

use crate::support::{Fleet, at, config, counted, plain, prompt, request};

#[test]
fn equal_idle_endpoints_are_used_like_round_robin() {
    let mut fleet = Fleet::new(config("adaptive"), 4);
    let mut picks = Vec::new();
    for i in 0..400 {
        // One at a time: each ends before the next comes, and every prompt is unlike the others.
        let mut pick = fleet.pick(&request(1_000 + i, 2_000), at(i * 500));
        fleet.first_token(&mut pick, at(i * 500 + 30));
        let flight = pick.flight.take();
        picks.push(pick);
        drop(flight);
    }
    let counts = counted(&picks);
    assert!(counts.len() == 4 && counts.values().all(|count| (90..=110).contains(count)), "{counts:?}");
}

#[test]
fn outstanding_requests_spread_evenly() {
    let mut fleet = Fleet::new(config("adaptive"), 4);
    let _held: Vec<_> = (0..40).map(|i| fleet.pick(&request(1_000 + i, 2_000), at(i))).collect();
    assert_eq!(fleet.in_flight(at(40)), [10, 10, 10, 10]);
}

#[test]
fn several_gateways_send_an_unknown_prefix_to_its_owner_within_the_bound() {
    let mut config = config("adaptive");
    config.affinity.gateways = 4;
    let mut fleet = Fleet::new(config, 4);
    // One ring key, and no block in common: the index never knows them.
    let kin = |i: u64| {
        let mut prompt = (*prompt(100 + i, 40_000)).clone();
        prompt.ring_key = Some(3);
        RequestInfo { prompt: Arc::new(prompt), ..request(0, 0) }
    };
    let held: Vec<_> = (0..40).map(|i| fleet.pick(&kin(i), at(0))).collect();
    assert_eq!(held[0].endpoint.id, held[1].endpoint.id, "the owner first");
    assert!(held[0].cached_tokens == 7_500, "three quarters of 10,000 tokens, {}", held[0].cached_tokens);
    let loads: Vec<f64> = fleet.pool.snapshot(at(0)).iter().map(|endpoint| endpoint.load).collect();
    let share = loads.iter().sum::<f64>() / 4.0;
    assert!(loads.iter().all(|load| *load <= 1.25 * share + 1.0), "40 of one key on 4 endpoints: {loads:?}");
}

#[test]
fn nothing_of_a_prompt_is_used_when_affinity_is_off() {
    let mut config = config("adaptive");
    config.affinity.enabled = false;
    config.affinity.gateways = 4;
    let mut fleet = Fleet::new(config, 4);
    let picks: Vec<_> = (0..40)
        .map(|i| {
            let mut pick = fleet.pick(&request(3, 8_000), at(i * 1_000));
            assert_eq!(pick.affinity, AffinityResult::None);
            let flight = pick.flight.take().expect("reserved");
            fleet.pool.observe(
                spillway_picker::pool::Event::Ended { flight, outcome: Outcome::Completed },
                at(i * 1_000 + 500),
            );
            pick
        })
        .collect();
    assert!(counted(&picks).values().all(|count| *count == 10), "{:?}", counted(&picks));
}

#[test]
fn estimates_follow_the_server() {
    let mut fleet = Fleet::new(config("adaptive"), 1);
    assert_eq!(fleet.pool.estimate_tokens(&plain(4_000).prompt), 1_000);
    for _ in 0..40 {
        let mut pick = fleet.pick(&plain(8_000), at(0));
        let flight = pick.flight.as_mut().expect("reserved");
        let usage =
            spillway_picker::pool::Event::Usage { flight, prompt: Some(4_000), cached: None, completion: Some(10) };
        fleet.pool.observe(usage, at(1));
    }
    let tokens = fleet.pool.estimate_tokens(&plain(4_000).prompt);
    assert!((1_900..=2_000).contains(&tokens), "2 bytes a token were counted, estimated {tokens}");
}
