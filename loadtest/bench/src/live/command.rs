//! `spillway-bench live`: its arguments, and a session from the scenario's file to the report.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use anyhow::{Context as _, Result, bail, ensure};

use super::arm::{Arm, Kind};
use super::background::runtime;
use super::front::Setting;
use super::load::Load;
use super::machine::{Cores, wait_until_quiet};
use super::peer::Programs;
use super::process::version;
use super::relay;
use super::report::Report;
use super::run::{Played, Session};
use crate::limits::{TIME, argument, name, twice};
use crate::matrix::{Matrix, policy};
use crate::measure::Summary;
use crate::say::say;
use crate::scenario::{Scenario, Told};
use crate::virtual_time::{MODEL, registry};
use crate::workload::generate;

/// Events a second that load, servers and gateway can carry on two cores with room to spare. Beyond it, events hold several
/// tokens.
const MOST_EVENTS: f64 = 10_000.0;

/// Plays one scenario in real time through running gateways, and compares with virtual time.
#[derive(Debug, clap::Args)]
pub struct Live {
    /// Folder of scenarios.
    #[arg(long, default_value = "loadtest/scenarios")]
    scenarios: PathBuf,
    /// Id of the scenario.
    #[arg(long, value_parser = name)]
    scenario: String,
    /// Name of the load; the first of the short run by default.
    #[arg(long, value_parser = name)]
    load: Option<String>,
    /// Policies of the gateway, comma-separated.
    #[arg(
        long,
        value_delimiter = ',',
        value_parser = policy,
        default_value = "adaptive,round_robin",
        conflicts_with = "arms"
    )]
    policies: Vec<String>,
    /// Instead of policies: arms, comma-separated, such as `spillway:adaptive`, `vllm-router:cache_aware`,
    /// `sglang-router:cache_aware+balance-abs-threshold=8`, `envoy:least_request`, `nginx:least_conn`, `direct`.
    #[arg(long, value_delimiter = ',')]
    arms: Vec<Arm>,
    /// Adds the controls: a proxy that decides nothing, and no proxy; in both the client takes turns.
    #[arg(long)]
    controls: bool,
    /// How often each arm is played; every second time in the reverse order.
    #[arg(long, default_value_t = 2, value_parser = argument(1..=100_usize))]
    repetitions: usize,
    /// How often an arm is played at most until its run is valid. What the run shows plays no part in that.
    #[arg(long, default_value_t = 3, value_parser = argument(1..=20_usize))]
    attempts: usize,
    /// Model seconds a second, 0.01 to 1000.
    #[arg(long, default_value_t = 4.0, allow_negative_numbers = true, value_parser = argument(0.01..=1_000.0))]
    time_scale: f64,
    /// Decides the trace.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Model seconds to play, instead of what the scenario says.
    #[arg(long, allow_negative_numbers = true, value_parser = argument(TIME))]
    seconds: Option<f64>,
    /// The gateway's program.
    #[arg(long, default_value = "target/release/spillway")]
    gateway: PathBuf,
    /// Folder of the peers' programs, before PATH.
    #[arg(long, default_value = "target/peers/bin")]
    peers_bin: PathBuf,
    /// Longest wait before each arm for a time in which nobody else uses the machine, seconds, up to a day.
    #[arg(long, default_value_t = 0, value_parser = argument(0..=86_400_u64))]
    patience: u64,
    /// Pins nobody to a core. By default load and servers have the first core, what stands between the second.
    #[arg(long)]
    no_pin: bool,
    /// Folder to write to.
    #[arg(long, default_value = "target/live")]
    out: PathBuf,
}

/// Copies bytes between ports and servers, for the control arm of a live session.
#[derive(Debug, clap::Args)]
pub struct NullProxy {
    /// Addresses to listen on, comma-separated.
    #[arg(long, value_delimiter = ',')]
    listen: Vec<SocketAddr>,
    /// The server that each leads to.
    #[arg(long, value_delimiter = ',')]
    to: Vec<SocketAddr>,
}

impl NullProxy {
    /// Runs until it is killed.
    pub fn run(&self) -> Result<()> {
        runtime()?.block_on(relay::run(&self.listen, &self.to))
    }
}

impl Live {
    /// Plays the session and writes its report. A session that is not valid is an error, after its report is written.
    pub fn run(self) -> Result<()> {
        let arms = self.arms()?;
        let (scenario, load) = self.scenario()?;
        std::fs::create_dir_all(&self.out).with_context(|| format!("cannot make {}", self.out.display()))?;
        let in_virtual_time = self.in_virtual_time(&scenario, &load, &arms)?;
        let most = in_virtual_time.values().map(|summary| summary.token_rate).fold(0.0, f64::max);
        let interval = (most * self.time_scale / MOST_EVENTS).ceil().max(1.0) as u32;

        let cores = if self.no_pin { Cores::default() } else { Cores::pin()? };
        let session = self.session(scenario, &load, interval, &cores)?;
        let mut report = Report {
            scenario: session.scenario.id.clone(),
            load,
            seconds: session.load.trace().horizon.as_secs_f64(),
            seed: self.seed,
            time_scale: self.time_scale,
            stream_interval: interval,
            date: humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
            machine: machine(&cores),
            versions: versions(&arms, &session.setting)?,
            runs: Vec::new(),
            in_virtual_time,
        };
        let runtime = runtime()?;
        for repetition in 0..self.repetitions {
            // There and back: a drift of the machine falls on all alike.
            let mut order: Vec<&Arm> = arms.iter().collect();
            if repetition % 2 == 1 {
                order.reverse();
            }
            for arm in order {
                for attempt in 1..=self.attempts {
                    wait_until_quiet(Duration::from_secs(self.patience));
                    eprintln!("{arm}, repetition {} of {}, attempt {attempt}", repetition + 1, self.repetitions);
                    let played = runtime.block_on(session.play(arm, repetition)).with_context(|| format!("{arm}"))?;
                    if played.problems.is_empty() || attempt == self.attempts {
                        report.runs.push(Played { attempt, ..played });
                        break;
                    }
                    eprintln!("not valid: {}", played.problems.join("; "));
                }
            }
        }
        say(&report.write(&self.out, &arms)?)?;
        match report.problems().len() {
            0 => Ok(()),
            count => bail!("the session is not valid: {count} limits were passed, as the report says"),
        }
    }

    fn arms(&self) -> Result<Vec<Arm>> {
        let mut arms = self.arms.clone();
        if arms.is_empty() {
            let arm = |policy: &String| format!("spillway:{policy}").parse().map_err(anyhow::Error::msg);
            arms = self.policies.iter().map(arm).collect::<Result<_>>()?;
        }
        if self.controls {
            arms.extend([Kind::NullProxy, Kind::Direct].map(Arm::control));
        }
        for arm in arms.iter().filter(|arm| arm.kind == Kind::Spillway) {
            policy(&arm.policy).map_err(anyhow::Error::msg)?;
            ensure!(arm.policy != "oracle", "oracle sees into servers, which no gateway can");
            let is_variant = registry().costs().any(|variant| variant == arm.policy);
            ensure!(!is_variant, "{} is a policy of the bench alone, for virtual time", arm.policy);
        }
        if let Some(arm) = twice(&arms) {
            bail!("{arm} is to be played twice; --repetitions says how often");
        }
        Ok(arms)
    }

    fn scenario(&self) -> Result<(Scenario, String)> {
        let all = Scenario::read_all(&self.scenarios)?;
        let known: Vec<_> = all.iter().map(|scenario| scenario.id.clone()).collect();
        let found = all.into_iter().find(|scenario| scenario.id == self.scenario);
        let mut scenario =
            found.with_context(|| format!("no scenario {}; there are {}", self.scenario, known.join(", ")))?;
        if let Some(seconds) = self.seconds {
            scenario.last(seconds);
            let problems = scenario.problems();
            ensure!(problems.is_empty(), "with --seconds {seconds}, {}: {}", scenario.id, problems.join("; "));
        }
        let first = scenario.short.first().or(scenario.loads.keys().next()).cloned();
        let load = self.load.clone().or(first).context("the scenario has no load")?;
        let loads: Vec<_> = scenario.loads.keys().map(String::as_str).collect();
        ensure!(scenario.loads.contains_key(&load), "no load {load}; there are {}", loads.join(", "));
        let is_told_all = scenario.loads[&load].told == Told::default();
        ensure!(is_told_all, "{} {load} has servers that say less than all, which only virtual time has", scenario.id);
        Ok((scenario, load))
    }

    /// Figures of the policies that virtual time knows, round robin always among them.
    fn in_virtual_time(&self, scenario: &Scenario, load: &str, arms: &[Arm]) -> Result<BTreeMap<String, Summary>> {
        let mut policies = vec!["round_robin".to_owned()];
        for policy in arms.iter().filter_map(Arm::in_virtual_time) {
            if !policies.iter().any(|known| known == policy) {
                policies.push(policy.to_owned());
            }
        }
        let scenarios = vec![(scenario.clone(), vec![load.to_owned()])];
        let matrix = Matrix { scenarios, policies, seeds: vec![self.seed] };
        let rows = matrix.play(1, &|_, _, _| Ok(()))?;
        Ok(rows.into_iter().map(|row| (row.policy, row.summary)).collect())
    }

    fn session(&self, scenario: Scenario, load: &str, interval: u32, cores: &Cores) -> Result<Session> {
        let asked = scenario.loads.get(load).context("the load was there before")?;
        let trace = generate(&scenario.requests, &asked.arrivals, scenario.horizon(asked), self.seed);
        let adapters = scenario.adapters();
        let model = |adapter: Option<usize>| adapter.map_or(MODEL.to_owned(), |number| adapters[number].to_string());
        let setting = Setting {
            gateway: self.gateway.clone(),
            programs: Programs::new(&self.peers_bin),
            folder: self.out.canonicalize().with_context(|| format!("cannot find {}", self.out.display()))?,
            core: cores.pinned.map(|(_, theirs)| theirs),
            gateways: asked.gateways,
            scrape: asked.scrape().map(|interval| interval.div_f64(self.time_scale)),
            scale: self.time_scale,
            concurrency: scenario.concurrency,
            seed: self.seed,
        };
        Ok(Session { load: Load::new(trace, model), setting, seed: self.seed, interval, scenario })
    }
}

fn versions(arms: &[Arm], setting: &Setting) -> Result<BTreeMap<String, String>> {
    let mut versions = BTreeMap::new();
    for kind in arms.iter().map(|arm| arm.kind) {
        let said = match kind {
            Kind::NullProxy | Kind::Direct => continue,
            Kind::Spillway => version(&setting.gateway, "--version"),
            _ => setting.programs.version(kind)?,
        };
        versions.insert(kind.name().to_owned(), said);
    }
    Ok(versions)
}

fn machine(cores: &Cores) -> String {
    let count = std::thread::available_parallelism().map_or(1, usize::from);
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split(' ').next().unwrap_or("unknown");
    let pinned = match cores.pinned {
        Some((ours, theirs)) => format!("load and servers on core {ours}, what stands between on core {theirs}"),
        None => format!("{count} cores, nobody pinned"),
    };
    format!("{pinned}, load average {load} at the start")
}
