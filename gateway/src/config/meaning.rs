//! Checks what no schema can say: references, duplicates, names of policies, keys that bound each other.
//!
//! It reads the tree, not the structs, so that it has positions and so that one wrong value elsewhere does not hide what
//! is wrong here. A value of the wrong type was reported by the shape check; here it counts as not given.

use std::collections::HashMap;
use std::net::SocketAddr;

use super::cursor::Cursor;
use super::form::{parse_address, parse_size, write_size};
use super::problem::{Problem, suggest};
use super::shape::quoted;
use super::tree::{Mark, Value};
use super::url::EndpointUrl;
use super::{Affinity, Known, Limits, Server};

/// Longest name of a pool: a metric label and a part of a path.
const MAX_POOL_NAME: usize = 63;

/// Appends a problem for everything that means nothing, or two things.
pub(super) fn check(root: &Cursor<'_>, known: &Known, problems: &mut Vec<Problem>) {
    addresses(root, problems);
    limits(root, problems);
    super::peers::check(root, problems);
    models(root, problems);
    default_model(root, problems);
    adapters(root, problems);
    for (name, pool) in root.entries_at("pools") {
        pool_name(name, &pool, problems);
        endpoints(&pool, problems);
        super::dns::check(&pool, problems);
        policies(&pool, known, problems);
        affinity(&pool, problems);
        super::events::check(&pool, problems);
    }
}

/// One address in use: where it was given and what to call it.
struct Used {
    address: SocketAddr,
    name: String,
}

/// Two listeners must not share a port, and the admin port must not be open to the network without a token.
fn addresses(root: &Cursor<'_>, problems: &mut Vec<Problem>) {
    let defaults = Server::default();
    let server = root.at("server");
    let mut used: Vec<Used> = Vec::new();
    let given = |keys: &[&str]| server.as_ref().and_then(|server| server.along(keys));

    let mut listeners: Vec<(Option<Cursor<'_>>, Option<SocketAddr>, String)> = Vec::new();
    match given(&["listen"]) {
        Some(listen) => {
            for item in listen.items() {
                if let Some(address) = item.at("address") {
                    listeners.push((Some(address.clone()), None, address.path));
                }
            }
        }
        None => {
            for listen in &defaults.listen {
                listeners.push((None, Some(listen.address), "server.listen".to_owned()));
            }
        }
    }
    for (section, default) in [("metrics", defaults.metrics.address), ("admin", defaults.admin.address)] {
        listeners.push((given(&[section, "address"]), Some(default), format!("server.{section}.address")));
    }
    // Written ones last: a clash is then reported where something is written, not at a default.
    listeners.sort_by_key(|(cursor, _, _)| cursor.is_some());
    for (cursor, default, name) in listeners {
        let Some(address) = (match &cursor {
            Some(cursor) => cursor.text().and_then(|text| parse_address(text).ok()),
            None => default,
        }) else {
            continue;
        };
        if let Some(other) = used.iter().find(|other| clash(other.address, address))
            && let Some(cursor) = &cursor
        {
            problems.push(cursor.problem(format!("takes the port of {}, {}", other.name, other.address)));
        }
        let name = if cursor.is_some() { name } else { format!("{name} (its default)") };
        used.push(Used { address, name });
    }

    if let Some(cursor) = given(&["admin", "address"])
        && let Some(address) = cursor.text().and_then(|text| parse_address(text).ok())
        && !address.ip().to_canonical().is_loopback()
        && given(&["admin", "token_file"]).is_none()
    {
        let problem = cursor.problem("opens the admin port beyond loopback without a token");
        problems.push(problem.with_hint(Some("set server.admin.token_file, or listen on 127.0.0.1")));
    }
}

/// Port 0 is any free one and clashes with nothing; an unspecified address covers all others.
fn clash(a: SocketAddr, b: SocketAddr) -> bool {
    let same = a.ip() == b.ip() || a.ip().is_unspecified() || b.ip().is_unspecified();
    a.port() == b.port() && a.port() != 0 && same
}

/// One body must fit into the memory for all.
fn limits(root: &Cursor<'_>, problems: &mut Vec<Problem>) {
    let defaults = Limits::default();
    at_most(root.at("limits"), ("body", defaults.body), ("body_memory", defaults.body_memory), problems);
}

/// What decides the owner must be hashed.
fn affinity(pool: &Cursor<'_>, problems: &mut Vec<Problem>) {
    let defaults = Affinity::default();
    at_most(pool.at("affinity"), ("ring_depth", defaults.ring_depth), ("max", defaults.max), problems);
}

/// Reports a smaller size that is above the larger one; at the smaller one if it is written, else at the larger.
fn at_most(section: Option<Cursor<'_>>, smaller: (&str, u64), larger: (&str, u64), problems: &mut Vec<Problem>) {
    let Some(section) = section else { return };
    let size = |(key, default): (&str, u64)| match section.at(key) {
        None => Some(default),
        Some(cursor) => match &cursor.node.value {
            Value::Text(text) => parse_size(text).ok(),
            Value::Number(number) => number.as_u64(),
            _ => None,
        },
    };
    let (Some(small), Some(large)) = (size(smaller), size(larger)) else { return };
    if small <= large {
        return;
    }
    if let Some(cursor) = section.at(smaller.0) {
        problems.push(cursor.problem(format!("must be at most {}, which is {}", larger.0, write_size(large))));
    } else if let Some(cursor) = section.at(larger.0) {
        problems.push(cursor.problem(format!("must be at least {}, which is {}", smaller.0, write_size(small))));
    }
}

/// Each name and alias once, each pool a known one.
fn models(root: &Cursor<'_>, problems: &mut Vec<Problem>) {
    let Some(models) = root.at("models") else { return };
    let mut seen: HashMap<&str, (String, Mark)> = HashMap::new();
    for model in models.items() {
        let names = model.at("name").into_iter().chain(model.items_at("aliases"));
        for cursor in names {
            let Some(name) = cursor.text() else { continue };
            if let Some((path, mark)) = seen.get(name) {
                let message = format!("{} is taken by {path} on line {}", quoted(name), mark.line);
                problems.push(cursor.problem(message));
            } else {
                seen.insert(name, (cursor.path.clone(), cursor.node.mark));
            }
        }
        lead(root, &model, problems);
    }
}

/// A name leads to one pool or to a split, and each pool is a known one.
fn lead(root: &Cursor<'_>, model: &Cursor<'_>, problems: &mut Vec<Problem>) {
    let arms: Vec<_> = model.items_at("split").collect();
    match (model.at("pool"), model.at("split")) {
        (None, None) => {
            problems.push(model.problem("leads nowhere").with_hint(Some("it needs a pool, or a split over several")));
        }
        (Some(_), Some(split)) => problems.push(split.key_problem("cannot stand beside pool; give one of them")),
        (None, Some(split)) => {
            for key in ["model", "adapter"] {
                if let Some(cursor) = model.at(key) {
                    problems.push(cursor.key_problem("belongs to the arms of the split"));
                }
            }
            let weight = |arm: &Cursor<'_>| match &arm.at("weight")?.node.value {
                Value::Number(number) => number.as_f64(),
                _ => None,
            };
            let weights: Option<Vec<f64>> = arms.iter().map(weight).collect();
            // An empty list, and one of which a weight is missing, are no less wrong for it; the latter was reported.
            if weights.is_some_and(|weights| weights.iter().sum::<f64>() <= 0.0) {
                problems.push(split.key_problem("needs an arm with a weight above 0"));
            }
        }
        (Some(_), None) => {
            if let Some(sticky) = model.at("sticky") {
                problems.push(sticky.key_problem("has no meaning without a split"));
            }
        }
    }
    let mut seen: HashMap<(&str, Option<&str>), usize> = HashMap::new();
    for arm in &arms {
        let Some(pool) = text_at(arm, "pool") else { continue };
        let place = (pool, text_at(arm, "model").or_else(|| text_at(model, "name")));
        if let Some(line) = seen.insert(place, arm.node.mark.line) {
            problems.push(arm.problem(format!("leads where the arm on line {line} does")));
        }
    }
    let Some(pools) = root.at("pools") else { return };
    for pool in arms.iter().chain([model]).filter_map(|cursor| cursor.at("pool")) {
        if let Some(name) = pool.text()
            && pools.at(name).is_none()
        {
            let hint = suggest(name, pools.entries().map(|(name, _)| name));
            problems.push(pool.problem(format!("there is no pool {}", quoted(name))).with_hint(hint));
        }
    }
    if let Some(sticky) = model.at("sticky").filter(|sticky| sticky.text() == Some("tenant"))
        && root.along(&["auth", "keys_file"]).is_none_or(|file| file.text() == Some("off"))
    {
        problems.push(sticky.problem("there are no tenants without auth.keys_file"));
    }
}

fn text_at<'a>(cursor: &Cursor<'a>, key: &str) -> Option<&'a str> {
    cursor.at(key).and_then(|cursor| cursor.text())
}

/// The default must lead somewhere. Without `models`, names are only known once endpoints have listed them.
fn default_model(root: &Cursor<'_>, problems: &mut Vec<Problem>) {
    let Some(models) = root.at("models").filter(|models| models.items().next().is_some()) else { return };
    let Some(cursor) = root.at("default_model") else { return };
    let Some(name) = cursor.text() else { return };
    let mut names = Vec::new();
    for model in models.items() {
        names.extend(model.at("name").and_then(|name| name.text()));
        names.extend(model.items_at("aliases").filter_map(|alias| alias.text()));
    }
    for (_, pool) in root.entries_at("pools") {
        names.extend(pool.items_at("adapters").filter_map(|adapter| adapter.text()));
    }
    if !names.contains(&name) {
        let message = format!("no entry of models is called {}", quoted(name));
        problems.push(cursor.problem(message).with_hint(suggest(name, names)));
    }
}

/// An adapter is asked for by its name alone, so no two pools may list the same.
fn adapters(root: &Cursor<'_>, problems: &mut Vec<Problem>) {
    let listed = root.entries_at("pools").flat_map(|(_, pool)| pool.items_at("adapters"));
    repeated(listed, "adapter", problems);
}

fn pool_name(name: &str, pool: &Cursor<'_>, problems: &mut Vec<Problem>) {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    if name.is_empty() || name.len() > MAX_POOL_NAME || !name.chars().all(plain) {
        let message = format!("the name of a pool is 1 to {MAX_POOL_NAME} letters, digits, dots, _ and -");
        problems.push(pool.key_problem(message));
    }
}

/// No address twice: its load would be counted in two places.
fn endpoints(pool: &Cursor<'_>, problems: &mut Vec<Problem>) {
    let mut seen: HashMap<EndpointUrl, (String, usize)> = HashMap::new();
    for item in pool.items_at("endpoints") {
        let Some(cursor) = item.text().map(|_| item.clone()).or_else(|| item.at("url")) else { continue };
        let Some(url) = cursor.text().and_then(|text| text.parse::<EndpointUrl>().ok()) else { continue };
        if let Some((path, line)) = seen.get(&url) {
            problems.push(cursor.problem(format!("{url} is already {path} on line {line}")));
        } else {
            seen.insert(url, (cursor.path.clone(), cursor.node.mark.line));
        }
    }
}

/// One policy, or the two of a trial.
fn policies(pool: &Cursor<'_>, known: &Known, problems: &mut Vec<Problem>) {
    let Some(written) = pool.at("policy") else { return };
    for side in ["try", "control"].into_iter().filter_map(|side| written.at(side)) {
        policy(&side, known, problems);
    }
    policy(&written, known, problems);
}

/// Names that the picker knows, weights that mean something.
fn policy(policy: &Cursor<'_>, known: &Known, problems: &mut Vec<Problem>) {
    if let Some(name) = policy.text() {
        named("policy", name, &known.policies, |message| policy.problem(message), problems);
    }
    let Some(custom) = policy.at("custom") else { return };
    let filters: Vec<_> = custom.items_at("filters").collect();
    for cursor in &filters {
        if let Some(name) = cursor.text() {
            named("filter", name, &known.filters, |message| cursor.problem(message), problems);
        }
    }
    repeated(filters.into_iter(), "filter", problems);
    for (name, cursor) in custom.entries_at("scorers") {
        named("scorer", name, &known.scorers, |message| cursor.key_problem(message), problems);
        if let Value::Number(weight) = &cursor.node.value
            && weight.as_f64().is_some_and(|weight| weight <= 0.0)
        {
            problems.push(cursor.problem("a weight must be above 0").with_hint(Some("leave the scorer out")));
        }
    }
}

fn named(
    kind: &str,
    name: &str,
    known: &[String],
    problem: impl FnOnce(String) -> Problem,
    problems: &mut Vec<Problem>,
) {
    if !known.iter().any(|known| known == name) {
        let hint = suggest(name, known.iter().map(String::as_str));
        problems.push(problem(format!("there is no {kind} {}", quoted(name))).with_hint(hint));
    }
}

/// Reports every text that stood before.
fn repeated<'a>(items: impl Iterator<Item = Cursor<'a>>, kind: &str, problems: &mut Vec<Problem>) {
    let mut seen = HashMap::new();
    for cursor in items {
        let Some(name) = cursor.text() else { continue };
        if let Some((path, line)) = seen.get(name) {
            problems.push(cursor.problem(format!("{kind} {} is already {path} on line {line}", quoted(name))));
        } else {
            seen.insert(name, (cursor.path.clone(), cursor.node.mark.line));
        }
    }
}
