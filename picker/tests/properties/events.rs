//! Health, drain, retries, adapters: who is eligible at all.

use spillway_picker::decide::{NoPick, Reason};
use spillway_picker::facts::Facts;
use spillway_picker::pool::{Event, Outcome};
use spillway_picker::request::RequestInfo;

use crate::support::{Fleet, at, config, counted, page, plain, request};

#[test]
fn a_pick_is_always_in_the_pool_it_was_made_from() {
    for policy in ["adaptive", "ring", "hyperpod", "least_request", "power_of_two", "round_robin", "random"] {
        let mut fleet = Fleet::new(config(policy), 5);
        for i in 0..200 {
            let pick = fleet.pick(&request(i % 7, 3_000), at(i));
            assert!(fleet.pool.endpoints().iter().any(|endpoint| endpoint.slot == pick.endpoint.slot), "{policy}");
        }
    }
}

#[test]
fn equal_input_gives_an_equal_decision() {
    for policy in ["adaptive", "ring", "hyperpod", "least_request", "power_of_two", "round_robin", "random"] {
        let (mut one, mut other) = (Fleet::new(config(policy), 5), Fleet::new(config(policy), 5));
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for i in 0..300 {
            let request = request(i % 11, 1_000 + 37 * i);
            ours.push(one.pick(&request, at(i)));
            theirs.push(other.pick(&request, at(i)));
            if i % 3 == 0 {
                let position = (i as usize * 7) % ours.len();
                drop((ours.swap_remove(position), theirs.swap_remove(position)));
            }
            let ids = |picks: &[spillway_picker::decide::Pick]| picks.last().map(|pick| pick.endpoint.id.clone());
            assert_eq!(ids(&ours), ids(&theirs), "{policy}, decision {i}");
        }
    }
}

#[test]
fn an_empty_pool_says_so() {
    let mut fleet = Fleet::new(config("adaptive"), 0);
    assert_eq!(fleet.try_pick(&plain(10), at(0)).unwrap_err(), NoPick::Empty);
}

#[test]
fn only_when_every_endpoint_is_down_is_none_healthy() {
    let mut fleet = Fleet::new(config("adaptive"), 2);
    fleet.pool.observe(Event::Probed { endpoint: fleet.slot(0), healthy: false }, at(0));
    let pick = fleet.pick(&plain(10), at(0));
    assert_eq!((pick.endpoint.slot, pick.reason), (fleet.slot(1), Reason::Only));
    fleet.pool.observe(Event::Drain { endpoint: fleet.slot(1), draining: true }, at(0));
    assert_eq!(fleet.try_pick(&plain(10), at(0)).unwrap_err(), NoPick::NoneHealthy);
    fleet.pool.observe(Event::Probed { endpoint: fleet.slot(0), healthy: true }, at(1));
    assert_eq!(fleet.pick(&plain(10), at(1)).endpoint.slot, fleet.slot(0));
}

#[test]
fn an_engine_that_sleeps_gets_nothing() {
    let mut fleet = Fleet::new(config("round_robin"), 2);
    fleet.scrape(0, Facts { awake: Some(false), ..page(0.0, 0.0, 1) }, at(0));
    assert!((0..4).all(|_| fleet.pick(&plain(10), at(0)).endpoint.slot == fleet.slot(1)));
}

#[test]
fn a_retry_goes_elsewhere() {
    let mut fleet = Fleet::new(config("adaptive"), 3);
    let mut request = request(1, 2_000);
    for _ in 0..3 {
        let pick = fleet.pick(&request, at(0));
        assert!(!request.tried.contains(&pick.endpoint.slot), "tried before");
        request.tried.push(pick.endpoint.slot);
    }
    assert_eq!(fleet.try_pick(&request, at(0)).unwrap_err(), NoPick::AllTried);
}

#[test]
fn a_full_or_unreachable_endpoint_is_avoided_for_a_moment_and_never_lost() {
    for outcome in [
        Outcome::Status(429),
        Outcome::Status(503),
        Outcome::Status(500),
        Outcome::ConnectFailed,
        Outcome::Reset,
        Outcome::Failed,
        Outcome::TimedOut,
    ] {
        let mut fleet = Fleet::new(config("round_robin"), 2);
        let pick = fleet.pick(&plain(10), at(0));
        let slot = pick.endpoint.slot;
        fleet.end(pick, outcome, at(0));
        assert!((0..4).all(|_| fleet.pick(&plain(10), at(100)).endpoint.slot != slot), "{outcome:?}: others first");
        let mut retry = plain(10);
        retry.tried.push(if slot == fleet.slot(0) { fleet.slot(1) } else { fleet.slot(0) });
        assert_eq!(fleet.pick(&retry, at(100)).endpoint.slot, slot, "{outcome:?}: used when nothing else is left");
        assert!(
            (0..4).any(|_| fleet.pick(&plain(10), at(2_000)).endpoint.slot == slot),
            "{outcome:?}: back after a moment"
        );
    }
}

#[test]
fn what_the_client_did_wrong_is_not_held_against_the_endpoint() {
    let mut fleet = Fleet::new(config("round_robin"), 2);
    for outcome in [Outcome::Status(400), Outcome::Status(404), Outcome::ClientGone] {
        for _ in 0..20 {
            let pick = fleet.pick(&plain(10), at(0));
            fleet.end(pick, outcome, at(0));
        }
    }
    let picks: Vec<_> = (0..10).map(|_| fleet.pick(&plain(10), at(1))).collect();
    assert!(counted(&picks).values().all(|count| *count == 5), "{:?}", counted(&picks));
}

#[test]
fn an_adapter_goes_where_it_is_served_and_preferably_loaded() {
    let mut fleet = Fleet::new(config("hyperpod"), 3);
    let mut with_adapter = plain(100);
    with_adapter.adapter = Some("sql".into());
    let lists = |models: &[&str]| Facts {
        models: Some(models.iter().map(|model| (*model).into()).collect()),
        ..page(0.0, 0.0, 1)
    };
    fleet.scrape(0, lists(&["base"]), at(0));
    fleet.scrape(1, lists(&["base", "sql"]), at(0));
    let picks: Vec<_> = (0..6).map(|_| fleet.pick(&with_adapter, at(0))).collect();
    let counts = counted(&picks);
    assert!(!counts.contains_key(&fleet.pool.endpoints()[0].id), "it does not serve the adapter: {counts:?}");
    assert_eq!(counts.len(), 2, "one whose list is unknown may serve it: {counts:?}");
    fleet.scrape(1, lists(&["base"]), at(1));
    fleet.scrape(2, lists(&["base"]), at(1));
    assert_eq!(fleet.try_pick(&with_adapter, at(1)).unwrap_err(), NoPick::NoneServes);
    assert!(fleet.try_pick(&plain(100), at(1)).is_ok(), "the base model is served");
}

#[test]
fn an_adapter_goes_back_to_where_it_was_loaded_last() {
    let mut fleet = Fleet::new(config("adaptive"), 3);
    let idle = |progress| Facts {
        adapters_running: Some(Vec::new()),
        adapters_waiting: Some(Vec::new()),
        max_adapters: Some(2),
        ..page(0.0, 0.0, progress)
    };
    let asking = |adapter: &str| RequestInfo { adapter: Some(adapter.into()), ..plain(400) };
    let mut homes: Vec<_> = Vec::new();
    for round in 0..4_u64 {
        for (number, adapter) in ["a", "b", "c", "d", "e"].into_iter().enumerate() {
            // Each alone in the fleet, so that load says nothing; engines list none that is idle.
            let now = round * 10_000 + number as u64 * 1_000;
            (0..3).for_each(|endpoint| fleet.scrape(endpoint, idle(now), at(now)));
            let mut pick = fleet.pick(&asking(adapter), at(now));
            let load = if round == 0 { 500 } else { 0 };
            fleet.first_token(&mut pick, at(now + 10 + load));
            homes.push((adapter, pick.endpoint.slot));
            fleet.end(pick, Outcome::Completed, at(now + 20 + load));
        }
    }
    homes.sort();
    homes.dedup();
    assert_eq!(homes.len(), 5, "five adapters fit three endpoints of two places, so none moves: {homes:?}");
}

#[test]
fn what_an_endpoint_lists_is_known_whatever_becomes_of_its_metrics_page() {
    let mut fleet = Fleet::new(config("round_robin"), 2);
    let mut with_adapter = plain(100);
    with_adapter.adapter = Some("sql".into());
    for index in 0..2 {
        let models = vec!["base".into()];
        fleet.pool.observe(Event::Listed { endpoint: fleet.slot(index), models }, at(0));
    }
    assert_eq!(fleet.try_pick(&with_adapter, at(0)).unwrap_err(), NoPick::NoneServes);
    let models = vec!["base".into(), "sql".into()];
    fleet.pool.observe(Event::Listed { endpoint: fleet.slot(1), models }, at(1));
    fleet.scrape(1, page(0.0, 0.0, 1), at(2));
    let pick = fleet.try_pick(&with_adapter, at(100_000)).expect("a page without models takes none away");
    assert_eq!(pick.endpoint.slot, fleet.slot(1));
}
