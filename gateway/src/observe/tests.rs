//! Recorded streams, the odd ones, and every way of cutting them.

use proptest::prelude::*;
use serde_json::Value;

use super::*;

const CHAT: Kind = Kind::EventStream(Dialect::Chat);
const RESPONSES: Kind = Kind::EventStream(Dialect::Responses);
const MESSAGES: Kind = Kind::EventStream(Dialect::Messages);

fn usage(prompt: u32, cached: impl Into<Option<u32>>, completion: u32) -> Usage {
    Usage { prompt: Some(prompt), cached: cached.into(), completion: Some(completion) }
}

fn summary_of(kind: Kind, pieces: &[&[u8]]) -> Summary {
    let mut observer = Observer::new(kind);
    for piece in pieces {
        observer.observe(piece);
    }
    observer.finish()
}

/// The head's kind and the body of a recorded response.
fn recorded(name: &str, dialect: Dialect) -> (Kind, Vec<u8>) {
    let path = format!("{}/fixtures/{name}", env!("CARGO_MANIFEST_DIR"));
    let bytes = std::fs::read(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let end = memchr::memmem::find(&bytes, b"\r\n\r\n").expect("a recorded response has a head");
    let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
    let status = head[9..12].parse().unwrap();
    let content_type = head
        .lines()
        .find_map(|line| line.split_once(':').filter(|(name, _)| name.eq_ignore_ascii_case("content-type")))
        .map(|(_, value)| value.trim().as_bytes());
    (Kind::of(status, content_type, None, dialect), bytes[end + 4..].to_vec())
}

struct Recorded {
    name: &'static str,
    dialect: Dialect,
    summary: Summary,
}

fn all_recorded() -> Vec<Recorded> {
    let recorded = |name, dialect, usage, events, token_events| Recorded {
        name,
        dialect,
        summary: Summary {
            usage,
            events,
            token_events,
            ended_properly: true,
            error_in_stream: false,
            at_fault: false,
            finish: Some(Finish::Length),
        },
    };
    let none = Usage::default();
    vec![
        recorded("vllm-chat-stream-nousage.txt", Dialect::Chat, none, 6, 4),
        recorded("vllm-chat-stream-usage.txt", Dialect::Chat, usage(15, None, 4), 7, 4),
        recorded("vllm-chat-stream-usage-continuous.txt", Dialect::Chat, usage(15, None, 4), 7, 4),
        recorded("vllm-chat-stream-n2-logprobs.txt", Dialect::Chat, none, 9, 6),
        recorded("vllm-completions-stream-usage.txt", Dialect::Chat, usage(3, None, 4), 6, 4),
        recorded("vllm-responses-stream.txt", Dialect::Responses, usage(15, 0, 4), 10, 2),
        recorded("vllm-messages-stream.txt", Dialect::Messages, usage(15, None, 4), 7, 2),
        recorded("llamacpp-chat-stream-nousage.txt", Dialect::Chat, none, 7, 4),
        recorded("llamacpp-chat-stream-usage.txt", Dialect::Chat, usage(15, 14, 4), 8, 4),
        recorded("vllm-chat-nonstream.txt", Dialect::Chat, usage(15, None, 4), 0, 0),
        recorded("vllm-completions-nonstream-batch.txt", Dialect::Chat, usage(6, None, 8), 0, 0),
        recorded("llamacpp-chat-nonstream.txt", Dialect::Chat, usage(15, 14, 4), 0, 0),
    ]
}

#[test]
fn recorded_replies_read_right_at_every_cut() {
    for Recorded { name, dialect, summary } in all_recorded() {
        let (kind, body) = recorded(name, dialect);
        assert_eq!(summary_of(kind, &[&body]), summary, "{name} whole");
        for cut in 0..=body.len() {
            let (left, right) = body.split_at(cut);
            assert_eq!(summary_of(kind, &[left, right]), summary, "{name} cut at {cut}");
        }
        let bytes: Vec<&[u8]> = body.chunks(1).collect();
        assert_eq!(summary_of(kind, &bytes), summary, "{name} byte by byte");
    }
}

#[test]
fn recorded_streams_read_right_with_any_line_ends() {
    for Recorded { name, dialect, summary } in all_recorded() {
        let (kind, body) = recorded(name, dialect);
        let Kind::EventStream(_) = kind else { continue };
        let text = String::from_utf8(body).unwrap();
        for (what, variant) in [
            ("CRLF", text.replace('\n', "\r\n")),
            ("CR", text.replace('\n', "\r")),
            ("byte order mark", format!("\u{feff}{text}")),
            ("comments", text.replace("data:", ": keep-alive\n\n:\ndata:")),
            ("no space", text.replace("data: ", "data:")),
            ("no last blank line", text.trim_end().to_owned()),
        ] {
            let comments = what == "comments";
            let variant = variant.as_bytes();
            // A comment with a blank line would end an event whose name stands before it.
            if comments && dialect != Dialect::Chat {
                continue;
            }
            assert_eq!(summary_of(kind, &[variant]), summary, "{name} with {what}");
            for cut in (0..=variant.len()).step_by(5) {
                let (left, right) = variant.split_at(cut);
                assert_eq!(summary_of(kind, &[left, right]), summary, "{name} with {what} cut at {cut}");
            }
        }
    }
}

#[test]
fn the_first_token_is_the_first_content_and_not_the_first_chunk() {
    for (first, kind, expected) in [
        (r#"{"choices":[{"delta":{"role":"assistant","content":""}}]}"#, CHAT, false),
        (r#"{"choices":[{"delta":{"role":"assistant","content":null}}]}"#, CHAT, false),
        (r#"{"choices":[{"delta":{"role":"assistant"}}]}"#, CHAT, false),
        (r#"{"choices":[{"delta":{"tool_calls":[],"content":[]}}]}"#, CHAT, false),
        (r#"{"choices":[{"delta":{},"finish_reason":"stop"}]}"#, CHAT, false),
        (r#"{"choices":[],"usage":{"prompt_tokens":1}}"#, CHAT, false),
        (r#"{"choices":[{"text":""}]}"#, CHAT, false),
        (r#"{"choices":[{"delta":{"x":"y"},"logprobs":{"content":[{"token":"a"}]}}]}"#, CHAT, false),
        (r#"{"choices":[{"text":" "}]}"#, CHAT, true),
        (r#"{"choices":[{"delta":{"content":"\n"}}]}"#, CHAT, true),
        (r#"{"choices":[{"delta":{"content":null,"reasoning_content":"hm"}}]}"#, CHAT, true),
        (r#"{"choices":[{"delta":{"reasoning":"hm"}}]}"#, CHAT, true),
        (r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"name":"f","arguments":""}}]}}]}"#, CHAT, true),
        (r#"{"choices":[{"index":0,"delta":{}},{"index":1,"delta":{"content":"b"}}]}"#, CHAT, true),
        (r#"{"type":"response.output_text.delta","delta":"a"}"#, RESPONSES, true),
        (r#"{"type":"response.output_text.delta","delta":""}"#, RESPONSES, false),
        (r#"{"type":"response.created","response":{"output":[],"instructions":"be good"}}"#, RESPONSES, false),
        (r#"{"type":"content_block_delta","delta":{"type":"text_delta","text":"a"}}"#, MESSAGES, true),
        (r#"{"type":"content_block_delta","delta":{"type":"thinking_delta","thinking":"a"}}"#, MESSAGES, true),
        (r#"{"type":"content_block_delta","delta":{"type":"input_json_delta","partial_json":""}}"#, MESSAGES, false),
        (r#"{"type":"content_block_start","content_block":{"type":"text","text":""}}"#, MESSAGES, false),
        (r#"{"type":"content_block_start","content_block":{"type":"tool_use","name":"f","input":{}}}"#, MESSAGES, true),
        (r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"}}"#, MESSAGES, false),
        (r#"{"type":"ping"}"#, MESSAGES, false),
    ] {
        let mut observer = Observer::new(kind);
        assert_eq!(observer.observe(b": keep-alive\n\n"), Seen::default(), "a comment is nothing");
        let seen = observer.observe(format!("data: {first}\n\n").as_bytes());
        assert_eq!((seen.events, seen.first_token), (1, expected), "{first}");
        let again = observer.observe(format!("data: {first}\n\ndata: {first}\n\n").as_bytes());
        assert_eq!((again.first_token, again.tokens), (false, 2 * u32::from(expected)), "only once: {first}");
    }
}

#[test]
fn an_event_is_reported_with_the_chunk_that_completes_it() {
    let mut observer = Observer::new(CHAT);
    assert_eq!(observer.observe(b"data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n"), Seen::default());
    let seen = observer.observe(b"\ndata: {\"choices\":[{\"text\":\"b\"}]}\n\ndata: [DONE]\n\n");
    assert_eq!(seen, Seen { events: 3, tokens: 2, first_token: true, error: false, ended: true });
}

#[test]
fn usage_is_found_wherever_a_server_puts_it() {
    let counts = r#"{"prompt_tokens":5,"total_tokens":7,"completion_tokens":2}"#;
    let delta = r#""choices":[{"delta":{"content":"a"}}]"#;
    for (what, kind, body, expected) in [
        ("own chunk", CHAT, format!("data: {{\"choices\":[],\"usage\":{counts}}}\n\n"), usage(5, None, 2)),
        (
            "finish chunk",
            CHAT,
            format!("data: {{\"choices\":[{{\"finish_reason\":\"stop\",\"delta\":{{}}}}],\"usage\":{counts}}}\n\n"),
            usage(5, None, 2),
        ),
        (
            "null elsewhere",
            CHAT,
            format!("data: {{{delta},\"usage\":null}}\n\ndata: {{\"usage\":{counts}}}\n\ndata: {{{delta},\"usage\":null}}\n\n"),
            usage(5, None, 2),
        ),
        (
            "every chunk: the last, not the sum",
            CHAT,
            format!("data: {{{delta},\"usage\":{{\"prompt_tokens\":5,\"completion_tokens\":1}}}}\n\ndata: {{{delta},\"usage\":{counts}}}\n\n"),
            usage(5, None, 2),
        ),
        (
            "nested in the response",
            RESPONSES,
            "event: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{\"usage\":{\"input_tokens\":5,\"output_tokens\":2}}}".to_owned(),
            usage(5, None, 2),
        ),
        (
            "spaces, and two data lines",
            CHAT,
            "data: { \"usage\" : { \"prompt_tokens\" : 5,\ndata: \"completion_tokens\" : 2 } }\n\n".to_owned(),
            usage(5, None, 2),
        ),
        (
            "cached tokens beside the input, over two events",
            MESSAGES,
            "event: message_start\ndata: {\"message\":{\"usage\":{\"input_tokens\":5,\"cache_read_input_tokens\":90,\"cache_creation_input_tokens\":3,\"output_tokens\":1}}}\n\n\
             event: message_delta\ndata: {\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":2}}\n\n".to_owned(),
            usage(98, 90, 2),
        ),
        (
            "only in text",
            CHAT,
            "data: {\"choices\":[{\"delta\":{\"content\":\"\\\"usage\\\":{\\\"prompt_tokens\\\":9}\"},\"usage\":{\"prompt_tokens\":9}}]}\n\n".to_owned(),
            Usage::default(),
        ),
        ("cut event", CHAT, format!("data: {{\"choices\":[],\"usage\":{counts}"), Usage::default()),
    ] {
        for cut in 0..=body.len() {
            let (left, right) = body.as_bytes().split_at(cut);
            assert_eq!(summary_of(kind, &[left, right]).usage, expected, "{what}, cut at {cut}");
        }
    }
}

#[test]
fn a_messages_reply_without_a_stream_has_its_cached_part_added() {
    let body = br#"{"type":"message","content":[{"type":"text","text":"a"}],"stop_reason":"max_tokens",
        "usage":{"input_tokens":5,"cache_read_input_tokens":32,"output_tokens":2}}"#;
    let summary = summary_of(Kind::Json, &[body]);
    assert_eq!((summary.usage, summary.finish), (usage(37, 32, 2), Some(Finish::Length)));
}

#[test]
fn an_end_without_its_marker_is_no_end() {
    for (kind, body, ended, error, finish) in [
        (CHAT, "data: [DONE]\n\n", true, false, None),
        (CHAT, "data:[DONE]", true, false, None),
        (CHAT, "data: [DON", false, false, None),
        (CHAT, "data: {\"choices\":[{\"delta\":{\"content\":\"[DONE]\"}}]}\n\n", false, false, None),
        (CHAT, "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n", false, false, Some(Finish::Stop)),
        (CHAT, "data: {\"error\":{\"message\":\"m\"}}\n\ndata: [DONE]\n\n", true, true, None),
        (CHAT, "data: {\"error\":\"m\"}\n\n", false, true, None),
        (CHAT, "data: {\"error\":null,\"choices\":[]}\n\n", false, false, None),
        (CHAT, "data: {\"object\":\"error\",\"message\":\"m\"}\n\n", false, true, None),
        (CHAT, "", false, false, None),
        (MESSAGES, "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n", true, false, None),
        (MESSAGES, "data: {\"type\":\"message_stop\"}\n\n", true, false, None),
        (MESSAGES, "event: message_stop\n\n", false, false, None),
        (
            MESSAGES,
            "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\"}}\n\n",
            false,
            true,
            None,
        ),
        (
            RESPONSES,
            "event: response.failed\ndata: {\"response\":{\"status\":\"failed\"}}\n\n",
            true,
            true,
            Some(Finish::Aborted),
        ),
        (
            RESPONSES,
            "event: response.incomplete\ndata: {\"response\":{\"incomplete_details\":{\"reason\":\"content_filter\"},\"status\":\"incomplete\"}}\n\n",
            true,
            false,
            Some(Finish::Filtered),
        ),
        (
            RESPONSES,
            "event: response.completed\ndata: {\"response\":{\"status\":\"incomplete\",\"error\":null}}\n\n",
            true,
            false,
            Some(Finish::Length),
        ),
        (RESPONSES, "event: error\ndata: {\"type\":\"error\",\"message\":\"m\"}\n\n", false, true, None),
        (Kind::Json, "{\"choices\":[{\"finish_reason\":\"tool_calls\"}]}", true, false, Some(Finish::ToolCalls)),
        (
            Kind::Json,
            "{\"choices\":[{\"finish_reason\":\"a reason with far more bytes than are kept\"}]}",
            true,
            false,
            Some(Finish::Other),
        ),
        (Kind::Json, "{\"choices\":[", false, false, None),
        (Kind::Opaque, "data: {\"error\":\"m\"}\n\n", true, false, None),
    ] {
        let mut observer = Observer::new(kind);
        observer.observe(body.as_bytes());
        let summary = observer.finish();
        assert_eq!((summary.ended_properly, summary.error_in_stream, summary.finish), (ended, error, finish), "{body}");
        assert_eq!(observer.finish(), summary, "asking twice is harmless: {body}");
    }
}

#[test]
fn an_error_blames_the_endpoint_unless_it_has_the_code_of_a_4xx() {
    for (data, at_fault) in [
        (r#"{"error": {"message": "m", "code": 500}}"#, true),
        (r#"{"error": {"message": "m", "code": null}}"#, true),
        (r#"{"error": {"message": "m", "code": 4000}}"#, true),
        (r#"{"error": {"message": "m", "code": "4xx"}}"#, true),
        (r#"{"error": {"code": 429, "message": "m"}}"#, false),
        (r#"{"error": {"code": "400"}}"#, false),
        (r#"{"object": "error", "message": "m", "code": 400}"#, false),
        (r#"{"code": 400, "object": "error", "message": "m"}"#, false),
        (r#"{"code": 400, "choices": []}"#, false),
        (r#"{"error": {"code": 500, "message": "m", "metadata": {"code": 404}}}"#, true),
        (r#"{"error": {"metadata": [{"code": 404}], "message": "m"}}"#, true),
        (r#"{"error": {"message": "m", "code": 500}, "code": 400}"#, true),
        (r#"{"error": {"message": "m", "code": null}, "code": 400}"#, false),
        (r#"{"type": "response.failed", "response": {"error": {"code": 400}}}"#, false),
        (r#"{"type": "response.failed", "response": {"error": {"code": "server_error"}}}"#, true),
    ] {
        let body = format!("data: {data}\n\ndata: [DONE]\n\n");
        assert_eq!(summary_of(CHAT, &[body.as_bytes()]).at_fault, at_fault, "{body}");
        assert!(!summary_of(Kind::Json, &[data.as_bytes()]).at_fault, "of a document nobody can tell: {data}");
    }
    let both = "data: {\"error\": {\"code\": 400}}\n\ndata: {\"error\": {\"code\": 500}}\n\ndata: [DONE]\n\n";
    assert!(summary_of(CHAT, &[both.as_bytes()]).at_fault, "one of two choices failed by the endpoint");
}

#[test]
fn an_event_of_any_size_is_read_and_nothing_of_it_is_kept() {
    let large = "x\\\"".repeat(1 << 20);
    let body = format!(
        "event: response.completed\ndata: {{\"response\":{{\"output\":[{{\"text\":\"{large}\"}}],\"usage\":{{\"input_tokens\":5,\"output_tokens\":2}}}}}}\n\ndata: {{\"choices\":[{{\"text\":\"a\"}}]}}\n\n"
    );
    let summary = summary_of(RESPONSES, &body.as_bytes().chunks(1447).collect::<Vec<_>>());
    assert_eq!((summary.usage, summary.ended_properly, summary.token_events), (usage(5, None, 2), true, 1));
    let size = size_of::<Observer>();
    assert!(size <= 400, "an observer is held per open stream; it grew to {size} bytes");
}

#[test]
fn large_embeddings_keep_their_usage_before_or_after_the_data() {
    let data = format!("[{{\"embedding\":[{}0.5],\"index\":0}}]", "-0.0123,".repeat(50_000));
    for body in [
        format!("{{\"usage\":{{\"prompt_tokens\":8}},\"data\":{data}}}"),
        format!("{{\"data\":{data},\"usage\":{{\"prompt_tokens\":8}}}}"),
    ] {
        let summary = summary_of(Kind::Json, &body.as_bytes().chunks(4096).collect::<Vec<_>>());
        assert_eq!(summary.usage, Usage { prompt: Some(8), ..Usage::default() });
        assert!(summary.ended_properly);
    }
}

#[test]
fn an_appended_error_event_is_read_by_a_client_whatever_came_before() {
    let sequence = "event: response.created\ndata: {\"type\":\"response.created\",\"sequence_number\":6}\n\n";
    for (dialect, before, closes) in [
        (Dialect::Chat, "", true),
        (Dialect::Chat, "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n", true),
        (Dialect::Chat, "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n", true),
        (Dialect::Chat, "data: {\"choices\":[{\"delta\":{\"con", true),
        (Dialect::Chat, ": keep-al", true),
        (Dialect::Chat, "data: {\"choices\":[]}\r\n\r", true),
        (Dialect::Responses, sequence, false),
        (Dialect::Messages, "event: ping\nda", false),
    ] {
        let mut observer = Observer::new(Kind::EventStream(dialect));
        observer.observe(before.as_bytes());
        let appended = observer.error_event("endpoint \"e\" went away\n").expect("the stream has not ended");
        let seen = observer.observe(&appended);
        assert!(seen.error, "{before:?} + {appended:?}");
        assert_eq!(seen.ended, closes, "{before:?} + {appended:?}");
        assert!(observer.at_event_boundary(), "{appended:?} must end its event");
        assert_eq!(appended.starts_with(b"\n\n"), !before.is_empty() && !before.ends_with("\n\n"), "{before:?}");
        let data = std::str::from_utf8(&appended).unwrap().lines().find_map(|line| line.strip_prefix("data: "));
        let value: Value = serde_json::from_str(data.unwrap()).expect("one line of JSON");
        assert_eq!(value["error"]["message"], "endpoint \"e\" went away\n");
        match dialect {
            Dialect::Chat => assert_eq!(value["error"]["type"], "upstream_error"),
            Dialect::Responses => assert_eq!((&value["type"], &value["sequence_number"]), (&"error".into(), &7.into())),
            Dialect::Messages => {
                assert_eq!((&value["type"], &value["error"]["type"]), (&"error".into(), &"api_error".into()));
            }
        }
    }
}

#[test]
fn nothing_is_appended_to_a_stream_that_said_all_itself() {
    let after = |dialect, body: &str| {
        let mut observer = Observer::new(Kind::EventStream(dialect));
        observer.observe(body.as_bytes());
        observer.error_event("m")
    };
    assert_eq!(after(Dialect::Chat, "data: [DONE]\n\n"), None);
    assert_eq!(after(Dialect::Messages, "data: {\"type\":\"message_stop\"}\n\n"), None);
    assert_eq!(after(Dialect::Messages, "event: error\ndata: {\"type\":\"error\"}\n\n"), None);
    let closing = after(Dialect::Chat, "data: {\"error\":\"m\"}\n\n").expect("only the end is missing");
    assert_eq!(closing, "data: [DONE]\n\n");
    assert_eq!(Observer::new(Kind::Json).error_event("m"), None, "a JSON body cannot be continued");
    assert_eq!(error_event(Dialect::Chat, "m"), Observer::new(CHAT).error_event("m").unwrap());
}

/// Reads one event's data with a full JSON parser: the measure for ours.
fn oracle(text: &str) -> (bool, Usage) {
    let value: Value = serde_json::from_str(text).expect("generated events are JSON");
    let some = |value: &Value| value.as_str().is_some_and(|text| !text.is_empty());
    let choices = value["choices"].as_array().cloned().unwrap_or_default();
    let token = choices.iter().any(|choice| {
        let delta = &choice["delta"];
        some(&choice["text"]) || some(&delta["content"]) || some(&delta["reasoning"]) || {
            let calls = delta["tool_calls"].as_array().cloned().unwrap_or_default();
            calls.iter().any(|call| some(&call["function"]["name"]))
        }
    });
    let count = |key: &str| value["usage"][key].as_u64().map(|count| count as u32);
    let cached = value["usage"]["prompt_tokens_details"]["cached_tokens"].as_u64().map(|count| count as u32);
    (token, Usage { prompt: count("prompt_tokens"), cached, completion: count("completion_tokens") })
}

/// JSON with the keys that matter in places where they do and where they do not.
fn any_json() -> impl Strategy<Value = Value> {
    let key = prop::sample::select(vec![
        "choices",
        "delta",
        "content",
        "text",
        "usage",
        "prompt_tokens",
        "completion_tokens",
        "prompt_tokens_details",
        "cached_tokens",
        "tool_calls",
        "function",
        "name",
        "reasoning",
        "x",
    ]);
    let text = prop::sample::select(vec!["", "a", "\"usage\":{", "\\", "{\"", "\u{e9}\u{4e2d}\n", "}]}", "a\\\"b"]);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<u32>().prop_map(Value::from),
        text.prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 40, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((key.clone(), inner), 0..5).prop_map(|pairs| Value::Object(
                pairs.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
            )),
        ]
    })
}

fn pieces<'a>(body: &'a [u8], cuts: &[usize]) -> Vec<&'a [u8]> {
    let mut at: Vec<usize> = cuts.iter().map(|cut| cut % (body.len() + 1)).collect();
    at.extend([0, body.len()]);
    at.sort_unstable();
    at.windows(2).map(|pair| &body[pair[0]..pair[1]]).collect()
}

proptest! {
    #[test]
    fn recorded_replies_read_right_with_any_cuts(which in 0..12_usize, cuts in prop::collection::vec(any::<usize>(), 0..40)) {
        let Recorded { name, dialect, summary } = all_recorded().swap_remove(which);
        let (kind, body) = recorded(name, dialect);
        prop_assert_eq!(summary_of(kind, &pieces(&body, &cuts)), summary, "{}", name);
    }

    #[test]
    fn any_event_reads_as_a_full_parser_reads_it(
        usage in any_json(),
        choices in prop::collection::vec(any_json(), 0..3),
        delta in any_json(),
        pretty in any::<bool>(),
        cuts in prop::collection::vec(any::<usize>(), 0..6),
    ) {
        let choices: Vec<Value> = choices.into_iter().chain([serde_json::json!({"delta": delta})]).collect();
        let value = serde_json::json!({"choices": choices, "usage": usage, "id": usage});
        let text = if pretty { serde_json::to_string_pretty(&value) } else { serde_json::to_string(&value) }.unwrap();
        let body = format!("data: {}\n\n", text.replace('\n', "\ndata: "));
        let summary = summary_of(CHAT, &pieces(body.as_bytes(), &cuts));
        let (token, expected) = oracle(&text);
        // A content that is a list or an object counts as soon as any text is in it: that is more than the oracle knows.
        prop_assert!(summary.token_events == 1 || !token, "{}", text);
        prop_assert_eq!(summary.usage, expected, "{}", text);
        prop_assert_eq!(summary.events, 1);
    }

    #[test]
    fn any_bytes_are_survived_at_any_cut(data in prop::collection::vec(any::<u8>(), 0..600)) {
        fuzz(&data);
    }

    #[test]
    fn any_mixture_of_syntax_is_survived_at_any_cut(
        words in prop::collection::vec(prop::sample::select(vec![
            "data:", "data: ", "event: ", "error", "\n", "\r", "\r\n", ":", "{", "}", "[", "]", "\"", "\\", ",", "usage",
            "\"usage\":", "\"choices\":", "\"text\":\"a\"", "[DONE]", "message_stop", "null", "12", "\u{feff}", "prompt_tokens",
        ]), 0..60),
        size in 1..9_u8,
    ) {
        let mut data = vec![size];
        data.extend(words.concat().into_bytes());
        fuzz(&data);
    }
}
