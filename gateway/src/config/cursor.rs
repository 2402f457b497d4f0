//! A place in the tree and the way to it: what the checks walk with.
//!
//! Looking for what is not there, or under what has another type, finds nothing and is no error: another check has
//! reported it, or it is a key left out.

use super::problem::Problem;
use super::tree::{Entry, Mark, Node, Value};

/// A node together with the way to it, for messages.
#[derive(Clone, Debug)]
pub(super) struct Cursor<'a> {
    pub(super) node: &'a Node,
    /// Keys from the root, such as `pools.llama.endpoints[0]`.
    pub(super) path: String,
    /// Where the key that leads here stands, or the value if it is an entry of a list.
    pub(super) key: Mark,
}

impl<'a> Cursor<'a> {
    pub(super) fn root(node: &'a Node) -> Self {
        Self { node, path: String::new(), key: node.mark }
    }

    /// Returns the value of a key; `None` as well when this is no mapping.
    pub(super) fn at(&self, key: &str) -> Option<Self> {
        let Value::Map(entries) = &self.node.value else { return None };
        let entry = entries.iter().find(|entry| entry.key == key)?;
        Some(Self { node: &entry.node, path: join(&self.path, key), key: entry.mark })
    }

    /// Follows several keys.
    pub(super) fn along(&self, keys: &[&str]) -> Option<Self> {
        keys.iter().try_fold(self.clone(), |cursor, key| cursor.at(key))
    }

    /// The keys of a mapping with their values; nothing for anything else.
    pub(super) fn entries(&self) -> impl Iterator<Item = (&'a str, Self)> + use<'a> {
        let entries: &[Entry] = if let Value::Map(entries) = &self.node.value { entries } else { &[] };
        let path = self.path.clone();
        entries.iter().map(move |entry| {
            (entry.key.as_str(), Self { node: &entry.node, path: join(&path, &entry.key), key: entry.mark })
        })
    }

    /// The entries of a list; nothing for anything else.
    pub(super) fn items(&self) -> impl Iterator<Item = Self> + use<'a> {
        let items: &[Node] = if let Value::List(items) = &self.node.value { items } else { &[] };
        let path = self.path.clone();
        items.iter().enumerate().map(move |(index, node)| Self {
            node,
            path: format!("{path}[{index}]"),
            key: node.mark,
        })
    }

    /// The entries of the list under a key.
    pub(super) fn items_at(&self, key: &str) -> impl Iterator<Item = Self> + use<'a> {
        self.at(key).into_iter().flat_map(|list| list.items())
    }

    /// The keys of the mapping under a key, with their values.
    pub(super) fn entries_at(&self, key: &str) -> impl Iterator<Item = (&'a str, Self)> + use<'a> {
        self.at(key).into_iter().flat_map(|map| map.entries())
    }

    pub(super) fn text(&self) -> Option<&'a str> {
        if let Value::Text(text) = &self.node.value { Some(text) } else { None }
    }

    /// A problem with the value.
    pub(super) fn problem(&self, message: impl Into<String>) -> Problem {
        Problem::new(self.path.as_str(), self.node.mark, message)
    }

    /// A problem with the key that leads here.
    pub(super) fn key_problem(&self, message: impl Into<String>) -> Problem {
        Problem::new(self.path.as_str(), self.key, message)
    }
}

/// Appends a key to a path. A key that a path could be misread with is quoted.
pub(super) fn join(path: &str, key: &str) -> String {
    let plain = !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'));
    let key = if plain { key.to_owned() } else { format!("{key:?}") };
    if path.is_empty() { key } else { format!("{path}.{key}") }
}
