//! What stands between client and servers for one run, started anew so that nobody has learned from the run before.

use std::ffi::OsString;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result};
use serde_json::json;

use super::arm::{Arm, Kind};
use super::client::Client;
use super::load::Deal;
use super::peer::{self, Programs};
use super::process::{Process, free_ports};
use crate::workload::random::Random;

/// What the arms of a session have in common.
#[derive(Clone, Debug)]
pub(super) struct Setting {
    /// The gateway's program.
    pub(super) gateway: PathBuf,
    /// Where the peers' programs are.
    pub(super) programs: Programs,
    /// Folder of configurations and logs, absolute.
    pub(super) folder: PathBuf,
    /// The core that what stands between is pinned to.
    pub(super) core: Option<u32>,
    /// Gateways.
    pub(super) gateways: usize,
    /// Time by the clock between two reads of a metrics page; `None` for never.
    pub(super) scrape: Option<Duration>,
    /// Model seconds per second.
    pub(super) scale: f64,
    /// Most requests that gateways may have at one endpoint.
    pub(super) concurrency: Option<u32>,
    /// Decides which gateway a request goes to.
    pub(super) seed: u64,
}

/// Running programs and where to send requests; they end with this.
#[derive(Debug)]
pub(super) struct Front {
    processes: Vec<Process>,
    targets: Vec<SocketAddr>,
    takes_turns: bool,
    seed: u64,
}

impl Setting {
    /// Starts what an arm is, in front of servers with these weights, and waits until it serves.
    pub(super) async fn start(&self, arm: &Arm, servers: &[(SocketAddr, f64)]) -> Result<Front> {
        let addresses: Vec<SocketAddr> = servers.iter().map(|(address, _)| *address).collect();
        let mut front = Front { processes: Vec::new(), targets: Vec::new(), takes_turns: false, seed: self.seed };
        match arm.kind {
            Kind::Direct => (front.targets, front.takes_turns) = (addresses, true),
            Kind::NullProxy => {
                let listen: Vec<SocketAddr> = free_ports(servers.len())?.into_iter().map(local).collect();
                let list = |addresses: &[SocketAddr]| -> OsString {
                    addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(",").into()
                };
                let program = std::env::current_exe().context("cannot find this program")?;
                let arguments =
                    ["null-proxy".into(), "--listen".into(), list(&listen), "--to".into(), list(&addresses)];
                let mut process = Process::start(&program, &arguments, self.core, &self.folder.join("null-proxy.log"))?;
                process.ready(listen[0], "/health").await?;
                (front.targets, front.takes_turns) = (listen, true);
                front.processes.push(process);
            }
            Kind::Spillway => {
                for number in 0..self.gateways {
                    let (process, target) = self.gateway(arm, servers, number).await?;
                    front.processes.push(process);
                    front.targets.push(target);
                }
            }
            _ => {
                let ports = free_ports(2)?;
                let (listen, metrics) = (local(ports[0]), local(ports[1]));
                let arguments = peer::arguments(arm, listen, metrics, &addresses, &self.folder)?;
                let log = self.folder.join(format!("{}.log", arm.kind.name()));
                let mut process = Process::start(&self.programs.find(arm.kind)?, &arguments, self.core, &log)?;
                process.ready(listen, "/v1/models").await.with_context(|| format!("{arm} does not serve"))?;
                front.processes.push(process);
                front.targets.push(listen);
            }
        }
        Ok(front)
    }

    async fn gateway(&self, arm: &Arm, servers: &[(SocketAddr, f64)], number: usize) -> Result<(Process, SocketAddr)> {
        let ports: Vec<SocketAddr> = free_ports(3)?.into_iter().map(local).collect();
        let text = self.configuration(arm, servers, &ports);
        let path = self.folder.join(format!("spillway-{number}.yaml"));
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        let log = self.folder.join(format!("spillway-{number}.log"));
        let mut process = Process::start(&self.gateway, &["--config".into(), path.into()], self.core, &log)?;
        process.ready(ports[1], "/readyz").await.with_context(|| format!("{arm} does not serve"))?;
        Ok((process, ports[0]))
    }

    /// The gateway's configuration: defaults, with times that are part of the load divided by the scale and limits that
    /// could end a request taken away. JSON is YAML too.
    fn configuration(&self, arm: &Arm, servers: &[(SocketAddr, f64)], ports: &[SocketAddr]) -> String {
        let ms = |wall: Duration| format!("{}ms", (wall.as_secs_f64() * 1e3).round().max(1.0));
        let endpoint =
            |(address, weight): &(SocketAddr, f64)| json!({"url": format!("http://{address}"), "weight": weight});
        let mut affinity = json!({"gateways": self.gateways});
        if let Some(limit) = self.concurrency {
            affinity["concurrency"] = limit.into();
        }
        let never = Duration::from_secs(3_600);
        let pool = json!({
            "endpoints": servers.iter().map(endpoint).collect::<Vec<_>>(),
            "policy": arm.policy,
            "affinity": affinity,
            "timeouts": {"connect": "10s", "ttft": "1h", "token_gap": "1h"},
            "health": {"interval": ms(Duration::from_secs(2).div_f64(self.scale)), "timeout": "10s"},
            "scrape": {"interval": ms(self.scrape.unwrap_or(never)), "timeout": "1s"},
        });
        let server = json!({
            "listen": [{"address": ports[0]}],
            "metrics": {"address": ports[1]},
            "admin": {"address": ports[2]},
            "threads": 1,
        });
        json!({"server": server, "pools": {"fleet": pool}}).to_string()
    }
}

impl Front {
    /// Ids of its programs.
    pub(super) fn ids(&self) -> Vec<u32> {
        self.processes.iter().map(Process::id).collect()
    }

    /// A client for each address, and how requests are dealt out to them.
    pub(super) fn clients(&self) -> (Vec<Client>, Deal) {
        let deal = if self.takes_turns { Deal::Turns(0) } else { Deal::Lots(Random::new(self.seed, "lots")) };
        (self.targets.iter().map(|&target| Client::new(target)).collect(), deal)
    }
}

fn local(port: u16) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, port))
}
