//! The `auth` section, and the file of API keys it names.
//!
//! The keys have a file of their own: it is a secret of another kind than the rest, other people change it, and `/config`
//! must not show it. It holds digests, so that whoever reads it cannot call the gateway with what it says.

use std::path::PathBuf;

use once_cell::sync::Lazy;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::cursor::Cursor;
use super::problem::Problem;
use super::shape::quoted;
use super::{Problems, field, shape, tree};

/// Who may ask.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Auth {
    /// A YAML file of API keys. With it every request needs one of them; without it none does. A change of its content
    /// takes effect like a change of this file.
    #[serde(with = "field::off")]
    #[schemars(schema_with = "file_or_off")]
    pub keys_file: Option<PathBuf>,
}

fn file_or_off(_: &mut SchemaGenerator) -> Schema {
    field::or_off(&schemars::json_schema!({"type": "string"}))
}

/// The content of a file of keys.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(title = "Spillway API keys")]
pub struct KeyFile {
    /// The keys. An empty list lets nobody in.
    pub keys: Vec<KeyEntry>,
}

/// One key: whose it is and what it opens.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct KeyEntry {
    /// Whose it is; a label in metrics and logs. A tenant may have several keys, so that one can be replaced by another
    /// without a gap.
    pub tenant: String,
    /// SHA-256 of the key in hexadecimal, as `spillway key` prints it.
    #[schemars(schema_with = "digest")]
    pub sha256: String,
    /// Names of models, as clients ask for them, that the key opens. Not given: all.
    #[serde(default)]
    #[schemars(with = "Vec<String>")]
    pub models: Option<Vec<String>>,
}

fn digest(_: &mut SchemaGenerator) -> Schema {
    schemars::json_schema!({"type": "string", "pattern": "^[0-9a-fA-F]{64}$", "x-form": "sha256"})
}

/// The schema of a file of keys.
#[expect(clippy::non_std_lazy_statics, reason = "once_cell is one of the project's given crates")]
static SCHEMA: Lazy<Value> = Lazy::new(|| schemars::schema_for!(KeyFile).to_value());

/// Returns the JSON Schema of a file of keys.
pub fn keys_schema_json() -> Value {
    SCHEMA.clone()
}

/// Longest name of a tenant: it is a label of metrics.
const MAX_TENANT: usize = 63;

/// Reads a file of keys; on failure every problem in it, by position. No problem repeats a digest.
pub fn load_keys(bytes: &[u8]) -> Result<KeyFile, Problems> {
    let (root, mut problems) = tree::read(bytes);
    if let Some(root) = &root {
        let cursor = Cursor::root(root);
        shape::check(&SCHEMA, &cursor, &mut problems);
        meaning(&cursor, &mut problems);
    }
    match (root, Problems::new(problems)) {
        (_, Some(problems)) => Err(problems),
        (Some(root), None) => serde_yaml::to_value(root.to_json())
            .and_then(serde_yaml::from_value)
            // The error's own text could quote what it could not read.
            .map_err(|_| Problems(vec![Problem::new("", tree::Mark::START, "cannot be read")])),
        (None, None) => Err(Problems(vec![Problem::new("", tree::Mark::START, "cannot be read")])),
    }
}

fn meaning(root: &Cursor<'_>, problems: &mut Vec<Problem>) {
    let mut seen = std::collections::HashMap::new();
    for entry in root.items_at("keys") {
        if let Some(tenant) = entry.at("tenant")
            && tenant.text().is_some_and(|name| name.len() > MAX_TENANT)
        {
            let name = quoted(tenant.text().unwrap_or_default());
            problems.push(tenant.problem(format!("{name} is longer than {MAX_TENANT} bytes")));
        }
        if let Some(digest) = entry.at("sha256")
            && let Some(text) = digest.text()
            && let Some(line) = seen.insert(text.to_ascii_lowercase(), digest.node.mark.line)
        {
            problems.push(digest.problem(format!("is the key of line {line} again")));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIGEST: &str = "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b";

    fn problems(text: &str) -> Vec<String> {
        load_keys(text.as_bytes()).map_or_else(|all| all.0.iter().map(ToString::to_string).collect(), |_| Vec::new())
    }

    #[test]
    fn a_file_of_keys_is_read() {
        let text = format!(
            "keys:\n  - {{tenant: team-a, sha256: {DIGEST}}}\n  - {{tenant: b, sha256: '{}', models: [m]}}\n",
            "A".repeat(64)
        );
        let file = load_keys(text.as_bytes()).unwrap();
        assert_eq!((&*file.keys[0].tenant, file.keys[0].models.as_ref()), ("team-a", None));
        assert_eq!(file.keys[1].models.as_deref(), Some(&["m".to_owned()][..]));
        assert_eq!(load_keys(b"keys: []\n").unwrap().keys, [], "a list of nobody is a list");
    }

    #[test]
    fn every_problem_is_named_and_none_repeats_a_secret() {
        let text = format!(
            "keys:\n  - {{tenant: a, sha256: sk-secret}}\n  - {{tenant: b, sha256: {DIGEST}}}\n  - {{tenant: c, sha256: {DIGEST}}}\n  - {{sha256: {DIGEST}, key: x}}\n"
        );
        let found = problems(&text);
        assert_eq!(found.len(), 5, "{found:#?}");
        assert!(found.iter().all(|problem| !problem.contains("sk-secret") && !problem.contains(DIGEST)), "{found:#?}");
        assert!(found[0].starts_with("2:") && found[0].contains("keys[0].sha256"), "{found:#?}");
        assert!(found[1].contains("is the key of line 3 again"), "{found:#?}");
    }

    #[test]
    fn what_is_no_list_of_keys_is_refused() {
        for text in ["", "keys", "- a\n", "keys: {a: b}\n", "\u{0}", "keys: [5]\n"] {
            let found = problems(text);
            assert!(!found.is_empty() || text.is_empty(), "{text:?} was accepted");
        }
    }
}
