//! The named policies, and policies put together from parts.

#![expect(clippy::float_cmp, reason = "costs compared here are counts and their products, exact as f64")]

use std::sync::Arc;

use proptest::prelude::*;
use spillway_picker::config::{Custom, Policy, PoolConfig};
use spillway_picker::explain::Trace;
use spillway_picker::facts::Facts;
use spillway_picker::filter::{Filter, Keep};
use spillway_picker::pool::{Outcome, Pool};
use spillway_picker::prefix::block_end;
use spillway_picker::registry::Registry;
use spillway_picker::request::{RequestInfo, Turn};
use spillway_picker::scorer::Scorer;
use spillway_picker::select::Select;
use spillway_picker::view::Candidates;

use crate::support::{Fleet, at, config, counted, hash, page, plain, policies, prompt, request, specs};

fn custom(scorers: &[&str]) -> PoolConfig {
    let scorers = scorers.iter().map(|name| ((*name).to_owned(), 1.0)).collect();
    PoolConfig { policy: Policy::Custom(Custom { scorers, ..Custom::default() }), ..PoolConfig::default() }
}

#[test]
fn round_robin_takes_turns_whatever_the_weights() {
    for weight in [1.0, 5.0] {
        let mut specs = specs(4);
        specs[0].weight = weight;
        let mut fleet = Fleet::of(config("round_robin"), specs);
        let picks: Vec<_> = (0..40).map(|_| fleet.pick(&plain(10), at(0))).collect();
        assert!(counted(&picks).values().all(|count| *count == 10), "weight {weight}: {:?}", counted(&picks));
    }
}

#[test]
fn weighted_round_robin_is_smooth() {
    let mut weighted = specs(3);
    weighted[0].weight = 2.0;
    let mut fleet = Fleet::of(config("weighted_round_robin"), weighted);
    let heavy = fleet.slot(0);
    let picks: Vec<_> = (0..400).map(|_| fleet.pick(&plain(10), at(0)).endpoint.slot == heavy).collect();
    for (at, window) in picks.windows(8).enumerate() {
        let count = window.iter().filter(|is_heavy| **is_heavy).count();
        assert!((3..=5).contains(&count), "half of the weight, {count} of the 8 turns from {at} on");
    }
}

#[test]
fn learned_weights_follow_the_speed_and_not_the_weight() {
    let mut weighted = specs(2);
    weighted[1].weight = 9.0;
    let mut fleet = Fleet::of(config("weighted_round_robin_learned"), weighted);
    let mut now = 0;
    for i in 0..200_u64 {
        let bytes = 4_000 + hash(i) % 8 * 1_000;
        let mut pick = fleet.pick(&plain(bytes), at(now));
        // A token is four bytes: 20 us a token there, 60 us here.
        let slowness = if pick.endpoint.slot == fleet.slot(0) { 1 } else { 3 };
        fleet.first_token(&mut pick, at(now + slowness * bytes / 4 * 20 / 1_000));
        now += 1_000;
    }
    let picks: Vec<_> = (0..400).map(|_| fleet.pick(&plain(8_000), at(now))).collect();
    let fast = counted(&picks)[&fleet.pool.endpoints()[0].id];
    assert!((285..=315).contains(&fast), "three times as fast is three of four turns, {fast} of 400");
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
    for policy in policies().into_iter().filter(|policy| *policy != "random") {
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

#[test]
fn cache_aware_keeps_to_the_longest_prefix_until_loads_differ_too_much() {
    let mut fleet = Fleet::new(config("cache_aware"), 3);
    let home = fleet.pick(&request(1, 8_000), at(0)).endpoint.slot;
    let mut held: Vec<_> = (0..64).map(|_| fleet.pick(&request(1, 8_000), at(0))).collect();
    assert!(held.iter().all(|pick| pick.endpoint.slot == home), "64 more on one endpoint is still balanced");
    assert!(fleet.explain(&request(1, 8_000), at(0)).chosen == Some(held[0].endpoint.id.clone()));
    held.push(fleet.pick(&request(1, 8_000), at(0)));
    let next = fleet.pick(&request(1, 8_000), at(0));
    assert_ne!(next.endpoint.slot, home, "65 are not, and the shortest queue gets it");
    let trace = fleet.explain(&request(1, 8_000), at(0));
    let loads: Vec<_> = trace.endpoints.iter().map(|endpoint| endpoint.total.expect("none is filtered")).collect();
    assert_eq!(loads.iter().sum::<f64>(), 66.0, "what is in flight: {trace}");
}

#[test]
fn cache_aware_sends_what_is_mostly_new_to_the_least_loaded() {
    let mut fleet = Fleet::new(config("cache_aware"), 3);
    let mut kin = (*prompt(1, 16_384)).clone();
    let _first = fleet.pick(&request(1, 16_384), at(0));
    // The first quarter of the bytes in common.
    kin.blocks = (0..kin.blocks.len())
        .map(|i| if block_end(i) <= 4_096 { kin.blocks[i] } else { hash(77 << 20 | i as u64) })
        .collect();
    let kin = RequestInfo { prompt: Arc::new(kin), ..request(0, 0) };
    let trace = fleet.explain(&kin, at(0));
    let total = |trace: &Trace| trace.endpoints.iter().map(|one| one.total.expect("none is filtered")).sum::<f64>();
    assert_eq!(total(&trace), 1.0, "a quarter is too little to go by, so loads are compared: {trace}");
    let trace = fleet.explain(&request(1, 16_384), at(0));
    assert!(total(&trace) > 8_000.0, "what is missing is compared, in tokens: {trace}");
}

#[test]
fn pxbs_multiplies_the_work_ahead_by_the_batch() {
    let mut fleet = Fleet::new(config("pxbs"), 2);
    let first = fleet.pick(&plain(4_000), at(0));
    let position = first.endpoint.slot.index();
    let trace = fleet.explain(&plain(2_000), at(0));
    let total = |trace: &Trace, position: usize| trace.endpoints[position].total.expect("none is filtered");
    assert_eq!(total(&trace, position), (1_000.0 + 500.0) * 2.0, "{trace}");
    assert_eq!(total(&trace, 1 - position), 500.0, "{trace}");
    // Many streams without work ahead weigh less than one long prompt.
    let mut streams = Vec::new();
    for _ in 0..3 {
        let mut stream = fleet.pick(&plain(400), at(0));
        assert_ne!(stream.endpoint.slot.index(), position);
        fleet.first_token(&mut stream, at(10));
        streams.push(stream);
    }
    let trace = fleet.explain(&plain(400), at(10));
    assert_eq!(total(&trace, position), (1_000.0 + 100.0) * 2.0, "{trace}");
    assert_eq!(total(&trace, 1 - position), 100.0 * 4.0, "{trace}");
}

#[test]
fn least_tokens_counts_prompts_until_the_first_token_and_outputs_until_the_end() {
    let mut fleet = Fleet::new(config("least_tokens"), 2);
    let sized = |bytes, output| RequestInfo { max_tokens: Some(output), ..plain(bytes) };
    let tokens = |fleet: &Fleet, now| -> Vec<u64> {
        fleet.pool.snapshot(at(now)).iter().map(|endpoint| endpoint.outstanding_tokens).collect()
    };
    let mut long = fleet.pick(&sized(40_000, 10), at(0));
    let position = long.endpoint.slot.index();
    let short: Vec<_> = (0..5).map(|_| fleet.pick(&sized(400, 10), at(0))).collect();
    assert!(
        short.iter().all(|pick| pick.endpoint.slot != long.endpoint.slot),
        "five short ones are less than one long"
    );
    assert_eq!((tokens(&fleet, 0)[position], tokens(&fleet, 0)[1 - position]), (10_010, 550));
    fleet.first_token(&mut long, at(100));
    assert_eq!(tokens(&fleet, 100)[position], 10, "the prompt is computed, the output is to come");
    assert_eq!(fleet.pick(&sized(400, 10), at(100)).endpoint.slot, long.endpoint.slot);
    fleet.end(long, Outcome::Completed, at(200));
    drop(short);
    assert_eq!(tokens(&fleet, 200), [0, 0]);
}

#[test]
fn locality_prefers_the_gateways_own_zone_and_holds_nothing_against_the_unlabelled() {
    let mut zoned = specs(3);
    zoned[1].labels.insert("zone".to_owned(), "b".to_owned());
    zoned[2].labels.insert("zone".to_owned(), "a".to_owned());
    let values = |zone: Option<&str>| -> Vec<f64> {
        let config = PoolConfig { zone: zone.map(Into::into), ..custom(&["locality"]) };
        let trace = Fleet::of(config, zoned.clone()).explain(&plain(10), at(0));
        trace.endpoints.iter().map(|endpoint| endpoint.values[0]).collect()
    };
    assert_eq!(values(Some("a")), [0.5, 0.0, 1.0]);
    assert_eq!(values(None), [0.5; 3], "a gateway that knows no zone has no near endpoint");
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
        let registry = Registry::default();
        let scorers: Vec<&str> = registry.scorers().collect();
        let mut fleet = Fleet::new(PoolConfig { zone: Some("a".into()), ..custom(&scorers) }, pages.len());
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
                    for (column, name) in scorers.iter().enumerate().filter(|(_, name)| **name != "session") {
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
