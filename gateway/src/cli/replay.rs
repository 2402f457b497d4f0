//! `spillway replay`: reads a trace and configurations, and prints what each would have made of it.

use std::collections::BTreeSet;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use clap::ValueEnum;
use serde_json::json;
use spillway_picker::registry::Registry;

use super::{count, say};
use crate::config::{self, Config};
use crate::run::Source;
use crate::trace::{Bad, Trace};
use crate::what_if::{
    Column, Decider, Fits, Modelled, Report, Work, cache_bytes, cache_tokens, modelled, play, recorded,
};

/// The arguments of `spillway replay`.
#[derive(Debug, clap::Args)]
pub(super) struct Replay {
    /// The trace: what the gateway has written to `trace.file`; `-` for standard input.
    trace: PathBuf,
    /// A configuration to decide it again under; may be given several times.
    #[arg(long = "config", required = true)]
    configs: Vec<PathBuf>,
    /// The pool; all that the trace has by default.
    #[arg(long)]
    pool: Option<String>,
    /// Tokens in the cache of an endpoint whose metrics did not say.
    #[arg(long)]
    cache_tokens: Option<u32>,
    /// How to print.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Format {
    /// A table for people.
    Text,
    /// All of it, for programs.
    Json,
}

/// A configuration and what to call it.
struct Named {
    name: String,
    config: Config,
}

/// Prints a report for each pool.
pub(super) fn replay(arguments: &Replay, registry: &Registry) -> anyhow::Result<()> {
    let configs = load(&arguments.configs, registry)?;
    let name = arguments.trace.display();
    let trace = read(&arguments.trace).with_context(|| format!("cannot replay {name}"))?;
    let mut pools = trace.pools();
    anyhow::ensure!(!pools.is_empty(), "cannot replay {name}: it has no requests{}", bad_lines(&trace.bad));
    if let Some(wanted) = &arguments.pool {
        let there = pools.join(", ");
        pools.retain(|pool| **pool == **wanted);
        anyhow::ensure!(!pools.is_empty(), "{name} has no requests of pool {wanted}; it has those of {there}");
    }
    let is_only = pools.len() == 1;
    let given = arguments.cache_tokens.map(f64::from);
    let report = |pool: &Arc<str>| of_pool(&Work::of(&trace, pool), &configs, registry, given, is_only);
    let reports: Vec<Report> = pools.iter().map(report).collect::<anyhow::Result<_>>()?;
    match arguments.format {
        Format::Text => {
            let texts: Vec<String> = reports.iter().map(ToString::to_string).collect();
            let bad = bad_lines(&trace.bad);
            let bad = bad.strip_prefix("; ").map_or(String::new(), |text| format!("- {text}\n"));
            say(texts.join("\n") + &bad)
        }
        Format::Json => {
            let first = trace.bad.first.as_ref().map(|(line, why)| json!({"line": line, "problem": why}));
            let bad = json!({"count": trace.bad.count, "first": first});
            say(serde_json::to_string_pretty(&json!({"pools": reports, "bad_lines": bad}))? + "\n")
        }
    }
}

/// Loads all, or names all problems of all.
fn load(paths: &[PathBuf], registry: &Registry) -> anyhow::Result<Vec<Named>> {
    let (mut configs, mut problems) = (Vec::new(), Vec::new());
    for path in paths {
        match Source::File(path.clone()).load(registry) {
            Ok((config, _)) => configs.push(Named { name: path.display().to_string(), config }),
            Err(error) => problems.push(format!("{error:#}")),
        }
    }
    anyhow::ensure!(problems.is_empty(), "{}", problems.join("\n"));
    // Without their directories, as long as that tells them apart: the names head columns.
    let short = |path: &PathBuf| path.file_name().map(|name| name.to_string_lossy().into_owned());
    let shorter: BTreeSet<String> = paths.iter().filter_map(short).collect();
    if shorter.len() == paths.len() {
        for (named, path) in configs.iter_mut().zip(paths) {
            named.name = short(path).unwrap_or_default();
        }
    }
    Ok(configs)
}

fn read(path: &Path) -> anyhow::Result<Trace> {
    if path.as_os_str() == "-" {
        return Ok(Trace::read(std::io::stdin().lock())?);
    }
    Ok(Trace::read(BufReader::new(std::fs::File::open(path)?))?)
}

fn bad_lines(bad: &Bad) -> String {
    match &bad.first {
        None => String::new(),
        Some((line, why)) => format!("; {} passed over, the first is line {line}: {why}", count(bad.count, "line")),
    }
}

fn of_pool(
    work: &Work<'_>,
    configs: &[Named],
    registry: &Registry,
    given: Option<f64>,
    is_only: bool,
) -> anyhow::Result<Report> {
    let fits = Fits::of(work, |id| cache_bytes(work, cache_tokens(work, id, given)));
    let there = modelled(work, &fits, None, given);
    let mut report = Report::new(work, &fits, &there, &play(work, &there, Decider::Recorded));
    report.notes = of_trace(work, &fits, &there);
    for Named { name, config } in configs {
        let settings = pool_of(config, &work.pool, is_only)
            .with_context(|| format!("{name} has no pool {}; --pool replays another", work.pool))?;
        let endpoints = modelled(work, &fits, Some(settings), given);
        let decider = Decider::pool(settings, config.zone.as_deref(), registry, &endpoints)
            .with_context(|| format!("cannot use {name}"))?;
        let played = play(work, &endpoints, decider);
        report.columns.push(Column::played(name.clone(), Some(policy(settings)), work, &endpoints, &played));
        report.notes.extend(of_config(work, settings, &endpoints).into_iter().map(|note| format!("{name}: {note}")));
    }
    Ok(report)
}

/// The pool of that name; or the only one there is, where only one is replayed.
fn pool_of<'a>(config: &'a Config, name: &str, is_only: bool) -> Option<&'a config::Pool> {
    let sole = || config.pools.values().next().filter(|_| is_only && config.pools.len() == 1);
    config.pools.get(name).or_else(sole)
}

fn policy(settings: &config::Pool) -> String {
    let name = |policy: &config::Policy| match policy {
        config::Policy::Named(name) => name.clone(),
        config::Policy::Custom(_) => "custom".to_owned(),
    };
    match &settings.policy {
        config::Policies::One(one) => name(one),
        config::Policies::Trial(trial) => format!("{} / {}", name(&trial.tried), name(&trial.control)),
    }
}

/// What to know of the trace.
fn of_trace(work: &Work<'_>, fits: &Fits, there: &[Modelled]) -> Vec<String> {
    let mut notes = Vec::new();
    let requests = || work.asked.iter().map(|asked| &asked.recorded.request);
    if work.left_out > 0 {
        notes.push(format!("{} requests failed before any output and are not played", work.left_out));
    }
    if requests().all(|request| request.cached.is_none()) {
        notes.push("no server said how many tokens were cached: what was measured of hits is not known".to_owned());
    }
    if work.asked.iter().all(|asked| asked.recorded.tip.is_none()) {
        notes.push(
            "no request has hashes (affinity was off, or prompts are under 256 bytes): no hit is predicted".to_owned(),
        );
    }
    if fits.prefills == 0 {
        notes.push("nothing tells how fast endpoints are: times are not predicted".to_owned());
    }
    if there.iter().any(|one| one.cache_tokens.is_none()) {
        notes.push("the size of caches is not known and taken for unlimited; --cache-tokens sets it".to_owned());
    }
    notes
}

/// What to know of a configuration beside the trace.
fn of_config(work: &Work<'_>, settings: &config::Pool, endpoints: &[Modelled]) -> Vec<String> {
    if settings.dns.is_some() {
        return vec!["its endpoints are found by DNS: those of the trace are taken".to_owned()];
    }
    let known: BTreeSet<Arc<str>> = recorded(work).into_iter().collect();
    let listed: BTreeSet<Arc<str>> = endpoints.iter().map(|one| Arc::clone(&one.spec.id)).collect();
    let mut notes = Vec::new();
    let other: Vec<&str> = listed.difference(&known).map(|id| &**id).collect();
    if !other.is_empty() {
        notes.push(format!("not in the trace, taken to be as fast as those there together: {}", other.join(", ")));
    }
    let gone: Vec<&str> = known.difference(&listed).map(|id| &**id).collect();
    if !gone.is_empty() {
        notes.push(format!("in the trace and not in this configuration, so they get nothing: {}", gone.join(", ")));
    }
    notes
}
