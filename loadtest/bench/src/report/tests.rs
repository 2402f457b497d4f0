//! What a report concludes from given rows.

use std::path::Path;

use super::*;
use crate::measure::Summary;

fn report(p95: &[(&str, [f64; 2])]) -> Report {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scenarios");
    let scenario = Scenario::read(&folder.join("b3.yaml")).unwrap();
    let load = "20/s".to_owned();
    let rows = p95.iter().flat_map(|(policy, values)| {
        values.iter().enumerate().map(|(number, value)| Row {
            scenario: scenario.id.clone(),
            load: "20/s".to_owned(),
            policy: (*policy).to_owned(),
            seed: number as u64 * 2 + 1,
            summary: Summary { ttft_p95: *value, ttft_p99: *value, token_rate: 100.0, ..Summary::default() },
        })
    });
    let matrix = Matrix {
        policies: p95.iter().map(|(policy, _)| (*policy).to_owned()).collect(),
        seeds: vec![1, 3],
        scenarios: Vec::new(),
    };
    let rows = rows.collect();
    let scenarios = vec![(scenario.clone(), vec![load])];
    Report::new(&Matrix { scenarios, ..matrix }, rows)
}

#[test]
fn bars_are_judged_by_pairs_of_seeds() {
    // Half of round robin's in both seeds, although the seeds differ tenfold.
    let report = report(&[("adaptive", [0.5, 5.0]), ("round_robin", [1.0, 10.0])]);
    let judged = report.judged();
    let verdict = |figure: &str| judged.iter().find(|one| one.bar.figure == figure).map(|one| one.verdict);
    assert_eq!(verdict("ttft_p95"), Some(crate::scenario::Verdict::Passed), "-50 % where -26 % is asked");
    assert_eq!(verdict("token_rate"), Some(crate::scenario::Verdict::Passed));
}

#[test]
fn a_worse_run_misses_its_bar() {
    let report = report(&[("adaptive", [0.9, 9.0]), ("round_robin", [1.0, 10.0])]);
    let missed = report.judged().into_iter().filter(|one| one.verdict == crate::scenario::Verdict::Missed);
    assert_eq!(missed.count(), 2, "-10 % where -26 and -43 % are asked");
    assert!(report.table().contains("**missed**"));
}

#[test]
fn regret_is_to_the_best_policy_and_not_to_the_oracle() {
    let report = report(&[("adaptive", [1.0, 1.0]), ("ring", [2.0, 2.0]), ("oracle", [0.1, 0.1])]);
    let regrets = report.regrets();
    let of = |policy: &str| regrets.iter().find(|one| one.policy == policy).map(|one| (one.near_best, one.worst));
    assert_eq!(of("adaptive"), Some((1, 1.0)));
    assert!(of("ring").is_some_and(|(near, worst)| near == 0 && (worst - 2.0).abs() < 1e-9));
    assert_eq!(of("oracle"), None);
}

#[test]
fn one_seed_shows_no_interval_anywhere() {
    let two = report(&[("adaptive", [0.5, 0.5]), ("round_robin", [1.0, 1.0])]);
    let rows = two.rows.into_iter().filter(|row| row.seed == 1).collect();
    let report = Report { rows, seeds: vec![1], ..two };
    let page = report.table();
    assert!(page.contains("without an interval") && page.contains("passed, on one seed"), "{page}");
    assert!(page.contains("-50.0 % |") && !page.contains(" to -50.0)"), "{page}");
    let json = report.json();
    assert!(json["comparisons"][0]["ratio"]["low"].is_null() && json["bars"][0]["value"]["high"].is_null(), "{json}");
    assert!(json["bars"][0]["verdict"].as_str().is_some_and(|verdict| verdict.ends_with("_once")), "{json}");
}

#[test]
fn a_bar_without_runs_is_not_judged() {
    assert!(report(&[("ring", [1.0, 1.0])]).judged().is_empty());
}

#[test]
fn a_margin_is_shown_for_one_policy_as_one_of_all() {
    // Of two seeds the share below t is 1/2 + atan(t) / pi. Against round robin the logarithms are -1 with a standard error of 0.01,
    // t is -109.5 and p 0.00291, twice that corrected; against ring they are 0 with the same, t is -9.531 and p 0.0333.
    let seeds = |mean: f64| [(mean - 0.01).exp(), (mean + 0.01).exp()];
    let two = report(&[("adaptive", seeds(0.0)), ("round_robin", [1.0_f64.exp(); 2]), ("ring", [1.0; 2])]);
    let margins = two.margins();
    let of = |against: &str| margins.iter().find(|margin| margin.against == against).expect("it was played");
    let (round_robin, ring) = (of("round_robin"), of("ring"));
    assert!((round_robin.p - 0.00581).abs() < 1e-5 && round_robin.is_shown, "{round_robin:?}");
    assert!((ring.p - 0.0333).abs() < 1e-4 && !ring.is_shown, "equal, but not shown by two seeds: {ring:?}");
    // The last test stands alone: its interval is that of 95 %, and above the margin as its p value is above the level.
    assert!((ring.high - (12.706_f64 * 0.01).exp()).abs() < 1e-4, "{ring:?}");
    let page = two.table();
    assert!(page.contains("| round_robin | 1 | 0 | 0 |") && page.contains("| ring | 0 | 1 | 0 |"), "{page}");

    let rows = two.rows.into_iter().filter(|row| row.seed == 1).collect();
    let one = Report { rows, seeds: vec![1], ..two };
    assert!(one.margins().is_empty() && !one.table().contains("Against each policy"), "one seed tests nothing");
}
