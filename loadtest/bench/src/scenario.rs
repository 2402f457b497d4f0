//! A scenario: what is claimed, the fleet and the traffic that show it, and the bars it has to pass.
//!
//! One YAML file each, so that the bars stand in the repository before the run. Every policy runs on the same traces;
//! nothing in a file tunes one of them, save `affinity.concurrency` where a limit is what the scenario is about.

mod bar;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use spillway_sim::fleet::{Group, TimedFault};

pub use bar::{Bar, Verdict};

use crate::workload::{Arrivals, Workload};

/// A scenario as its file has it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Name in tables, for example `B1a`.
    pub id: String,
    /// What it is about, in a few words.
    pub title: String,
    /// What is claimed, by whom.
    pub claim: String,
    /// The servers, in groups of equal ones, as a fleet file has them.
    pub fleet: Vec<Group>,
    /// Weight that gateways are told, one for each group; all 1 by default.
    #[serde(default)]
    pub weights: Vec<f64>,
    /// What goes wrong, as a fleet file has it. In virtual time only speeds go wrong.
    #[serde(default)]
    pub faults: Vec<TimedFault>,
    /// Length of a run, seconds.
    pub horizon: f64,
    /// Part of it that does not count; a quarter by default.
    #[serde(default = "quarter")]
    pub warm_up: f64,
    /// Most requests that gateways may have at one endpoint; no limit by default.
    #[serde(default)]
    pub concurrency: Option<u32>,
    /// What is asked.
    pub requests: Workload,
    /// How often, by name.
    pub loads: BTreeMap<String, Load>,
    /// The loads of the short run; the others wait for the full one.
    pub short: Vec<String>,
    /// What has to come out for the default policy.
    #[serde(default)]
    pub bars: Vec<Bar>,
}

/// One way in which a scenario is run.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Load {
    /// How requests arrive.
    pub arrivals: Arrivals,
    /// Gateways, each with a view of its own; 1 by default.
    #[serde(default = "one")]
    pub gateways: usize,
    /// Time between two reads of a metrics page, seconds; 0.1 by default, and never for 0.
    #[serde(default = "tenth")]
    pub scrape: f64,
}

const fn one() -> usize {
    1
}

const fn tenth() -> f64 {
    0.1
}

const fn quarter() -> f64 {
    0.25
}

/// Why a scenario cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Unusable {
    /// The file, or the folder, cannot be read.
    #[error("{path}: {source}")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// It is no scenario.
    #[error("{path}: {source}")]
    Malformed {
        /// The file.
        path: PathBuf,
        /// Why, with line and column where known.
        source: serde_yaml::Error,
    },
    /// It makes no sense.
    #[error("{path}: {}", problems.join("; "))]
    Senseless {
        /// The file.
        path: PathBuf,
        /// All that is wrong.
        problems: Vec<String>,
    },
}

impl Load {
    /// Time between two reads of a metrics page.
    pub fn scrape(&self) -> Option<Duration> {
        (self.scrape > 0.0).then(|| Duration::from_secs_f64(self.scrape))
    }
}

impl Scenario {
    /// All scenarios of a folder, in the order of their files' names.
    pub fn read_all(folder: &Path) -> Result<Vec<Self>, Unusable> {
        let unreadable = |source| Unusable::Unreadable { path: folder.to_owned(), source };
        let mut paths = Vec::new();
        for entry in std::fs::read_dir(folder).map_err(unreadable)? {
            let path = entry.map_err(unreadable)?.path();
            if path.extension().is_some_and(|extension| extension == "yaml") {
                paths.push(path);
            }
        }
        paths.sort();
        paths.iter().map(|path| Self::read(path)).collect()
    }

    /// The scenario of a file.
    pub fn read(path: &Path) -> Result<Self, Unusable> {
        let text =
            std::fs::read_to_string(path).map_err(|source| Unusable::Unreadable { path: path.to_owned(), source })?;
        let document = serde_yaml::Deserializer::from_str(&text);
        let scenario: Self = serde_yaml::with::singleton_map_recursive::deserialize(document)
            .map_err(|source| Unusable::Malformed { path: path.to_owned(), source })?;
        let problems = scenario.problems();
        if problems.is_empty() { Ok(scenario) } else { Err(Unusable::Senseless { path: path.to_owned(), problems }) }
    }

    /// Everything that is wrong with it.
    fn problems(&self) -> Vec<String> {
        let mut problems: Vec<String> = Vec::new();
        let mut note = |place: String, result: Result<(), String>| {
            problems.extend(result.err().map(|problem| format!("{place}: {problem}")));
        };
        let positive = |value: f64| if value > 0.0 { Ok(()) } else { Err(format!("must be positive, not {value}")) };
        note("horizon".to_owned(), positive(self.horizon));
        note("requests".to_owned(), self.requests.check());
        for (name, load) in &self.loads {
            note(format!("loads.{name}"), load.arrivals.check().and(positive(load.gateways as f64)));
        }
        let known = |name: &String| if self.loads.contains_key(name) { Ok(()) } else { Err(format!("no load {name}")) };
        for name in &self.short {
            note("short".to_owned(), known(name));
        }
        for bar in &self.bars {
            note("bars".to_owned(), known(&bar.load).and(bar.check()));
        }
        for (number, group) in self.fleet.iter().enumerate() {
            problems.extend(group.problems().into_iter().map(|problem| format!("fleet[{number}].{problem}")));
        }
        for (number, fault) in self.faults.iter().enumerate() {
            let found = fault.problems(self.endpoints());
            problems.extend(found.into_iter().map(|problem| format!("faults[{number}].{problem}")));
        }
        if !self.weights.is_empty() && self.weights.len() != self.fleet.len() {
            problems.push("weights: wants one for each group of the fleet".to_owned());
        }
        if self.endpoints() == 0 {
            problems.push("fleet: has no endpoint".to_owned());
        }
        if !(0.0..1.0).contains(&self.warm_up) {
            problems.push(format!("warm_up: must be a part of the run, not {}", self.warm_up));
        }
        problems
    }

    /// Number of endpoints.
    pub fn endpoints(&self) -> usize {
        self.fleet.iter().map(|group| group.count).sum()
    }

    /// Length of a run.
    pub fn horizon(&self) -> Duration {
        Duration::from_secs_f64(self.horizon)
    }

    /// End of the warm-up.
    pub fn warm_up(&self) -> Duration {
        self.horizon().mul_f64(self.warm_up)
    }

    /// Names of its adapters.
    pub fn adapters(&self) -> Vec<std::sync::Arc<str>> {
        let pool = self.requests.adapters.as_ref().map_or(0, |choice| choice.pool);
        (0..pool).map(|number| format!("adapter-{number}").into()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_scenario_in_the_repository_can_be_used() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scenarios");
        for (folder, least) in [(folder.clone(), 25), (folder.join("orientation"), 6)] {
            let scenarios = Scenario::read_all(&folder).unwrap_or_else(|error| panic!("{error}"));
            let mut ids: Vec<_> = scenarios.iter().map(|scenario| scenario.id.as_str()).collect();
            ids.sort_unstable();
            let count = ids.len();
            ids.dedup();
            assert!(count >= least && ids.len() == count, "each id once: {ids:?}");
        }
    }

    #[test]
    fn all_that_is_wrong_is_said_at_once() {
        let folder = std::env::temp_dir().join(format!("spillway-scenario-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("wrong.yaml");
        let text = "
id: X
title: x
claim: x
fleet: []
horizon: -1
requests: {classes: [{prompts: {message: {fixed: 5}}, output: {fixed: -1}}]}
loads: {main: {arrivals: {poisson: 0}}}
short: [other]
";
        std::fs::write(&path, text).unwrap();
        let said = Scenario::read(&path).unwrap_err().to_string();
        for part in ["horizon", "fixed must not be negative", "loads.main: rate", "no load other", "no endpoint"] {
            assert!(said.contains(part), "{part} is not in: {said}");
        }
        std::fs::write(&path, text.replace("title", "titel")).unwrap();
        let said = Scenario::read(&path).unwrap_err().to_string();
        assert!(said.contains("titel"), "an unknown key is named: {said}");
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
