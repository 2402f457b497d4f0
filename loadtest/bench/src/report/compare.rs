//! Policies against each other on the same traces, and against the bars of their scenarios.

use serde::Serialize;

use super::Report;
use crate::measure::statistics::{CONFIDENCE, Interval, interval, paired_ratio};
use crate::scenario::{Bar, Verdict};

/// Figures compared in every cell.
const COMPARED: [&str; 6] = ["ttft_p50", "ttft_p95", "ttft_p99", "tpot_p50", "e2e_mean", "token_rate"];

/// A figure of one policy over that of round robin, by pairs of the same seed.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    /// Id of the scenario.
    pub scenario: String,
    /// Name of the load.
    pub load: String,
    /// The policy.
    pub policy: String,
    /// The policy it is divided by.
    pub against: String,
    /// Name of the figure.
    pub figure: String,
    /// The ratio.
    pub ratio: Interval,
}

/// A bar and what came of it.
#[derive(Clone, Debug, Serialize)]
pub struct JudgedBar {
    /// Id of the scenario.
    pub scenario: String,
    /// The bar.
    pub bar: Bar,
    /// The figure, or the ratio.
    pub value: Interval,
    /// Whether it was passed.
    pub verdict: Verdict,
}

/// How far a policy is from the best of its cell, over all cells.
#[derive(Clone, Debug, Serialize)]
pub struct Regret {
    /// The policy.
    pub policy: String,
    /// Cells in which it is within 10 % of the best.
    pub near_best: usize,
    /// Cells.
    pub cells: usize,
    /// P95 of TTFT over that of the best, where it is highest.
    pub worst: f64,
    /// Scenario and load of that.
    pub worst_cell: String,
}

impl Report {
    /// Policies by their worst cell, the smallest first. The best of a cell is the policy with the least P95 of TTFT,
    /// geometric means over seeds; the oracle is not counted among them.
    pub fn regrets(&self) -> Vec<Regret> {
        let mut regrets: Vec<Regret> = Vec::new();
        for (scenario, loads) in &self.scenarios {
            for load in loads {
                let mean = |policy: &String| {
                    let values = self.values(&scenario.id, load, policy, "ttft_p95");
                    let logs = values.iter().map(|value| value.ln()).sum::<f64>();
                    (logs / values.len().max(1) as f64).exp()
                };
                let policies: Vec<&String> = self.policies.iter().filter(|policy| *policy != "oracle").collect();
                let best = policies.iter().map(|policy| mean(policy)).fold(f64::INFINITY, f64::min);
                for policy in policies {
                    let ratio = mean(policy) / best;
                    let cell = format!("{}, {load}", scenario.id);
                    let near = usize::from(ratio <= 1.1);
                    match regrets.iter_mut().find(|regret| regret.policy == *policy) {
                        Some(regret) => {
                            regret.cells += 1;
                            regret.near_best += near;
                            if ratio > regret.worst {
                                (regret.worst, regret.worst_cell) = (ratio, cell);
                            }
                        }
                        None => regrets.push(Regret {
                            policy: policy.clone(),
                            near_best: near,
                            cells: 1,
                            worst: ratio,
                            worst_cell: cell,
                        }),
                    }
                }
            }
        }
        regrets.sort_by(|one, two| one.worst.total_cmp(&two.worst));
        regrets
    }

    /// Every policy against round robin.
    pub fn comparisons(&self) -> Vec<Comparison> {
        let against = "round_robin";
        let mut comparisons = Vec::new();
        for (scenario, loads) in &self.scenarios {
            for load in loads {
                for policy in self.policies.iter().filter(|policy| *policy != against) {
                    comparisons.extend(COMPARED.iter().filter_map(|figure| {
                        let ours = self.values(&scenario.id, load, policy, figure);
                        let theirs = self.values(&scenario.id, load, against, figure);
                        Some(Comparison {
                            scenario: scenario.id.clone(),
                            load: load.clone(),
                            policy: policy.clone(),
                            against: against.to_owned(),
                            figure: (*figure).to_owned(),
                            ratio: paired_ratio(&ours, &theirs, CONFIDENCE)?,
                        })
                    }));
                }
            }
        }
        comparisons
    }

    /// The bars of the loads and policies that were played.
    pub fn judged(&self) -> Vec<JudgedBar> {
        let mut judged = Vec::new();
        for (scenario, loads) in &self.scenarios {
            for bar in scenario.bars.iter().filter(|bar| loads.contains(&bar.load)) {
                let ours = self.values(&scenario.id, &bar.load, &bar.policy, &bar.figure);
                let value = match &bar.against {
                    Some(other) => {
                        let theirs = self.values(&scenario.id, &bar.load, other, &bar.figure);
                        paired_ratio(&ours, &theirs, bar.confidence())
                    }
                    None if ours.is_empty() => None,
                    None => Some(interval(&ours)),
                };
                if let Some(value) = value {
                    let verdict = bar.judge(value);
                    judged.push(JudgedBar { scenario: scenario.id.clone(), bar: bar.clone(), value, verdict });
                }
            }
        }
        judged
    }
}
