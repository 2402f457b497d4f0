//! The shape of a JSON text: its keys in order, with every value replaced by its type.

/// `{"a":1,"b":["x"]}` becomes `{"a":#,"b":[$]}`; null, true and false stay.
pub(crate) fn shape(json: &str) -> String {
    let (mut out, mut rest) = (String::new(), json.trim());
    while let Some(first) = rest.chars().next() {
        match first {
            '"' => {
                let end = string_end(rest);
                let is_key = rest[end..].trim_start().starts_with(':');
                out.push_str(if is_key { &rest[..end] } else { "$" });
                rest = &rest[end..];
            }
            '0'..='9' | '-' => {
                out.push('#');
                rest = rest.trim_start_matches(|c: char| c.is_ascii_digit() || "+-.eE".contains(c));
            }
            _ if first.is_whitespace() => rest = &rest[1..],
            _ => {
                out.push(first);
                rest = &rest[first.len_utf8()..];
            }
        }
    }
    out
}

fn string_end(text: &str) -> usize {
    let mut escaped = false;
    for (place, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return place + 1,
            _ => {}
        }
    }
    text.len()
}

/// Shapes of the events of a stream; runs of equal ones count once.
pub(crate) fn events(stream: &str) -> Vec<String> {
    let mut all: Vec<String> = stream
        .split("\n\n")
        .filter(|event| !event.is_empty())
        .map(|event| {
            let lines = event.lines().map(|line| match line.split_once(' ') {
                Some(("data:", json)) if json.starts_with('{') => shape(json),
                _ => line.to_owned(),
            });
            lines.collect::<Vec<_>>().join(" ")
        })
        .collect();
    all.dedup();
    all
}

#[test]
fn a_shape_keeps_keys_and_forgets_values() {
    assert_eq!(
        shape(r#"{"a": "x\"y", "b": [1.5e+3, null], "c": {"d": true}}"#),
        r#"{"a":$,"b":[#,null],"c":{"d":true}}"#
    );
}
