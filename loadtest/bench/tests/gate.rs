//! The default policy against others in a few short runs: what no change may lose. The whole of it is `make bench-routing` and
//! `make bench-regret`; this is as much as a build without optimisation can play in half a minute.

use std::path::Path;

use spillway_bench::matrix::Matrix;
use spillway_bench::report::Report;
use spillway_bench::scenario::Scenario;

/// P95 of TTFT over that of the best of the four, at most. Short runs of one seed are noisy.
const MOST: f64 = 1.2;

/// A file of `loadtest/scenarios`, the load, and the seconds it is played.
const CELLS: [(&str, &str, f64); 5] = [
    ("b3.yaml", "20/s", 80.0),
    ("s1.yaml", "60/s", 20.0),
    ("s3.yaml", "12/s", 80.0),
    ("regret/r2.yaml", "no metrics", 40.0),
    ("regret/r2.yaml", "no usage", 40.0),
];

#[test]
fn the_default_policy_is_near_the_best_where_fleets_are_mixed_or_uniform_and_prompts_shared_or_not() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scenarios");
    let cell = |(number, (file, load, seconds)): (usize, (&str, &str, f64))| {
        let mut scenario = Scenario::read(&folder.join(file)).expect("a scenario of the repository");
        scenario.horizon = seconds;
        scenario.bars.clear();
        scenario.id = format!("{} {number}", scenario.id);
        (scenario, vec![load.to_owned()])
    };
    let matrix = Matrix {
        scenarios: CELLS.into_iter().enumerate().map(cell).collect(),
        policies: ["adaptive", "hyperpod", "pxbs", "round_robin"].map(str::to_owned).to_vec(),
        seeds: vec![1],
    };
    let rows = matrix.play(2, &|_, _, _| Ok(())).expect("all of it can be played");
    let regrets = Report::new(&matrix, rows).regrets();
    let of = |policy: &str| regrets.iter().find(|regret| regret.policy == policy).expect("a policy of the matrix");
    let ours = of("adaptive");
    assert!(ours.worst <= MOST, "{:.2} times the best in {}", ours.worst, ours.worst_cell);
    let others = ["hyperpod", "pxbs", "round_robin"].map(|policy| of(policy).worst);
    assert!(others.iter().all(|worst| *worst > MOST), "the gate tells policies apart: {others:?}");
}
