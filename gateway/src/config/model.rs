//! The `models` section: names that clients ask for, and where each leads. All of it is hot.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A name that clients ask for, and where it leads: to one pool, or to a split.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Model {
    /// The name in the request. No two entries may share a name or an alias.
    pub name: String,
    /// Other names for the same.
    #[serde(default)]
    pub aliases: Vec<String>,
    /// The pool that serves it. This or `split`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub pool: Option<String>,
    /// The name sent on to the endpoint, when that is not `name`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub model: Option<String>,
    /// Whether the name sent on is a LoRA adapter, so that only endpoints that have it are asked. Not given: known from
    /// the `adapters` of the pool, or from what its endpoints list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "bool")]
    pub adapter: Option<bool>,
    /// Several places that share the requests by weight, instead of `pool`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub split: Vec<Arm>,
    /// What stays on one arm of the split while the weights stay as they are.
    #[serde(default, skip_serializing_if = "Sticky::is_default")]
    pub sticky: Sticky,
}

/// One place a split leads to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Arm {
    /// The pool that serves it.
    pub pool: String,
    /// The name sent on to the endpoint, when that is not the `name` asked for. No two arms may have the same pool and
    /// model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub model: Option<String>,
    /// Share of the requests relative to the other arms; 0 gets none.
    #[schemars(range(min = 0.0, max = 1_000_000.0))]
    pub weight: f64,
    /// As for a model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "bool")]
    pub adapter: Option<bool>,
}

/// What stays on one arm of a split.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Sticky {
    /// All turns of a conversation: what comes up to the end of the first message of the user is the same in each; or the
    /// pool's `session_header`, where a request has it. A bare prompt is a conversation of its own.
    #[default]
    Conversation,
    /// All requests of a tenant. Needs `auth.keys_file`.
    Tenant,
    /// Nothing: each request draws anew.
    Off,
}

impl Sticky {
    /// So that `/config` shows it only where it means something.
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

impl Model {
    /// Returns where the name leads: one arm, or those of the split.
    pub fn arms(&self) -> Vec<Arm> {
        match &self.pool {
            Some(pool) => {
                vec![Arm { pool: pool.clone(), model: self.model.clone(), weight: 1.0, adapter: self.adapter }]
            }
            None => self.split.clone(),
        }
    }
}

impl Arm {
    /// Returns the name that the endpoint is asked for, when clients ask for `name`.
    pub fn sent_on<'a>(&'a self, name: &'a str) -> &'a str {
        self.model.as_deref().unwrap_or(name)
    }
}
