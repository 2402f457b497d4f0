//! A scenario: what is claimed, the fleet and the traffic that show it, and the bars it has to pass.
//!
//! One YAML file each, so that the bars stand in the repository before the run. Every policy runs on the same traces;
//! nothing in a file tunes one of them, save `affinity.concurrency` where a limit is what the scenario is about.

mod bar;
mod read;
mod talk;
mod told;

use std::collections::BTreeMap;
use std::time::Duration;

use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use spillway_sim::fleet::{Group, TimedFault};

pub use bar::{Bar, Verdict};
pub use read::Unusable;
pub use talk::Talk;
pub use told::Told;

use crate::limits::{MOST_ENDPOINTS, MOST_VIEWS, POOL, REQUESTS, SCRAPE, SHARE, TIME, TOKENS, twice};
use crate::workload::{Arrivals, Workload};
use spillway_sim::Problems;

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
    /// What goes wrong, as a fleet file has it. Only speeds, since nothing else goes wrong in virtual time.
    #[serde(default)]
    pub faults: Vec<TimedFault>,
    /// Length of a run, seconds, unless its load has another.
    pub horizon: f64,
    /// Part of a run that does not count; a quarter by default.
    #[serde(default = "quarter")]
    pub warm_up: f64,
    /// Most requests that gateways may have at one endpoint; no limit by default.
    #[serde(default)]
    pub concurrency: Option<u32>,
    /// What is asked.
    pub requests: Workload,
    /// How often, by name.
    #[serde(deserialize_with = "each_once")]
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
    /// Length of a run, seconds; that of the scenario by default.
    #[serde(default)]
    pub horizon: Option<f64>,
    /// What gateways are told.
    #[serde(default)]
    pub told: Told,
    /// What gateways tell each other; nothing by default.
    pub peers: Option<Talk>,
}

/// A map in which no name stands twice: the YAML library lets the last one win.
fn each_once<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<String, Load>, D::Error> {
    struct Loads;
    impl<'de> Visitor<'de> for Loads {
        type Value = BTreeMap<String, Load>;

        fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            formatter.write_str("loads by their names")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut loads = BTreeMap::new();
            while let Some((name, load)) = map.next_entry::<String, Load>()? {
                if let Some((name, _)) = loads.get_key_value(&name) {
                    return Err(A::Error::custom(format_args!("load {name} is there twice")));
                }
                loads.insert(name, load);
            }
            Ok(loads)
        }
    }
    deserializer.deserialize_map(Loads)
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

impl Load {
    fn check(&self, scenario: &Scenario, problems: &mut Problems) {
        problems.inside("arrivals", |problems| self.arrivals.check(problems));
        if scenario.requests.classes.is_empty() && !matches!(self.arrivals, Arrivals::Replay(_)) {
            problems.add("arrivals", "need requests.classes, of which there is none");
        }
        problems.range("gateways", self.gateways as f64, 1.0..=1_000.0);
        let endpoints = scenario.endpoints();
        if self.gateways.saturating_mul(endpoints) > MOST_VIEWS {
            let views = format_args!("{} times {endpoints} endpoints, at most {MOST_VIEWS}", self.gateways);
            problems.add("gateways", views);
        }
        if self.scrape != 0.0 && !SCRAPE.contains(&self.scrape) {
            let (least, most) = (SCRAPE.start(), SCRAPE.end());
            problems.add("scrape", format_args!("must be 0 for never, or {least} to {most}, not {}", self.scrape));
        }
        problems.range("horizon", self.horizon.unwrap_or(*TIME.start()), TIME);
        problems.inside("told", |problems| self.told.check(problems));
        if let Some(talk) = &self.peers {
            problems.inside("peers", |problems| talk.check(problems));
        }
    }

    /// Checks what follows from values that are all right.
    fn check_size(&self, scenario: &Scenario, problems: &mut Problems) {
        let expected =
            self.arrivals.requests(scenario.horizon(self).as_secs_f64(), scenario.requests.requests_per_arrival());
        problems.range(&format!("arrivals: {expected:.0} requests expected"), expected, REQUESTS);
        let tokens = match &self.arrivals {
            Arrivals::Replay(replay) => replay.prompt_tokens(scenario.horizon(self)),
            _ => expected * scenario.requests.tokens_per_request(),
        };
        problems.range(&format!("arrivals: {tokens:.0} prompt tokens expected"), tokens, TOKENS);
    }

    /// Time between two reads of a metrics page.
    pub fn scrape(&self) -> Option<Duration> {
        (self.scrape > 0.0).then(|| Duration::from_secs_f64(self.scrape))
    }
}

impl Scenario {
    /// Everything that is wrong with it, each with its place in the file.
    pub fn problems(&self) -> Vec<String> {
        let mut problems = Problems::default();
        if self.id.is_empty() {
            problems.add("id", "must not be empty");
        }
        self.check_fleet(&mut problems);
        problems.range("horizon", self.horizon, TIME);
        problems.range("warm_up", self.warm_up, 0.0..=0.99);
        problems.range("concurrency", f64::from(self.concurrency.unwrap_or(1)), POOL);
        problems.inside("requests", |problems| self.requests.check(problems));
        self.check_loads(&mut problems);
        problems.each("bars", &self.bars, |bar, problems| bar.check(&self.loads, problems));
        problems.lines()
    }

    fn check_fleet(&self, problems: &mut Problems) {
        problems.each("fleet", &self.fleet, |group, problems| problems.extend(group.problems()));
        match self.endpoints() {
            0 => problems.add("fleet", "there is no endpoint"),
            count if count > MOST_ENDPOINTS => {
                problems.add("fleet", format_args!("{count} endpoints, at most {MOST_ENDPOINTS}"));
            }
            _ => {}
        }
        for (number, weight) in self.weights.iter().enumerate() {
            problems.range(&format!("weights[{number}]"), *weight, SHARE);
        }
        let (weights, groups) = (self.weights.len(), self.fleet.len());
        if weights != 0 && weights != groups {
            problems.add("weights", format_args!("{weights} for {groups} groups of the fleet"));
        }
        problems.each("faults", &self.faults, |fault, problems| {
            problems.extend(fault.problems(self.endpoints()));
            if !fault.fault.kind.is_of_speed() {
                problems.add("kind", "virtual time plays only faults of speed: slow, thermal, warm_up, adapter_slow");
            }
        });
    }

    fn check_loads(&self, problems: &mut Problems) {
        if self.loads.is_empty() {
            problems.add("loads", "there is none");
        }
        for (name, load) in &self.loads {
            problems.inside(format_args!("loads.{name}"), |problems| load.check(self, problems));
        }
        if problems.is_empty() {
            for (name, load) in &self.loads {
                problems.inside(format_args!("loads.{name}"), |problems| load.check_size(self, problems));
            }
        }
        for name in self.short.iter().filter(|name| !self.loads.contains_key(*name)) {
            problems.add("short", format_args!("no load {name}"));
        }
        if let Some(name) = twice(&self.short) {
            problems.add("short", format_args!("{name} is there twice"));
        }
    }

    /// Number of endpoints.
    pub fn endpoints(&self) -> usize {
        self.fleet.iter().fold(0, |count, group| count.saturating_add(group.count))
    }

    /// Length of a run under a load.
    pub fn horizon(&self, load: &Load) -> Duration {
        Duration::from_secs_f64(load.horizon.unwrap_or(self.horizon))
    }

    /// Sets the length of all runs.
    pub fn last(&mut self, seconds: f64) {
        self.horizon = seconds;
        self.loads.values_mut().for_each(|load| load.horizon = None);
    }

    /// Names of its adapters.
    pub fn adapters(&self) -> Vec<std::sync::Arc<str>> {
        let pool = self.requests.adapters.as_ref().map_or(0, |choice| choice.pool);
        (0..pool).map(|number| format!("adapter-{number}").into()).collect()
    }
}

#[cfg(test)]
mod tests;
