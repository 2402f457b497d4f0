//! The endpoints of a pool at one moment, and where each one is.
//!
//! Whatever names them, the configuration or DNS, this is the one list that everything else reads. A change makes another
//! list whole; only [`PoolState`](super::PoolState) does so, one writer at a time.

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::sync::Arc;

use spillway_picker::pool::EndpointSpec;

use crate::address::Address;
use crate::config;
use crate::config::{Dns, EndpointUrl};
use crate::dns;

/// One endpoint of a pool.
#[derive(Clone, Debug, PartialEq)]
pub struct Member {
    /// `scheme://host:port`: its identity everywhere.
    pub id: Arc<str>,
    /// The same, taken apart.
    pub url: EndpointUrl,
    /// Its share relative to the others.
    pub weight: f64,
    /// Facts for filters and scorers.
    pub labels: BTreeMap<String, String>,
    /// Where it is; `None` until its host name has been resolved.
    pub address: Option<Arc<Address>>,
}

impl Member {
    /// An endpoint of the configuration. `socket` is where its host name led, if it has led anywhere.
    pub(super) fn listed(endpoint: &config::Endpoint, socket: Option<SocketAddr>, http2: bool) -> Self {
        let url = endpoint.url.clone();
        let address = socket.map(|socket| Arc::new(Address::new(socket, &url, http2, None)));
        Self { id: url.to_string().into(), url, weight: endpoint.weight, labels: endpoint.labels.clone(), address }
    }

    /// An endpoint that DNS has led to.
    pub(super) fn found(dns: &Dns, socket: SocketAddr, found: &dns::Found, http2: bool) -> Self {
        let url = EndpointUrl::of_socket(dns.scheme, socket);
        let address = Arc::new(Address::new(socket, &url, http2, found.tls_name.as_ref()));
        let (id, labels) = (url.to_string().into(), BTreeMap::new());
        Self { id, url, weight: found.weight, labels, address: Some(address) }
    }

    pub(super) fn spec(&self) -> EndpointSpec {
        EndpointSpec { id: Arc::clone(&self.id), weight: self.weight, labels: self.labels.clone() }
    }
}

/// The endpoints of a pool.
#[derive(Clone, Debug, Default)]
pub struct Roster {
    members: Vec<Member>,
    /// Where they are, and where those were that went with the latest change: a request may have picked one and not have
    /// asked yet.
    addresses: HashMap<Arc<str>, Arc<Address>>,
}

impl Roster {
    /// The list that follows `before`.
    pub(super) fn after(before: &Self, members: Vec<Member>) -> Self {
        let known = before.members.iter().chain(&members);
        let addresses = known.filter_map(|member| Some((Arc::clone(&member.id), member.address.clone()?))).collect();
        Self { members, addresses }
    }

    /// The endpoints, each once.
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// Where an endpoint is, once that is known.
    pub fn address(&self, endpoint: &str) -> Option<&Arc<Address>> {
        self.addresses.get(endpoint)
    }
}
