//! The endpoints of a pool as socket addresses: Pingora's discovery trait over the configured list.
//!
//! Pingora knows a backend by its address alone, so this is also where addresses are joined with our endpoint ids.

use std::collections::{BTreeSet, HashMap};
use std::net::SocketAddr;
use std::sync::Arc;

use async_trait::async_trait;
use pingora_core::Result;
use pingora_load_balancing::Backend;
use pingora_load_balancing::discovery::ServiceDiscovery;
use tracing::warn;

use crate::address::{self, Address};
use crate::fleet::{Fleet, PoolState};

/// The configured list, as of each look, with host names resolved.
pub(super) struct Listed {
    pub(super) fleet: Arc<Fleet>,
    pub(super) state: Arc<PoolState>,
}

#[async_trait]
impl ServiceDiscovery for Listed {
    async fn discover(&self) -> Result<(BTreeSet<Backend>, HashMap<u64, bool>)> {
        let before = self.state.addresses();
        let mut addresses = HashMap::new();
        let mut backends = BTreeSet::new();
        let Some(pool) = self.fleet.current(&self.state) else { return Ok((backends, HashMap::new())) };
        for endpoint in &pool.settings.endpoints {
            let id: Arc<str> = endpoint.url.to_string().into();
            let socket = match address::resolve(&endpoint.url).await {
                Ok(socket) => Some(socket),
                Err(error) => {
                    // A name server's hiccup must not take a working endpoint away.
                    let known = before.get(&id).map(|address| address.socket);
                    if known.is_none() {
                        warn!(endpoint = %id, %error, "endpoint does not resolve");
                    }
                    known
                }
            };
            let Some(socket) = socket else { continue };
            backends.insert(backend(socket)?);
            addresses.insert(id, Address { socket, url: endpoint.url.clone(), http2: pool.settings.http2 });
        }
        // After a change of the configuration meanwhile, the next look is due already.
        if self.fleet.current(&self.state).is_some_and(|now| Arc::ptr_eq(&now, &pool)) {
            self.state.set_addresses(addresses);
        }
        Ok((backends, HashMap::new()))
    }
}

/// The backend Pingora knows an address by. The weight is always 1: it is part of a backend's identity, and a new weight
/// must not lose an endpoint's health.
pub(super) fn backend(socket: SocketAddr) -> Result<Backend> {
    Backend::new(&socket.to_string())
}
