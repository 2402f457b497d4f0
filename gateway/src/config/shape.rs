//! Checks keys and types against the JSON Schema, and says what is wrong in the words of the file.
//!
//! A general validator would do for yes or no. For a value that may be text or a mapping it can only say that no branch
//! fits; this one knows which branch was meant by the type of what is written, and goes on in that one. It reads the
//! keywords that our own schema uses, and a test compares it with a general validator.

use serde_json::{Map, Value as Json};

use super::cursor::Cursor;
use super::form;
use super::problem::{Problem, nearest, suggest};
use super::tree::Value;

/// Longest text quoted in a message.
const QUOTED: usize = 60;

/// Appends a problem for everything that the schema does not allow.
pub(super) fn check(schema: &Json, root: &Cursor<'_>, problems: &mut Vec<Problem>) {
    Checker { root: schema, problems }.value(schema, root);
}

struct Checker<'a> {
    root: &'a Json,
    problems: &'a mut Vec<Problem>,
}

impl<'a> Checker<'a> {
    fn value(&mut self, schema: &'a Json, cursor: &Cursor<'_>) {
        let branches = self.branches(schema);
        if branches.iter().any(|branch| words(branch).any(|word| is_word(&cursor.node.value, word))) {
            return;
        }
        let fits = |branch: &&&'a Json| words(branch).next().is_none() && type_fits(branch, &cursor.node.value);
        // Of several mappings, the one that has most of the keys written is meant; the first of equals.
        let known =
            |branch: &&&'a Json| cursor.entries().filter(|(key, _)| !branch["properties"][*key].is_null()).count();
        let Some(branch) = branches.iter().filter(fits).rev().max_by_key(known) else {
            self.problems.push(wrong_type(&branches, cursor));
            return;
        };
        match &cursor.node.value {
            // An empty value where a list or mapping belongs is an empty one: all its entries may be commented out.
            Value::Null | Value::Map(_) if branch["type"] == "object" => self.mapping(branch, cursor),
            Value::Null | Value::List(_) => self.list(branch, cursor),
            Value::Text(text) => self.text(&branches, branch, text, cursor),
            Value::Number(number) => self.range(branch, number.as_f64(), cursor),
            Value::Bool(_) | Value::Map(_) => {}
        }
    }

    /// Follows references and opens unions, until only plain schemas are left.
    fn branches(&self, schema: &'a Json) -> Vec<&'a Json> {
        if let Some(name) = schema["$ref"].as_str() {
            let target = self.root.pointer(name.trim_start_matches('#'));
            return self.branches(target.expect("a generated schema defines what it refers to"));
        }
        match schema["anyOf"].as_array().or_else(|| schema["oneOf"].as_array()) {
            Some(union) => union.iter().flat_map(|branch| self.branches(branch)).collect(),
            None => vec![schema],
        }
    }

    fn mapping(&mut self, schema: &'a Json, cursor: &Cursor<'_>) {
        let properties = schema["properties"].as_object();
        let additional = &schema["additionalProperties"];
        for (key, value) in cursor.entries() {
            match properties.and_then(|properties| properties.get(key)) {
                Some(property) => self.value(property, &value),
                None if additional.is_object() => self.value(additional, &value),
                None => {
                    let hint = properties.and_then(|properties| self.meant(key, properties));
                    self.problems.push(value.key_problem("unknown key").with_hint(hint));
                }
            }
        }
        let required = schema["required"].as_array().into_iter().flatten().filter_map(Json::as_str);
        for key in required.filter(|key| cursor.at(key).is_none()) {
            let path = super::cursor::join(&cursor.path, key);
            let hint = properties.and_then(|p| p.get(key)).map(|property| {
                format!("it is {}", either(&distinct(self.branches(property).iter().map(|branch| describe(branch)))))
            });
            self.problems.push(Problem::new(path, cursor.key, "is missing").with_hint(hint));
        }
        if schema["minProperties"].as_u64() > Some(cursor.entries().count() as u64) {
            self.problems.push(cursor.key_problem("must not be empty"));
        }
    }

    /// What an unknown key may have meant: a key one level down, or one that is spelt much like it.
    fn meant(&self, key: &str, properties: &'a Map<String, Json>) -> Option<String> {
        for (name, property) in properties {
            let below = self.branches(property).into_iter().filter_map(|branch| branch["properties"].as_object());
            if below.flat_map(Map::keys).any(|nested| nested == key) {
                return Some(format!("did you mean {name}.{key}?"));
            }
        }
        suggest(key, properties.keys().map(String::as_str))
    }

    fn list(&mut self, schema: &'a Json, cursor: &Cursor<'_>) {
        for item in cursor.items() {
            self.value(&schema["items"], &item);
        }
        if schema["minItems"].as_u64() > Some(cursor.items().count() as u64) {
            self.problems.push(cursor.key_problem("must not be empty"));
        }
    }

    fn text(&mut self, branches: &[&'a Json], schema: &'a Json, text: &str, cursor: &Cursor<'_>) {
        if text.is_empty() {
            self.problems.push(cursor.problem("must not be empty"));
            return;
        }
        if text.chars().any(char::is_control) {
            self.problems.push(cursor.problem("has a line break or another control character"));
            return;
        }
        let Some(form) = schema["x-form"].as_str() else { return };
        if let Err(refused) = form::check(form, text) {
            let word = branches.iter().flat_map(|branch| words(branch)).map(word_text).next();
            let nor = word.map(|word| format!(", nor the word {word}")).unwrap_or_default();
            let message = match form {
                // Somebody may have written the secret itself.
                "sha256" => refused.message.into_owned(),
                _ => format!("{} {}{nor}", quoted(text), refused.message),
            };
            self.problems.push(cursor.problem(message).with_hint(refused.hint));
        } else if form == "size" {
            let bytes = form::parse_size(text).ok();
            self.range(schema, bytes.map(|bytes| bytes as f64), cursor);
        }
    }

    fn range(&mut self, schema: &Json, value: Option<f64>, cursor: &Cursor<'_>) {
        let (minimum, maximum) = (&schema["minimum"], &schema["maximum"]);
        let low = minimum.as_f64().zip(value).is_some_and(|(minimum, value)| value < minimum);
        let high = maximum.as_f64().zip(value).is_some_and(|(maximum, value)| value > maximum);
        if low || high {
            let amount = |bound: f64| match schema["x-form"].as_str() {
                Some("size") => form::write_size(bound as u64),
                _ => bound.to_string(),
            };
            let message = match (minimum.as_f64(), maximum.as_f64()) {
                (Some(minimum), Some(maximum)) => {
                    format!("must be between {} and {}", amount(minimum), amount(maximum))
                }
                (Some(minimum), None) => format!("must be at least {}", amount(minimum)),
                (None, maximum) => format!("must be at most {}", amount(maximum.unwrap_or(f64::MAX))),
            };
            self.problems.push(cursor.problem(message));
        }
    }
}

/// The exact values that a schema allows; none when it allows a type.
fn words(schema: &Json) -> impl Iterator<Item = &Json> {
    schema.get("const").into_iter().chain(schema["enum"].as_array().into_iter().flatten())
}

fn is_word(value: &Value, word: &Json) -> bool {
    match value {
        Value::Text(text) => word == text.as_str(),
        Value::Bool(value) => word == value,
        _ => false,
    }
}

fn word_text(word: &Json) -> String {
    word.as_str().map_or_else(|| word.to_string(), str::to_owned)
}

fn types(schema: &Json) -> impl Iterator<Item = &str> {
    let one = schema["type"].as_str().into_iter();
    one.chain(schema["type"].as_array().into_iter().flatten().filter_map(Json::as_str))
}

fn type_fits(schema: &Json, value: &Value) -> bool {
    types(schema).any(|name| match value {
        Value::Null => matches!(name, "object" | "array"),
        Value::Bool(_) => name == "boolean",
        Value::Number(number) => name == "number" || (name == "integer" && !number.is_f64()),
        Value::Text(_) => name == "string",
        Value::List(_) => name == "array",
        Value::Map(_) => name == "object",
    })
}

fn wrong_type(branches: &[&Json], cursor: &Cursor<'_>) -> Problem {
    let choices: Vec<String> = branches.iter().flat_map(|branch| words(branch)).map(word_text).collect();
    // `false` is another way to write `off`, not worth a word here.
    let mut expected: Vec<String> = choices.iter().filter(|word| *word != "false").cloned().collect();
    expected.extend(branches.iter().filter(|branch| words(branch).next().is_none()).map(|branch| describe(branch)));
    let expected = either(&distinct(expected.into_iter()));
    let value = &cursor.node.value;
    if matches!(value, Value::Null) {
        return cursor.key_problem(format!("has no value; expected {expected}"));
    }
    let problem = cursor.problem(format!("expected {expected}, found {}", found(value)));
    problem.with_hint(meant_value(branches, &choices, value))
}

/// What a value of the wrong type may have meant.
fn meant_value(branches: &[&Json], choices: &[String], value: &Value) -> Option<String> {
    let has_type = |name| branches.iter().any(|branch| types(branch).any(|have| have == name));
    let form = branches.iter().find_map(|branch| branch["x-form"].as_str());
    match value {
        Value::Text(text) if has_type("boolean") => match text.to_ascii_lowercase().as_str() {
            "yes" | "on" | "y" => Some("did you mean true?".to_owned()),
            "no" | "off" | "n" => Some("did you mean false?".to_owned()),
            _ => None,
        },
        Value::Text(text) => nearest(text, &choices.iter().map(String::as_str).collect::<Vec<_>>())
            .map(|word| format!("did you mean {word}?"))
            .or_else(|| has_type("array").then(|| format!("did you mean [{}]?", text.escape_debug()))),
        Value::Number(number) if form.is_some() => {
            let form = form.unwrap_or_default();
            let unit = match form {
                "share" => "%",
                form if form.starts_with("duration") => "s",
                _ => return None,
            };
            let written = format!("{number}{unit}");
            form::check(form, &written).is_ok().then(|| format!("did you mean {written}?"))
        }
        Value::Number(number) if has_type("string") => Some(format!("put it in quotes: \"{number}\"")),
        Value::Bool(value) if has_type("string") && form.is_none() => Some(format!("put it in quotes: \"{value}\"")),
        _ => None,
    }
}

/// Each name once, where it came first.
fn distinct(names: impl Iterator<Item = String>) -> Vec<String> {
    names.fold(Vec::new(), |mut distinct, name| {
        if !distinct.contains(&name) {
            distinct.push(name);
        }
        distinct
    })
}

/// Joins as a sentence does: `a`, `a or b`, `a, b or c`.
fn either(names: &[String]) -> String {
    match names {
        [] => String::new(),
        [name] => name.clone(),
        [names @ .., last] => format!("{} or {last}", names.join(", ")),
    }
}

/// Returns how a type is called in a message.
fn describe(schema: &Json) -> String {
    if let Some(form) = schema["x-form"].as_str() {
        return form::describe(form).to_owned();
    }
    let choices: Vec<String> = words(schema).map(word_text).collect();
    if !choices.is_empty() {
        return either(&choices);
    }
    match types(schema).next() {
        Some("boolean") => "true or false",
        Some("integer") => "a whole number",
        Some("number") => "a number",
        Some("array") => "a list",
        Some("object") => "a mapping",
        _ => "text",
    }
    .to_owned()
}

fn found(value: &Value) -> String {
    match value {
        Value::Null => "nothing".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Number(number) => format!("the number {number}"),
        Value::Text(text) => format!("the text {}", quoted(text)),
        Value::List(_) => "a list".to_owned(),
        Value::Map(_) => "a mapping".to_owned(),
    }
}

/// Text in quotes, escaped and cut.
pub(super) fn quoted(text: &str) -> String {
    let cut: String = text.chars().take(QUOTED).collect();
    let dots = if cut.len() < text.len() { "..." } else { "" };
    format!("\"{}{dots}\"", cut.escape_debug())
}
