//! The policy that goes by the first tokens it saw: quick to leave, ready to return, never fooled by silence or distance.

use std::time::Duration;

use spillway_picker::config::{Custom, Policy, PoolConfig};
use spillway_picker::pool::{Event, Outcome};
use spillway_picker::registry::Registry;

use crate::support::{Fleet, at, config, plain};

/// A pool of two whose endpoints took so many milliseconds to the first token, just before the time 10,000.
fn seen(milliseconds: [u64; 2]) -> Fleet {
    let mut fleet = Fleet::new(config("round_robin"), 2);
    for _ in 0..2 {
        let mut pick = fleet.pick(&plain(400), at(0));
        let began = 10_000 - milliseconds[pick.endpoint.slot.index()];
        let flight = pick.flight.as_mut().expect("reserved");
        fleet.pool.observe(Event::Connected { flight, round_trip: None }, at(began));
        fleet.first_token(&mut pick, at(10_000));
        fleet.end(pick, Outcome::Completed, at(10_000));
    }
    fleet.pool.configure(config("least_latency"), &Registry::default()).expect("it exists");
    fleet
}

#[test]
fn a_slower_endpoint_gets_so_much_less() {
    let mut fleet = seen([50, 150]);
    let _held: Vec<_> = (0..40).map(|_| fleet.pick(&plain(400), at(10_000))).collect();
    let counts = fleet.in_flight(at(10_000));
    assert!((29..=31).contains(&counts[0]), "a third of the time, three times the requests: {counts:?}");
}

#[test]
fn who_was_slow_once_is_tried_again_when_it_has_faded() {
    let mut fleet = seen([50, 2_000]);
    let mut first = None;
    for second in 1..60 {
        let now = 10_000 + second * 1_000;
        let mut pick = fleet.pick(&plain(400), at(now));
        if pick.endpoint.slot == fleet.slot(1) {
            first = Some(second);
            break;
        }
        fleet.first_token(&mut pick, at(now + 50));
        fleet.end(pick, Outcome::Completed, at(now + 50));
    }
    // 2 s fade to 50 ms in ten times ln 40.
    assert!(first.is_some_and(|second| (30..=38).contains(&second)), "after {first:?} s");
}

#[test]
fn an_endpoint_that_hangs_does_not_become_attractive() {
    let mut fleet = seen([50, 60]);
    let mut hung = Vec::new();
    let mut used = [0; 2];
    for i in 0..200 {
        let now = 10_000 + i * 300;
        let mut pick = fleet.pick(&plain(400), at(now));
        let position = pick.endpoint.slot.index();
        used[position] += 1;
        if position == 0 {
            hung.push(pick);
        } else {
            fleet.first_token(&mut pick, at(now + 60));
            fleet.end(pick, Outcome::Completed, at(now + 60));
        }
    }
    assert!(used[0] <= 3, "a minute without an answer, and {used:?} requests");
}

#[test]
fn a_newcomer_is_neither_avoided_nor_flooded() {
    let mut fleet = seen([50, 50]);
    fleet.pool.set_endpoints(crate::support::specs(3), at(10_000));
    let _held: Vec<_> = (0..30).map(|_| fleet.pick(&plain(400), at(10_001))).collect();
    let counts = fleet.in_flight(at(10_001));
    assert!(counts.iter().all(|count| (9..=11).contains(count)), "{counts:?}");
}

#[test]
fn distance_counts_once_and_not_for_each_in_flight() {
    let mut fleet = Fleet::new(config("round_robin"), 2);
    let trip = Duration::from_millis(100);
    for _ in 0..2 {
        let mut pick = fleet.pick(&plain(400), at(0));
        let (round_trip, first_token) = if pick.endpoint.slot.index() == 0 { (Some(trip), 150) } else { (None, 50) };
        let flight = pick.flight.as_mut().expect("reserved");
        // Connecting took long as well, and counts for nothing.
        fleet.pool.observe(Event::Connected { flight, round_trip }, at(900));
        fleet.first_token(&mut pick, at(900 + first_token));
        fleet.end(pick, Outcome::Completed, at(1_050));
    }
    fleet.pool.configure(config("least_latency"), &Registry::default()).expect("it exists");
    let snapshot = fleet.pool.snapshot(at(1_050));
    let latencies: Vec<_> = snapshot.iter().map(|one| (one.latency_seconds.expect("seen") * 1e3).round()).collect();
    assert_eq!(latencies, [50.0, 50.0], "the far endpoint is as fast as the near one");
    assert_eq!(snapshot[0].round_trip_seconds, Some(0.1));
    let trace = fleet.explain(&plain(400), at(1_050));
    assert!((trace.endpoints[0].values[1] - 0.1).abs() < 1e-9, "{trace}");
    assert!(trace.to_string().contains("network [s]"), "{trace}");
}

#[test]
fn the_scorer_gives_a_third_for_three_times_the_latency() {
    let fleet = seen([50, 150]);
    let scorers = vec![("latency".to_owned(), 1.0)];
    let policy = Policy::Custom(Custom { scorers, ..Custom::default() });
    fleet.pool.configure(PoolConfig { policy, ..PoolConfig::default() }, &Registry::default()).expect("it exists");
    let trace = fleet.explain(&plain(400), at(10_000));
    let values: Vec<_> = trace.endpoints.iter().map(|endpoint| endpoint.values[0]).collect();
    assert!((values[0] - 1.0).abs() < 1e-9 && (values[1] - 1.0 / 3.0).abs() < 1e-9, "{values:?}");
}

#[test]
fn without_streams_requests_in_flight_decide() {
    let mut fleet = Fleet::new(config("least_latency"), 3);
    let mut whole = plain(4_000);
    whole.streams = false;
    let _held: Vec<_> = (0..30).map(|i| fleet.pick(&whole, at(i))).collect();
    assert_eq!(fleet.in_flight(at(30)), [10, 10, 10]);
}
