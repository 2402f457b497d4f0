//! What a matrix of runs comes to: files that can be computed with, and a page that can be read.

mod compare;
mod margin;
mod page;
mod plot;
pub mod raw;

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};
use serde::Serialize;

use crate::matrix::{Matrix, Row};
use crate::scenario::Scenario;

pub use compare::{Comparison, JudgedBar, Regret};
pub use margin::Margin;

/// The runs of a matrix and what they show.
#[derive(Debug)]
pub struct Report {
    scenarios: Vec<(Scenario, Vec<String>)>,
    policies: Vec<String>,
    seeds: Vec<u64>,
    rows: Vec<Row>,
}

/// A row as its file has it.
#[derive(Serialize)]
struct Line<'a> {
    scenario: &'a str,
    load: &'a str,
    policy: &'a str,
    seed: u64,
}

impl Report {
    /// A report of the rows that a matrix came to.
    pub fn new(matrix: &Matrix, rows: Vec<Row>) -> Self {
        let Matrix { scenarios, policies, seeds } = matrix.clone();
        Self { scenarios, policies, seeds, rows }
    }

    /// Writes `runs.csv`, `summary.json`, `README.md` and the plots into a folder.
    pub fn write(&self, folder: &Path) -> Result<()> {
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let write = |name: &str, text: String| {
            let path = folder.join(name);
            fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
        };
        write("runs.csv", self.csv()?)?;
        write("summary.json", serde_json::to_string_pretty(&self.json())? + "\n")?;
        write("README.md", self.table())?;
        write("ttft-p95.svg", plot::ratios(self, "ttft_p95", "round_robin"))
    }

    /// All runs, a line each.
    fn csv(&self) -> Result<String> {
        let mut writer = csv::Writer::from_writer(Vec::new());
        for row in &self.rows {
            let Row { scenario, load, policy, seed, summary } = row;
            writer.serialize((Line { scenario, load, policy, seed: *seed }, summary))?;
        }
        Ok(String::from_utf8(writer.into_inner()?)?)
    }

    fn json(&self) -> serde_json::Value {
        serde_json::json!({
            "seeds": self.seeds,
            "policies": self.policies,
            "bars": self.judged(),
            "regrets": self.regrets(),
            "comparisons": self.comparisons(),
            "margins": self.margins(),
        })
    }

    /// The values of a figure by seed, for one cell of the matrix.
    fn values(&self, scenario: &str, load: &str, policy: &str, figure: &str) -> Vec<f64> {
        let rows = self.rows.iter().filter(|row| row.scenario == scenario && row.load == load && row.policy == policy);
        rows.filter_map(|row| row.summary.figure(figure)).collect()
    }
}

#[cfg(test)]
mod tests;
