//! The `trace` section: where the traffic is recorded for `spillway replay`.

use std::path::PathBuf;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};

use super::field;

/// A record of the traffic for `spillway replay`: times, sizes and hashes, never text.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Trace {
    /// The file that a line is added to for each request that has ended; made with mode 0600.
    #[serde(with = "field::off")]
    #[schemars(schema_with = "file_or_off")]
    pub file: Option<PathBuf>,
    /// Size at which it is renamed to FILE.1, in place of the one before, and begins anew.
    #[serde(with = "field::size")]
    #[schemars(schema_with = "field::bytes", extend("minimum" = 65_536))]
    pub size: u64,
}

impl Default for Trace {
    fn default() -> Self {
        // About a million requests.
        Self { file: None, size: 256 << 20 }
    }
}

fn file_or_off(_: &mut SchemaGenerator) -> Schema {
    field::or_off(&schemars::json_schema!({"type": "string"}))
}
