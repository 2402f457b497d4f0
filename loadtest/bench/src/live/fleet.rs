//! The servers of a scenario in a thread of this process, and what they counted.

use std::net::SocketAddr;
use std::time::Instant;

use anyhow::{Context as _, Result};
use spillway_sim::fleet::{Fleet, Group, TimedFault};
use spillway_sim::{Config, Server};

use super::background::Background;
use super::client::Client;
use crate::scenario::Scenario;
use crate::virtual_time::{Counters, MODEL};

/// Running servers; they end with this.
#[derive(Debug)]
pub(super) struct Servers {
    all: Vec<Server>,
    started: Instant,
    scale: f64,
    /// After the servers, which end before it.
    home: Background,
}

/// The settings of a scenario's servers. `interval` is how many tokens an event may hold.
pub(super) fn configs(scenario: &Scenario, seed: u64, scale: f64, interval: u32) -> Vec<Config> {
    let listen = Config::default().listen;
    let group = |group: &Group| Group {
        listen,
        model: MODEL.to_owned(),
        adapters: scenario.adapters().iter().map(ToString::to_string).collect(),
        replica: "server".to_owned(),
        stream_interval: interval,
        prompt_tokens_details: true,
        scale_out: true,
        ..group.clone()
    };
    let fleet =
        Fleet { time_scale: scale, seed, endpoints: scenario.fleet.iter().map(group).collect(), faults: Vec::new() };
    let numbered = fleet.servers().into_iter().enumerate();
    // Seeds as in virtual time. No connection is closed because it is idle: that race is not what is measured.
    numbered.map(|(number, config)| Config { seed: seed ^ number as u64, idle_timeout: None, ..config }).collect()
}

impl Servers {
    /// Starts a server for each of the settings, which share one time scale, in a thread that may give way to all others.
    pub(super) async fn start(configs: Vec<Config>, gives_way: bool) -> Result<Self> {
        let scale = configs.first().map_or(1.0, |config| config.time_scale);
        let started = Instant::now();
        let home = Background::start(gives_way)?;
        let mut all = Vec::with_capacity(configs.len());
        for config in configs {
            let server = home.run(Server::start(config)).await?;
            all.push(server.context("cannot start a simulated server")?);
        }
        Ok(Self { all, started, scale, home })
    }

    pub(super) fn addresses(&self) -> Vec<SocketAddr> {
        self.all.iter().map(Server::addr).collect()
    }

    /// Forgets all that came before a run that begins at `origin`, and lets go wrong in it what is to go wrong.
    pub(super) fn begin(&mut self, faults: &[TimedFault], origin: Instant) {
        let _there = self.home.handle().enter();
        self.all.iter().for_each(Server::reset);
        let before = origin.saturating_duration_since(self.started).mul_f64(self.scale);
        for TimedFault { endpoint, at, lasts, fault } in faults {
            self.all[*endpoint].schedule(fault.clone(), before + *at, *lasts);
        }
    }

    /// What all of them have counted, by their metrics pages.
    pub(super) async fn counters(&self) -> Result<Counters> {
        let mut all = Counters::default();
        for address in self.addresses() {
            let page = Client::new(address).get("/metrics").await?.context("a server has no metrics page")?;
            let page = String::from_utf8_lossy(&page);
            let count = |family: &str| -> u64 {
                let lines =
                    page.lines().filter(|line| line.starts_with(family) && line[family.len()..].starts_with('{'));
                lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum::<f64>() as u64
            };
            all.output += count("vllm:generation_tokens_total");
            all.queries += count("vllm:prefix_cache_queries_total");
            all.hits += count("vllm:prefix_cache_hits_total");
            all.preemptions += count("vllm:num_preemptions_total");
        }
        Ok(all)
    }
}
