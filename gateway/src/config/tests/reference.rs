//! The files in `conf/`: that they load, and that the reference is complete.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use serde_json::Value as Json;

use super::{good, known};
use crate::config::cursor::Cursor;
use crate::config::tree;
use crate::config::{Config, Pool, form, load, schema_json};

pub(super) const REFERENCE: &str = include_str!("../../../../conf/spillway.yaml");
const SCHEMA: &str = include_str!("../../../../conf/schema.json");
const EXAMPLES: [(&str, &str); 8] = [
    ("minimal.yaml", include_str!("../../../../conf/examples/minimal.yaml")),
    ("two-models.yaml", include_str!("../../../../conf/examples/two-models.yaml")),
    ("lora.yaml", include_str!("../../../../conf/examples/lora.yaml")),
    ("split.yaml", include_str!("../../../../conf/examples/split.yaml")),
    ("engines.yaml", include_str!("../../../../conf/examples/engines.yaml")),
    ("dns.yaml", include_str!("../../../../conf/examples/dns.yaml")),
    ("custom-policy.yaml", include_str!("../../../../conf/examples/custom-policy.yaml")),
    ("trial.yaml", include_str!("../../../../conf/examples/trial.yaml")),
];

/// What an editor would use.
pub(super) static VALIDATOR: LazyLock<jsonschema::Validator> =
    LazyLock::new(|| jsonschema::validator_for(&schema_json()).unwrap());

/// The reference with the keys that have no default: lines that begin with `#` and no blank.
pub(super) fn whole_reference() -> String {
    let lines = REFERENCE.lines().filter(|line| *line != "models: []").map(|line| {
        let text = line.trim_start();
        let is_key = text.strip_prefix('#').is_some_and(|rest| !rest.is_empty() && !rest.starts_with(' '));
        if is_key { line.replacen('#', "", 1) } else { line.to_owned() }
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn the_reference_equals_the_defaults() {
    let config = good(REFERENCE);
    let endpoints = config.pools["llama"].endpoints.clone();
    let pool = Pool { endpoints, ..Pool::default() };
    let defaults = Config { pools: BTreeMap::from([("llama".to_owned(), pool)]), ..Config::default() };
    assert_eq!(config, defaults);
}

#[test]
fn the_reference_mentions_every_key_and_only_keys_that_exist() {
    let text = whole_reference();
    good(&text);
    let (root, _) = tree::read(text.as_bytes());
    let mut mentioned = BTreeSet::new();
    paths_of(&Cursor::root(&root.unwrap()), "", &mut mentioned);
    let schema = schema_json();
    let mut exist = BTreeSet::new();
    paths_in(&schema, &schema, "", &mut exist);
    assert!(exist.len() > 60, "the walk over the schema lost its way: {exist:?}");
    let missing: Vec<_> = exist.difference(&mentioned).collect();
    assert!(missing.is_empty(), "conf/spillway.yaml does not mention {missing:?}");
}

/// Paths with `*` for names that the user chooses and for entries of lists.
fn paths_of(cursor: &Cursor<'_>, path: &str, paths: &mut BTreeSet<String>) {
    paths.insert(path.to_owned());
    for item in cursor.items() {
        paths_of(&item, &format!("{path}.*"), paths);
    }
    let path = as_policy(path);
    for (key, value) in cursor.entries() {
        let free = matches!(path, ".pools" | ".pools.*.policy.custom.scorers") || path.ends_with(".labels");
        paths_of(&value, &format!("{path}.{}", if free { "*" } else { key }), paths);
    }
}

/// Either side of a trial is written like a policy of its own; what is below it is mentioned there.
fn as_policy(path: &str) -> &str {
    path.strip_suffix(".policy.try")
        .or(path.strip_suffix(".policy.control"))
        .map_or(path, |pool| &path[..pool.len() + ".policy".len()])
}

fn paths_in(root: &Json, schema: &Json, path: &str, paths: &mut BTreeSet<String>) {
    paths.insert(path.to_owned());
    if let Some(name) = schema["$ref"].as_str() {
        paths_in(root, root.pointer(&name[1..]).unwrap(), path, paths);
    }
    for branch in ["anyOf", "oneOf"].iter().filter_map(|union| schema[union].as_array()).flatten() {
        paths_in(root, branch, path, paths);
    }
    let path = as_policy(path);
    for (key, property) in schema["properties"].as_object().into_iter().flatten() {
        paths_in(root, property, &format!("{path}.{key}"), paths);
    }
    if schema["additionalProperties"].is_object() {
        paths_in(root, &schema["additionalProperties"], &format!("{path}.*"), paths);
    }
    if schema["items"].is_object() && schema["items"]["type"] != "string" {
        paths_in(root, &schema["items"], &format!("{path}.*"), paths);
    }
}

#[test]
fn every_example_loads() {
    for (name, text) in EXAMPLES {
        if let Err(problems) = load(text.as_bytes(), &known()) {
            panic!("{}", problems.in_file(name));
        }
    }
}

#[test]
fn the_schema_in_conf_is_what_the_structs_generate() {
    if std::env::var_os("UPDATE_SCHEMA").is_some() {
        let text = serde_json::to_string_pretty(&schema_json()).unwrap();
        std::fs::write(concat!(env!("CARGO_MANIFEST_DIR"), "/../conf/schema.json"), text + "\n").unwrap();
        return;
    }
    let written: Json = serde_json::from_str(SCHEMA).unwrap();
    assert!(
        written == schema_json(),
        "conf/schema.json is old: UPDATE_SCHEMA=1 cargo test -p spillway --lib schema_in_conf"
    );
}

#[test]
fn a_general_validator_agrees_with_what_loads() {
    for (name, text) in EXAMPLES.into_iter().chain([("spillway.yaml", REFERENCE), ("whole", &whole_reference())]) {
        let (root, _) = tree::read(text.as_bytes());
        let errors: Vec<_> = VALIDATOR.iter_errors(&root.unwrap().to_json()).map(|error| error.to_string()).collect();
        assert!(errors.is_empty(), "an editor would mark {name}: {errors:?}");
    }
}

#[test]
fn what_config_shows_loads_again_as_the_same() {
    for (_, text) in EXAMPLES.into_iter().chain([("", REFERENCE), ("", &whole_reference())]) {
        let config = good(text);
        assert_eq!(good(&serde_json::to_string(&config).unwrap()), config, "JSON is YAML");
    }
}

#[test]
fn every_form_that_the_schema_names_has_a_check() {
    fn forms(schema: &Json, found: &mut BTreeSet<String>) {
        match schema {
            Json::Object(map) => {
                found.extend(map.get("x-form").and_then(Json::as_str).map(str::to_owned));
                map.values().for_each(|value| forms(value, found));
            }
            Json::Array(items) => items.iter().for_each(|value| forms(value, found)),
            _ => {}
        }
    }
    let mut found = BTreeSet::new();
    forms(&schema_json(), &mut found);
    assert_eq!(found.len(), 10, "a form without a check would go through unseen: {found:?}");
    for form in found {
        drop(form::check(&form, "x"));
    }
}
