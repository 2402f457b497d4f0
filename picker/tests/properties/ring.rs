//! Who owns a key, what moves with an endpoint, and how far load may pile up on one.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use spillway_picker::decide::Reason;
use spillway_picker::pool::{EndpointSpec, Pool};
use spillway_picker::request::Turn;
use spillway_picker::ring::Ring;

use crate::support::{Fleet, at, config, hash, request, specs};

const KEYS: u64 = 100_000;

fn ring(specs: &[EndpointSpec]) -> Ring {
    Ring::new(&specs.iter().map(|spec| (spec.id.clone(), spec.weight)).collect::<Vec<_>>())
}

fn owners(specs: &[EndpointSpec]) -> Vec<Arc<str>> {
    let ring = ring(specs);
    (0..KEYS).map(|key| specs[ring.owner(hash(key)).expect("not empty")].id.clone()).collect()
}

#[test]
fn an_added_endpoint_takes_its_share_and_nothing_else_moves() {
    let (seven, eight) = (owners(&specs(7)), owners(&specs(8)));
    let added = specs(8)[7].id.clone();
    let moved: Vec<_> = seven.iter().zip(&eight).filter(|(before, after)| before != after).collect();
    assert!(moved.iter().all(|(_, after)| **after == added), "keys moved between endpoints that were there before");
    let share = moved.len() as f64 / KEYS as f64;
    assert!(share <= 0.125 + 0.01, "{share} of the keys moved, more than 1/8 and a point");
    assert!(share >= 0.125 - 0.02, "{share} of the keys moved: the added endpoint gets too little");
}

#[test]
fn a_removed_endpoint_takes_only_its_own_keys_along() {
    let all = specs(8);
    let mut rest = all.clone();
    let removed = rest.remove(3).id;
    for (before, after) in owners(&all).iter().zip(owners(&rest)) {
        assert!(*before == removed || *before == after, "a key of {before} moved to {after}");
    }
}

#[test]
fn keys_spread_evenly() {
    let mut counts: BTreeMap<Arc<str>, u64> = BTreeMap::new();
    for owner in owners(&specs(8)) {
        *counts.entry(owner).or_default() += 1;
    }
    let most = *counts.values().max().expect("eight endpoints");
    assert!((most as f64) < 1.15 * KEYS as f64 / 8.0, "peak over mean: {counts:?}");
}

#[test]
fn a_thousand_endpoints_share_evenly_too() {
    let owners = owners(&(0..1_000).map(|i| EndpointSpec::new(format!("http://node-{i}:8000"))).collect::<Vec<_>>());
    let mut counts: BTreeMap<Arc<str>, u64> = BTreeMap::new();
    for owner in owners {
        *counts.entry(owner).or_default() += 1;
    }
    assert_eq!(counts.len(), 1_000, "every endpoint owns keys");
    // The mean is 100 keys, so counting alone spreads them by 10; 160 is six times that.
    assert!(counts.values().all(|count| *count < 160), "busiest: {:?}", counts.values().max());
}

#[test]
fn gateways_that_never_talk_choose_the_same_owner() {
    let mut turned = specs(6);
    turned.rotate_left(2);
    for policy in ["ring", "adaptive"] {
        let mut config = config(policy);
        config.affinity.gateways = 2;
        let (mut one, mut other) = (Fleet::new(config.clone(), 6), Fleet::of(config, turned.clone()));
        other.turns = 77;
        for group in 0..200 {
            let request = request(group, 16_000);
            let (here, there) = (one.pick(&request, at(group * 1_000)), other.pick(&request, at(group * 1_000)));
            assert_eq!(here.endpoint.id, there.endpoint.id, "{policy}: group {group} is served twice, cached twice");
        }
    }
}

#[test]
fn a_full_owner_spills_to_the_next_on_the_walk_and_back() {
    let mut fleet = Fleet::new(config("ring"), 4);
    let request = request(5, 4_000);
    let first = fleet.pick(&request, at(0));
    let second = fleet.pick(&request, at(0));
    assert_eq!((first.reason, second.reason), (Reason::Owner, Reason::Owner), "two fit into the slack of an idle pool");
    assert_eq!(first.endpoint.id, second.endpoint.id);
    let third = fleet.pick(&request, at(0));
    assert_eq!(third.reason, Reason::Spill);
    let fourth = fleet.pick(&request, at(0));
    assert_eq!(third.endpoint.id, fourth.endpoint.id, "overflow is as stable as the owner");
    let owner = first.endpoint.id.clone();
    drop(first);
    assert_eq!(fleet.pick(&request, at(1)).endpoint.id, owner, "with room again, the owner is first");
}

#[test]
fn a_request_without_a_key_does_not_pile_up() {
    let mut fleet = Fleet::new(config("ring"), 4);
    let mut plain = request(0, 100);
    plain.prompt = Arc::default();
    let picks: Vec<_> = (0..8).map(|_| fleet.pick(&plain, at(0))).collect();
    assert!(picks.iter().all(|pick| pick.reason == Reason::Random));
    assert!(fleet.in_flight(at(0)).iter().all(|count| *count <= 3), "{:?}", fleet.in_flight(at(0)));
}

/// What `count` concurrent requests of one key may at most put on one of `endpoints`: the bound, or one more than an even
/// share when every endpoint is over it.
fn allowed(count: usize, endpoints: usize) -> u32 {
    let mean = count as f64 / endpoints as f64;
    (1.25 * mean).max(2.0).max(mean + 1.0).floor() as u32
}

#[test]
fn threads_never_push_an_endpoint_past_its_bound() {
    const EACH: usize = 200;
    for round in 0..10 {
        let fleet = Fleet::new(config("ring"), 6);
        let pool: &Arc<Pool> = &fleet.pool;
        let picks: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4_u64)
                .map(|thread| {
                    scope.spawn(move || {
                        // Every thread wants the same owner.
                        let request = request(round, 2_000);
                        let turn = |i: u64| Turn { random: hash(thread << 32 | i), rotation: i };
                        (0..EACH as u64)
                            .map(|i| pool.decide(&request, turn(i), at(0), None).expect("free"))
                            .collect::<Vec<_>>()
                    })
                })
                .collect();
            threads.into_iter().flat_map(|thread| thread.join().expect("no panic")).collect()
        });
        let loads = fleet.in_flight(at(0));
        assert_eq!(loads.iter().sum::<u32>() as usize, picks.len(), "each pick counts once");
        assert!(loads.iter().all(|load| *load <= allowed(4 * EACH, 6)), "past the bound: {loads:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn the_bound_holds_for_any_mix_of_keys_and_weights(
        groups in proptest::collection::vec(0_u64..6, 1..120),
        weights in proptest::collection::vec(1_u32..4, 2..6),
    ) {
        let mut specs = specs(weights.len());
        for (spec, weight) in specs.iter_mut().zip(&weights) {
            spec.weight = f64::from(*weight);
        }
        let mut fleet = Fleet::of(config("ring"), specs);
        let total: f64 = weights.iter().map(|weight| f64::from(*weight)).sum();
        let mut held = Vec::new();
        for group in groups {
            let before = fleet.in_flight(at(0));
            let share = (1.25 * (f64::from(before.iter().sum::<u32>()) + 1.0) / total).max(2.0);
            let fits = |i: usize| f64::from(before[i] + 1) <= share * f64::from(weights[i]);
            let pick = fleet.pick(&request(group, 1_000), at(0));
            let chosen = fleet.pool.endpoints().iter().position(|endpoint| endpoint.id == pick.endpoint.id).expect("in the pool");
            let some_fits = (0..before.len()).any(fits);
            prop_assert!(fits(chosen) || !some_fits, "endpoint {} was over its bound while another had room: {:?}", chosen, before);
            held.push(pick);
        }
    }

    #[test]
    fn removal_moves_only_what_it_must(count in 2_usize..12, removed in 0_usize..12, seed: u64) {
        let all = specs(count);
        let mut rest = all.clone();
        let gone = rest.remove(removed % count);
        let (before, after) = (ring(&all), ring(&rest));
        for key in (0..500).map(|i| hash(seed ^ i)) {
            let owner = &all[before.owner(key).expect("not empty")].id;
            if *owner != gone.id {
                prop_assert_eq!(owner, &rest[after.owner(key).expect("not empty")].id);
            }
        }
    }
}
