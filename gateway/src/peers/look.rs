//! Looks where the other gateways are, again and again where names lead to them.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use tracing::{info, warn};

use super::directory::Directory;
use crate::config;
use crate::dns::Resolver;
use crate::dns::overlap::Overlap;

/// Time between two looks at host names of the list: as with the names of pools.
const INTERVAL: Duration = Duration::from_secs(5);

/// The same while there is a name that has led nowhere yet.
const WHILE_UNKNOWN: Duration = Duration::from_secs(1);

/// Longest wait for where a name of the list leads.
const LOOK_UP: Duration = Duration::from_secs(5);

/// Runs until it is dropped.
pub(super) async fn run(config: config::Peers, directory: Arc<Mutex<Directory>>) {
    let mut names = Names::default();
    let mut resolver = config.dns.as_ref().map(|dns| Resolver::new(dns.question()));
    let mut overlap = Overlap::default();
    let literal = |gateway: &String| gateway.parse::<SocketAddr>().ok();
    let (listed, hosts): (Vec<_>, Vec<_>) = config.gateways.iter().partition(|gateway| literal(gateway).is_some());
    let listed: Vec<SocketAddr> = listed.into_iter().filter_map(literal).collect();
    loop {
        let began = Instant::now();
        // At once, whatever the names do.
        let mut found: Vec<Vec<SocketAddr>> = listed.iter().map(|address| vec![*address]).collect();
        set(&directory, found.iter().cloned().chain(names.found()));
        for host in &hosts {
            let outcome = match tokio::time::timeout(LOOK_UP, tokio::net::lookup_host(host.as_str())).await {
                Ok(Ok(addresses)) => Ok(addresses.collect()),
                Ok(Err(error)) => Err(error.to_string()),
                Err(_) => Err("no answer".to_owned()),
            };
            names.take(host, outcome);
        }
        if let (Some(resolver), Some(dns)) = (&mut resolver, &config.dns) {
            let outcome = resolver.look().await.map(|answer| {
                overlap.take(&answer);
                overlap.endpoints().map(|(address, _)| address).collect()
            });
            names.take(&dns.name, outcome.map_err(|error| error.to_string()));
        }
        found.extend(names.found());
        set(&directory, found);
        if hosts.is_empty() && resolver.is_none() {
            return std::future::pending().await;
        }
        let interval = config.dns.as_ref().map_or(INTERVAL, |dns| dns.interval);
        let interval = if names.all_lead() { interval } else { interval.min(WHILE_UNKNOWN) };
        // A little apart from the gateways that were started together.
        tokio::time::sleep_until(began + interval.mul_f64(0.9 + 0.2 * fastrand::f64())).await;
    }
}

fn set(directory: &Mutex<Directory>, found: impl IntoIterator<Item = Vec<SocketAddr>>) {
    directory.lock().unwrap_or_else(PoisonError::into_inner).set(found);
}

/// Where names have led. One that leads nowhere for a while keeps what it led to.
#[derive(Default)]
struct Names(BTreeMap<String, Name>);

#[derive(Default)]
struct Name {
    addresses: Vec<SocketAddr>,
    is_failing: bool,
}

impl Names {
    fn take(&mut self, name: &str, outcome: Result<Vec<SocketAddr>, String>) {
        let known = self.0.entry(name.to_owned()).or_default();
        match outcome {
            Ok(addresses) => {
                known.addresses = addresses;
                if std::mem::take(&mut known.is_failing) {
                    info!(name, "name leads to peers again");
                }
            }
            Err(error) => {
                // Once per outage.
                if !std::mem::replace(&mut known.is_failing, true) {
                    warn!(name, error, "name leads to no peer, those known stay");
                }
            }
        }
    }

    fn found(&self) -> impl Iterator<Item = Vec<SocketAddr>> {
        self.0.values().map(|name| name.addresses.clone())
    }

    fn all_lead(&self) -> bool {
        self.0.values().all(|name| !name.addresses.is_empty())
    }
}
