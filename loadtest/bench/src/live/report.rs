//! What a live session came to: a file that can be computed with, and a page that can be read.

mod page;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};
use serde::Serialize;

use super::arm::Arm;
use super::run::Played;
use crate::measure::Summary;

/// Figures of which the mean of an arm is shown.
const SHOWN: [&str; 9] =
    ["ttft_p50", "ttft_p90", "ttft_p95", "ttft_p99", "tpot_p50", "token_rate", "hit_rate", "share_least", "share_most"];

/// How far virtual time may be off: part of the value, and seconds, whichever is more.
const TOLERANCE: (f64, f64) = (0.05, 0.005);

/// Everything about a session.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    pub(super) scenario: String,
    pub(super) load: String,
    /// Length of the trace, model seconds.
    pub(super) seconds: f64,
    pub(super) seed: u64,
    pub(super) time_scale: f64,
    /// Output tokens in one event of a stream.
    pub(super) stream_interval: u32,
    pub(super) date: String,
    pub(super) machine: String,
    /// What each program says of its version.
    pub(super) versions: BTreeMap<String, String>,
    pub(super) runs: Vec<Played>,
    /// Figures in virtual time by policy.
    pub(super) in_virtual_time: BTreeMap<String, Summary>,
}

/// An arm over its repetitions.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Mean {
    arm: String,
    figures: BTreeMap<&'static str, f64>,
    /// The same over those of the first arm.
    ratios: BTreeMap<&'static str, f64>,
}

/// A figure of an arm beside virtual time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Agreement {
    arm: String,
    figure: &'static str,
    live: f64,
    in_virtual_time: f64,
    agrees: bool,
}

impl Report {
    /// Writes `NAME.json` and `NAME.md` into a folder, and gives back the page.
    pub(super) fn write(&self, folder: &Path, arms: &[Arm]) -> Result<String> {
        let page = page::page(self, arms);
        let plain = |c: char| if c.is_alphanumeric() { c } else { '-' };
        let name: String = format!("{}-{}", self.scenario, self.load).chars().map(plain).collect();
        let json = serde_json::json!({
            "report": self,
            "means": self.means(arms),
            "agreement": self.agreement(arms),
        });
        for (kind, text) in [("json", serde_json::to_string_pretty(&json)? + "\n"), ("md", page.clone())] {
            let path = folder.join(format!("{name}.{kind}"));
            fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        }
        Ok(page)
    }

    /// Why the session is not valid; empty if it is.
    pub(super) fn problems(&self) -> Vec<String> {
        let of = |run: &Played| {
            let place = format!("{}, repetition {}", run.arm, run.repetition + 1);
            run.problems.iter().map(move |problem| format!("{place}: {problem}")).collect::<Vec<_>>()
        };
        self.runs.iter().flat_map(of).collect()
    }

    fn mean(&self, arm: &Arm, figure: &str) -> f64 {
        let name = arm.to_string();
        let runs = self.runs.iter().filter(|run| run.arm == name);
        let values: Vec<f64> = runs.filter_map(|run| run.summary.figure(figure)).collect();
        values.iter().sum::<f64>() / values.len().max(1) as f64
    }

    /// Means over repetitions; ratios are to the first arm.
    fn means(&self, arms: &[Arm]) -> Vec<Mean> {
        let of = |arm: &Arm| Mean {
            arm: arm.to_string(),
            figures: SHOWN.iter().map(|figure| (*figure, self.mean(arm, figure))).collect(),
            ratios: SHOWN
                .iter()
                .map(|figure| (*figure, self.mean(arm, figure) / self.mean(&arms[0], figure)))
                .collect(),
        };
        arms.iter().map(of).collect()
    }

    fn agreement(&self, arms: &[Arm]) -> Vec<Agreement> {
        let mut all = Vec::new();
        for arm in arms {
            let Some(summary) = arm.in_virtual_time().and_then(|policy| self.in_virtual_time.get(policy)) else {
                continue;
            };
            for figure in ["ttft_p50", "ttft_p90", "ttft_p95", "ttft_p99", "hit_rate", "token_rate"] {
                let (live, virtual_time) = (self.mean(arm, figure), summary.figure(figure).unwrap_or_default());
                all.push(Agreement {
                    arm: arm.to_string(),
                    figure,
                    live,
                    in_virtual_time: virtual_time,
                    agrees: agrees(figure, live, virtual_time),
                });
            }
        }
        all
    }
}

/// Whether two values are the same for all purposes; seconds have a tolerance of their own.
fn agrees(figure: &str, live: f64, virtual_time: f64) -> bool {
    let least = if figure.starts_with("ttft") { TOLERANCE.1 } else { 0.0 };
    (live - virtual_time).abs() <= (TOLERANCE.0 * virtual_time).max(least)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_agree_within_a_twentieth_or_five_milliseconds_and_rates_within_a_twentieth() {
        assert!(agrees("ttft_p50", 0.0349, 0.030) && !agrees("ttft_p50", 0.0351, 0.030));
        assert!(agrees("ttft_p95", 1.04, 1.0) && !agrees("ttft_p95", 0.94, 1.0));
        assert!(agrees("hit_rate", 0.78, 0.80) && !agrees("hit_rate", 0.005, 0.0));
    }
}
