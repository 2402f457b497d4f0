//! What a scan finds, in whatever way a body is written and cut.

use std::ops::Range;

use bytes::Bytes;
use proptest::prelude::*;
use serde_json::Value as Parsed;

use super::written::{Style, any_body, scan};
use super::*;

fn scan_str(body: &str) -> Result<Scan, ScanError> {
    scan(&[Bytes::copy_from_slice(body.as_bytes())])
}

/// Scans byte by byte as well, which must not matter.
fn found(body: &str, key: Key) -> Option<&str> {
    let scan = scan_str(body).unwrap_or_else(|error| panic!("{error}: {body}"));
    let bytewise: Vec<Bytes> = body.bytes().map(|byte| Bytes::copy_from_slice(&[byte])).collect();
    assert_eq!(self::scan(&bytewise), Ok(scan.clone()), "cutting {body} into bytes changes the scan");
    scan.value(key).map(|value| &body[value.range()])
}

fn model_range(body: &str) -> Range<usize> {
    scan_str(body).unwrap().value(Key::Model).expect("the body has a model").range()
}

fn spliced(body: &str, new_name: &str) -> String {
    let range = model_range(body);
    let parts = splice_model(&[Bytes::copy_from_slice(body.as_bytes())], range, new_name);
    String::from_utf8(parts.concat()).unwrap()
}

#[test]
fn keys_and_names_agree() {
    for (index, key) in Key::ALL.into_iter().enumerate() {
        assert_eq!(key as usize, index, "{key:?} is out of order in Key::ALL");
        assert_eq!(Key::from_name(key.name().as_bytes()), Some(key));
        assert!(key.name().len() <= Key::MAX_NAME_BYTES, "{key:?} needs more room for its name");
    }
    assert!(Key::ALL.iter().any(|key| key.name().len() == Key::MAX_NAME_BYTES), "MAX_NAME_BYTES is more than needed");
}

#[test]
fn the_last_of_repeated_keys_counts() {
    assert_eq!(found(r#"{"model":"a","model":"b"}"#, Key::Model), Some(r#""b""#));
    assert_eq!(found(r#"{"model":"a","x":{"model":"c"},"\u006dodel":null}"#, Key::Model), Some("null"));
}

#[test]
fn keys_are_compared_decoded() {
    assert_eq!(found(r#"{"\u006dodel":"a"}"#, Key::Model), Some(r#""a""#));
    let all_escaped: String =
        "max_completion_tokens".bytes().map(|byte| format!("\\u00{byte:02x}")).collect::<Vec<_>>().concat();
    assert_eq!(found(&format!(r#"{{"{all_escaped}":7}}"#), Key::MaxCompletionTokens), Some("7"));
    assert_eq!(found(r#"{"model\u0000":"a","mode\l":"a","Model":"a"," model":"a"}"#, Key::Model), None);
}

#[test]
fn only_the_top_level_is_looked_at() {
    let body = r#"{"metadata":{"model":"a"},"messages":[{"model":"b"},"model",":"],"x":"\"model\":\"c\""}"#;
    assert_eq!(found(body, Key::Model), None);
    assert_eq!(found(body, Key::Messages), Some(r#"[{"model":"b"},"model",":"]"#));
}

#[test]
fn strings_may_hold_brackets_and_backslashes() {
    assert_eq!(found(r#"{"prompt":"}]\\\"{[","model":"m"}"#, Key::Model), Some(r#""m""#));
    assert_eq!(found(r#"{"messages":[["\\"],{"a\"]":"}"}],"model":"m"}"#, Key::Model), Some(r#""m""#));
}

#[test]
fn python_reads_it_so_we_do() {
    assert_eq!(found("\u{feff}{\"model\":\"m\"}", Key::Model), Some("\"m\""), "a byte order mark is skipped");
    for number in ["NaN", "Infinity", "-Infinity", "1e400", "-0", "12345678901234567890123"] {
        let body = format!(r#"{{"priority":{number},"x":[{number}]}}"#);
        assert_eq!(found(&body, Key::Priority), Some(number));
    }
    for text in [r"\ud800", r"\udc00\ud800", "\u{7f}", r"\u00e9"] {
        assert_eq!(found(&format!(r#"{{"user":"{text}"}}"#), Key::User), Some(&*format!("\"{text}\"")));
    }
    assert_eq!(found(" \r\n\t{ \"model\" :\n\"m\"\t} \n", Key::Model), Some("\"m\""));
}

#[test]
fn what_is_no_object_is_refused() {
    for body in ["[]", "\"model\"", "null", "12", "model=m", "<html>", "{\0\"\0"] {
        let refused = scan_str(body);
        assert!(
            matches!(refused, Err(ScanError::NotAnObject { at: 0 } | ScanError::Syntax { .. })),
            "{body}: {refused:?}"
        );
    }
    assert_eq!(scan_str(""), Err(ScanError::Empty));
    assert_eq!(scan_str(" \n"), Err(ScanError::Empty));
    assert_eq!(scan_str("\u{feff}"), Err(ScanError::Empty));
    assert_eq!(scan(&[Bytes::from_static(b"\xEF\xBB")]), Err(ScanError::NotAnObject { at: 0 }));
    assert_eq!(scan_str(" \u{feff}{}"), Err(ScanError::NotAnObject { at: 1 }), "the mark comes first or not at all");
    let utf16: Vec<u8> = "{}".encode_utf16().flat_map(u16::to_le_bytes).collect();
    assert!(scan(&[Bytes::from(utf16)]).is_err(), "UTF-16 is refused, not misread");
}

#[test]
fn broken_top_levels_are_refused_with_their_place() {
    for (body, at) in [
        (r#"{"a" 1}"#, 5),
        (r#"{"a":}"#, 5),
        (r#"{"a":1 2}"#, 7),
        (r#"{"a":tru}"#, 5),
        (r#"{"a":1,}"#, 7),
        (r"{,}", 1),
        (r"{a:1}", 1),
        (r#"{"a":[}"#, 6),
        (r#"{"a":{"b":1]}"#, 11),
        (r#"{"a":1]"#, 6),
        (r#"{"a":'x'}"#, 5),
    ] {
        let refused = scan_str(body);
        assert!(matches!(refused, Err(ScanError::Syntax { at: found, .. }) if found == at), "{body}: {refused:?}");
    }
    assert_eq!(scan_str(r"{} x"), Err(ScanError::Trailing { at: 3 }));
    assert_eq!(scan_str(r"{}{}"), Err(ScanError::Trailing { at: 2 }));
}

#[test]
fn every_cut_of_a_body_is_refused_as_cut() {
    let body = r#"{"model":"m\u00e9","n":12,"stop":null,"messages":[{"role":"user","content":"q"}]}"#;
    for len in 1..body.len() {
        assert_eq!(scan_str(&body[..len]), Err(ScanError::Cut { at: len }), "{}", &body[..len]);
    }
    assert!(scan_str(body).is_ok());
}

#[test]
fn nesting_ends_at_the_limit() {
    let nested = |levels: usize| format!(r#"{{"a":{}{}}}"#, "[".repeat(levels), "]".repeat(levels));
    assert!(scan_str(&nested(MAX_DEPTH - 1)).is_ok());
    assert!(matches!(scan_str(&nested(MAX_DEPTH)), Err(ScanError::TooDeep { .. })));
    let mixed = format!(r#"{{"a":{}1{}}}"#, r#"[{"b":"#.repeat(400), "}]".repeat(400));
    assert!(scan_str(&mixed).is_ok(), "both kinds of bracket pair at any depth");
}

#[test]
fn an_error_is_final() {
    let mut scanner = Scanner::new();
    let error = scanner.feed(b"[").unwrap_err();
    assert_eq!(scanner.feed(b"{}"), Err(error));
    assert_eq!(scanner.finish(), Err(error));
}

#[test]
fn errors_never_quote_the_body() {
    let error = scan_str(r#"{"secret":SECRET}"#).unwrap_err();
    assert!(!error.to_string().to_lowercase().contains("secret"), "{error}");
}

#[test]
fn a_routing_scan_does_not_locate_prompts() {
    let mut scanner = Scanner::routing_only();
    scanner.feed(br#"{"messages":[1],"prompt":"x","tools":[],"model":"m","stream":true}"#).unwrap();
    let scan = scanner.finish().unwrap();
    assert!(scan.value(Key::Model).is_some() && scan.value(Key::Stream).is_some());
    assert!(Key::ALL.into_iter().filter(|key| key.is_prompt()).all(|key| scan.value(key).is_none()));
}

#[test]
fn a_splice_keeps_large_integers_and_small_floats_verbatim() {
    let body = r#"{"model":"m","prompt":"x","seed":9007199254740993,"logit_bias":{"1":-100},"temperature":1e-7,"x":12345678901234567890123}"#;
    assert_eq!(spliced(body, "m2"), body.replacen("\"m\"", "\"m2\"", 1));
}

#[test]
fn a_splice_keeps_the_order_of_tool_parameters() {
    let body = r#"{"model":"m","tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object","required":["b"],"properties":{"b":{"type":"string"},"a":{"type":"integer"}}}}}],"messages":[{"role":"user","content":"hi"}]}"#;
    for _ in 0..20 {
        assert_eq!(spliced(body, "other"), body.replacen("\"m\"", "\"other\"", 1));
        assert_eq!(spliced(body, "m"), body);
    }
}

#[test]
fn a_splice_keeps_fields_it_does_not_know() {
    let body = r#"{"model":"m","messages":[{"role":"user","content":"q"}],"return_token_ids":true,"vllm_xargs":{"a":1},"chat_template_kwargs":{"enable_thinking":false}}"#;
    assert_eq!(spliced(body, "n"), body.replacen("\"m\"", "\"n\"", 1));
}

#[test]
fn a_splice_keeps_white_space() {
    assert_eq!(
        spliced(r#"{ "model" : "m" ,  "prompt" : "x" }"#, "longer-name"),
        r#"{ "model" : "longer-name" ,  "prompt" : "x" }"#
    );
}

#[test]
fn a_splice_of_null_or_escapes_replaces_the_raw_value() {
    assert_eq!(spliced(r#"{"model":null}"#, "a\"\\\n"), r#"{"model":"a\"\\\u000a"}"#);
    assert_eq!(spliced(r#"{"model":"\u006d\"" }"#, "é"), r#"{"model":"é" }"#);
}

#[test]
fn a_splice_shares_the_chunks_it_does_not_change() {
    let chunks = [r#"{"prompt":"aaaa","#, r#""model":""#, r#"m","x":1"#, "}"].map(Bytes::from_static_str);
    let range = scan(&chunks).unwrap().value(Key::Model).unwrap().range();
    let parts = splice_model(&chunks, range.clone(), "n");
    assert_eq!(parts[0].as_ptr(), chunks[0].as_ptr(), "an untouched chunk was copied");
    assert_eq!(parts.last().unwrap().as_ptr(), chunks[3].as_ptr(), "an untouched chunk was copied");
    assert_eq!(parts.concat(), br#"{"prompt":"aaaa","model":"n","x":1}"#);
    assert_eq!(spliced_len(chunks.concat().len(), &range, "n"), parts.concat().len());
}

trait FromStaticStr {
    fn from_static_str(text: &'static str) -> Self;
}

impl FromStaticStr for Bytes {
    fn from_static_str(text: &'static str) -> Self {
        Self::from_static(text.as_bytes())
    }
}

fn kind(value: &Parsed) -> Kind {
    match value {
        Parsed::Null => Kind::Null,
        Parsed::Bool(true) => Kind::True,
        Parsed::Bool(false) => Kind::False,
        Parsed::Number(_) => Kind::Number,
        Parsed::String(_) => Kind::String,
        Parsed::Array(_) => Kind::Array,
        Parsed::Object(_) => Kind::Object,
    }
}

proptest! {
    #[test]
    fn a_scan_finds_what_a_parser_finds(body in any_body(), seed: u64) {
        let mut style = Style(seed);
        let written = style.write_in_order(&body);
        let parsed: Parsed = serde_json::from_str(&written).expect("the generator writes JSON");
        let scan = scan(&style.cut(written.as_bytes())).map_err(|error| TestCaseError::fail(error.to_string()))?;
        prop_assert_eq!(scan.body_bytes(), written.len());
        for key in Key::ALL {
            let expected = parsed.get(key.name());
            let value = scan.value(key);
            prop_assert_eq!(value.map(|value| value.kind), expected.map(kind), "{:?}", key);
            let raw = value.map(|value| serde_json::from_str::<Parsed>(&written[value.range()]).expect("a whole value"));
            prop_assert_eq!(raw.as_ref(), expected, "{:?}", key);
        }
    }

    #[test]
    fn a_splice_changes_the_model_and_nothing_else(body in any_body(), seed: u64, name in ".{0,20}") {
        let mut style = Style(seed);
        let written = style.write_in_order(&body);
        let chunks = style.cut(written.as_bytes());
        let Some(model) = scan(&chunks).expect("the generator writes JSON").value(Key::Model) else { return Ok(()) };
        let after = splice_model(&chunks, model.range(), &name).concat();
        prop_assert_eq!(after.len(), spliced_len(written.len(), &model.range(), &name));
        prop_assert_eq!(&after[..model.start], &written.as_bytes()[..model.start]);
        prop_assert!(after.ends_with(&written.as_bytes()[model.end..]));
        let mut expected: Parsed = serde_json::from_str(&written).expect("the generator writes JSON");
        expected["model"] = name.into();
        prop_assert_eq!(serde_json::from_slice::<Parsed>(&after).expect("the splice is JSON"), expected);
    }

    #[test]
    fn decoding_in_steps_gives_what_decoding_in_pieces_gives(
        text in proptest::collection::vec(
            prop_oneof![4 => "[a-z ]{0,20}", 1 => "[a-z]{120,700}", 3 => r#"\\["\\/ntrbfx]"#, 1 => r"\\u[0-9a-f]{4}", 1 => "é|☕|😀"], 0..40),
        cuts in proptest::collection::vec(1usize..600, 0..20),
        room in reader::Reader::LEAST_ROOM..100,
    ) {
        let mut written = format!("\"{}\" rest", text.concat());
        let value = Value { kind: Kind::String, start: 0, end: written.len() };
        let mut chunks = Vec::new();
        for cut in cuts {
            if written.is_char_boundary(cut) && cut < written.len() {
                let rest = written.split_off(cut);
                chunks.push(Bytes::from(std::mem::replace(&mut written, rest)));
            }
        }
        chunks.push(Bytes::from(written));
        let mut expected = Vec::new();
        let mut reader = reader::Reader::new(&chunks, value);
        reader.string(|piece| expected.extend_from_slice(piece));
        let left = reader.left();

        let mut reader = reader::Reader::new(&chunks, value);
        let mut found = Vec::new();
        let mut buffer = vec![0; room];
        prop_assert!(reader.enter_string());
        loop {
            if let Some(run) = reader.plain_run(512) {
                found.extend_from_slice(run);
            }
            let decoded = reader.decode_into(&mut buffer);
            found.extend_from_slice(&buffer[..decoded.len]);
            if decoded.is_end {
                break;
            }
        }
        prop_assert_eq!(String::from_utf8_lossy(&found), String::from_utf8_lossy(&expected));
        prop_assert_eq!(reader.left(), left);
    }

    #[test]
    fn arbitrary_bytes_do_no_harm(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        fuzz::fuzz(&bytes);
    }

    #[test]
    fn near_misses_of_json_do_no_harm(body in any_body(), seed: u64, size: u8, at: prop::sample::Index, byte: u8) {
        let mut written = Style(seed).write_in_order(&body).into_bytes();
        written.insert(0, size);
        fuzz::fuzz(&written);
        let at = at.index(written.len());
        written[at] = byte;
        fuzz::fuzz(&written);
    }

    #[test]
    fn json_made_of_punctuation_does_no_harm(body in "[\\x01-\\x08][{]\"messages\":[\\[\\]{},:\"\\\\u0-9a ]{0,60}[}]") {
        fuzz::fuzz(body.as_bytes());
    }
}
