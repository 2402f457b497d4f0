//! Explain names the choice the decision makes, and changes nothing.

use spillway_picker::explain::Trace;
use spillway_picker::pool::{Event, Outcome};

use crate::support::{Fleet, at, config, page, plain, policies, request};

fn busy(policy: &str) -> (Fleet, Vec<spillway_picker::decide::Pick>) {
    let mut fleet = Fleet::new(config(policy), 5);
    for position in 0..4 {
        fleet.scrape(position, page(position as f64, 2.0, 1), at(0));
    }
    let mut held: Vec<_> = (0..17).map(|i| fleet.pick(&request(i % 4, 2_000 + 500 * i), at(i))).collect();
    fleet.first_token(&mut held[2], at(20));
    // Tokens just seen would veto the probe.
    let down = (held[2].endpoint.slot.index() + 1) % 5;
    fleet.pool.observe(Event::Probed { endpoint: fleet.slot(down), healthy: false }, at(20));
    let not_down = held.iter().position(|pick| pick.endpoint.slot.index() != down).expect("several endpoints");
    let full = held.remove(not_down);
    fleet.end(full, Outcome::Status(503), at(21));
    (fleet, held)
}

#[test]
fn explain_names_the_choice_of_decide_and_changes_nothing() {
    for policy in policies() {
        let (mut fleet, _held) = busy(policy);
        for i in 0..20 {
            let (request, now) = (request(i % 6, 4_000), at(3_000 + i));
            let turn = fleet.turn();
            let before = fleet.pool.snapshot(now);
            let mut trace = Trace::default();
            let explained = fleet.pool.decide(&request, turn, now, Some(&mut trace)).expect("in service");
            assert!(explained.flight.is_none(), "nothing is reserved");
            assert_eq!(fleet.pool.snapshot(now), before, "{policy}: explain must not change the pool");
            let decided = fleet.pool.decide(&request, turn, now, None).expect("in service");
            assert_eq!(decided.endpoint.id, explained.endpoint.id, "{policy}, request {i}:\n{trace}");
            assert_eq!((decided.reason, decided.affinity), (explained.reason, explained.affinity));
            assert_eq!(trace.chosen, Some(decided.endpoint.id.clone()));
            assert_eq!(trace.endpoints.iter().filter(|endpoint| endpoint.chosen).count(), 1);
        }
    }
}

#[test]
fn a_trace_says_who_was_removed_and_by_what() {
    let (mut fleet, _held) = busy("hyperpod");
    let mut request = request(1, 4_000);
    let turn = fleet.turn();
    let mut trace = Trace::default();
    let tried = fleet.pool.decide(&request, turn, at(30), Some(&mut trace)).expect("in service").endpoint.slot;
    request.tried.push(tried);
    fleet.pool.decide(&request, turn, at(30), Some(&mut trace)).expect("in service");
    let removed: Vec<_> = trace.endpoints.iter().map(|endpoint| endpoint.removed_by).collect();
    for filter in ["in_service", "tried", "demoted"] {
        assert_eq!(removed.iter().filter(|by| **by == Some(filter)).count(), 1, "{filter}:\n{trace}");
    }
    let kept: Vec<_> = trace.endpoints.iter().filter(|endpoint| endpoint.removed_by.is_none()).collect();
    assert!(kept.iter().all(|endpoint| endpoint.values.len() == trace.columns.len() && endpoint.total.is_some()));
    let mut places: Vec<_> = trace.endpoints.iter().filter_map(|endpoint| endpoint.ring_position).collect();
    places.sort_unstable();
    assert_eq!(places, [0, 1, 2, 3, 4], "every endpoint has its place on the walk");
}

#[test]
fn a_trace_explains_a_refusal() {
    let mut fleet = Fleet::new(config("adaptive"), 2);
    let turn = fleet.turn();
    let mut trace = Trace::default();
    let mut request = plain(100);
    request.tried.extend([fleet.slot(0), fleet.slot(1)]);
    assert!(fleet.pool.decide(&request, turn, at(0), Some(&mut trace)).is_err());
    assert!(trace.to_string().contains("chosen: none, every endpoint has been tried"), "{trace}");
    assert!(trace.endpoints.iter().all(|endpoint| endpoint.removed_by == Some("tried")));
}

#[test]
fn the_table_shows_terms_with_units_and_why_facts_are_unknown() {
    let (mut fleet, _held) = busy("adaptive");
    let turn = fleet.turn();
    let mut trace = Trace::default();
    let pick = fleet.pool.decide(&request(1, 4_000), turn, at(30), Some(&mut trace)).expect("in service");
    let table = trace.to_string();
    for part in [
        "policy adaptive",
        "[s]",
        "? never scraped",
        "in_service",
        "ring key",
        &format!("chosen: {}", pick.endpoint.id),
    ] {
        assert!(table.contains(part), "`{part}` is missing:\n{table}");
    }
    let json = serde_json::to_string(&trace).expect("plain data");
    assert!(json.contains("\"removed_by\":\"in_service\""), "{json}");
}
