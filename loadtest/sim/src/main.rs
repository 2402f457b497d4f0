//! `model-sim`: one simulated model server on a port, or a fleet of them from a file.

use std::io::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, ValueEnum};
use spillway_sim::engine::Preset;
use spillway_sim::fleet::{Fleet, Group};
use spillway_sim::{Config, Flavor, Server};

/// A model server without a GPU.
#[derive(Debug, Parser)]
#[command(name = "model-sim", version, about)]
struct Arguments {
    /// File that describes many endpoints; takes the place of all other options.
    #[arg(long, exclusive = true)]
    fleet: Option<PathBuf>,
    /// Address of the model port.
    #[arg(long, default_value = "127.0.0.1:8000", conflicts_with = "port")]
    listen: SocketAddr,
    /// Port on 127.0.0.1, instead of --listen.
    #[arg(long)]
    port: Option<u16>,
    /// Port of a second listener on the same host for /admin/ only.
    #[arg(long)]
    admin_port: Option<u16>,
    /// Name in the x-sim-replica header.
    #[arg(long, default_value = "sim")]
    replica: String,
    /// Id of the base model.
    #[arg(long, default_value = "sim-model")]
    model: String,
    /// LoRA adapter known from the start; may be repeated.
    #[arg(long = "adapter")]
    adapters: Vec<String>,
    /// Whose server it looks like.
    #[arg(long, value_enum, default_value_t = FlavorName::Vllm)]
    flavor: FlavorName,
    /// Model and device.
    #[arg(long, default_value = "fast", value_parser = preset)]
    preset: Preset,
    /// Model seconds per wall second.
    #[arg(long, default_value_t = 1.0)]
    time_scale: f64,
    /// Decides noise and text.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Prompt plus output tokens allowed.
    #[arg(long)]
    max_model_len: Option<usize>,
    /// Mean output tokens of requests without `ignore_eos`; without it they run to their limit.
    #[arg(long)]
    mean_output_tokens: Option<u32>,
    /// Output tokens per stream event.
    #[arg(long, default_value_t = 1)]
    stream_interval: u32,
    /// Hold the response head back until the first token.
    #[arg(long)]
    hold_head: bool,
    /// Leave `usage.prompt_tokens_details` null.
    #[arg(long)]
    no_prompt_tokens_details: bool,
    /// Answer the paths that end in /render.
    #[arg(long)]
    enable_scale_out: bool,
    /// Most sequences in the batch.
    #[arg(long)]
    max_seqs: Option<usize>,
    /// KV blocks.
    #[arg(long)]
    blocks: Option<usize>,
    /// Most tokens in a step.
    #[arg(long)]
    max_batched_tokens: Option<usize>,
    /// LoRA slots.
    #[arg(long)]
    max_loras: Option<usize>,
    /// Port of KV events; replays are at the next one. 0 takes free ones.
    #[arg(long)]
    kv_events_port: Option<u16>,
    /// Waiting sequences beyond which requests get 503.
    #[arg(long)]
    max_queued: Option<usize>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum FlavorName {
    Vllm,
    Llamacpp,
}

fn preset(name: &str) -> Result<Preset, String> {
    Preset::from_name(name).ok_or_else(|| format!("no such preset; there are {}", Preset::names()))
}

impl Arguments {
    /// The fleet of one endpoint that they describe, so that they are checked as a file is.
    fn describe(&self) -> Fleet {
        let mut listen = self.listen;
        if let Some(port) = self.port {
            listen.set_port(port);
        }
        let usual = Group::default();
        let group = Group {
            preset: Some(self.preset),
            blocks: self.blocks,
            max_seqs: self.max_seqs,
            max_batched_tokens: self.max_batched_tokens,
            max_loras: self.max_loras.unwrap_or(usual.max_loras),
            model: self.model.clone(),
            adapters: self.adapters.clone(),
            listen,
            replica: self.replica.clone(),
            flavor: match self.flavor {
                FlavorName::Vllm => Flavor::Vllm,
                FlavorName::Llamacpp => Flavor::LlamaCpp,
            },
            max_model_len: self.max_model_len.unwrap_or(usual.max_model_len),
            mean_output_tokens: self.mean_output_tokens,
            stream_interval: self.stream_interval,
            hold_head: self.hold_head,
            prompt_tokens_details: !self.no_prompt_tokens_details,
            scale_out: self.enable_scale_out,
            kv_events_port: self.kv_events_port,
            max_queued: self.max_queued,
            ..usual
        };
        Fleet { time_scale: self.time_scale, seed: self.seed, endpoints: vec![group], faults: Vec::new() }
    }

    fn config(&self) -> Result<Config, String> {
        let fleet = self.describe();
        let problems = fleet.problems();
        if !problems.is_empty() {
            let lines = problems.iter().map(|problem| problem.strip_prefix("endpoints[0].").unwrap_or(problem));
            return Err(lines.collect::<Vec<_>>().join("\n"));
        }
        let config = fleet.servers().pop().expect("the one group has one endpoint");
        let admin_listen = self.admin_port.map(|port| SocketAddr::new(config.listen.ip(), port));
        Ok(Config { replica: self.replica.clone(), admin_listen, ..config })
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    match serve(Arguments::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("model-sim: {problem}");
            ExitCode::FAILURE
        }
    }
}

async fn serve(arguments: Arguments) -> Result<(), String> {
    let servers = match &arguments.fleet {
        Some(path) => fleet(path).await?,
        None => vec![Server::start(arguments.config()?).await.map_err(|error| format!("cannot listen: {error}"))?],
    };
    // Whoever reads this may be gone; the servers go on.
    let _ = announce(&servers);
    tokio::signal::ctrl_c().await.map_err(|error| format!("cannot wait for Ctrl-C: {error}"))?;
    for server in servers {
        server.shutdown().await;
    }
    Ok(())
}

async fn fleet(path: &Path) -> Result<Vec<Server>, String> {
    let named = |error: &dyn std::fmt::Display| format!("{}:\n{error}", path.display());
    let text = std::fs::read_to_string(path).map_err(|error| named(&error))?;
    let fleet = Fleet::parse(&text).map_err(|error| named(&error))?;
    fleet.start().await.map_err(|error| named(&error))
}

fn announce(servers: &[Server]) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    for server in servers {
        writeln!(out, "listening on {}", server.url())?;
        if server.admin_url() != server.url() {
            writeln!(out, "admin on {}", server.admin_url())?;
        }
    }
    out.flush()
}
