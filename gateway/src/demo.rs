//! `spillway demo`: a gateway, four simulated endpoints of two speeds and a light load, in one process.
//!
//! Everything is real but the GPUs: requests go over sockets, metrics pages are scraped, the picker learns that two of
//! the endpoints are slow.

mod load;

use std::fmt::Write as _;

use anyhow::Context as _;
use pingora_core::services::background::background_service;
use spillway_picker::registry::Registry;
use spillway_sim::engine::Preset;

use crate::cli::say;
use crate::run::{self, Source};

/// The model the simulated endpoints serve.
const MODEL: &str = "demo-8b";

/// Two LoRA adapters, so that there is something to route by.
const ADAPTERS: [&str; 2] = ["demo-sql", "demo-support"];

/// Runs the demo on `127.0.0.1:port` until Ctrl-C; metrics and admin take the ports above 9090 as in production.
pub fn run(registry: Registry, port: u16, quiet: bool) -> anyhow::Result<()> {
    // The simulated servers outlive the gateway, which ends this process by returning from `serve`.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .thread_name("simulated-endpoints")
        .enable_all()
        .build()
        .context("cannot start the simulated endpoints")?;
    let fleet = runtime.block_on(start_endpoints())?;
    let urls: Vec<String> = fleet.iter().map(spillway_sim::Server::url).collect();
    crate::cli::start_log_quietly();
    let source = Source::Text(configuration(port, &urls));
    let options = run::Options { source, registry, access_log: Box::new(std::io::sink()) };
    run::serve(options, |server| {
        // Whether it is read or not, the demo goes on.
        let _ = say(welcome(port, &urls));
        if !quiet {
            server.add_service(background_service("demo load", load::Load::new(port, MODEL, &ADAPTERS)));
        }
    })?;
    say("\nThe demo has ended.\n")
}

async fn start_endpoints() -> anyhow::Result<Vec<spillway_sim::Server>> {
    let mut servers = Vec::new();
    for (index, preset) in
        [Preset::Llama8bH100, Preset::Llama8bH100, Preset::Llama8bA10g, Preset::Llama8bA10g].into_iter().enumerate()
    {
        let config = spillway_sim::Config {
            replica: format!("demo-{index}"),
            model: MODEL.to_owned(),
            adapters: ADAPTERS.map(str::to_owned).to_vec(),
            engine: preset.config(),
            seed: 7,
            ..spillway_sim::Config::default()
        };
        servers.push(spillway_sim::Server::start(config).await.context("cannot start a simulated endpoint")?);
    }
    Ok(servers)
}

fn configuration(port: u16, urls: &[String]) -> String {
    let mut yaml = format!(
        "server:\n  listen: [{{address: 127.0.0.1:{port}}}]\n  metrics: {{address: 127.0.0.1:9091}}\n  \
         admin: {{address: 127.0.0.1:9090}}\n  drain: 2s\n\
         models:\n  - {{name: {MODEL}, aliases: [gpt-4o-mini], pool: demo}}\n\
         default_model: {MODEL}\n\
         pools:\n  demo:\n    endpoints:\n"
    );
    for url in urls {
        let _ = writeln!(yaml, "      - {url}");
    }
    yaml
}

fn welcome(port: u16, urls: &[String]) -> String {
    format!(
        r#"Spillway demo: four simulated endpoints, the first two about ten times as fast as the others.
  {endpoints}
Try, in another terminal:

  curl -N http://127.0.0.1:{port}/v1/chat/completions -H 'content-type: application/json' \
    -d '{{"model": "{MODEL}", "stream": true, "max_tokens": 32, "messages": [{{"role": "user", "content": "Hello"}}]}}'

  curl http://127.0.0.1:{port}/v1/models
  curl http://127.0.0.1:9090/pools                        # what is known of each endpoint
  curl http://127.0.0.1:9090/explain -d '{{"model": "{MODEL}", "messages": [{{"role": "user", "content": "Hello"}}]}}'
  curl -s http://127.0.0.1:9091/metrics | grep spillway_picks_total

Ctrl-C ends it.
"#,
        endpoints = urls.join("\n  "),
    )
}
