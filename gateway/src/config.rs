//! The configuration file: its types, how it is loaded, and what a change of it means.
//!
//! The structs below are at once the file's schema and what the rest of the gateway reads: a value that exists has been
//! checked. Loading takes four steps, each in its own file: `tree` reads YAML and keeps positions, `shape` checks keys
//! and types against the JSON Schema generated from the structs, `meaning` checks what no schema can say, and `serde_yaml`
//! builds the structs last, when nothing can fail any more. So all problems are found at once, each with line and column.
//!
//! The one thing to know before adding a key: a key that does nothing yet must not be here. What is not here is refused.

mod auth;
mod cursor;
pub mod diff;
mod dns;
mod events;
mod field;
mod form;
mod meaning;
mod model;
mod peers;
mod pool;
mod problem;
mod server;
mod shape;
#[cfg(test)]
mod tests;
mod trace;
mod tree;
mod url;
pub mod watch;

use std::collections::BTreeMap;

use once_cell::sync::Lazy;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use xxhash_rust::xxh3::xxh3_64;

pub use self::auth::{Auth, KeyEntry, KeyFile, keys_schema_json, load_keys};
pub use self::dns::{Dns, Records};
pub use self::events::{EventPorts, Events};
pub use self::model::{Arm, Model, Sticky};
pub use self::peers::{Peers, PeersDns};
pub use self::pool::{
    Affinity, Custom, Endpoint, Engine, Health, Policies, Policy, Pool, PoolLimits, Retries, Scrape, Select, Timeouts,
    Trial,
};
pub use self::problem::{Problem, Problems};
pub use self::server::{Admin, Limits, Listen, Metrics, Server};
pub use self::trace::Trace;
pub use self::url::{EndpointUrl, Scheme};

use self::cursor::Cursor;

/// Bits of a fingerprint. An `f64`, which is what a gauge holds, is exact up to 53.
const FINGERPRINT_BITS: u32 = 48;

/// The file's schema. Generating it takes longer than checking a file against it, and `/reload` may be called often.
#[expect(clippy::non_std_lazy_statics, reason = "once_cell is one of the project's given crates")]
static SCHEMA: Lazy<Value> = Lazy::new(|| schemars::schema_for!(Config).to_value());

/// The whole configuration, checked. [`load`] is the way to make one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(extend("required" = ["pools"]), title = "Spillway configuration")]
pub struct Config {
    /// Listeners and threads. Read at start: a change here needs a restart.
    pub server: Server,
    /// What one request and all requests together may take of this process.
    pub limits: Limits,
    /// Who may ask.
    pub auth: Auth,
    /// A record of the traffic for `spillway replay`.
    pub trace: Trace,
    /// Other gateways in front of the same endpoints.
    pub peers: Peers,
    /// Names that clients ask for and where each leads. Names that the endpoints list themselves need no entry here.
    pub models: Vec<Model>,
    /// The name used when a request has none. It must be listed under `models`, or in the `adapters` of a pool, unless
    /// `models` is empty. Without it such a request is refused, unless one pool and no `models` is all there is.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub default_model: Option<String>,
    /// The zone this gateway is in. The scorer `locality` compares it with the label `zone` of endpoints.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub zone: Option<String>,
    /// Endpoints that serve the same base model, by a name of your choice: letters, digits, `.`, `_`, `-`.
    #[schemars(extend("minProperties" = 1))]
    pub pools: BTreeMap<String, Pool>,
}

/// The names that a policy may use: the built-in ones and those a user has registered.
///
/// Empty lists know nothing, so that a gateway that forgets to fill them refuses every policy, at once and visibly.
#[derive(Clone, Debug, Default)]
pub struct Known {
    /// Names for `policy: NAME`.
    pub policies: Vec<String>,
    /// Names for the keys of `policy.custom.scorers`.
    pub scorers: Vec<String>,
    /// Names for the entries of `policy.custom.filters`.
    pub filters: Vec<String>,
}

impl Config {
    /// Returns a hash of everything in the configuration, defaults included: equal for two files that mean the same. Below
    /// 2^48, so that a gauge holds it exactly. Stable across runs; another release may have other keys and another hash.
    pub fn fingerprint(&self) -> u64 {
        let text = serde_json::to_vec(self).expect("keys are strings and numbers finite, so JSON can hold it");
        xxh3_64(&text) >> (u64::BITS - FINGERPRINT_BITS)
    }

    /// Returns the pool when it is the only one and no model is listed. Such a gateway stands in front of one model, and a
    /// request that names none can only mean that one.
    pub fn sole_pool(&self) -> Option<(&str, &Pool)> {
        let mut pools = self.pools.iter();
        match (pools.next(), pools.next()) {
            (Some((name, pool)), None) if self.models.is_empty() => Some((name, pool)),
            _ => None,
        }
    }
}

/// Reads a configuration. Any bytes are fine: what is wrong with them comes back as a list of all problems, by position.
pub fn load(bytes: &[u8], known: &Known) -> Result<Config, Problems> {
    let (root, mut problems) = tree::read(bytes);
    if let Some(root) = &root {
        let cursor = Cursor::root(root);
        shape::check(&SCHEMA, &cursor, &mut problems);
        meaning::check(&cursor, known, &mut problems);
    }
    match (root, Problems::new(problems)) {
        (_, Some(problems)) => Err(problems),
        // The tree has the positions, serde_yaml the types.
        (Some(root), None) => serde_yaml::to_value(root.to_json()).and_then(serde_yaml::from_value).map_err(|error| {
            // Unreachable while the schema is generated from the structs; a test searches for a counterexample.
            Problems(vec![Problem::new("", tree::Mark::START, format!("cannot be read: {error}"))])
        }),
        (None, None) => Err(Problems(vec![Problem::new("", tree::Mark::START, "cannot be read")])),
    }
}

/// Returns the JSON Schema of the file, which editors use for completion. Keys that begin with `x-` are ours.
pub fn schema_json() -> Value {
    SCHEMA.clone()
}

/// Returns the keys under `server` that differ, such as `server.drain`, sorted. They take effect at the next start.
pub fn restart_only_changes(old: &Config, new: &Config) -> Vec<String> {
    let json = |server: &Server| {
        serde_json::to_value(server).expect("keys are strings and numbers finite, so JSON can hold it")
    };
    let mut changed = Vec::new();
    differences("server", &json(&old.server), &json(&new.server), &mut changed);
    changed.sort();
    changed
}

/// Appends the paths at which two values differ; lists are compared whole.
fn differences(path: &str, old: &Value, new: &Value, changed: &mut Vec<String>) {
    let (Value::Object(old), Value::Object(new)) = (old, new) else {
        if old != new {
            changed.push(path.to_owned());
        }
        return;
    };
    for (key, value) in old {
        differences(&format!("{path}.{key}"), value, new.get(key).unwrap_or(&Value::Null), changed);
    }
    for (key, value) in new.iter().filter(|(key, _)| !old.contains_key(*key)) {
        differences(&format!("{path}.{key}"), &Value::Null, value, changed);
    }
}
