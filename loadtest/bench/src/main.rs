//! `spillway-bench`: routing compared, in virtual time and through running gateways.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail, ensure};
use clap::{Parser, Subcommand};
use spillway_bench::limits::{argument, name, twice};
use spillway_bench::live;
use spillway_bench::matrix::{Matrix, POLICIES, policy};
use spillway_bench::progress::Progress;
use spillway_bench::report::{self, Report};
use spillway_bench::say::say;
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
    #[arg(long, value_delimiter = ',', value_parser = name)]
    only: Vec<String>,
    /// Every load of every scenario.
    #[arg(long)]
    full: bool,
    /// Policies, comma-separated.
    #[arg(long, value_delimiter = ',', value_parser = policy, default_values_t = POLICIES.map(str::to_owned))]
    policies: Vec<String>,
    /// How many seeds, up to 1000.
    #[arg(long, default_value_t = 6, value_parser = argument(1..=1_000_u64))]
    seeds: u64,
    /// Even seeds instead of odd ones: those that settings may be tuned on. What is reported comes from odd ones.
    #[arg(long)]
    tuning: bool,
    /// Threads; one a core by default.
    #[arg(long, value_parser = argument(1..=256_usize))]
    threads: Option<usize>,
    /// Folder to write to.
    #[arg(long, default_value = "target/routing")]
    out: PathBuf,
    /// Writes each request of the first seed too.
    #[arg(long)]
    raw: bool,
    /// Fails if the P95 of TTFT of the first policy is more than so many times that of the best one in a cell.
    #[arg(long, value_parser = argument(1.0..=1_000.0))]
    most_regret: Option<f64>,
}

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Routing(arguments) => routing(&arguments),
        Command::Live(arguments) => arguments.run(),
        Command::NullProxy(arguments) => arguments.run(),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn routing(arguments: &Routing) -> Result<()> {
    if let Some(policy) = twice(&arguments.policies) {
        bail!("--policies: {policy} is there twice");
    }
    if let Some(id) = twice(&arguments.only) {
        bail!("--only: {id} is there twice");
    }
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
    ensure!(!matrix.is_empty(), "there is nothing to play: no scenario has a short run, and --full is not there");
    let threads = arguments.threads.or_else(|| std::thread::available_parallelism().ok().map(usize::from)).unwrap_or(1);
    std::fs::create_dir_all(&arguments.out).with_context(|| format!("cannot make {}", arguments.out.display()))?;
    let progress = Progress::new(matrix.len() as u64)?;
    let first_seed = matrix.seeds.first().copied();
    let rows = matrix.play(threads, &|row, run, trace| {
        progress.over(format!("{} {} {}", row.scenario, row.load, row.policy));
        if arguments.raw && Some(row.seed) == first_seed {
            report::raw::write(&arguments.out.join("requests"), row, run, trace)?;
        }
        Ok(())
    })?;
    progress.finish();
    let report = Report::new(&matrix, rows);
    report.write(&arguments.out)?;
    say(&format!("{}\nwritten to {}", report.table(), arguments.out.display()))?;
    match arguments.most_regret {
        Some(most) => within(most, &arguments.policies[0], &report),
        None => Ok(()),
    }
}

/// Whether a policy is nowhere worse than so many times the best.
fn within(most: f64, policy: &str, report: &Report) -> Result<()> {
    let regrets = report.regrets();
    let regret = regrets.iter().find(|regret| regret.policy == policy).context("no regret of the oracle is known")?;
    let (worst, cell) = (regret.worst, &regret.worst_cell);
    ensure!(
        worst <= most,
        "P95 of {policy} is {worst:.3} times that of the best in {cell}; at most {most} are allowed"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_argument_that_nothing_can_be_played_with_is_refused_with_the_reason() {
        for (line, said) in [
            ("routing --seeds 0", "must be 1 to 1000"),
            ("routing --seeds 1000000", "must be 1 to 1000"),
            ("routing --threads 0", "must be 1 to 256"),
            ("routing --only B3,", "a comma too many"),
            ("routing --policies ring,", "no policy \"\"; there are"),
            ("routing --policies custom", "oracle"),
            ("routing --most-regret nan", "must be 1 to 1000"),
            ("routing --most-regret 0.9", "must be 1 to 1000"),
            ("live --scenario S1 --repetitions 0", "must be 1 to 100"),
            ("live --scenario S1 --repetitions 101", "must be 1 to 100"),
            ("live --scenario S1 --time-scale 1e300", "must be 0.01 to 1000"),
            ("live --scenario S1 --time-scale 1e-300", "must be 0.01 to 1000"),
            ("live --scenario S1 --seconds nan", "must be 0.001 to 604800"),
            ("live --scenario S1 --seconds -1", "must be 0.001 to 604800"),
            ("live --scenario S1 --seconds inf", "must be 0.001 to 604800"),
            ("live --scenario S1 --patience 18446744073709551615", "must be 0 to 86400"),
            ("live --scenario S1 --policies adaptiv", "no policy \"adaptiv\""),
            ("live --scenario S1 --arms direct,", "a comma too many"),
        ] {
            let arguments = ["spillway-bench"].into_iter().chain(line.split(' '));
            let error = Arguments::try_parse_from(arguments).expect_err(line).to_string();
            assert!(error.contains(said), "{line}: {error}");
        }
        assert!(Arguments::try_parse_from(["spillway-bench", "routing"]).is_ok(), "defaults are inside the limits");
        assert!(Arguments::try_parse_from(["spillway-bench", "live", "--scenario", "S1"]).is_ok(), "here too");
    }
}
