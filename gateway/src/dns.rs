//! Asks DNS where the endpoints of a pool are.
//!
//! An answer is whole, or part of it did not come: IPv4 addresses came and the question for IPv6 timed out. What a part
//! does not have may still be there.

pub mod overlap;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream;
use hickory_resolver::TokioResolver;
use hickory_resolver::config::{ConnectionConfig, NameServerConfig, ResolveHosts, ResolverConfig};
use hickory_resolver::lookup::Lookup;
use hickory_resolver::net::NetError;
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::proto::ProtoError;
use hickory_resolver::proto::rr::rdata::SRV;
use hickory_resolver::proto::rr::{Name, RData, Record, RecordType};

use crate::config::{Dns, Records, Scheme};

/// Longest time for all the questions of one look: a name server that takes longer is as good as silent, and the next look
/// is due.
const LOOK: Duration = Duration::from_secs(5);

/// Longest wait before a question is sent again. Name servers answer within milliseconds or have lost the packet.
const QUESTION: Duration = Duration::from_secs(1);

/// Questions sent again after a loss: with [`QUESTION`], one kind of record that is never answered leaves time for the
/// other within [`LOOK`].
const TRIES_MORE: usize = 2;

/// Hosts of SRV records asked for at a time, where the name server did not send their addresses along.
const AT_A_TIME: usize = 16;

/// Least weight of an endpoint, as in the configuration. An SRV weight of 0 asks for next to nothing, which this is.
const LEAST_WEIGHT: f64 = 0.01;

/// What is known of an endpoint besides its address.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// Its share relative to the others: 1 for the largest.
    pub weight: f64,
    /// The name its certificate must be for.
    pub tls_name: Option<Arc<str>>,
}

/// Where a name led at one look.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// The endpoints; never none.
    pub endpoints: BTreeMap<SocketAddr, Found>,
    /// Whether every question was answered.
    pub is_whole: bool,
}

/// Why a look found nothing.
#[derive(Debug, thiserror::Error)]
pub enum LookError {
    /// The name is known to have no records, or not to exist.
    #[error("the name has no records")]
    Empty,
    /// The name servers did not answer in time.
    #[error("no answer within {LOOK:?}")]
    Late,
    /// What is configured is longer than DNS allows once search domains are added.
    #[error("not a name")]
    Name(#[from] ProtoError),
    /// The name servers could not be asked, or refused.
    #[error(transparent)]
    Net(#[from] NetError),
}

/// Asks one question again and again.
pub struct Resolver {
    dns: Dns,
    /// Made at a look and kept while looks succeed, so that a changed system configuration is found when the name servers
    /// of the old one are gone.
    inner: Option<TokioResolver>,
}

impl Resolver {
    /// A resolver for what `dns` asks.
    pub fn new(dns: Dns) -> Self {
        Self { dns, inner: None }
    }

    /// The question.
    pub fn dns(&self) -> &Dns {
        &self.dns
    }

    /// Asks. Takes 5 s at most.
    pub async fn look(&mut self) -> Result<Answer, LookError> {
        let outcome = match tokio::time::timeout(LOOK, self.ask()).await {
            Ok(outcome) => outcome,
            Err(_) => Err(LookError::Late),
        };
        if outcome.is_err() {
            self.inner = None;
        }
        outcome
    }

    async fn ask(&mut self) -> Result<Answer, LookError> {
        let resolver = match self.inner.take() {
            Some(resolver) => resolver,
            None => build(&self.dns)?,
        };
        let resolver = self.inner.insert(resolver);
        let name = Name::from_str_relaxed(&self.dns.name)?;
        let answer = match self.dns.records {
            Records::Addresses => {
                let (addresses, is_whole) = addresses(resolver, name).await?;
                let port = self.dns.port.unwrap_or_default();
                let found = Found { weight: 1.0, tls_name: tls_name(&self.dns, &self.dns.name) };
                let socket = |ip| (SocketAddr::new(ip, port), found.clone());
                Answer { endpoints: addresses.into_iter().map(socket).collect(), is_whole }
            }
            Records::Srv => services(resolver, name, &self.dns).await?,
        };
        if answer.endpoints.is_empty() { Err(LookError::Empty) } else { Ok(answer) }
    }
}

fn build(dns: &Dns) -> Result<TokioResolver, NetError> {
    let mut builder = if dns.servers.is_empty() {
        TokioResolver::builder_tokio()?
    } else {
        let server = |server: &SocketAddr| {
            let on_port = |mut connection: ConnectionConfig| {
                connection.port = server.port();
                connection
            };
            let connections = [ConnectionConfig::udp(), ConnectionConfig::tcp()].map(on_port);
            NameServerConfig::new(server.ip(), true, connections.into())
        };
        let servers = dns.servers.iter().map(server).collect();
        let config = ResolverConfig::from_name_servers(servers);
        let mut builder = TokioResolver::builder_with_config(config, TokioRuntimeProvider::default());
        builder.options_mut().use_hosts_file = ResolveHosts::Never;
        builder
    };
    let options = builder.options_mut();
    options.timeout = options.timeout.min(QUESTION);
    options.attempts = TRIES_MORE;
    // Each look is to see what is true then.
    options.cache_size = 0;
    options.positive_max_ttl = Some(Duration::ZERO);
    options.negative_max_ttl = Some(Duration::ZERO);
    builder.build()
}

/// IPv4 and IPv6 addresses of a name, and whether both kinds were answered. An error only if none of either came and one
/// kind was not answered.
async fn addresses(resolver: &TokioResolver, name: Name) -> Result<(BTreeSet<IpAddr>, bool), NetError> {
    let v4 = answered(resolver.lookup(name.clone(), RecordType::A).await);
    // Under the name that was found: addresses from two search domains must not be mixed.
    let found = v4.as_ref().ok().and_then(Option::as_ref).map(|lookup| lookup.query().name().clone());
    let v6 = answered(resolver.lookup(found.unwrap_or(name), RecordType::AAAA).await);
    let is_whole = v4.is_ok() && v6.is_ok();
    let mut error = None;
    let mut addresses = BTreeSet::new();
    for kind in [v4, v6] {
        match kind {
            Ok(lookup) => addresses.extend(lookup.iter().flat_map(Lookup::answers).filter_map(address)),
            Err(failed) => error = Some(failed),
        }
    }
    match error {
        Some(error) if addresses.is_empty() => Err(error),
        _ => Ok((addresses, is_whole)),
    }
}

/// That a name has no such records is an answer.
fn answered(outcome: Result<Lookup, NetError>) -> Result<Option<Lookup>, NetError> {
    match outcome {
        Ok(lookup) => Ok(Some(lookup)),
        Err(error) if error.is_no_records_found() => Ok(None),
        Err(error) => Err(error),
    }
}

/// The address in a record, if one server can be there. An unspecified one, by which filtering name servers say no, would
/// lead to this machine; a link-local one lacks the interface it needs.
fn address(record: &Record) -> Option<IpAddr> {
    let ip = match &record.data {
        RData::A(v4) => IpAddr::V4(v4.0),
        RData::AAAA(v6) => IpAddr::V6(v6.0).to_canonical(),
        _ => return None,
    };
    let is_nowhere = match ip {
        IpAddr::V4(v4) => v4.is_unspecified() || v4.is_multicast() || v4.is_broadcast(),
        IpAddr::V6(v6) => v6.is_unspecified() || v6.is_multicast() || v6.is_unicast_link_local(),
    };
    (!is_nowhere).then_some(ip)
}

/// Addresses of the host of an SRV record: of IPv4, or else of IPv6. It is one server, and the load of one that counts as
/// two endpoints would be known in neither place.
async fn host_addresses(resolver: &TokioResolver, host: Name) -> Result<BTreeSet<IpAddr>, NetError> {
    for kind in [RecordType::A, RecordType::AAAA] {
        let lookup = answered(resolver.lookup(host.clone(), kind).await)?;
        let addresses: BTreeSet<IpAddr> = lookup.iter().flat_map(Lookup::answers).filter_map(address).collect();
        if !addresses.is_empty() {
            return Ok(addresses);
        }
    }
    Ok(BTreeSet::new())
}

/// The endpoints that SRV records lead to. Where several priorities are given, those with the lowest number: the others are
/// for when those are gone.
async fn services(resolver: &TokioResolver, name: Name, dns: &Dns) -> Result<Answer, LookError> {
    let lookup = answered(resolver.lookup(name, RecordType::SRV).await)?.ok_or(LookError::Empty)?;
    let records = lookup.answers().iter().filter_map(|record| match &record.data {
        RData::SRV(srv) if !srv.target.is_root() && srv.port != 0 => Some(srv),
        _ => None,
    });
    let mut records: Vec<&SRV> = records.collect();
    let lowest = records.iter().map(|srv| srv.priority).min();
    records.retain(|srv| Some(srv.priority) == lowest);
    // Of two that lead to one place the first counts, and name servers rotate their answers.
    records.sort_by(|one, other| (&one.target, one.port, one.weight).cmp(&(&other.target, other.port, other.weight)));

    let mut hosts: HashMap<Name, BTreeSet<IpAddr>> = HashMap::new();
    for record in lookup.additionals() {
        if let Some(ip) = address(record) {
            hosts.entry(record.name.to_lowercase()).or_default().insert(ip);
        }
    }
    for addresses in hosts.values_mut() {
        if addresses.iter().any(IpAddr::is_ipv4) {
            addresses.retain(IpAddr::is_ipv4);
        }
    }
    let missing: BTreeSet<Name> = records.iter().map(|srv| srv.target.to_lowercase()).collect();
    let missing = missing.into_iter().filter(|host| !hosts.contains_key(host));
    let ask = async |host: Name| (host.clone(), host_addresses(resolver, host).await);
    let asked: Vec<_> = stream::iter(missing).map(ask).buffer_unordered(AT_A_TIME).collect().await;
    let mut is_whole = true;
    for (host, outcome) in asked {
        match outcome {
            Ok(addresses) => drop(hosts.insert(host, addresses)),
            Err(_) => is_whole = false,
        }
    }

    let most = records.iter().map(|srv| srv.weight).max().unwrap_or_default();
    let mut endpoints = BTreeMap::new();
    for srv in records {
        let Some(addresses) = hosts.get(&srv.target.to_lowercase()) else { continue };
        let weight = if most == 0 { 1.0 } else { (f64::from(srv.weight) / f64::from(most)).max(LEAST_WEIGHT) };
        let found = Found { weight, tls_name: tls_name(dns, &srv.target.to_ascii()) };
        for ip in addresses {
            endpoints.entry(SocketAddr::new(*ip, srv.port)).or_insert_with(|| found.clone());
        }
    }
    Ok(Answer { endpoints, is_whole })
}

fn tls_name(dns: &Dns, host: &str) -> Option<Arc<str>> {
    (dns.scheme == Scheme::Https).then(|| host.strip_suffix('.').unwrap_or(host).into())
}
