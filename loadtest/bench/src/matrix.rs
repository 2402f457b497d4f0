//! Every scenario under every policy and seed, on all cores.
//!
//! A trace is made once and played under all policies, so that they differ in nothing else.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result};
use spillway_picker::config::{Affinity, Policy};
use spillway_sim::fleet::pace;

use crate::measure::{Counted, Objective, Outcome, Summary, Window};
use crate::scenario::Scenario;
use crate::virtual_time::{Endpoint, Routing, Run, Setup, registry, run};
use crate::workload::text::{Rendered, render};
use crate::workload::{Trace, generate};

/// Time between gateway and engine, each way: a network within a cluster and what a gateway takes.
pub const HOP: Duration = Duration::from_micros(250);

/// The policies that are compared, the default first: those that people use today.
pub const POLICIES: [&str; 10] = [
    "adaptive",
    "ring",
    "hyperpod",
    "cache_aware",
    "pxbs",
    "least_request",
    "power_of_two",
    "round_robin",
    "random",
    "oracle",
];

/// A policy that can be played, by its name: one of the picker's, a variant of `adaptive`, or the oracle.
pub fn policy(name: &str) -> Result<String, String> {
    let registry = registry();
    let built_in = registry.policies().map(|name| name as &str);
    let known: Vec<&str> = built_in.chain(registry.costs()).chain(["oracle"]).collect();
    if known.contains(&name) {
        Ok(name.to_owned())
    } else {
        Err(format!("no policy {name:?}; there are {}", known.join(", ")))
    }
}

/// What is to be played.
#[derive(Clone, Debug)]
pub struct Matrix {
    /// Scenarios, each with the names of its loads.
    pub scenarios: Vec<(Scenario, Vec<String>)>,
    /// Names of policies, `oracle` among them if wanted.
    pub policies: Vec<String>,
    /// Seeds.
    pub seeds: Vec<u64>,
}

/// One run's figures.
#[derive(Clone, Debug)]
pub struct Row {
    /// Id of the scenario.
    pub scenario: String,
    /// Name of the load.
    pub load: String,
    /// Name of the policy.
    pub policy: String,
    /// The seed.
    pub seed: u64,
    /// What came of it.
    pub summary: Summary,
}

/// Told of each run that is over: its row, its requests, and the trace they are of.
pub type Witness<'a> = dyn Fn(&Row, &Run, &Trace) -> Result<()> + Sync + 'a;

impl Matrix {
    /// Number of runs.
    pub fn len(&self) -> usize {
        self.jobs().iter().map(|(scenario, load, _)| self.policies_of(scenario, load).len()).sum()
    }

    /// Whether there is nothing to play.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn jobs(&self) -> Vec<(&Scenario, &str, u64)> {
        // Seeds outermost: after a part of the runs every scenario has some.
        let of_seed = |&seed: &u64| {
            let loads =
                self.scenarios.iter().flat_map(|(scenario, loads)| loads.iter().map(move |load| (scenario, load)));
            loads.map(move |(scenario, load)| (scenario, load.as_str(), seed))
        };
        self.seeds.iter().flat_map(of_seed).collect()
    }

    /// The policies of the matrix, and those that the bars of a load need beside them.
    fn policies_of<'a>(&'a self, scenario: &'a Scenario, load: &str) -> Vec<&'a str> {
        let mut policies: Vec<&str> = self.policies.iter().map(String::as_str).collect();
        for bar in scenario.bars.iter().filter(|bar| bar.load == load) {
            let needed = std::iter::once(bar.policy.as_str()).chain(bar.against.as_deref());
            for policy in needed {
                if !policies.contains(&policy) {
                    policies.push(policy);
                }
            }
        }
        policies
    }

    /// Plays all of it on so many threads. Rows come in the order of scenarios, loads, policies and seeds.
    pub fn play(&self, threads: usize, witness: &Witness<'_>) -> Result<Vec<Row>> {
        let jobs = self.jobs();
        let (next, rows) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
        let work = || -> Result<()> {
            while let Some((scenario, load, seed)) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
                let played = self.job(scenario, load, *seed, witness)?;
                rows.lock().unwrap_or_else(PoisonError::into_inner).extend(played);
            }
            Ok(())
        };
        std::thread::scope(|scope| {
            let workers: Vec<_> = (0..threads.max(1)).map(|_| scope.spawn(work)).collect();
            workers.into_iter().try_for_each(|worker| worker.join().expect("a run does not panic"))
        })?;
        let mut rows: Vec<Row> = rows.into_inner().unwrap_or_else(PoisonError::into_inner);
        let scenarios = self.scenarios.iter().enumerate().map(|(place, (scenario, _))| (scenario.id.as_str(), place));
        let place_of: BTreeMap<&str, usize> = scenarios.collect();
        let place = |name: &str| self.policies.iter().position(|known| known == name);
        rows.sort_by(|one, two| {
            let key = |row: &Row| (place_of.get(row.scenario.as_str()).copied(), row.load.clone());
            let rest = |row: &Row| (place(&row.policy).unwrap_or(usize::MAX), row.seed);
            key(one).cmp(&key(two)).then_with(|| rest(one).cmp(&rest(two)))
        });
        Ok(rows)
    }

    fn job(&self, scenario: &Scenario, load: &str, seed: u64, witness: &Witness<'_>) -> Result<Vec<Row>> {
        let asked = scenario.loads.get(load).with_context(|| format!("{} has no load {load}", scenario.id))?;
        let trace = generate(&scenario.requests, &asked.arrivals, scenario.horizon(asked), seed);
        let warm_up = trace.horizon.mul_f64(scenario.warm_up);
        let adapters = scenario.adapters();
        let prompts: Vec<Rendered> = trace
            .requests
            .iter()
            .map(|request| {
                let model = request.adapter.map_or(crate::virtual_time::MODEL, |adapter| &adapters[adapter]);
                render(&trace, request, model)
            })
            .collect();
        let fleet = endpoints(scenario);
        let policies = self.policies_of(scenario, load);
        let mut rows = Vec::with_capacity(policies.len());
        for policy in policies {
            let routing = routing(policy, scenario, asked.gateways);
            let setup = Setup {
                fleet: &fleet,
                trace: &trace,
                prompts: &prompts,
                routing: &routing,
                gateways: asked.gateways,
                scrape: asked.scrape(),
                warm_up,
                hop: HOP,
                told: asked.told,
                talk: asked.peers,
                adapters: &adapters,
                seed,
            };
            let place = || format!("{} {load} under {policy}, seed {seed}", scenario.id);
            let run = run(&setup).with_context(place)?;
            run.check().with_context(place)?;
            let row = Row {
                scenario: scenario.id.clone(),
                load: load.to_owned(),
                policy: policy.to_owned(),
                seed,
                summary: summarize(&run, warm_up, |request| prompts[request].tokens.len() as u32),
            };
            witness(&row, &run, &trace).with_context(place)?;
            rows.push(row);
        }
        Ok(rows)
    }
}

/// The servers of a scenario.
pub fn endpoints(scenario: &Scenario) -> Vec<Endpoint> {
    let weight = |group: usize| scenario.weights.get(group).copied().unwrap_or(1.0);
    let groups = scenario.fleet.iter().enumerate();
    let engines = groups.flat_map(|(number, group)| vec![(group.engine(), weight(number)); group.count]);
    engines
        .enumerate()
        .map(|(number, (engine, weight))| Endpoint {
            engine,
            pace: pace(&scenario.faults, number),
            weight,
            joins: Duration::ZERO,
        })
        .collect()
}

/// The policy of a name with the settings of a scenario: those of the product's default, and nothing that it could not
/// know.
pub fn routing(policy: &str, scenario: &Scenario, gateways: usize) -> Routing {
    if policy == "oracle" {
        return Routing::Oracle;
    }
    let affinity = Affinity { concurrency: scenario.concurrency, gateways: gateways as u32, ..Affinity::default() };
    Routing::Picker { policy: Policy::Named(policy.to_owned()), affinity }
}

fn summarize(run: &Run, warm_up: Duration, prompt_tokens: impl Fn(usize) -> u32) -> Summary {
    let mut counted = Counted::default();
    for endpoint in &run.endpoints {
        let counters = endpoint.counted();
        counted.output += counters.output;
        counted.queries += counters.queries;
        counted.hits += counters.hits;
        counted.preemptions += counters.preemptions;
        counted.adapter_loads += counters.adapter_loads;
        counted.peak_in_flight = counted.peak_in_flight.max(endpoint.peak_in_flight);
    }
    let window = Window { from: warm_up, until: run.end };
    let outcomes: &[Outcome] = &run.outcomes;
    Summary::new(outcomes, window, run.endpoints.len(), counted, Objective::default(), prompt_tokens)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_policy_is_refused_with_the_list_of_them() {
        for name in POLICIES {
            assert_eq!(policy(name), Ok(name.to_owned()));
        }
        let said = policy("custom").unwrap_err();
        assert!(said.contains("no policy \"custom\"") && said.ends_with("oracle"), "{said}");
        assert!(!said.contains(", custom"), "it has no setting to run with: {said}");
    }
}
