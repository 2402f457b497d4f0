//! YAML as a tree in which every key and value knows its line and column.
//!
//! Only what JSON can say comes out: text, numbers, booleans, lists and mappings with text keys. Anchors are applied, the
//! same value in another place; merge keys (`<<`), tags and second documents are refused, since each is a way for a file
//! to mean something else than a reader thinks. Plain words follow YAML 1.2: `off` and `no` are text.

use std::collections::HashMap;

use saphyr_parser::{Event, Parser, ScalarStyle, ScanError, Span, StrInput};
use serde_json::{Map, Number};

use super::cursor::join;
use super::problem::Problem;

/// Levels of nesting. The schema needs nine; the bound keeps a hostile file from exhausting the stack.
const MAX_DEPTH: usize = 32;

/// Keys and values in a file, aliases expanded. 10,000 endpoints with labels need half; the bound stops a file of a few
/// lines whose aliases multiply.
const MAX_NODES: usize = 200_000;

/// A position in the file. Both count from 1; the column counts characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    pub(super) line: usize,
    pub(super) column: usize,
}

impl Mark {
    /// The first character of the file.
    pub(super) const START: Self = Self { line: 1, column: 1 };

    /// The parser counts lines from 1 and columns from 0.
    fn of(marker: saphyr_parser::Marker) -> Self {
        Self { line: marker.line(), column: marker.col() + 1 }
    }
}

/// A value and where it begins.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) mark: Mark,
    pub(super) value: Value,
}

/// What a value is. `Null` is an empty value: `key:` with nothing after it, `~` or `null`.
#[derive(Clone, Debug)]
pub(super) enum Value {
    Null,
    Bool(bool),
    Number(Number),
    Text(String),
    List(Vec<Node>),
    Map(Vec<Entry>),
}

/// One key of a mapping with its value.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) key: String,
    pub(super) mark: Mark,
    pub(super) node: Node,
}

impl Node {
    /// Returns the tree as JSON. Keys without a value are left out: they mean the default.
    pub(super) fn to_json(&self) -> serde_json::Value {
        match &self.value {
            Value::Null => serde_json::Value::Null,
            Value::Bool(value) => (*value).into(),
            Value::Number(number) => number.clone().into(),
            Value::Text(text) => text.as_str().into(),
            Value::List(items) => items.iter().map(Self::to_json).collect(),
            Value::Map(entries) => {
                let given = entries.iter().filter(|entry| !matches!(entry.node.value, Value::Null));
                given.map(|entry| (entry.key.clone(), entry.node.to_json())).collect::<Map<_, _>>().into()
            }
        }
    }

    /// Keys and values below and including this one.
    fn size(&self) -> usize {
        match &self.value {
            Value::List(items) => 1 + items.iter().map(Self::size).sum::<usize>(),
            Value::Map(entries) => 1 + entries.iter().map(|entry| entry.node.size()).sum::<usize>(),
            _ => 1,
        }
    }
}

/// Reads a file. The tree is `None` when it could not be read to the end or is empty; the problems then say why.
pub(super) fn read(bytes: &[u8]) -> (Option<Node>, Vec<Problem>) {
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text.strip_prefix('\u{feff}').unwrap_or(text),
        Err(error) => {
            let before = String::from_utf8_lossy(&bytes[..error.valid_up_to()]);
            let line = before.rsplit('\n').next().unwrap_or_default();
            let mark = Mark { line: before.matches('\n').count() + 1, column: line.chars().count() + 1 };
            return (None, vec![Problem::new("", mark, "is not UTF-8")]);
        }
    };
    let mut reader = Reader {
        parser: Parser::new_from_str(text),
        anchors: HashMap::new(),
        nodes: 0,
        path: String::new(),
        problems: Vec::new(),
    };
    match reader.document() {
        Ok(Some(root)) => (Some(root), reader.problems),
        Ok(None) => {
            let empty = Problem::new("", Mark::START, "the file is empty")
                .with_hint(Some("one pool is enough: pools: {main: {endpoints: [\"http://host:port\"]}}"));
            reader.problems.push(empty);
            (None, reader.problems)
        }
        Err(stop) => {
            reader.problems.push(*stop);
            (None, reader.problems)
        }
    }
}

/// Why reading cannot go on.
type Stop = Box<Problem>;

struct Reader<'a> {
    parser: Parser<'a, StrInput<'a>>,
    anchors: HashMap<usize, Node>,
    nodes: usize,
    path: String,
    problems: Vec<Problem>,
}

impl<'a> Reader<'a> {
    /// Reads the one document of the file.
    fn document(&mut self) -> Result<Option<Node>, Stop> {
        let mut root = None;
        loop {
            let (event, span) = self.next()?;
            match event {
                Event::StreamEnd => return Ok(root),
                Event::DocumentStart(_) if root.is_some() => {
                    let message = "a second document begins here; one file is one configuration";
                    return Err(Box::new(Problem::new("", Mark::of(span.start), message)));
                }
                Event::DocumentStart(_) => {
                    let (event, span) = self.next()?;
                    root = Some(self.node(event, span, 0)?);
                }
                _ => {}
            }
            // `---` and nothing else is as empty as no bytes at all.
            root = root.filter(|node| !matches!(node.value, Value::Null));
        }
    }

    fn next(&mut self) -> Result<(Event<'a>, Span), Stop> {
        match self.parser.next_event() {
            Some(Ok(event)) => Ok(event),
            Some(Err(error)) => Err(Box::new(self.syntax(&error))),
            None => Ok((Event::StreamEnd, Span::default())),
        }
    }

    fn syntax(&self, error: &ScanError) -> Problem {
        let hint = error.info().contains("tab").then_some("YAML is indented with spaces");
        Problem::new(self.path.as_str(), Mark::of(*error.marker()), format!("is not YAML: {}", error.info()))
            .with_hint(hint)
    }

    fn node(&mut self, event: Event<'a>, span: Span, depth: usize) -> Result<Node, Stop> {
        let mark = Mark::of(span.start);
        if depth > MAX_DEPTH {
            return self.stop(mark, format!("is nested more than {MAX_DEPTH} levels deep"));
        }
        self.count(1, mark)?;
        let (value, anchor) = match event {
            Event::Alias(anchor) => return self.alias(anchor, mark, depth),
            Event::Scalar(text, style, anchor, tag) => {
                self.refuse_tag(tag.is_some(), mark);
                let value = if style == ScalarStyle::Plain { plain(&text) } else { Value::Text(text.into_owned()) };
                (value, anchor)
            }
            Event::SequenceStart(anchor, tag) => {
                self.refuse_tag(tag.is_some(), mark);
                (Value::List(self.list(depth)?), anchor)
            }
            Event::MappingStart(anchor, tag) => {
                self.refuse_tag(tag.is_some(), mark);
                (Value::Map(self.map(depth)?), anchor)
            }
            _ => return self.stop(mark, "is not YAML: a value is missing here"),
        };
        let node = Node { mark, value };
        if anchor > 0 {
            self.count(node.size(), mark)?;
            self.anchors.insert(anchor, node.clone());
        }
        Ok(node)
    }

    fn list(&mut self, depth: usize) -> Result<Vec<Node>, Stop> {
        let mut items = Vec::new();
        loop {
            let (event, span) = self.next()?;
            if event == Event::SequenceEnd {
                return Ok(items);
            }
            let length = self.path.len();
            self.path = format!("{}[{}]", self.path, items.len());
            items.push(self.node(event, span, depth + 1)?);
            self.path.truncate(length);
        }
    }

    fn map(&mut self, depth: usize) -> Result<Vec<Entry>, Stop> {
        let mut entries = Vec::new();
        let mut lines = HashMap::new();
        loop {
            let (event, span) = self.next()?;
            let mark = Mark::of(span.start);
            let (key, merges) = match event {
                Event::MappingEnd => return Ok(entries),
                Event::Scalar(text, style, 0, None) => {
                    let merges = style == ScalarStyle::Plain && text == "<<";
                    (text.into_owned(), merges)
                }
                _ => return self.stop(mark, "a key must be plain text"),
            };
            let parent = std::mem::take(&mut self.path);
            self.path = join(&parent, &key);
            let (event, span) = self.next()?;
            let node = self.node(event, span, depth + 1)?;
            if merges {
                let message = "merge keys are not supported; repeat the keys, or give a whole value an anchor";
                self.problems.push(Problem::new(self.path.as_str(), mark, message));
            } else if let Some(line) = lines.get(&key) {
                let message = format!("duplicate key; the first is on line {line}");
                self.problems.push(Problem::new(self.path.as_str(), mark, message));
            } else {
                lines.insert(key.clone(), mark.line);
                entries.push(Entry { key, mark, node });
            }
            self.path = parent;
        }
    }

    /// The anchored value again. What is wrong inside it is reported where it is written.
    fn alias(&mut self, anchor: usize, mark: Mark, depth: usize) -> Result<Node, Stop> {
        let Some(node) = self.anchors.get(&anchor).cloned() else {
            return self.stop(mark, "an alias stands inside the value it refers to");
        };
        self.count(node.size(), mark)?;
        if depth + height(&node) > MAX_DEPTH {
            return self.stop(mark, format!("is nested more than {MAX_DEPTH} levels deep"));
        }
        Ok(node)
    }

    fn count(&mut self, nodes: usize, mark: Mark) -> Result<(), Stop> {
        self.nodes += nodes;
        if self.nodes > MAX_NODES {
            return self.stop(mark, format!("the file has more than {MAX_NODES} values"));
        }
        Ok(())
    }

    fn refuse_tag(&mut self, tagged: bool, mark: Mark) {
        if tagged {
            self.problems.push(Problem::new(self.path.as_str(), mark, "tags (!) are not supported"));
        }
    }

    fn stop<T>(&self, mark: Mark, message: impl Into<String>) -> Result<T, Stop> {
        Err(Box::new(Problem::new(self.path.as_str(), mark, message)))
    }
}

/// Levels below a node.
fn height(node: &Node) -> usize {
    match &node.value {
        Value::List(items) => 1 + items.iter().map(height).max().unwrap_or(0),
        Value::Map(entries) => 1 + entries.iter().map(|entry| height(&entry.node)).max().unwrap_or(0),
        _ => 0,
    }
}

/// What an unquoted word is, by the core schema of YAML 1.2. Infinities and not-a-number stay text: nothing here may be
/// either, and text where a number belongs is refused.
fn plain(text: &str) -> Value {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Value::Null,
        "true" | "True" | "TRUE" => return Value::Bool(true),
        "false" | "False" | "FALSE" => return Value::Bool(false),
        _ => {}
    }
    match number(text) {
        Some(number) => Value::Number(number),
        None => Value::Text(text.to_owned()),
    }
}

fn number(text: &str) -> Option<Number> {
    let radix = |digits: &str, radix| u64::from_str_radix(digits, radix).ok().map(Number::from);
    if let Some(digits) = text.strip_prefix("0x") {
        return radix(digits, 16);
    }
    if let Some(digits) = text.strip_prefix("0o") {
        return radix(digits, 8);
    }
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    if !digits.starts_with(|c: char| c.is_ascii_digit() || c == '.')
        || !digits.chars().all(|c| c.is_ascii_digit() || matches!(c, '.' | 'e' | 'E' | '+' | '-'))
    {
        return None;
    }
    let unsigned = text.strip_prefix('+').unwrap_or(text);
    let whole = unsigned.parse::<u64>().map(Number::from).or_else(|_| unsigned.parse::<i64>().map(Number::from));
    whole.ok().or_else(|| Number::from_f64(unsigned.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::cursor::Cursor;

    #[test]
    fn plain_words_follow_yaml_1_2() {
        let value = |text: &str| {
            let (root, _) = read(format!("a: {text}\n").as_bytes());
            let root = root.unwrap();
            match Cursor::root(&root).at("a").unwrap().node.value.clone() {
                Value::Null => "null".to_owned(),
                Value::Text(text) => format!("text {text}"),
                Value::Bool(value) => format!("bool {value}"),
                Value::Number(number) => format!("number {number}"),
                _ => "other".to_owned(),
            }
        };
        for (text, expected) in [
            ("off", "text off"),
            ("no", "text no"),
            ("True", "bool true"),
            ("~", "null"),
            ("''", "text "),
            ("'1'", "text 1"),
            ("0x10", "number 16"),
            ("0o17", "number 15"),
            ("-3", "number -3"),
            ("+3", "number 3"),
            ("1.5", "number 1.5"),
            ("1e3", "number 1000.0"),
            (".5", "number 0.5"),
            (".inf", "text .inf"),
            ("1e999", "text 1e999"),
            ("1s", "text 1s"),
            ("10.0.0.1", "text 10.0.0.1"),
            ("18446744073709551615", "number 18446744073709551615"),
        ] {
            assert_eq!(value(text), expected, "{text}");
        }
    }
}
