//! Scraped facts: what happens when they are old, dead, or missing.

use std::time::Duration;

use spillway_picker::explain::Trace;
use spillway_picker::pool::{Event, Freshness};
use spillway_picker::registry::Registry;
use spillway_picker::request::Turn;

use crate::support::{Fleet, at, config, counted, page, plain, specs};

#[test]
fn a_fresh_endpoint_is_not_flooded_before_its_first_scrape() {
    for policy in ["hyperpod", "least_request", "adaptive"] {
        let mut fleet = Fleet::new(config(policy), 2);
        fleet.scrape(0, page(3.0, 1.0, 1), at(0));
        let picks: Vec<_> = (0..8).map(|_| fleet.pick(&plain(2_000), at(0))).collect();
        let fresh = counted(&picks).get(&fleet.pool.endpoints()[1].id).copied().unwrap_or(0);
        assert!(fresh <= 6, "{policy}: in-flight must count before metrics arrive, {fresh} of 8 went there");
    }
}

#[test]
fn a_stale_page_is_unknown_and_never_zero() {
    let mut fleet = Fleet::new(config("hyperpod"), 2);
    fleet.scrape(0, page(0.0, 0.0, 1), at(0));
    fleet.scrape(1, page(9.0, 9.0, 1), at(4_000));
    let now = at(4_000);
    assert_eq!(fleet.pool.snapshot(now)[0].freshness, Freshness::Stale);
    let mut trace = Trace::default();
    fleet.pool.decide(&plain(100), Turn::default(), now, Some(&mut trace)).expect("both are in service");
    let facts = &trace.endpoints[0].facts;
    assert!(
        facts
            .iter()
            .filter(|fact| fact.name != "kv_tokens")
            .all(|fact| fact.value.is_none() && fact.unknown == Some("stale"))
    );
    assert!(trace.endpoints[0].outside.abs() < 1e-9, "unknown load of others counts as none");
    let values: Vec<f64> = trace.endpoints.iter().map(|endpoint| endpoint.values[0]).collect();
    assert!((values[0] - values[1]).abs() < 1e-9, "an unknown queue counts as the mean of the known: {values:?}");
    let picks: Vec<_> = (0..8).map(|_| fleet.pick(&plain(100), now)).collect();
    let stale = counted(&picks)[&fleet.pool.endpoints()[0].id];
    assert!(
        (3..=5).contains(&stale),
        "a stale page must neither draw everything nor take its endpoint out: {stale} of 8"
    );
}

#[test]
fn facts_go_stale_by_the_interval_in_use() {
    let fleet = Fleet::new(config("hyperpod"), 1);
    let freshness = |ms| fleet.pool.snapshot(at(ms))[0].freshness;
    fleet.scrape(0, page(0.0, 0.0, 1), at(0));
    assert_eq!(fleet.pool.scrape_interval(), None, "nobody has said");
    assert_eq!((freshness(1_000), freshness(1_001)), (Freshness::Fresh, Freshness::Stale));
    fleet.pool.set_scrape_interval(Duration::from_secs(3));
    assert_eq!((freshness(15_000), freshness(15_001)), (Freshness::Fresh, Freshness::Stale));
    fleet.pool.configure(config("ring"), &Registry::default()).expect("the configuration is valid");
    fleet.pool.set_endpoints(specs(1), at(0));
    assert_eq!(freshness(15_000), Freshness::Fresh, "a reload does not change how often pages are read");
    assert_eq!(fleet.pool.scrape_interval(), Some(Duration::from_secs(3)));
    fleet.pool.set_scrape_interval(Duration::from_millis(1));
    assert_eq!((freshness(1_000), freshness(1_001)), (Freshness::Fresh, Freshness::Stale), "not within a second");
}

#[test]
fn a_failed_scrape_changes_nothing_at_once() {
    let fleet = Fleet::new(config("adaptive"), 1);
    fleet.scrape(0, page(2.0, 3.0, 1), at(0));
    fleet.pool.observe(Event::ScrapeFailed { endpoint: fleet.slot(0) }, at(100));
    let snapshot = &fleet.pool.snapshot(at(200))[0];
    assert_eq!((snapshot.freshness, snapshot.queued), (Freshness::Fresh, Some(2.0)));
}

#[test]
fn a_page_that_does_not_move_while_tokens_flow_is_frozen_and_its_endpoint_stays_in_service() {
    let mut fleet = Fleet::new(config("hyperpod"), 2);
    let mut now = 0;
    for scrape in 0..8 {
        now += 100;
        fleet.scrape(0, page(0.0, 0.0, 42), at(now));
        fleet.scrape(1, page(5.0, 5.0, scrape), at(now));
        let mut pick = fleet.pick(&plain(100), at(now));
        fleet.first_token(&mut pick, at(now + 20));
    }
    // Without work there, an unmoving page is what an idle engine has.
    let freshness: Vec<_> = fleet.pool.snapshot(at(now)).iter().map(|endpoint| endpoint.freshness).collect();
    assert_eq!(freshness, [Freshness::Frozen, Freshness::Fresh]);
    let picks: Vec<_> = (0..8).map(|_| fleet.pick(&plain(100), at(now))).collect();
    let frozen = counted(&picks).get(&fleet.pool.endpoints()[0].id).copied().unwrap_or(0);
    assert!((1..=7).contains(&frozen), "frozen is unknown, not idle and not dead: {frozen} of 8");
}

#[test]
fn others_on_the_endpoint_count_once() {
    let mut fleet = Fleet::new(config("least_request"), 2);
    let held: Vec<_> = (0..4).map(|_| fleet.pick(&plain(100), at(0))).collect();
    // Two of ours run on each; endpoint 0 says 7 run there.
    fleet.scrape(0, page(0.0, 7.0, 1), at(10));
    fleet.scrape(1, page(0.0, 2.0, 1), at(10));
    let mut trace = Trace::default();
    fleet.pool.decide(&plain(100), Turn::default(), at(10), Some(&mut trace)).expect("in service");
    assert_eq!((trace.endpoints[0].outside, trace.endpoints[1].outside), (5.0, 0.0));
    let picks: Vec<_> = (0..5).map(|_| fleet.pick(&plain(100), at(10))).collect();
    assert_eq!(counted(&picks).len(), 1, "five of others weigh as much as five of ours: {:?}", counted(&picks));
    drop(held);
}

#[test]
fn kv_usage_includes_what_was_sent_since_the_scrape() {
    let mut fleet = Fleet::new(config("hyperpod"), 1);
    let facts = spillway_picker::facts::Facts { blocks: Some(1_000), block_size: Some(16), ..page(0.0, 0.0, 1) };
    fleet.scrape(0, facts, at(0));
    let _held: Vec<_> = (0..4).map(|_| fleet.pick(&plain(8_000), at(0))).collect();
    let mut trace = Trace::default();
    fleet.pool.decide(&plain(100), Turn::default(), at(0), Some(&mut trace)).expect("in service");
    let usage = trace.endpoints[0]
        .facts
        .iter()
        .find(|fact| fact.name == "kv_usage")
        .and_then(|fact| fact.value)
        .expect("known");
    assert!(usage > 0.1 + 4.0 * 2_000.0 / 16_000.0 - 1e-6 && usage <= 1.0, "{usage}");
}
