//! Two policies side by side: shares that hold, arms that stick, and neither arm in the way of the other.

use std::collections::BTreeMap;

use spillway_picker::config::{Custom, Policy, PoolConfig, Trial};
use spillway_picker::decide::AffinityResult;
use spillway_picker::pool::Pool;
use spillway_picker::registry::{PolicyError, Registry};
use spillway_picker::select::Select;
use spillway_picker::trial::Arm;

use crate::support::{Fleet, at, config, hash, plain, request};

fn trial(tried: &str, control: &str, share: f64) -> PoolConfig {
    PoolConfig { trial: Some(Trial { policy: Policy::Named(tried.to_owned()), share }), ..config(control) }
}

#[test]
fn the_share_holds_over_keys_and_over_requests_without_one() {
    for share in [0.005, 0.1, 0.5] {
        let mut fleet = Fleet::new(trial("least_request", "round_robin", share), 4);
        for has_key in [true, false] {
            let keys = 10_000;
            let tried = (0..keys)
                .map(|i| fleet.pick(&if has_key { request(i, 400) } else { plain(400) }, at(i)))
                .filter(|pick| pick.arm == Some(Arm::Try))
                .count() as f64;
            let (mean, deviation) = (share * keys as f64, (share * (1.0 - share) * keys as f64).sqrt());
            assert!((tried - mean).abs() <= 3.0 * deviation, "{tried} of {keys} at {share}, with a key: {has_key}");
        }
    }
}

#[test]
fn none_and_all_are_shares_too() {
    for (share, arm) in [(0.0, Arm::Control), (1.0, Arm::Try)] {
        let mut fleet = Fleet::new(trial("adaptive", "round_robin", share), 3);
        for i in 0..1_000 {
            let request = if i % 2 == 0 { request(i, 400) } else { plain(400) };
            assert_eq!(fleet.pick(&request, at(i)).arm, Some(arm), "request {i} at {share}");
        }
    }
    let mut fleet = Fleet::new(config("adaptive"), 3);
    assert_eq!(fleet.pick(&request(1, 400), at(0)).arm, None, "without a trial there is no arm");
}

#[test]
fn a_key_keeps_its_arm_on_every_gateway_and_when_the_share_grows() {
    let (mut one, mut other) =
        (Fleet::new(trial("adaptive", "ring", 0.3), 4), Fleet::new(trial("adaptive", "ring", 0.3), 9));
    let mut grown = Fleet::new(trial("adaptive", "ring", 0.4), 4);
    for key in 0..500 {
        let arm = one.pick(&request(key, 3_000), at(0)).arm;
        assert_eq!(one.pick(&request(key, 8_000), at(1)).arm, arm, "the next turn of conversation {key}");
        assert_eq!(other.pick(&request(key, 3_000), at(0)).arm, arm, "another gateway, key {key}");
        if arm == Some(Arm::Try) {
            assert_eq!(grown.pick(&request(key, 3_000), at(0)).arm, arm, "a larger share leaves nobody out");
        }
    }
}

#[test]
fn a_retry_stays_in_the_arm_of_the_attempt_before() {
    let mut fleet = Fleet::new(trial("adaptive", "round_robin", 0.5), 4);
    for i in 0..100 {
        let mut request = plain(400);
        let first = fleet.pick(&request, at(i));
        request.arm = first.arm;
        request.tried.push(first.endpoint.slot);
        assert_eq!(fleet.pick(&request, at(i)).arm, first.arm, "request {i} changed sides");
    }
}

#[test]
fn no_arm_owns_a_part_of_the_ring() {
    let mut fleet = Fleet::new(trial("ring", "ring", 0.5), 4);
    let mut owners = BTreeMap::<_, u32>::new();
    for key in 0..10_000 {
        let pick = fleet.pick(&request(key, 400), at(key));
        *owners.entry((pick.arm.map(Arm::as_str), pick.endpoint.id.clone())).or_default() += 1;
    }
    // An endpoint owns a quarter of the keys, give or take a tenth of that, and each arm half of those.
    assert!(owners.len() == 8 && owners.values().all(|count| (1_000..=1_500).contains(count)), "{owners:?}");
}

#[test]
fn an_arm_that_takes_turns_counts_its_own() {
    let mut fleet = Fleet::new(trial("round_robin", "round_robin", 0.5), 4);
    let mut counts = BTreeMap::<_, Vec<usize>>::new();
    for i in 0..400 {
        let pick = fleet.pick(&plain(400), at(i));
        counts.entry(pick.arm.map(Arm::as_str)).or_default().push(pick.endpoint.slot.index());
    }
    for (arm, slots) in counts {
        for window in slots.windows(4) {
            let distinct = window.iter().collect::<std::collections::BTreeSet<_>>().len();
            assert_eq!(distinct, 4, "{arm:?} left an endpoint out: {window:?}");
        }
    }
}

#[test]
fn arms_share_load_and_beliefs() {
    let mut fleet = Fleet::new(trial("adaptive", "least_request", 0.5), 4);
    let mut held: Vec<_> = (0..200).map(|i| fleet.pick(&plain(2_000), at(i))).collect();
    let of = |arm| held.iter().filter(|pick| pick.arm == Some(arm)).count();
    assert!(of(Arm::Try) > 70 && of(Arm::Control) > 70);
    let counts = fleet.in_flight(at(200));
    assert!(counts.iter().all(|count| (48..=52).contains(count)), "each sees what the other sent: {counts:?}");
    held.clear();

    // What the arm without prefixes sends is known to the other, and both are measured by it.
    let mut fleet = Fleet::new(trial("adaptive", "round_robin", 0.0), 4);
    let first = fleet.pick(&request(1, 8_000), at(0));
    assert_eq!((first.arm, first.affinity), (Some(Arm::Control), AffinityResult::Cold));
    let second = fleet.pick(&request(1, 8_000), at(0));
    assert_eq!(second.affinity, AffinityResult::Spill, "round robin left a prefix that is known");
    fleet.pool.configure(trial("adaptive", "round_robin", 1.0), &Registry::default()).expect("both exist");
    let third = fleet.pick(&request(1, 8_000), at(1_000));
    assert_eq!((third.arm, third.affinity), (Some(Arm::Try), AffinityResult::Hit));
}

#[test]
fn explain_names_arm_and_policy_and_takes_no_turn() {
    let mut fleet = Fleet::new(trial("least_request", "round_robin", 0.5), 4);
    for key in 0..50 {
        let trace = fleet.explain(&request(key, 400), at(key));
        let policy = match trace.arm.expect("there is a trial") {
            Arm::Try => "least_request",
            Arm::Control => "round_robin",
        };
        assert_eq!(trace.policy, policy);
        let shown = format!("policy {policy} (arm {})", trace.arm.map(Arm::as_str).expect("checked"));
        assert!(trace.to_string().starts_with(&shown), "{trace}");
        assert_eq!(fleet.explain(&request(key, 400), at(key)), trace, "explaining moved the turn on");
        let pick = fleet.pick(&request(key, 400), at(key));
        assert_eq!((Some(&pick.endpoint.id), pick.arm), (trace.chosen.as_ref(), trace.arm));
    }
}

#[test]
fn either_side_may_be_put_together_from_parts() {
    let scorers = vec![("in_flight".to_owned(), 1.0)];
    let tried = Policy::Custom(Custom { filters: Vec::new(), scorers, select: Select::Max });
    let config = PoolConfig { trial: Some(Trial { policy: tried, share: 1.0 }), ..config("ring") };
    let fleet = Fleet::new(config, 2);
    assert_eq!(fleet.explain(&request(hash(3), 400), at(0)).policy, "custom");
}

#[test]
fn a_trial_that_makes_no_sense_is_refused() {
    for share in [-0.1, 1.1, f64::NAN, f64::INFINITY] {
        let error = Pool::new(trial("adaptive", "ring", share), &Registry::default()).err();
        assert!(matches!(error, Some(PolicyError::Share { .. })), "{share}: {error:?}");
    }
    let error = Pool::new(trial("adaptve", "ring", 0.5), &Registry::default()).err();
    assert!(matches!(error, Some(PolicyError::Unknown { .. })), "{error:?}");
}
