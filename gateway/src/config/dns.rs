//! The `dns` section of a pool: a name that leads to its endpoints, instead of a list of them.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use super::cursor::Cursor;
use super::field;
use super::form::Refused;
use super::problem::Problem;
use super::url::{Scheme, is_host};

/// A name that leads to the endpoints of a pool, asked for again and again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Dns {
    /// The name. The system's search domains apply, unless it ends with a dot or `servers` are given.
    #[schemars(schema_with = "name")]
    pub name: String,
    /// The port of each address. Needed with `type: addresses`; SRV records have their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u16", range(min = 1, max = 65535))]
    pub port: Option<u16>,
    /// Which records are asked for.
    #[serde(default, rename = "type")]
    pub records: Records,
    /// How endpoints are spoken to. With `https`, certificates must be for `name`; with SRV, for the record's host.
    #[serde(default)]
    pub scheme: Scheme,
    /// Time between two looks. Answers are not kept longer than this, whatever their time to live.
    #[serde(default = "interval", with = "field::duration")]
    #[schemars(schema_with = "field::span")]
    pub interval: Duration,
    /// Name servers to ask instead of the system's: IP address and port.
    #[serde(default)]
    #[schemars(schema_with = "addresses")]
    pub servers: Vec<SocketAddr>,
}

/// Kinds of DNS records that lead to endpoints.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Records {
    /// A and AAAA together.
    #[default]
    Addresses,
    /// SRV: host, port and weight of each endpoint; of several priorities, the lowest number.
    Srv,
}

impl Dns {
    /// Whether `other` leads to the same endpoints: all but how often it is asked for.
    pub fn is_same_question(&self, other: &Self) -> bool {
        Self { interval: other.interval, ..self.clone() } == *other
    }
}

/// Between Kubernetes' readiness and a client's patience: a server that comes waits seconds for its first request, and one
/// that goes is left after two looks.
pub(super) fn interval() -> Duration {
    Duration::from_secs(5)
}

pub(super) fn name(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "x-form": "dns name"})
}

fn addresses(generator: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "array", "items": field::address(generator)})
}

/// Checks that a text can be asked for.
pub(super) fn check_name(text: &str) -> Result<(), Refused> {
    if text.trim_matches(['[', ']']).parse::<IpAddr>().is_ok() {
        return Err(Refused::new("is an address and needs no DNS; list it under endpoints"));
    }
    if is_host(text) {
        return Ok(());
    }
    Err(Refused::new("is not a name such as vllm.default.svc"))
}

/// A pool has a list of endpoints or a name, and the name what its kind of record lacks.
pub(super) fn check(pool: &Cursor<'_>, problems: &mut Vec<Problem>) {
    let Some(dns) = pool.at("dns") else {
        if pool.at("endpoints").is_none() {
            let path = super::cursor::join(&pool.path, "endpoints");
            let hint = "it is a list; or give dns, a name that leads to them".to_owned();
            problems.push(Problem::new(path, pool.key, "is missing").with_hint(Some(hint)));
        }
        return;
    };
    if pool.at("endpoints").is_some() {
        problems.push(dns.key_problem("cannot stand beside endpoints; give one of them"));
    }
    let is_srv = dns.at("type").is_some_and(|records| records.text() == Some("srv"));
    match dns.at("port") {
        Some(port) if is_srv => {
            problems.push(port.key_problem("has no meaning with SRV, whose records have their own"));
        }
        None if !is_srv && dns.at("name").is_some() => {
            let path = super::cursor::join(&dns.path, "port");
            problems.push(Problem::new(path, dns.key, "is missing").with_hint(Some("it is a whole number".to_owned())));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::check_name;

    #[test]
    fn a_name_is_no_address() {
        for name in ["vllm", "vllm.default.svc", "_http._tcp.vllm.", "vllm_1.example"] {
            assert_eq!(check_name(name), Ok(()), "{name}");
        }
        for name in ["10.0.0.1", "::1", "[::1]", "a..b", ".", "http://a", "a:80", "\u{e4}"] {
            assert!(check_name(name).is_err(), "{name} must be refused");
        }
    }
}
