//! The `events` key of `affinity`: where endpoints tell of what comes into their caches and goes.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use super::cursor::Cursor;
use super::field;
use super::problem::Problem;
use super::tree::Value;

/// Where endpoints publish KV events over ZMQ.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Events {
    /// Each endpoint is asked: vLLM at `/kv_event_sources`, SGLang at `/server_info`.
    Auto,
    /// At these ports of every endpoint's host.
    #[serde(untagged)]
    At(EventPorts),
}

/// Ports of every endpoint's host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EventPorts {
    /// Where events are published.
    #[schemars(range(min = 1, max = 65535))]
    pub port: u16,
    /// Where those that were missed are sent again; without it a gap cannot be filled.
    #[serde(default, with = "field::off")]
    #[schemars(schema_with = "port_or_off")]
    pub replay_port: Option<u16>,
    /// Data-parallel ranks of an endpoint; each has both ports, counted up from these.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 1024))]
    pub ranks: u16,
    /// What messages begin with; without it all are taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub topic: Option<String>,
}

fn one() -> u16 {
    1
}

fn port_or_off(_: &mut SchemaGenerator) -> Schema {
    field::or_off(&json_schema!({"type": "integer", "minimum": 1, "maximum": 65535}))
}

/// Ports of all ranks must be ports, and no two the same.
pub(super) fn check(pool: &Cursor<'_>, problems: &mut Vec<Problem>) {
    let Some(events) = pool.along(&["affinity", "events"]) else { return };
    let number = |key: &str| match &events.at(key)?.node.value {
        Value::Number(number) => number.as_u64().filter(|number| (1..=65_535).contains(number)),
        _ => None,
    };
    let ranks = number("ranks").unwrap_or(1);
    for key in ["port", "replay_port"] {
        if let (Some(first), Some(cursor)) = (number(key), events.at(key))
            && first + ranks - 1 > 65_535
        {
            problems.push(cursor.problem(format!("there are not {ranks} ports from here")));
        }
    }
    if let (Some(port), Some(replay), Some(cursor)) = (number("port"), number("replay_port"), events.at("replay_port"))
        && port.abs_diff(replay) < ranks
    {
        problems.push(cursor.problem(format!("is one of the {ranks} ports from {port}, where events are published")));
    }
}
