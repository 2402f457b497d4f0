//! The named policies, and policies put together from parts.

use proptest::prelude::*;
use spillway_picker::config::{Custom, Policy, PoolConfig};
use spillway_picker::explain::Trace;
use spillway_picker::facts::Facts;
use spillway_picker::filter::{Filter, Keep};
use spillway_picker::pool::Pool;
use spillway_picker::registry::Registry;
use spillway_picker::request::{RequestInfo, Turn};
use spillway_picker::scorer::Scorer;
use spillway_picker::select::Select;
use spillway_picker::view::Candidates;

use crate::support::{Fleet, at, config, counted, page, plain, request, specs};

fn custom(scorers: &[&str]) -> PoolConfig {
    let scorers = scorers.iter().map(|name| ((*name).to_owned(), 1.0)).collect();
    PoolConfig { policy: Policy::Custom(Custom { scorers, ..Custom::default() }), ..PoolConfig::default() }
}

#[test]
fn round_robin_takes_turns_and_minds_weights() {
    let mut fleet = Fleet::new(config("round_robin"), 4);
    let picks: Vec<_> = (0..40).map(|_| fleet.pick(&plain(10), at(0))).collect();
    assert!(counted(&picks).values().all(|count| *count == 10), "{:?}", counted(&picks));
    let mut weighted = specs(3);
    weighted[0].weight = 2.0;
    let mut fleet = Fleet::of(config("round_robin"), weighted);
    let picks: Vec<_> = (0..400).map(|_| fleet.pick(&plain(10), at(0))).collect();
    let heavy = counted(&picks)[&fleet.pool.endpoints()[0].id];
    assert!((195..=205).contains(&heavy), "half of the weight, {heavy} of 400 turns");
}

#[test]
fn random_follows_the_weights() {
    let mut weighted = specs(3);
    weighted[2].weight = 2.0;
    let mut fleet = Fleet::of(config("random"), weighted);
    let picks: Vec<_> = (0..4_000).map(|_| fleet.pick(&plain(10), at(0))).collect();
    let heavy = counted(&picks)[&fleet.pool.endpoints()[2].id];
    assert!((1_850..=2_150).contains(&heavy), "half of the weight, {heavy} of 4,000");
}

#[test]
fn least_request_levels_the_counts() {
    for policy in ["least_request", "adaptive", "hyperpod"] {
        let mut fleet = Fleet::new(config(policy), 5);
        let _held: Vec<_> = (0..52).map(|_| fleet.pick(&plain(1_000), at(0))).collect();
        let counts = fleet.in_flight(at(0));
        assert!(counts.iter().all(|count| (10..=11).contains(count)), "{policy}: {counts:?}");
    }
}

#[test]
fn a_large_fleet_never_funnels_onto_one_endpoint() {
    for policy in ["adaptive", "hyperpod", "least_request", "power_of_two", "ring"] {
        let mut fleet = Fleet::new(config(policy), 200);
        let _held: Vec<_> = (0..50).map(|i| fleet.pick(&request(i, 2_000), at(i))).collect();
        let most = fleet.in_flight(at(50)).into_iter().max().expect("two hundred endpoints");
        assert!(most <= 3, "{policy}: {most} of 50 requests on one of 200 endpoints");
    }
}

#[test]
fn hyperpod_prefers_the_holder_of_a_prefix() {
    let mut fleet = Fleet::new(config("hyperpod"), 4);
    for position in 0..4 {
        fleet.scrape(position, page(0.0, 0.0, 1), at(0));
    }
    let mut trace = Trace::default();
    fleet.pool.decide(&request(1, 8_000), Turn::default(), at(0), Some(&mut trace)).expect("in service");
    let names: Vec<_> = trace.columns.iter().map(|column| (column.name.as_str(), column.weight)).collect();
    assert_eq!(names, [("queue", 2.0), ("kv_cache", 2.0), ("prefix", 3.0)]);
    let first = fleet.pick(&request(1, 8_000), at(0));
    assert_eq!(fleet.pick(&request(1, 8_000), at(1)).endpoint.slot, first.endpoint.slot, "the prefix is there");
}

/// Sends everything to the endpoint with the last id.
struct Last;

impl Scorer for Last {
    fn name(&self) -> &'static str {
        "last"
    }

    fn score(&self, _: &RequestInfo, candidates: &Candidates<'_>, scores: &mut [f64]) {
        let last = (0..candidates.len()).max_by_key(|i| candidates.endpoint(*i).id.clone()).expect("never empty");
        // Out of range on purpose: it is clamped.
        scores[last] = 70.0;
        scores[0] = f64::NAN;
    }
}

/// Keeps one zone.
struct Zone;

impl Filter for Zone {
    fn name(&self) -> &'static str {
        "zone"
    }

    fn retain(&self, _: &RequestInfo, candidates: &Candidates<'_>, keep: &mut Keep) {
        keep.retain(|i| candidates.endpoint(i).labels.get("zone").is_some_and(|zone| zone == "a"));
    }
}

#[test]
fn a_scorer_and_a_filter_of_ones_own_work_by_name() {
    let registry = Registry::default().scorer("last", || Last).filter("zone", || Zone);
    let scorers = vec![("last".to_owned(), 1.0)];
    let policy = Policy::Custom(Custom { filters: vec!["zone".to_owned()], scorers, select: Select::Max });
    let pool = Pool::new(PoolConfig { policy, ..PoolConfig::default() }, &registry).expect("both are registered");
    let mut zoned = specs(4);
    zoned[1].labels.insert("zone".to_owned(), "a".to_owned());
    zoned[2].labels.insert("zone".to_owned(), "a".to_owned());
    pool.set_endpoints(zoned, at(0));
    let pick = pool.decide(&plain(10), Turn::default(), at(0), None).expect("two are in the zone");
    assert_eq!(pick.endpoint.id, pool.endpoints()[2].id);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn scores_are_in_range_and_equal_for_equal_candidates(
        pages in proptest::collection::vec(proptest::option::of((0_u8..3, 0_u8..3, 0.0_f64..1.2)), 2..8),
        sent in 0_u64..20,
    ) {
        const SCORERS: [&str; 8] =
            ["queue", "running", "kv_cache", "prefix", "lora", "in_flight", "session", "expected_ttft"];
        let mut fleet = Fleet::new(custom(&SCORERS), pages.len());
        let facts = |page: &(u8, u8, f64)| Facts {
            queued: Some(f64::from(page.0)),
            running: Some(f64::from(page.1)),
            kv_usage: Some((page.2 * 4.0).round() / 4.0),
            ..Facts::default()
        };
        for (position, page) in pages.iter().enumerate() {
            if let Some(page) = page {
                fleet.scrape(position, facts(page), at(0));
            }
        }
        let _held: Vec<_> = (0..sent).map(|_| fleet.pick(&plain(1_000), at(0))).collect();
        let mut request = request(1, 3_000);
        request.adapter = Some("sql".into());
        let mut trace = Trace::default();
        fleet.pool.decide(&request, Turn::default(), at(0), Some(&mut trace)).expect("in service");
        for endpoint in &trace.endpoints {
            for (value, column) in endpoint.values.iter().zip(&trace.columns) {
                prop_assert!((0.0..=1.0).contains(value), "{} of {} is {}", column.name, endpoint.endpoint, value);
            }
        }
        let seen = |i: usize| {
            let endpoint = &trace.endpoints[i];
            let facts: Vec<_> = endpoint.facts.iter().map(|fact| fact.value).collect();
            (facts, endpoint.prefills, endpoint.outside.to_bits(), endpoint.pending_seconds.to_bits())
        };
        for one in 0..pages.len() {
            for other in 0..one {
                if seen(one) == seen(other) {
                    for (column, name) in SCORERS.iter().enumerate().filter(|(_, name)| **name != "session") {
                        let values = (trace.endpoints[one].values[column], trace.endpoints[other].values[column]);
                        prop_assert!((values.0 - values.1).abs() < 1e-9, "{}: {:?} for equal endpoints", name, values);
                    }
                }
            }
        }
    }
}

#[test]
fn nothing_known_is_never_the_best() {
    for scorer in ["queue", "running", "kv_cache", "lora"] {
        let mut fleet = Fleet::new(custom(&[scorer]), 3);
        let loaded = |queued, kv_usage, running: &[&str]| Facts {
            queued: Some(queued),
            running: Some(queued),
            kv_usage: Some(kv_usage),
            adapters_running: Some(running.iter().map(|name| (*name).into()).collect()),
            ..Facts::default()
        };
        fleet.scrape(0, loaded(1.0, 0.1, &["sql"]), at(0));
        fleet.scrape(1, loaded(5.0, 0.9, &["other"]), at(0));
        let mut request = plain(100);
        request.adapter = Some("sql".into());
        let mut trace = Trace::default();
        let turn = fleet.turn();
        let pick = fleet.pool.decide(&request, turn, at(0), Some(&mut trace)).expect("in service");
        assert_eq!(pick.endpoint.slot, fleet.slot(0), "{scorer}: the unknown endpoint won:\n{trace}");
        let values: Vec<f64> = trace.endpoints.iter().map(|endpoint| endpoint.values[0]).collect();
        assert!(values[0] > values[2] && values[2] > values[1], "{scorer}: unknown lies between the known: {values:?}");
    }
}
