//! The clients. Each mode warms up, prints `ready` and waits for a line on standard input, so that whoever measures reads
//! the proxy's counters at the right moment; then it sends exactly what was asked for and prints one line of JSON.

use std::io::{BufRead as _, Write as _};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use clap::{Parser, Subcommand};
use serde_json::json;
use spillway_cost::client::{Reply, Times};
use spillway_cost::load::{Clients, HELD, Held, leave, open};
use spillway_cost::prompt::Prompts;

/// Puts load on a proxy.
#[derive(Debug, Parser)]
struct Arguments {
    #[command(subcommand)]
    mode: Mode,
    /// Bytes of each request's body.
    #[arg(long, global = true, default_value_t = 2_000)]
    size: usize,
    /// Ask for a stream of so many events; 0 for an answer in one piece.
    #[arg(long, global = true, default_value_t = 0)]
    events: u64,
    /// Time between two events.
    #[arg(long, global = true, default_value = "0s")]
    pace: humantime::Duration,
}

#[derive(Debug, Subcommand)]
enum Mode {
    /// A number of requests as fast as they go, one in flight per connection.
    Closed(Counted),
    /// Requests at a rate, whether those before are answered or not; with several targets, each has the rate and they
    /// take turns, so that a disturbance falls on all alike.
    Open {
        #[arg(required = true)]
        targets: Vec<SocketAddr>,
        /// Requests a second to each target.
        #[arg(long, default_value_t = 100.0)]
        rate: f64,
        /// Requests to each target.
        #[arg(long)]
        count: usize,
        /// Requests to each target before the measured ones.
        #[arg(long, default_value_t = 0)]
        warm: usize,
    },
    /// A number of streams whose clients leave after the first event, each on a connection of its own.
    Leave(Counted),
    /// Streams that have begun and are held open. Each line of standard input says how many there shall be.
    Hold { target: SocketAddr },
}

/// A number of requests, so many at once.
#[derive(Debug, clap::Args)]
struct Counted {
    target: SocketAddr,
    #[arg(long, default_value_t = 32)]
    connections: usize,
    #[arg(long)]
    count: usize,
    /// Requests before the measured ones.
    #[arg(long, default_value_t = 0)]
    warm: usize,
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(run(arguments))
}

async fn run(Arguments { mode, size, events, pace }: Arguments) -> anyhow::Result<()> {
    let reply = if events == 0 { Reply::Whole } else { Reply::Stream { events, pace: *pace } };
    let mut prompts = Prompts::new(size, reply);
    match mode {
        Mode::Closed(Counted { target, connections, count, warm }) => {
            let mut clients = Clients::open(target, connections).await?;
            clients.send(&mut Prompts::new(size, reply.hurried()), reply.hurried(), warm).await?;
            say("ready")?;
            let _ = next_line()?;
            let began = Instant::now();
            clients.send(&mut prompts, reply, count).await?;
            say(&json!({"seconds": began.elapsed().as_secs_f64()}).to_string())
        }
        Mode::Open { targets, rate, count, warm } => {
            let every = Duration::from_secs_f64(1.0 / rate);
            open(&targets, &mut prompts, reply, every, warm).await?;
            say("ready")?;
            let _ = next_line()?;
            let times = open(&targets, &mut prompts, reply, every, count).await?;
            let of = |times: &Vec<Times>| {
                let micros = |of: fn(&Times) -> Duration| -> Vec<f64> {
                    times.iter().map(|one| of(one).as_secs_f64() * 1e6).collect()
                };
                json!({"first_byte_us": quantiles(micros(|one| one.first_byte)), "end_us": quantiles(micros(|one| one.end))})
            };
            say(&json!(times.iter().map(of).collect::<Vec<_>>()).to_string())
        }
        Mode::Leave(Counted { target, connections, count, warm }) => {
            leave(target, connections, &mut prompts, warm).await?;
            say("ready")?;
            let _ = next_line()?;
            let began = Instant::now();
            leave(target, connections, &mut prompts, count).await?;
            say(&json!({"seconds": began.elapsed().as_secs_f64()}).to_string())
        }
        Mode::Hold { target } => {
            say("ready")?;
            let (mut held, mut prompts) = (Held::default(), Prompts::new(size, HELD));
            while let Some(line) = next_line()? {
                held.grow(target, &mut prompts, line.trim().parse()?).await?;
                say("held")?;
            }
            Ok(())
        }
    }
}

/// Blocks the whole process, and may: nothing is in flight that has to move.
fn next_line() -> anyhow::Result<Option<String>> {
    let mut line = String::new();
    Ok((std::io::stdin().lock().read_line(&mut line)? > 0).then_some(line))
}

fn say(line: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}")?;
    Ok(out.flush()?)
}

/// By the nearest rank.
fn quantiles(mut values: Vec<f64>) -> serde_json::Value {
    values.sort_by(f64::total_cmp);
    let at = |share: f64| {
        let rank = (share * values.len() as f64).ceil() as usize;
        values.get(rank.max(1) - 1).copied()
    };
    json!({"p50": at(0.5), "p90": at(0.9), "p99": at(0.99), "most": at(1.0)})
}
