//! Policies against each other on the same traces, and against the bars of their scenarios.

use serde::Serialize;

use super::Report;
use crate::measure::statistics::{Interval, interval, paired_ratio};
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

impl Report {
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
                            ratio: paired_ratio(&ours, &theirs)?,
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
                    Some(other) => paired_ratio(&ours, &self.values(&scenario.id, &bar.load, other, &bar.figure)),
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
