//! The endpoints of a pool as socket addresses: Pingora's discovery trait over the pool's list.
//!
//! Pingora knows a backend by its address alone, so this is also where addresses are joined with our endpoint ids.

pub(super) mod names;

use std::collections::{BTreeSet, HashMap};
use std::net::SocketAddr;
use std::sync::Arc;

use async_trait::async_trait;
use pingora_core::Result;
use pingora_load_balancing::Backend;
use pingora_load_balancing::discovery::ServiceDiscovery;
use tracing::warn;

use crate::address;
use crate::fleet::{Fleet, PoolState};

/// The list as of each look, with host names resolved.
pub(super) struct Listed {
    pub(super) fleet: Arc<Fleet>,
    pub(super) state: Arc<PoolState>,
}

#[async_trait]
impl ServiceDiscovery for Listed {
    async fn discover(&self) -> Result<(BTreeSet<Backend>, HashMap<u64, bool>)> {
        let before = self.state.roster().members().to_vec();
        let mut hosts = HashMap::new();
        for endpoint in before.iter().filter(|endpoint| address::literal(&endpoint.url).is_none()) {
            match address::resolve(&endpoint.url).await {
                Ok(socket) => drop(hosts.insert(endpoint.url.clone(), socket)),
                // A name server's hiccup must not take a working endpoint away.
                Err(error) if endpoint.address.is_none() => {
                    warn!(endpoint = %endpoint.id, %error, "endpoint does not resolve");
                }
                Err(_) => {}
            }
        }
        if !hosts.is_empty() {
            self.state.locate(&hosts, self.fleet.now());
        }
        let roster = self.state.roster();
        let addresses = roster.members().iter().filter_map(|member| member.address.as_ref());
        let backends = addresses.map(|address| backend(address.socket)).collect::<Result<_>>()?;
        Ok((backends, HashMap::new()))
    }
}

/// The backend Pingora knows an address by. The weight is always 1: it is part of a backend's identity, and a new weight
/// must not lose an endpoint's health.
pub(super) fn backend(socket: SocketAddr) -> Result<Backend> {
    Backend::new(&socket.to_string())
}
