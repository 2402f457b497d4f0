//! The endpoints of a pool as socket addresses: Pingora's discovery trait over the configured list.
//!
//! Pingora knows a backend by its address alone, so this is also where addresses are joined with our endpoint ids.

use std::collections::{BTreeSet, HashMap};
use std::net::SocketAddr;
use std::sync::Arc;

use async_trait::async_trait;
use pingora_core::{Error, ErrorType, Result};
use pingora_load_balancing::Backend;
use pingora_load_balancing::discovery::ServiceDiscovery;
use tracing::warn;

use crate::address::Address;
use crate::fleet::LivePool;

/// The configured list, with host names resolved on each look.
pub(super) struct Listed {
    pub(super) pool: Arc<LivePool>,
}

#[async_trait]
impl ServiceDiscovery for Listed {
    async fn discover(&self) -> Result<(BTreeSet<Backend>, HashMap<u64, bool>)> {
        let before = self.pool.state.addresses();
        let mut addresses = HashMap::new();
        let mut backends = BTreeSet::new();
        for endpoint in &self.pool.settings.endpoints {
            let id: Arc<str> = endpoint.url.to_string().into();
            let socket = match resolve(endpoint.url.host(), endpoint.url.port()).await {
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
            addresses.insert(id, Address { socket, url: endpoint.url.clone(), http2: self.pool.settings.http2 });
        }
        self.pool.state.set_addresses(addresses);
        Ok((backends, HashMap::new()))
    }
}

/// The backend Pingora knows an address by. The weight is always 1: it is part of a backend's identity, and a new weight
/// must not lose an endpoint's health.
pub(super) fn backend(socket: SocketAddr) -> Result<Backend> {
    Backend::new(&socket.to_string())
}

async fn resolve(host: &str, port: u16) -> Result<SocketAddr> {
    if let Ok(ip) = host.parse() {
        return Ok(SocketAddr::new(ip, port));
    }
    let mut found = tokio::net::lookup_host((host, port))
        .await
        .map_err(|error| Error::because(ErrorType::ConnectError, "name does not resolve", error))?;
    found.next().ok_or_else(|| Error::explain(ErrorType::ConnectError, "name has no address"))
}
