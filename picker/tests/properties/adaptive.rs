//! The default policy: even where nothing tells endpoints apart, sticky where a prefix does.

use std::sync::Arc;

use spillway_picker::decide::{AffinityResult, Pick};
use spillway_picker::explain::EndpointTrace;
use spillway_picker::pool::{Event, Outcome};
use spillway_picker::request::RequestInfo;

use crate::support::{Fleet, at, config, counted, page, plain, prompt, request, specs};

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
fn a_copy_off_the_walk_counts_for_a_lone_gateway_and_not_among_several() {
    for gateways in [1, 2] {
        let mut config = config("adaptive");
        config.affinity.gateways = gateways;
        let mut fleet = Fleet::new(config, 5);
        let serve = |fleet: &mut Fleet, when: u64| {
            let mut pick = fleet.pick(&request(7, 30_000), at(when));
            fleet.first_token(&mut pick, at(when + 50));
            let (slot, cached) = (pick.endpoint.slot, pick.cached_tokens);
            fleet.end(pick, Outcome::Completed, at(when + 100));
            (slot, cached)
        };
        let drain = |fleet: &Fleet, endpoint, draining| {
            fleet.pool.observe(Event::Drain { endpoint, draining }, at(0));
        };
        let (first, _) = serve(&mut fleet, 0);
        drain(&fleet, first, true);
        let (second, _) = serve(&mut fleet, 1_000);
        drain(&fleet, second, true);
        let (third, _) = serve(&mut fleet, 2_000);
        // Only the third still has it: the others were away, and long after their last token.
        for endpoint in [first, second] {
            fleet.pool.observe(Event::Probed { endpoint, healthy: false }, at(60_000));
            fleet.pool.observe(Event::Probed { endpoint, healthy: true }, at(61_000));
            drain(&fleet, endpoint, false);
        }
        let (home, cached) = serve(&mut fleet, 62_000);
        if gateways == 1 {
            assert_eq!(home, third, "the one that holds it");
        } else {
            assert_eq!(home, first, "where the other gateway sends it too");
            assert!(cached > 5_000, "and has most likely sent it, {cached}");
        }
    }
}

#[test]
fn what_every_endpoint_holds_counts_on_every_one_with_several_gateways_too() {
    let mut config = config("adaptive");
    config.affinity.gateways = 2;
    let mut fleet = Fleet::new(config, 6);
    // Questions of no size under one long start. Held all at once, they spread over all endpoints.
    let serve = |fleet: &mut Fleet, from: u64| {
        let held: Vec<_> = (0..60).map(|i| fleet.pick(&request(7, 30_000), at(from + i))).collect();
        let cached: Vec<u32> = held.iter().map(|pick| pick.cached_tokens).collect();
        for mut pick in held {
            fleet.first_token(&mut pick, at(from + 100));
            fleet.end(pick, Outcome::Completed, at(from + 200));
        }
        cached
    };
    serve(&mut fleet, 0);
    let counts = |fleet: &Fleet| fleet.in_flight(at(10_000));
    assert_eq!(counts(&fleet), [0; 6]);
    let cached = serve(&mut fleet, 10_000);
    assert!(cached.iter().all(|cached| *cached > 7_000), "all of them hold it: {cached:?}");
}

#[test]
fn a_prefix_that_nobody_holds_is_cold_whatever_is_guessed_of_its_owner() {
    let mut config = config("adaptive");
    config.affinity.gateways = 2;
    let mut fleet = Fleet::new(config, 4);
    let first = fleet.pick(&request(7, 30_000), at(0));
    assert_eq!((first.affinity, first.cached_tokens > 5_000), (AffinityResult::Cold, true));
    let again = fleet.pick(&request(7, 30_000), at(1));
    assert_eq!(again.affinity, AffinityResult::Hit);
}

#[test]
fn gateways_that_find_the_owner_busy_choose_the_same_endpoint_beside_it() {
    let second_of = |busy_work: u64| {
        let mut config = config("adaptive");
        config.affinity.gateways = 2;
        let mut fleet = Fleet::new(config, 8);
        let owner = fleet.pick(&request(7, 30_000), at(0));
        let slot = owner.endpoint.slot;
        fleet.end(owner, Outcome::ClientGone, at(1));
        fleet.pool.observe(Event::Drain { endpoint: slot, draining: true }, at(2));
        // Another history each: other rotations, other endpoints used last.
        for i in 0..busy_work {
            let pick = fleet.pick(&request(1_000 + i, 2_000), at(3 + i));
            fleet.end(pick, Outcome::ClientGone, at(3 + i));
        }
        fleet.pick(&request(7, 30_000), at(1_000)).endpoint.id.clone()
    };
    assert!((1..8).all(|history| second_of(history) == second_of(0)));
}

#[test]
fn a_guess_is_worth_what_servers_say_of_guesses() {
    let mut config = config("adaptive");
    config.affinity.gateways = 2;
    let mut fleet = Fleet::new(config, 4);
    let mut guessed = Vec::new();
    for (round, cached) in [(0, 0), (1, 7_500)] {
        for i in 0..1_500 {
            let now = at(10_000 * (1_500 * round + i));
            let mut pick = fleet.pick(&request(1_500 * round + i, 30_000), now);
            guessed.push(pick.cached_tokens);
            fleet.first_token(&mut pick, now);
            let flight = pick.flight.as_mut().expect("reserved");
            let usage = Event::Usage { flight, prompt: Some(7_500), cached: Some(cached), completion: Some(10) };
            fleet.pool.observe(usage, now);
            fleet.end(pick, Outcome::Completed, now);
        }
    }
    let (before, unshared, shared) = (guessed[0], guessed[1_499], guessed[2_999]);
    assert!((5_000..6_000).contains(&before), "three quarters of 7,500 to begin with, {before}");
    assert!(unshared < 1_500, "prompts that share nothing are not thought to be anywhere, {unshared}");
    assert!(shared > 6_000, "and it comes back, {shared}");
}

#[test]
fn a_prefix_has_a_third_home_when_both_are_busy_and_not_before() {
    let mut config = config("adaptive");
    config.affinity.gateways = 2;
    let fleet = Fleet::new(config, 8);
    let away = |fleet: &Fleet, when: u64| {
        let trace = fleet.explain(&request(7, 30_000), at(when));
        let column = trace.columns.iter().position(|column| column.name == "away").expect("a term of adaptive");
        let is_home = |endpoint: &&EndpointTrace| endpoint.values[column] == 0.0;
        let mut homes: Vec<_> = trace.endpoints.iter().filter(is_home).collect();
        homes.sort_by_key(|endpoint| endpoint.ring_position);
        homes.iter().map(|endpoint| endpoint.endpoint.clone()).collect::<Vec<_>>()
    };
    let two = away(&fleet, 1);
    assert_eq!(two.len(), 2, "{two:?}");
    // What other gateways sent: 40 requests on each of the two homes.
    let ids: Vec<_> = fleet.pool.endpoints().iter().map(|endpoint| endpoint.id.clone()).collect();
    for (position, id) in ids.iter().enumerate() {
        let running = if two.contains(id) { 40.0 } else { 2.0 };
        fleet.scrape(position, page(0.0, running, 1), at(10));
    }
    let four = away(&fleet, 11);
    assert_eq!(four.len(), 4, "one more for each that is busy: {four:?}");
    assert_eq!(four[..2], two[..], "the first on the walk are still the first");
}

#[test]
fn a_prompt_too_short_to_be_cached_has_no_home() {
    let mut config = config("adaptive");
    config.affinity.gateways = 2;
    let fleet = Fleet::new(config, 4);
    let trace = fleet.explain(&request(7, 100), at(0));
    let column = trace.columns.iter().position(|column| column.name == "away").expect("a term of adaptive");
    assert!(trace.ring_key.is_some() && trace.endpoints.iter().all(|endpoint| endpoint.values[column] == 0.0));
}

#[test]
fn a_lone_gateway_knows_no_homes() {
    let mut fleet = Fleet::new(config("adaptive"), 4);
    let held = fleet.pick(&request(7, 30_000), at(0));
    let trace = fleet.explain(&request(7, 30_000), at(1));
    let column = trace.columns.iter().position(|column| column.name == "away").expect("a term of adaptive");
    assert!(trace.endpoints.iter().all(|endpoint| endpoint.values[column] == 0.0));
    drop(held);
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
            fleet.pool.observe(Event::Ended { flight, outcome: Outcome::Completed }, at(i * 1_000 + 500));
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
        let usage = Event::Usage { flight, prompt: Some(4_000), cached: None, completion: Some(10) };
        fleet.pool.observe(usage, at(1));
    }
    let tokens = fleet.pool.estimate_tokens(&plain(4_000).prompt);
    assert!((1_900..=2_000).contains(&tokens), "2 bytes a token were counted, estimated {tokens}");
}

/// Serves prompts one after the other at a given speed, in virtual time. Answers are one token long.
struct Engine {
    token_seconds: f64,
    free_at: f64,
}

/// Sends `count` prompts of 2,000 tokens, one each `every` seconds, and returns for each the endpoint and its TTFT.
fn drive(fleet: &mut Fleet, engines: &mut [Engine], count: u64, every: f64) -> Vec<(usize, f64)> {
    let mut waiting: Vec<(f64, Pick)> = Vec::new();
    let mut served = Vec::new();
    let time = |seconds: f64| at((seconds * 1e3) as u64);
    for i in 0..=count {
        let now = if i == count { f64::INFINITY } else { i as f64 * every };
        waiting.sort_by(|one, other| one.0.total_cmp(&other.0));
        let due = waiting.partition_point(|(done, _)| *done <= now);
        for (done, mut pick) in waiting.drain(..due) {
            fleet.first_token(&mut pick, time(done));
            fleet.end(pick, Outcome::Completed, time(done));
        }
        if i < count {
            let pick = fleet.pick(&request(1_000_000 + i, 8_000), time(now));
            let engine = pick.endpoint.slot.index();
            let done = engines[engine].free_at.max(now) + engines[engine].token_seconds * 2_000.0;
            engines[engine].free_at = done;
            served.push((engine, done - now));
            waiting.push((done, pick));
        }
    }
    served
}

#[test]
fn a_slow_endpoint_is_found_out_and_gets_what_it_can_serve() {
    let mut fleet = Fleet::new(config("adaptive"), 3);
    // Two serve 50 prompts a second each, one serves 10.
    let mut engines = [10e-6, 10e-6, 50e-6].map(|token_seconds| Engine { token_seconds, free_at: 0.0 });
    let served = drive(&mut fleet, &mut engines, 2_000, 1.0 / 70.0);
    let settled = &served[500..];
    let slow = settled.iter().filter(|(engine, _)| *engine == 2).count() as f64 / settled.len() as f64;
    assert!(slow < 0.14, "a tenth of the speed of the fleet must not get {slow} of its requests");
    let mut waits: Vec<f64> = settled.iter().map(|(_, ttft)| *ttft).collect();
    waits.sort_by(f64::total_cmp);
    let p95 = waits[waits.len() * 95 / 100];
    assert!(p95 < 0.15, "95 % of first tokens within 150 ms at two thirds of capacity, not {p95}");
}

#[test]
fn endpoints_faster_than_anyone_supposes_are_all_found_out() {
    let mut fleet = Fleet::new(config("adaptive"), 3);
    // 2 us a token: eight times faster than what is supposed of one that is not known.
    let mut engines = [2e-6; 3].map(|token_seconds| Engine { token_seconds, free_at: 0.0 });
    let served = drive(&mut fleet, &mut engines, 300, 0.5);
    for engine in 0..3 {
        let share = served.iter().filter(|(number, _)| *number == engine).count();
        assert!((90..=110).contains(&share), "one at a time over equal endpoints: {engine} served {share} of 300");
    }
}

/// Sends 400 requests whose answers come whole, one each six seconds, to endpoints that take so many seconds for each token of
/// them; how many of the last 300 each got.
fn whole(gaps: &[f64]) -> Vec<u32> {
    let mut fleet = Fleet::new(config("adaptive"), gaps.len());
    let mut picked = vec![0; gaps.len()];
    for i in 0..400_u64 {
        let now = i * 6_000;
        let mut pick = fleet.pick(&RequestInfo { streams: false, ..plain(2_000) }, at(now));
        let engine = pick.endpoint.slot.index();
        picked[engine] += u32::from(i >= 100);
        let done = at(now + (gaps[engine] * 100_000.0) as u64);
        let flight = pick.flight.as_mut().expect("reserved");
        let usage = Event::Usage { flight, prompt: Some(500), cached: Some(0), completion: Some(100) };
        fleet.pool.observe(usage, done);
        fleet.end(pick, Outcome::Completed, done);
    }
    picked
}

#[test]
fn machines_whose_answers_come_whole_are_told_apart_by_how_long_these_take() {
    let picked = whole(&[0.01, 0.05]);
    assert!(picked[1] < picked[0] / 4, "one at a time, and the slow one gets {picked:?}");
}

#[test]
fn machines_whose_answers_come_whole_are_all_found_out() {
    for gap in [0.001, 0.01, 0.05] {
        let picked = whole(&[gap; 3]);
        assert!(picked.iter().all(|count| (80..=120).contains(count)), "{gap} s a token: {picked:?}");
    }
    let picked = whole(&[0.003, 0.001, 0.003]);
    assert!(picked[1] > 250, "the fastest gets {picked:?}");
}

#[test]
fn one_that_was_slow_is_tried_again() {
    let mut fleet = Fleet::new(config("adaptive"), 2);
    let mut engines = [10e-6, 500e-6].map(|token_seconds| Engine { token_seconds, free_at: 0.0 });
    let before = drive(&mut fleet, &mut engines, 400, 0.5);
    let slow = before[100..].iter().filter(|(engine, _)| *engine == 1).count();
    assert_eq!(slow, 0, "a second for what the other does in 20 ms");
    // It is as fast as the other now; the clock of the pool goes on.
    let mut engines = [10e-6; 2].map(|token_seconds| Engine { token_seconds, free_at: 0.0 });
    let after = drive(&mut fleet, &mut engines, 3_000, 0.5);
    let last = &after[2_000..];
    let share = last.iter().filter(|(engine, _)| *engine == 1).count();
    assert!(share > 300, "equal endpoints, and the second served {share} of the last 1,000");
}

#[test]
fn an_endpoint_that_joins_is_taken_to_be_as_fast_as_its_kind() {
    let mut fleet = Fleet::new(config("adaptive"), 2);
    let mut engines = [100e-6, 100e-6].map(|token_seconds| Engine { token_seconds, free_at: 0.0 });
    drive(&mut fleet, &mut engines, 100, 0.2);
    // Decoding has not been seen, so that nothing is an example yet.
    for i in 0..40 {
        let mut pick = fleet.pick(&plain(400), at(100_000 + i * 10));
        fleet.first_token(&mut pick, at(100_000 + i * 10 + 10));
        let flight = pick.flight.as_mut().expect("reserved");
        fleet.pool.observe(Event::Token { flight, count: 32 }, at(100_000 + i * 10 + 10 + 32 * 50));
        fleet.end(pick, Outcome::Completed, at(100_000 + i * 10 + 2_000));
    }
    fleet.pool.set_endpoints(specs(3), at(200_000));
    let rates: Vec<f64> =
        fleet.pool.snapshot(at(200_000)).iter().map(|endpoint| endpoint.prefill_token_seconds).collect();
    assert!(
        rates[2] > 0.5 * rates[0].min(rates[1]),
        "cost per token of the two that are known, and the third: {rates:?}"
    );
}

#[test]
fn a_hot_prefix_sticks_while_its_holder_keeps_up() {
    let mut fleet = Fleet::new(config("adaptive"), 4);
    let mut holders = std::collections::BTreeSet::new();
    for i in 0..50 {
        let mut pick = fleet.pick(&request(7, 30_000), at(i * 1_000));
        fleet.first_token(&mut pick, at(i * 1_000 + 50));
        if i > 0 {
            assert_eq!(pick.affinity, AffinityResult::Hit, "request {i}");
        }
        holders.insert(pick.endpoint.id.clone());
        fleet.end(pick, Outcome::Completed, at(i * 1_000 + 500));
    }
    assert_eq!(holders.len(), 1, "an idle holder keeps its prefix: {holders:?}");
}

#[test]
fn a_failed_request_leaves_no_belief_behind() {
    let mut fleet = Fleet::new(config("adaptive"), 4);
    let failed = fleet.pick(&request(7, 30_000), at(0));
    fleet.end(failed, Outcome::Reset, at(10));
    assert_eq!(fleet.pick(&request(7, 30_000), at(1_000)).cached_tokens, 0);
    let mut served = fleet.pick(&request(7, 30_000), at(2_000));
    fleet.first_token(&mut served, at(2_100));
    fleet.end(served, Outcome::Completed, at(2_200));
    assert!(fleet.pick(&request(7, 30_000), at(3_000)).cached_tokens > 7_000);
}
