//! What differs between two configurations, in words of the file.
//!
//! Both are compared as they are understood, defaults included: a default that is written out is no difference. Entries of
//! lists are told apart by what names them (an endpoint's URL, a model's name), not by their place.

use std::collections::BTreeSet;
use std::fmt;

use serde_json::{Map, Value};

use super::Config;
use super::cursor::join;

/// The keys that name the entries of a list, in the order they are looked for.
const NAMES: [&str; 3] = ["name", "url", "address"];

/// One difference.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// The key, such as `pools.llama.policy`.
    pub path: String,
    /// The value in the old file; `None` when it is not there.
    pub old: Option<Value>,
    /// The value in the new file; `None` when it is not there.
    pub new: Option<Value>,
    /// Whether it takes effect with a restart only.
    pub needs_restart: bool,
}

impl fmt::Display for Difference {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (path, restart) = (&self.path, if self.needs_restart { "  (needs a restart)" } else { "" });
        match (&self.old, &self.new) {
            (None, Some(new)) => write!(out, "+ {path}: {new}{restart}"),
            (Some(old), None) => write!(out, "- {path}: {old}{restart}"),
            (Some(old), Some(new)) => write!(out, "~ {path}: {old} -> {new}{restart}"),
            (None, None) => Ok(()),
        }
    }
}

/// Returns every difference, sorted by path.
pub fn differences(old: &Config, new: &Config) -> Vec<Difference> {
    let json = |config: &Config| {
        serde_json::to_value(config).expect("keys are strings and numbers finite, so JSON can hold it")
    };
    let mut found = Vec::new();
    compare("", Some(&json(old)), Some(&json(new)), &mut found);
    found.sort_by(|one, other| one.path.cmp(&other.path));
    found
}

fn compare(path: &str, old: Option<&Value>, new: Option<&Value>, found: &mut Vec<Difference>) {
    if old == new {
        return;
    }
    if let (Some(Value::Object(old)), Some(Value::Object(new))) = (old, new) {
        return members(old, new, |key| join(path, key), found);
    }
    if let (Some(old), Some(new)) = (old.and_then(named), new.and_then(named)) {
        return members(&old, &new, |name| format!("{path}[{name}]"), found);
    }
    found.push(Difference {
        path: path.to_owned(),
        old: old.cloned(),
        new: new.cloned(),
        needs_restart: path == "server" || path.starts_with("server."),
    });
}

fn members(
    old: &Map<String, Value>,
    new: &Map<String, Value>,
    path: impl Fn(&str) -> String,
    found: &mut Vec<Difference>,
) {
    let keys: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    for key in keys {
        compare(&path(key), old.get(key), new.get(key), found);
    }
}

/// A list whose entries all have names of their own, as a mapping.
fn named(list: &Value) -> Option<Map<String, Value>> {
    let list = list.as_array()?;
    let name = |entry: &Value| NAMES.iter().find_map(|key| entry[key].as_str().map(str::to_owned));
    let entries: Map<String, Value> =
        list.iter().map(|entry| Some((name(entry)?, entry.clone()))).collect::<Option<_>>()?;
    (entries.len() == list.len()).then_some(entries)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Known, load};

    fn lines(old: &str, new: &str) -> Vec<String> {
        let known = Known { policies: vec!["adaptive".into(), "ring".into()], ..Known::default() };
        let load = |text: &str| load(text.as_bytes(), &known).unwrap_or_else(|problems| panic!("{problems}"));
        differences(&load(old), &load(new)).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_default_written_out_is_no_difference() {
        let old = "pools: {a: {endpoints: ['http://h:1']}}\n";
        assert_eq!(lines(old, "pools: {a: {endpoints: ['http://h:1'], policy: adaptive, hold_head: true}}\n"), [""; 0]);
    }

    #[test]
    fn entries_are_told_apart_by_name_and_not_by_place() {
        let old =
            "pools: {a: {endpoints: ['http://h:1', 'http://h:2']}}\nmodels: [{name: x, pool: a}, {name: y, pool: a}]\n";
        let new = "pools: {a: {endpoints: [{url: 'http://h:2', weight: 2}, 'http://h:3', 'http://h:1'], policy: ring}}\n\
                   models: [{name: y, pool: a, aliases: [z]}]\nserver: {drain: 5s}\n";
        assert_eq!(
            lines(old, new),
            [
                r#"- models[x]: {"aliases":[],"name":"x","pool":"a"}"#,
                r#"~ models[y].aliases: [] -> ["z"]"#,
                "~ pools.a.endpoints[http://h:2].weight: 1.0 -> 2.0",
                r#"+ pools.a.endpoints[http://h:3]: {"labels":{},"url":"http://h:3","weight":1.0}"#,
                r#"~ pools.a.policy: "adaptive" -> "ring""#,
                r#"~ server.drain: "30s" -> "5s"  (needs a restart)"#,
            ]
        );
    }
}
