//! The command line.

mod key;
mod replay;
mod say;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use bytes::Bytes;
use clap::{CommandFactory as _, Parser, Subcommand};
use spillway_picker::registry::Registry;

use crate::config;
use crate::explain;
use crate::facts_file;
use crate::fleet::Fleet;
use crate::run::{self, Source};

pub(crate) use say::say;

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
    /// Show what differs between two configuration files, defaults included. Ends with 1 if anything does.
    Diff {
        /// The old file.
        old: PathBuf,
        /// The new file.
        new: PathBuf,
    },
    /// Print the JSON Schema of the configuration file, for editors.
    Schema {
        /// Of the file of API keys instead.
        #[arg(long)]
        keys: bool,
    },
    /// Make an API key and print it with its entry for the file of keys.
    Key {
        /// Whose it is to be.
        tenant: String,
        /// Read a key from standard input instead of making one.
        #[arg(long)]
        stdin: bool,
    },
    /// Print a completion script for a shell.
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
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
    /// Decide a recorded trace again under other configurations, and show what would have come of it.
    Replay(replay::Replay),
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
        Command::Diff { old, new } => match diff(old, new, &registry) {
            Ok(true) => return ExitCode::FAILURE,
            Ok(false) => Ok(()),
            // As `diff` has it: 1 is a difference, 2 is trouble.
            Err(error) => {
                eprintln!("{error:#}");
                return ExitCode::from(2);
            }
        },
        Command::Schema { keys } => schema(keys),
        Command::Key { tenant, stdin } => key::make(&tenant, stdin),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Arguments::command(), "spillway", &mut script);
            String::from_utf8(script).map_err(anyhow::Error::from).and_then(say)
        }
        Command::Explain { config, body, path, facts, json } => {
            explain_offline(config, registry, &body, path, facts, json)
        }
        Command::Replay(arguments) => replay::replay(&arguments, &registry),
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
    // Set to nothing it would turn all off, which nobody means.
    let chosen = std::env::var("RUST_LOG").ok().filter(|chosen| !chosen.trim().is_empty());
    let filter = chosen
        .and_then(|chosen| tracing_subscriber::EnvFilter::try_new(chosen).ok())
        .unwrap_or_else(|| tracing_subscriber::EnvFilter::new(default));
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
    let endpoints = config.pools.values().map(|pool| pool.endpoints.len()).sum();
    let mut parts =
        vec![count(config.pools.len(), "pool"), count(endpoints, "endpoint"), count(config.models.len(), "model")];
    let names = config.pools.values().filter(|pool| pool.dns.is_some()).count();
    if names > 0 {
        parts.push(count(names, "DNS name"));
    }
    if let Some(path) = &config.auth.keys_file {
        parts.push(check_keys(path)?);
    }
    say(format_args!("{name}: ok ({})\n", parts.join(", ")))
}

/// A configuration may be checked where the keys are not, and must not be; where they are, they are checked too.
fn check_keys(path: &std::path::Path) -> anyhow::Result<String> {
    let contents = match std::fs::read(path) {
        Ok(contents) => contents,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Ok(format!("API keys not checked: {} is not here", path.display()));
        }
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
    };
    let file = config::load_keys(&contents)
        .map_err(|problems| anyhow::anyhow!("{}", problems.in_file(&path.display().to_string())))?;
    Ok(count(file.keys.len(), "API key"))
}

fn count(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

/// Prints what differs; returns whether anything does.
fn diff(old: PathBuf, new: PathBuf, registry: &Registry) -> anyhow::Result<bool> {
    let (old, _) = Source::File(old).load(registry)?;
    let (new, _) = Source::File(new).load(registry)?;
    let differences = config::diff::differences(&old, &new);
    for difference in &differences {
        say(format_args!("{difference}\n"))?;
    }
    Ok(!differences.is_empty())
}

fn schema(keys: bool) -> anyhow::Result<()> {
    let schema = if keys { config::keys_schema_json() } else { config::schema_json() };
    say(serde_json::to_string_pretty(&schema)? + "\n")
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
    if json { say(serde_json::to_string_pretty(&explanation)? + "\n") } else { say(explanation) }
}
