//! The `peers` section: the other gateways in front of the same endpoints, and how this one talks to them.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use super::cursor::{Cursor, join};
use super::dns::{interval, name};
use super::field;
use super::form::{Refused, parse_address};
use super::problem::Problem;
use super::url::is_host;
use super::{Dns, Records, Scheme};

/// Other gateways, with which this one exchanges over UDP what each has in flight, and hashes of its prompts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Peers {
    /// The UDP address where the others are heard, and from which they are spoken to.
    #[serde(with = "field::off")]
    #[schemars(schema_with = "address_or_off")]
    pub listen: Option<SocketAddr>,
    /// Where the gateways are: host and port of each. This one may be among them. This or `dns`.
    #[schemars(schema_with = "gateways")]
    pub gateways: Vec<String>,
    /// A name that leads to all of them, such as that of a headless Service.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "PeersDns")]
    pub dns: Option<PeersDns>,
    /// A file of at least 16 bytes that all gateways have: who knows its content can make them avoid or prefer
    /// endpoints. White space at its ends does not count.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub secret_file: Option<PathBuf>,
}

/// A name that leads to gateways, asked for again and again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PeersDns {
    /// The name. The system's search domains apply, unless it ends with a dot or `servers` are given.
    #[schemars(schema_with = "name")]
    pub name: String,
    /// The UDP port of each address.
    #[schemars(range(min = 1, max = 65535))]
    pub port: u16,
    /// Time between two looks.
    #[serde(default = "interval", with = "field::duration")]
    #[schemars(schema_with = "field::span")]
    pub interval: Duration,
    /// Name servers to ask instead of the system's: IP address and port.
    #[serde(default)]
    #[schemars(schema_with = "servers")]
    pub servers: Vec<SocketAddr>,
}

impl PeersDns {
    /// The question, as it is asked for endpoints.
    pub fn question(&self) -> Dns {
        Dns {
            name: self.name.clone(),
            port: Some(self.port),
            records: Records::Addresses,
            scheme: Scheme::default(),
            interval: self.interval,
            servers: self.servers.clone(),
        }
    }
}

fn address_or_off(generator: &mut SchemaGenerator) -> Schema {
    field::or_off(&field::address(generator))
}

fn gateways(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "array", "items": {"type": "string", "x-form": "host and port"}})
}

fn servers(generator: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "array", "items": field::address(generator)})
}

/// Checks that a text leads to a gateway.
pub(super) fn check_gateway(text: &str) -> Result<(), Refused> {
    let is_port = |port: &str| port.parse::<u16>().is_ok_and(|port| port > 0);
    let is_good = match text.parse::<SocketAddr>() {
        Ok(address) => address.port() > 0 && !address.ip().is_unspecified(),
        Err(_) => text.rsplit_once(':').is_some_and(|(host, port)| is_host(host) && is_port(port)),
    };
    if is_good { Ok(()) } else { Err(Refused::new("is not host and port of a gateway, such as 10.0.0.5:8766")) }
}

/// Who listens has a secret and knows where the others are, in one way.
pub(super) fn check(root: &Cursor<'_>, problems: &mut Vec<Problem>) {
    let Some(peers) = root.at("peers") else { return };
    let gateways = peers.at("gateways").filter(|gateways| gateways.items().next().is_some());
    if let (Some(dns), Some(_)) = (peers.at("dns"), &gateways) {
        problems.push(dns.key_problem("cannot stand beside gateways; give one of them"));
    }
    let Some(listen) = peers.at("listen") else {
        return;
    };
    let Some(address) = listen.text().and_then(|text| parse_address(text).ok()) else { return };
    if address.port() == 0 {
        problems.push(listen.problem("has no port, by which the others know where to send"));
    }
    let mut missing = |key: &str, hint: &str| {
        let problem = Problem::new(join(&peers.path, key), peers.key, "is missing");
        problems.push(problem.with_hint(Some(hint.to_owned())));
    };
    if peers.at("dns").is_none() && gateways.is_none() {
        missing("gateways", "it is a list of host:port; or give dns, a name that leads to them");
    }
    if peers.at("secret_file").is_none() {
        missing("secret_file", "without a secret anybody could tell this gateway anything");
    }
}

#[cfg(test)]
mod tests {
    use super::check_gateway;

    #[test]
    fn a_gateway_is_a_host_and_a_port() {
        for text in ["10.0.0.1:8766", "[fd00::1]:8766", "spillway-0.peers.default.svc:8766", "localhost:1"] {
            assert_eq!(check_gateway(text), Ok(()), "{text}");
        }
        for text in ["10.0.0.1", "a", "a:", ":1", "a:0", "0.0.0.0:1", "[::]:1", "a:70000", "http://a:1", "a b:1", ""] {
            assert!(check_gateway(text).is_err(), "{text} must be refused");
        }
    }
}
