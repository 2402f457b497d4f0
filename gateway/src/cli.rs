//! The command line.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use bytes::Bytes;
use clap::{Parser, Subcommand};
use spillway_picker::registry::Registry;

use crate::explain;
use crate::facts_file;
use crate::fleet::Fleet;
use crate::run::{self, Source};

/// An inference gateway: reads the model in the body, picks the endpoint that gives the first token soonest.
#[derive(Debug, Parser)]
#[command(name = "spillway", version, args_conflicts_with_subcommands = true)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    run: Run,
}

#[derive(Debug, clap::Args)]
struct Run {
    /// The configuration file.
    #[arg(long, default_value = "/etc/spillway/spillway.yaml")]
    config: PathBuf,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the gateway (the default command).
    Run(Run),
    /// Check a configuration file and report every problem in it.
    Check {
        /// The file.
        file: PathBuf,
    },
    /// Show where a request would go, and why.
    Explain {
        /// The configuration file.
        #[arg(long)]
        config: PathBuf,
        /// The request body, a JSON file; `-` for standard input.
        #[arg(long)]
        body: PathBuf,
        /// The path of the request; guessed from the body by default.
        #[arg(long)]
        path: Option<String>,
        /// What the endpoints' metrics are to be taken for: JSON, from endpoint URL to facts.
        #[arg(long)]
        facts: Option<PathBuf>,
        /// Print JSON instead of a table.
        #[arg(long)]
        json: bool,
    },
    /// Run a gateway over a simulated fleet in this process, under a light load.
    #[cfg(feature = "demo")]
    Demo {
        /// The gateway's port on 127.0.0.1.
        #[arg(long, default_value_t = 8080)]
        port: u16,
        /// Leave out the load.
        #[arg(long)]
        quiet: bool,
    },
}

/// Runs the program with the policies, scorers and filters of `registry`.
pub fn main(registry: Registry) -> ExitCode {
    let arguments = Arguments::parse();
    let result = match arguments.command.unwrap_or(Command::Run(arguments.run)) {
        Command::Run(Run { config }) => {
            start_log();
            let options =
                run::Options { source: Source::File(config), registry, access_log: Box::new(std::io::stdout()) };
            run::serve(options, |_| {})
        }
        Command::Check { file } => check(file, &registry),
        Command::Explain { config, body, path, facts, json } => {
            explain_offline(config, registry, &body, path, facts, json)
        }
        #[cfg(feature = "demo")]
        Command::Demo { port, quiet } => crate::demo::run(registry, port, quiet),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Events as JSON lines on standard error; `RUST_LOG` chooses which.
fn start_log() {
    log_events("warn,spillway=info");
}

/// As [`start_log`], warnings only: for a process that talks to a person.
#[cfg(feature = "demo")]
pub(crate) fn start_log_quietly() {
    log_events("warn");
}

fn log_events(default: &str) {
    let filter = tracing_subscriber::EnvFilter::try_from_default_env()
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new(default));
    let _ = tracing_subscriber::fmt()
        .json()
        .flatten_event(true)
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .try_init();
}

fn check(file: PathBuf, registry: &Registry) -> anyhow::Result<()> {
    let name = file.display().to_string();
    let (config, _) = Source::File(file).load(registry)?;
    println!(
        "{name}: ok ({} pools, {} endpoints, {} models)",
        config.pools.len(),
        config.pools.values().map(|pool| pool.endpoints.len()).sum::<usize>(),
        config.models.len()
    );
    Ok(())
}

fn explain_offline(
    config: PathBuf,
    registry: Registry,
    body: &PathBuf,
    path: Option<String>,
    facts: Option<PathBuf>,
    json: bool,
) -> anyhow::Result<()> {
    let (config, _) = Source::File(config).load(&registry)?;
    let fleet = Fleet::new(config, registry)?;
    if let Some(facts) = facts {
        let text = std::fs::read(&facts).with_context(|| format!("cannot read {}", facts.display()))?;
        facts_file::apply(&fleet, &text).with_context(|| format!("cannot use {}", facts.display()))?;
    }
    let body: Bytes = if body.as_os_str() == "-" {
        let mut all = Vec::new();
        std::io::Read::read_to_end(&mut std::io::stdin(), &mut all).context("cannot read standard input")?;
        all.into()
    } else {
        std::fs::read(body).with_context(|| format!("cannot read {}", body.display()))?.into()
    };
    let path = path.unwrap_or_else(|| explain::guess_path(&body).to_owned());
    let explanation = explain::explain(&fleet, &fleet.live_full(), &path, &body)?;
    if json {
        println!("{}", serde_json::to_string_pretty(&explanation)?);
    } else {
        print!("{explanation}");
    }
    Ok(())
}
