//! In-flight counts: exact while a request lives, back to nothing when it does not, whatever happened in between.

use proptest::prelude::*;
use spillway_picker::decide::{NoPick, Pick};
use spillway_picker::pool::{Event, Outcome};
use spillway_picker::registry::Registry;
use spillway_picker::request::Turn;

use crate::support::{Fleet, at, config, hash, plain, policies, request, specs};

const OUTCOMES: [Outcome; 8] = [
    Outcome::Completed,
    Outcome::ClientGone,
    Outcome::ConnectFailed,
    Outcome::Reset,
    Outcome::TimedOut,
    Outcome::Status(503),
    Outcome::Status(400),
    Outcome::Failed,
];

fn assert_idle(fleet: &Fleet, now: u64) {
    for endpoint in fleet.pool.snapshot(at(now)) {
        assert_eq!(
            (endpoint.in_flight, endpoint.prefills, endpoint.decodes),
            (0, 0, 0),
            "{} must be idle",
            endpoint.id
        );
        assert!(endpoint.load == 0.0 && endpoint.pending_seconds == 0.0, "{endpoint:?}");
        assert_eq!(endpoint.outstanding_tokens, 0, "{} must be idle", endpoint.id);
    }
}

#[test]
fn counts_return_to_zero_after_every_kind_of_end() {
    let mut fleet = Fleet::new(config("adaptive"), 3);
    for outcome in OUTCOMES {
        for has_first_token in [false, true] {
            let mut pick = fleet.pick(&request(1, 4_000), at(0));
            assert_eq!(fleet.in_flight(at(0)).iter().sum::<u32>(), 1);
            if has_first_token {
                fleet.first_token(&mut pick, at(50));
                assert_eq!(fleet.in_flight(at(50)).iter().sum::<u32>(), 1, "a stream counts until its last byte");
            }
            fleet.end(pick, outcome, at(100));
            assert_idle(&fleet, 100);
        }
    }
}

#[test]
fn a_dropped_guard_releases_once() {
    let mut fleet = Fleet::new(config("adaptive"), 2);
    let (mut streaming, waiting) = (fleet.pick(&request(1, 4_000), at(0)), fleet.pick(&request(2, 4_000), at(0)));
    fleet.first_token(&mut streaming, at(10));
    drop(streaming);
    drop(waiting);
    assert_idle(&fleet, 20);
}

#[test]
fn a_panic_releases() {
    let mut fleet = Fleet::new(config("adaptive"), 2);
    let pick = fleet.pick(&request(1, 4_000), at(0));
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || {
        let _held = pick;
        std::panic::resume_unwind(Box::new("a handler that fails"));
    }));
    assert!(outcome.is_err());
    assert_idle(&fleet, 1);
}

#[test]
fn a_request_that_does_not_stream_leaves_its_prefill_when_predicted() {
    let mut fleet = Fleet::new(config("adaptive"), 1);
    let mut plain = plain(8_000);
    plain.streams = false;
    let pick = fleet.pick(&plain, at(0));
    let predicted = pick.flight.as_ref().expect("reserved").predicted_ttft();
    let phases =
        |now| fleet.pool.snapshot(now).iter().map(|endpoint| (endpoint.prefills, endpoint.decodes)).collect::<Vec<_>>();
    assert_eq!(phases(at(0)), [(1, 0)]);
    assert_eq!(phases(at(0) + predicted), [(0, 1)]);
    fleet.end(pick, Outcome::Completed, at(5_000));
    assert_idle(&fleet, 5_000);
}

#[test]
fn a_weight_edit_keeps_what_is_known_of_an_endpoint() {
    let mut fleet = Fleet::new(config("ring"), 2);
    let picks: Vec<Pick> = (0..5).map(|i| fleet.pick(&request(i, 1_000), at(0))).collect();
    let (slot, before) = (fleet.slot(1), fleet.in_flight(at(0)));
    fleet.pool.observe(Event::Probed { endpoint: slot, healthy: false }, at(0));
    let mut edited = specs(2);
    edited[1].weight = 3.0;
    edited[1].labels.insert("zone".to_owned(), "b".to_owned());
    fleet.pool.set_endpoints(edited, at(1));
    assert_eq!(fleet.slot(1), slot, "the same endpoint keeps its slot");
    assert_eq!(fleet.in_flight(at(1)), before, "and its counts");
    assert!(!fleet.pool.snapshot(at(1))[1].healthy, "and its health");
    drop(picks);
    assert_idle(&fleet, 2);
}

#[test]
fn a_removed_endpoint_drains_and_looks_busy_when_it_comes_back() {
    let mut fleet = Fleet::new(config("round_robin"), 2);
    let picks: Vec<Pick> = (0..4).map(|_| fleet.pick(&plain(1_000), at(0))).collect();
    let old = fleet.slot(1);
    fleet.pool.set_endpoints(specs(1), at(1));
    assert!((0..4).all(|_| fleet.pick(&plain(1_000), at(1)).endpoint.slot != old), "nothing goes to what is gone");
    fleet.pool.set_endpoints(specs(2), at(2));
    assert_ne!(fleet.slot(1), old, "late events of the old one must not hit the new one");
    assert_eq!(fleet.in_flight(at(2)), [2, 2], "its requests are still running there");
    fleet.pool.observe(Event::Probed { endpoint: old, healthy: false }, at(2));
    assert!(fleet.pool.snapshot(at(2))[1].healthy, "a probe of the old slot says nothing of the new one");
    drop(picks);
    assert_idle(&fleet, 3);
}

#[test]
fn an_endpoint_that_comes_back_is_in_service() {
    let mut fleet = Fleet::new(config("round_robin"), 2);
    let _held: Vec<Pick> = (0..4).map(|_| fleet.pick(&plain(1_000), at(0))).collect();
    fleet.pool.observe(Event::Probed { endpoint: fleet.slot(1), healthy: false }, at(0));
    fleet.pool.observe(Event::Drain { endpoint: fleet.slot(1), draining: true }, at(0));
    fleet.pool.set_endpoints(specs(1), at(1));
    fleet.pool.set_endpoints(specs(2), at(2));
    let back = &fleet.pool.snapshot(at(2))[1];
    assert!(back.healthy && !back.draining, "what was said of it before may never be taken back: {back:?}");
}

#[test]
fn threads_that_come_and_go_leave_nothing_behind() {
    for policy in policies() {
        let fleet = Fleet::new(config(policy), 5);
        std::thread::scope(|scope| {
            for thread in 0..4_u64 {
                let pool = &fleet.pool;
                scope.spawn(move || {
                    let mut held = std::collections::VecDeque::new();
                    for i in 0..2_000_u64 {
                        let turn = Turn { random: hash(thread << 32 | i), rotation: i };
                        let mut request = request(i % 9, 3_000);
                        request.streams = i % 5 != 0;
                        let mut pick = pool.decide(&request, turn, at(i), None).expect("in service");
                        if i % 3 == 0 {
                            pool.observe(Event::FirstToken { flight: pick.flight.as_mut().expect("reserved") }, at(i));
                        }
                        held.push_back(pick);
                        if held.len() > 20 {
                            let flight = held.pop_front().and_then(|pick| pick.flight).expect("reserved");
                            pool.observe(Event::Ended { flight, outcome: OUTCOMES[i as usize % 8] }, at(i));
                        }
                    }
                });
            }
        });
        assert_idle(&fleet, 2_000);
    }
}

#[test]
fn a_hot_change_of_policy_keeps_the_counts() {
    let mut fleet = Fleet::new(config("adaptive"), 2);
    let picks: Vec<Pick> = (0..3).map(|_| fleet.pick(&plain(1_000), at(0))).collect();
    fleet.pool.configure(config("ring"), &Registry::default()).expect("a policy that exists");
    assert_eq!(fleet.in_flight(at(0)).iter().sum::<u32>(), 3);
    assert!(fleet.pool.configure(config("rnig"), &Registry::default()).is_err());
    let _held = fleet.pick(&request(1, 1_000), at(1));
    drop(picks);
}

#[test]
fn the_concurrency_limit_is_absolute() {
    let mut config = config("adaptive");
    config.affinity.concurrency = Some(2);
    let mut fleet = Fleet::new(config, 2);
    let mut picks: Vec<Pick> = (0..4).map(|_| fleet.pick(&plain(1_000), at(0))).collect();
    assert_eq!(fleet.try_pick(&plain(1_000), at(0)).unwrap_err(), NoPick::Full);
    picks.pop();
    assert!(fleet.try_pick(&plain(1_000), at(0)).is_ok(), "one left, one may come");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_order_of_events_ends_at_zero(
        policy in 0_usize..4,
        steps in proptest::collection::vec((0_u8..5, 0_usize..64, any::<bool>()), 1..200),
    ) {
        let mut fleet = Fleet::new(config(["adaptive", "ring", "hyperpod", "round_robin"][policy]), 3);
        let mut held: Vec<Pick> = Vec::new();
        let mut now = 0;
        for (step, which, streams) in steps {
            now += 7;
            let at_pick = which % held.len().max(1);
            match step {
                0 | 1 => {
                    let mut request = request(which as u64 % 5, 500 + 100 * which as u64);
                    request.streams = streams;
                    held.push(fleet.pick(&request, at(now)));
                }
                2 if !held.is_empty() => fleet.first_token(&mut held[at_pick], at(now)),
                3 if !held.is_empty() => drop(held.swap_remove(at_pick)),
                4 if !held.is_empty() => fleet.end(held.swap_remove(at_pick), OUTCOMES[which % 8], at(now)),
                _ => {}
            }
            prop_assert_eq!(fleet.in_flight(at(now)).iter().sum::<u32>() as usize, held.len());
        }
        held.clear();
        assert_idle(&fleet, now);
    }
}
