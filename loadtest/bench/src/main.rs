//! `spillway-bench`: routing compared, in virtual time and through running gateways.

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::{Parser, Subcommand};
use indicatif::{ProgressBar, ProgressStyle};
use spillway_bench::live;
use spillway_bench::matrix::{Matrix, POLICIES};
use spillway_bench::report::{self, Report};
use spillway_bench::scenario::Scenario;

/// Measures routing.
#[derive(Debug, Parser)]
#[command(name = "spillway-bench", version, about)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Plays scenarios in virtual time under every policy, and writes a report.
    Routing(Routing),
    Live(live::command::Live),
    #[command(hide = true)]
    NullProxy(live::command::NullProxy),
}

#[derive(Debug, clap::Args)]
struct Routing {
    /// Folder of scenarios.
    #[arg(long, default_value = "loadtest/scenarios")]
    scenarios: PathBuf,
    /// Ids of scenarios, comma-separated; all that have a short run, or with --full all.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Every load of every scenario.
    #[arg(long)]
    full: bool,
    /// Policies, comma-separated.
    #[arg(long, value_delimiter = ',', default_values_t = POLICIES.map(str::to_owned))]
    policies: Vec<String>,
    /// How many seeds.
    #[arg(long, default_value_t = 6)]
    seeds: u64,
    /// Even seeds instead of odd ones: those that settings may be tuned on. What is reported comes from odd ones.
    #[arg(long)]
    tuning: bool,
    /// Threads; one a core by default.
    #[arg(long)]
    threads: Option<usize>,
    /// Folder to write to.
    #[arg(long, default_value = "target/routing")]
    out: PathBuf,
    /// Writes each request of the first seed too.
    #[arg(long)]
    raw: bool,
}

fn main() -> Result<()> {
    match Arguments::parse().command {
        Command::Routing(arguments) => routing(&arguments),
        Command::Live(arguments) => arguments.run(),
        Command::NullProxy(arguments) => arguments.run(),
    }
}

fn routing(arguments: &Routing) -> Result<()> {
    let scenarios = Scenario::read_all(&arguments.scenarios)?;
    for id in &arguments.only {
        if !scenarios.iter().any(|scenario| scenario.id == *id) {
            let known: Vec<_> = scenarios.iter().map(|scenario| scenario.id.as_str()).collect();
            bail!("no scenario {id}; there are {}", known.join(", "));
        }
    }
    let wanted = |scenario: &Scenario| arguments.only.is_empty() || arguments.only.contains(&scenario.id);
    let loads = |scenario: &Scenario| match (arguments.full, scenario.short.is_empty(), arguments.only.is_empty()) {
        (true, ..) | (false, true, false) => scenario.loads.keys().cloned().collect(),
        _ => scenario.short.clone(),
    };
    let chosen = scenarios.into_iter().filter(wanted).map(|scenario| {
        let loads: Vec<String> = loads(&scenario);
        (scenario, loads)
    });
    let matrix = Matrix {
        scenarios: chosen.filter(|(_, loads)| !loads.is_empty()).collect(),
        policies: arguments.policies.clone(),
        seeds: (0..arguments.seeds).map(|number| number * 2 + u64::from(!arguments.tuning)).collect(),
    };
    let threads = arguments.threads.or_else(|| std::thread::available_parallelism().ok().map(usize::from)).unwrap_or(1);
    std::fs::create_dir_all(&arguments.out)?;
    let bar = ProgressBar::new(matrix.len() as u64);
    let style = "{bar:40} {pos}/{len} runs, {elapsed} gone, {eta} to go  {msg}";
    bar.set_style(ProgressStyle::with_template(style)?);
    let first_seed = matrix.seeds.first().copied();
    let rows = matrix.play(threads, &|row, run, trace| {
        bar.set_message(format!("{} {} {}", row.scenario, row.load, row.policy));
        bar.inc(1);
        if arguments.raw && Some(row.seed) == first_seed {
            report::raw::write(&arguments.out.join("requests"), row, run, trace)?;
        }
        Ok(())
    })?;
    bar.finish_and_clear();
    let report = Report::new(&matrix, rows);
    report.write(&arguments.out)?;
    println!("{}", report.table());
    println!("written to {}", arguments.out.display());
    Ok(())
}
