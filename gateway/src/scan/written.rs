//! JSON values for tests, and the many ways in which one value can be written: white space, escapes, order of keys,
//! cuts into chunks.

use bytes::Bytes;
use proptest::prelude::*;

use super::{Key, Scan, ScanError, Scanner};

/// A JSON value whose members keep their order.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Json {
    /// A number or word, as it is written.
    Bare(String),
    Text(String),
    List(Vec<Json>),
    Object(Vec<(String, Json)>),
    /// A value in which the order of keys has a meaning.
    Ordered(Box<Json>),
}

pub(crate) fn text(text: &str) -> Json {
    Json::Text(text.to_owned())
}

pub(crate) fn object<const N: usize>(members: [(&str, Json); N]) -> Json {
    Json::Object(members.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
}

/// A small deterministic source of choices, so that a failing case shrinks to one number.
pub(crate) struct Style(pub(crate) u64);

impl Style {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (self.0 >> 33) % bound
    }

    fn space(&mut self, out: &mut String) {
        out.push_str(["", "", "", " ", "\n", "\t \r\n"][self.below(6) as usize]);
    }

    fn string(&mut self, text: &str, out: &mut String) {
        let mut units = [0; 2];
        out.push('"');
        for char in text.chars() {
            match (char, self.below(8)) {
                ('"' | '\\', 1..) => out.extend(['\\', char]),
                ('/', 1) => out.push_str("\\/"),
                ('\n', 1..) => out.push_str("\\n"),
                ('\t', 1..) => out.push_str("\\t"),
                ('\0'..' ', _) | (_, 0) => {
                    for unit in char.encode_utf16(&mut units) {
                        let digits = format!("{unit:04x}");
                        out.push_str("\\u");
                        out.push_str(&if self.below(2) == 0 { digits } else { digits.to_uppercase() });
                    }
                }
                _ => out.push(char),
            }
        }
        out.push('"');
    }

    fn value(&mut self, json: &Json, may_reorder: bool, out: &mut String) {
        self.space(out);
        match json {
            Json::Bare(bare) => out.push_str(bare),
            Json::Text(text) => self.string(text, out),
            Json::Ordered(json) => self.value(json, false, out),
            Json::List(items) => {
                out.push('[');
                for (index, item) in items.iter().enumerate() {
                    out.push_str(if index > 0 { "," } else { "" });
                    self.value(item, may_reorder, out);
                }
                self.space(out);
                out.push(']');
            }
            Json::Object(members) => {
                let mut order: Vec<usize> = (0..members.len()).collect();
                if may_reorder {
                    for last in (1..order.len()).rev() {
                        order.swap(last, self.below(last as u64 + 1) as usize);
                    }
                }
                out.push('{');
                for (place, &index) in order.iter().enumerate() {
                    out.push_str(if place > 0 { "," } else { "" });
                    self.space(out);
                    self.string(&members[index].0, out);
                    self.space(out);
                    out.push(':');
                    self.value(&members[index].1, may_reorder, out);
                }
                self.space(out);
                out.push('}');
            }
        }
        self.space(out);
    }

    /// Writes the value, with the keys of its objects in any order.
    pub(crate) fn write(&mut self, json: &Json) -> String {
        let mut out = String::new();
        self.value(json, true, &mut out);
        out
    }

    /// Writes the value, keys in the order given.
    pub(crate) fn write_in_order(&mut self, json: &Json) -> String {
        let mut out = String::new();
        self.value(json, false, &mut out);
        out
    }

    /// Cuts a body into chunks, some of them empty.
    pub(crate) fn cut(&mut self, body: &[u8]) -> Vec<Bytes> {
        let longest = [2, 9, 70, 5000][self.below(4) as usize];
        let mut chunks = Vec::new();
        let mut rest = body;
        while !rest.is_empty() {
            let (chunk, later) = rest.split_at(rest.len().min(self.below(longest) as usize));
            chunks.push(Bytes::copy_from_slice(chunk));
            rest = later;
        }
        chunks
    }
}

/// Scans a body that comes in these chunks.
pub(crate) fn scan(chunks: &[Bytes]) -> Result<Scan, ScanError> {
    let mut scanner = Scanner::new();
    for chunk in chunks {
        scanner.feed(chunk)?;
    }
    scanner.finish()
}

/// Any text, with what is hard to read made likely.
pub(crate) fn any_text() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z ]{0,12}",
        "[\"\\\\/{}\\[\\],:\n\t\u{1}é漢\u{1F600}]{0,40}",
        proptest::collection::vec(any::<char>(), 0..30).prop_map(String::from_iter),
        "[a-z\" \n]{200,700}",
    ]
}

/// Any value, a few levels deep.
pub(crate) fn any_json() -> impl Strategy<Value = Json> {
    let leaf = prop_oneof![
        prop::sample::select(vec!["null", "true", "false", "0", "-1", "12345678901234567890", "1e-7", "0.5E+3"])
            .prop_map(|bare| Json::Bare(bare.to_owned())),
        any_text().prop_map(Json::Text),
    ];
    leaf.prop_recursive(4, 40, 5, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..5).prop_map(Json::List),
            proptest::collection::vec((any_text(), inner), 0..5).prop_map(Json::Object),
        ]
    })
}

/// Any object whose keys are mostly ones that the scanner looks for, often repeated.
pub(crate) fn any_body() -> impl Strategy<Value = Json> {
    let key = prop_oneof![
        3 => prop::sample::select(&Key::ALL[..]).prop_map(|key| key.name().to_owned()),
        1 => any_text(),
    ];
    proptest::collection::vec((key, any_json()), 0..8).prop_map(Json::Object)
}
