//! Which fields count as prompt, and that the way in which they are written does not.

mod fields;
mod paths;
mod properties;

use bytes::Bytes;
use spillway_picker::prefix::{Depths, Prompt, block_end};

use super::*;
use crate::scan::ScanError;
use crate::scan::written::scan;

fn seen(surface: Surface, body: &str) -> Inspected {
    try_seen(surface, body).unwrap_or_else(|error| panic!("{error}: {body}"))
}

fn try_seen(surface: Surface, body: &str) -> Result<Inspected, InspectError> {
    let chunks = [Bytes::copy_from_slice(body.as_bytes())];
    Inspected::new(surface, scan(&chunks).unwrap_or_else(|error| panic!("{error}: {body}")), &chunks)
}

fn prompt_of_chunks(surface: Surface, chunks: &[Bytes]) -> Prompt {
    let scan = scan(chunks).unwrap_or_else(|error| panic!("{error}"));
    let seen = Inspected::new(surface, scan, chunks).unwrap();
    seen.prompt(seen.hash(chunks, Depths::default()), chunks, "m", "tenant", None)
}

fn prompt(surface: Surface, body: &str) -> Prompt {
    prompt_of_chunks(surface, &[Bytes::copy_from_slice(body.as_bytes())])
}

fn chat(messages: &str) -> Prompt {
    prompt(Surface::ChatCompletions, &format!(r#"{{"model":"m","messages":[{messages}]}}"#))
}

/// Text of so many bytes that no compression of the test's meaning can confuse with another.
fn long(letter: char, bytes: usize) -> String {
    letter.to_string().repeat(bytes)
}

#[test]
fn whatever_legal_is_in_a_chat_is_forwarded() {
    for extra in [
        r#""tools":[{"type":"function","function":{"name":"now"}}]"#,
        r#""stop":null,"tools":null,"tool_choice":"auto","strict":null"#,
        r#""tools":[]"#,
        r#""tools":{}"#,
    ] {
        for content in [r#""q""#, "null", "[]", r#"[{"type":"text","text":"q"}]"#, "7", "{}", r#"["q"]"#] {
            let body = format!(r#"{{"model":"m","messages":[{{"role":"user","content":{content}}}],{extra}}}"#);
            assert_eq!(seen(Surface::ChatCompletions, &body).model.as_deref(), Some("m"), "{body}");
            prompt(Surface::ChatCompletions, &body);
        }
    }
}

#[test]
fn completions_take_every_form_of_prompt() {
    let key = |prompt_json: &str| {
        prompt(Surface::Completions, &format!(r#"{{"model":"m","prompt":{prompt_json}}}"#)).ring_key
    };
    assert_eq!(key(r#""a""#), key(r#"["a"]"#));
    assert_eq!(key(r#""a""#), key(r#"["a","b"]"#), "each string is a prompt of its own; the first is keyed");
    assert_eq!(key("[1,2,3]"), key(" [ 1 , 2 , 3 ] "));
    assert_eq!(key("[1,2]"), key("[[1,2],[3]]"));
    assert_ne!(key("[1,2]"), key("[1,3]"));
    assert_ne!(key("[1,2]"), key(r#""1,2""#));
    for empty in ["[]", r#""""#, "null", "[[]]", r#"[""]"#] {
        assert_eq!(key(empty), None, "{empty}");
    }
    assert!(key("[1,2,3]").is_some());
    let embeds = r#"{"model":"m","prompt":null,"prompt_embeds":"AAAA"}"#;
    assert_eq!(prompt(Surface::Completions, embeds).media, 1);
    let ids = prompt(Surface::Completions, r#"{"prompt":[[1,2,3],[4,5]]}"#);
    assert_eq!((ids.token_ids, ids.bytes), (3, 8), "the second row counts by its size");
    assert_ne!(
        prompt(Surface::Completions, r#"{"prompt":"a","suffix":"b"}"#).ring_key,
        prompt(Surface::Completions, r#"{"prompt":"ab"}"#).ring_key
    );
}

#[test]
fn a_call_of_a_tool_separates_histories_from_there_on() {
    let history = |x: u32| {
        let first = long('a', 4096);
        let later = long('b', 4096);
        chat(&format!(
            r#"{{"role":"user","content":"{first}"}},
            {{"role":"assistant","content":null,"tool_calls":[{{"id":"c","type":"function","function":{{"name":"f","arguments":"{{\"x\":{x}}}"}}}}]}},
            {{"role":"tool","tool_call_id":"c","content":"{later}"}}"#
        ))
    };
    let (one, two) = (history(1), history(2));
    let same = one.blocks.iter().zip(&two.blocks).take_while(|(a, b)| a == b).count();
    assert_eq!(block_end(same - 1), 4096, "the histories are equal up to the call");
    assert!(one.blocks[same..].iter().zip(&two.blocks[same..]).all(|(a, b)| a != b), "and nowhere after it");
    assert_eq!(one.ring_key, two.ring_key, "turns of one conversation keep their owner");
}

#[test]
fn every_field_that_reaches_the_prompt_counts() {
    let message = r#"{"role":"assistant","content":"x"}"#;
    let variants = [
        r#"{"role":"user","content":"x"}"#,
        r#"{"role":"critic","content":"x"}"#,
        r#"{"role":"assistant","content":"x","name":"n"}"#,
        r#"{"role":"assistant","content":"x","reasoning_content":"r"}"#,
        r#"{"role":"assistant","content":"x","tool_calls":[{"id":"i","function":{"name":"f","arguments":"{}"}}]}"#,
        r#"{"role":"assistant","content":"x","tool_calls":[{"id":"i","function":{"name":"g","arguments":"{}"}}]}"#,
        r#"{"role":"assistant","content":"x","tool_calls":[{"id":"j","function":{"name":"f","arguments":"{}"}}]}"#,
        r#"{"role":"assistant","content":"x","function_call":{"name":"f","arguments":"{ }"}}"#,
        r#"{"role":"assistant","content":"x","tool_call_id":"i"}"#,
        r#"{"role":"assistant","content":"x","refusal":"no"}"#,
        r#"{"role":"assistant","content":[{"type":"text","text":"x"},{"type":"image_url","image_url":{"url":"u"}}]}"#,
        r#"{"role":"assistant","content":[{"type":"text","text":"x"},{"type":"image_url","image_url":{"url":"v"}}]}"#,
        r#"{"role":"assistant","content":[{"type":"image_url","image_url":{"url":"v"}},{"type":"text","text":"x"}]}"#,
        r#"{"role":"assistant","content":[{"type":"text","text":"x"},{"type":"novel","x":1}]}"#,
        r#"{"role":"assistant","content":[{"type":"text","text":"x"},{"type":"novel","x":2}]}"#,
        message,
    ];
    let tail = format!(r#",{{"role":"user","content":"{}"}}"#, long('z', 512));
    let last_blocks: Vec<u64> = variants
        .iter()
        .map(|variant| *chat(&format!("{variant}{tail}")).blocks.last().expect("the tail fills a block"))
        .collect();
    for (i, a) in last_blocks.iter().enumerate() {
        for (j, b) in last_blocks.iter().enumerate().skip(i + 1) {
            assert_ne!(a, b, "{} and {} hash alike", variants[i], variants[j]);
        }
    }
}

#[test]
fn fields_that_do_not_reach_the_prompt_do_not_count() {
    let plain = chat(r#"{"role":"user","content":"q"}"#);
    for messages in [
        r#"{"content":"q","role":"user"}"#,
        r#"{"role":"user","content":[{"type":"text","text":"q"}]}"#,
        r#"{"role":"user","content":[{"text":"q","cache_control":{"type":"ephemeral"},"type":"text"}]}"#,
        r#"{"role":"user","content":["q"],"name":null,"tool_calls":null}"#,
        r#"{"role":"user","content":"q","cache_control":{"type":"ephemeral"},"tool_calls":[]}"#,
    ] {
        assert_eq!(chat(messages), plain, "{messages}");
    }
    let sampled =
        r#"{"temperature":0.5,"messages":[{"role":"user","content":"q"}],"seed":1,"max_tokens":3,"stop":["prompt"]}"#;
    assert_eq!(prompt(Surface::ChatCompletions, sampled), plain);
    let other = r#"{"messages":[{"role":"user","content":"q"}],"prompt":"not a chat field","input":"x"}"#;
    assert_eq!(prompt(Surface::ChatCompletions, other), plain);
}

#[test]
fn model_tenant_and_salt_separate_everything() {
    let body = |more: &str| format!(r#"{{"messages":[{{"role":"user","content":"{}"}}]{more}}}"#, long('a', 600));
    let ask = |body: &str, model: &str, tenant: &str| {
        let chunks = [Bytes::copy_from_slice(body.as_bytes())];
        let seen = seen(Surface::ChatCompletions, body);
        seen.prompt(seen.hash(&chunks, Depths::default()), &chunks, model, tenant, None)
    };
    let base = ask(&body(""), "m", "t");
    let others = [
        ask(&body(""), "m2", "t"),
        ask(&body(""), "m", "t2"),
        ask(&body(r#","cache_salt":"s""#), "m", "t"),
        ask(&body(r#","extra_key":"s""#), "m", "t"),
    ];
    for other in others {
        assert!(other.ring_key != base.ring_key && other.blocks.iter().zip(&base.blocks).all(|(a, b)| a != b));
    }
    assert_eq!(ask(&body(r#","cache_salt":null,"extra_key":null"#), "m", "t"), base);
}

#[test]
fn an_explicit_key_is_the_ring_key() {
    let ask = |body: &str, session: Option<&[u8]>| {
        let chunks = [Bytes::copy_from_slice(body.as_bytes())];
        let seen = seen(Surface::ChatCompletions, body);
        seen.prompt(seen.hash(&chunks, Depths::default()), &chunks, "m", "t", session).ring_key
    };
    let keyed = r#"{"prompt_cache_key":"k","messages":[{"role":"user","content":"a"}]}"#;
    let bare = r#"{"messages":[{"role":"user","content":"b"}]}"#;
    assert_eq!(ask(keyed, None), ask(bare, Some(b"k")));
    assert_eq!(ask(keyed, Some(b"other")), ask(keyed, None), "the body's key goes before the header's");
    assert_eq!(ask(bare, Some(b"")), ask(bare, None), "an empty key is none");
    assert_ne!(ask(bare, None), ask(bare, Some(b"k")));
}

#[test]
fn one_long_system_prompt_has_one_owner_for_all_questions() {
    let ask = |question: &str| {
        chat(&format!(
            r#"{{"role":"system","content":"{}"}},{{"role":"developer","content":"d"}},{{"role":"user","content":"{question}"}}"#,
            long('s', 2000)
        ))
        .ring_key
    };
    assert_eq!(ask("one"), ask("two"));
}

#[test]
fn a_short_chat_keeps_its_owner_over_its_turns() {
    let first = r#"{"role":"system","content":"be kind"},{"role":"user","content":"hello"}"#;
    let more = r#",{"role":"assistant","content":"hi"},{"role":"user","content":"tell me more"}"#;
    assert_eq!(chat(first).ring_key, chat(&format!("{first}{more}")).ring_key);
    assert_ne!(chat(first).ring_key, chat(&first.replace("hello", "goodbye")).ring_key);
}

#[test]
fn the_order_of_keys_in_a_tool_schema_counts_and_white_space_does_not() {
    let tools = |schema: &str| {
        let pad = long('p', 600);
        let tool =
            format!(r#"{{"type":"function","function":{{"name":"f","parameters":{schema},"description":"{pad}"}}}}"#);
        prompt(Surface::ChatCompletions, &format!(r#"{{"tools":[{tool}],"messages":[]}}"#))
    };
    let one = tools(r#"{"b":{"type":"string"},"a":1.0,"c":"x\/\u00e9\""}"#);
    assert_eq!(one, tools("{ \"b\" :\n{\"type\": \"string\"},\t\"a\":1.0 ,\"c\":\"x/é\\u0022\"}"));
    assert_ne!(one.blocks, tools(r#"{"a":1.0,"b":{"type":"string"},"c":"x/é\""}"#).blocks);
    assert_ne!(one.blocks, tools(r#"{"b":{"type":"string"},"a":1,"c":"x/é\""}"#).blocks);
}

#[test]
fn a_tools_cache_control_does_not_count() {
    let tools = |tool: &str| {
        prompt(Surface::Messages, &format!(r#"{{"tools":[{tool}],"messages":[{{"role":"user","content":"q"}}]}}"#))
    };
    assert_eq!(
        tools(r#"{"name":"f","input_schema":{"type":"object"}}"#),
        tools(r#"{"name":"f","cache_control":{"type":"ephemeral"},"input_schema":{"type":"object"}}"#)
    );
}

#[test]
fn anthropic_messages_and_chat_read_alike() {
    let anthropic = prompt(
        Surface::Messages,
        r#"{"system":[{"type":"text","text":"s","cache_control":{"type":"ephemeral"}}],
            "messages":[{"role":"user","content":[{"type":"text","text":"q"}]}]}"#,
    );
    assert_eq!(anthropic, chat(r#"{"role":"system","content":"s"},{"role":"user","content":"q"}"#));
    let responses = prompt(Surface::Responses, r#"{"instructions":"s","input":"q"}"#);
    assert_eq!(responses, anthropic);
    let items = r#"{"instructions":"s","input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"q"}]}]}"#;
    assert_eq!(prompt(Surface::Responses, items), anthropic);
}

#[test]
fn anthropic_blocks_count() {
    let base = r#"{"type":"text","text":"x"}"#;
    let blocks = [
        base,
        r#"{"type":"thinking","thinking":"x","signature":"s"}"#,
        r#"{"type":"redacted_thinking","data":"x"}"#,
        r#"{"type":"tool_use","id":"i","name":"f","input":{"a":1}}"#,
        r#"{"type":"tool_use","id":"i","name":"f","input":{"a":2}}"#,
        r#"{"type":"tool_use","id":"i","name":"g","input":{"a":1}}"#,
        r#"{"type":"tool_result","tool_use_id":"i","content":"x"}"#,
        r#"{"type":"tool_result","tool_use_id":"j","content":"x"}"#,
        r#"{"type":"tool_result","tool_use_id":"i","content":[{"type":"text","text":"y"}]}"#,
        r#"{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AAAA"}}"#,
        r#"{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AAAB"}}"#,
    ];
    let last_block = |block: &str| {
        let body = format!(
            r#"{{"messages":[{{"role":"user","content":[{block},{{"type":"text","text":"{}"}}]}}]}}"#,
            long('z', 512)
        );
        *prompt(Surface::Messages, &body).blocks.last().expect("the text fills a block")
    };
    for (i, a) in blocks.iter().enumerate() {
        for b in &blocks[i + 1..] {
            assert_ne!(last_block(a), last_block(b), "{a} and {b} hash alike");
        }
    }
    assert_eq!(
        last_block(r#"{"type":"tool_result","tool_use_id":"i","content":"y"}"#),
        last_block(
            r#"{"content":[{"text":"y","type":"text"}],"cache_control":{},"tool_use_id":"i","type":"tool_result"}"#
        )
    );
}

#[test]
fn a_changing_billing_line_does_not_change_the_prompt() {
    let ask = |first: &str| {
        let body = format!(
            r#"{{"system":[{first}{{"type":"text","text":"s"}}],"messages":[{{"role":"user","content":"q"}}]}}"#
        );
        prompt(Surface::Messages, &body)
    };
    let plain = ask("");
    assert_eq!(ask(r#"{"type":"text","text":"x-anthropic-billing-header: cch=1"},"#), plain);
    assert_eq!(ask(r#"{"text":"x-anthropic-billing-header: cch=2;","type":"text"},"#), plain);
    assert_ne!(ask(r#"{"type":"text","text":"x-anthropic"},"#), plain);
}

#[test]
fn calls_in_responses_count() {
    let items = [
        r#"{"type":"function_call","call_id":"c","name":"f","arguments":"{}"}"#,
        r#"{"type":"function_call","call_id":"c","name":"f","arguments":"{1}"}"#,
        r#"{"type":"function_call","call_id":"d","name":"f","arguments":"{}"}"#,
        r#"{"type":"function_call_output","call_id":"c","output":"x"}"#,
        r#"{"type":"function_call_output","call_id":"c","output":[{"type":"input_text","text":"y"}]}"#,
        r#"{"type":"reasoning","id":"r","summary":[{"type":"summary_text","text":"x"}]}"#,
        r#"{"type":"reasoning","id":"r","summary":[],"content":[{"type":"reasoning_text","text":"y"}]}"#,
        r#"{"type":"item_reference","id":"a"}"#,
        r#"{"type":"item_reference","id":"b"}"#,
    ];
    let last_block = |item: &str| {
        let body = format!(r#"{{"input":[{item},{{"role":"user","content":"{}"}}]}}"#, long('z', 512));
        *prompt(Surface::Responses, &body).blocks.last().expect("the message fills a block")
    };
    for (i, a) in items.iter().enumerate() {
        for b in &items[i + 1..] {
            assert_ne!(last_block(a), last_block(b), "{a} and {b} hash alike");
        }
    }
}

#[test]
fn a_picture_counts_by_all_of_its_bytes_and_never_as_text() {
    let picture = |data: &str| {
        chat(&format!(
            r#"{{"role":"user","content":[{{"type":"text","text":"look"}},{{"type":"image_url","image_url":{{"url":"data:image/png;base64,{data}"}}}}]}}"#
        ))
    };
    let big = long('A', 12 << 20);
    let one = picture(&big);
    let two = picture(&format!("{}B", &big[1..]));
    assert_eq!((one.media, one.bytes), (1, 4));
    assert_ne!(one.ring_key, two.ring_key, "pictures that differ in their last byte are different");
    assert_eq!(picture("A\\/B"), picture("A/B"));
    let detail = |more: &str| {
        chat(&format!(r#"{{"role":"user","content":[{{"type":"image_url","image_url":{{"url":"u"{more}}}}}]}}"#))
    };
    assert_eq!(detail(r#","detail":null"#), detail(""));
    assert_ne!(detail(r#","detail":"high""#), detail(""));
}

#[test]
fn text_past_the_maximum_counts_and_media_are_still_seen() {
    let depths = Depths { max: 1024, ..Depths::default() };
    let body = format!(
        r#"{{"messages":[{{"role":"user","content":"{}"}},{{"role":"user","content":[{{"type":"text","text":"{}"}},{{"type":"image_url","image_url":{{"url":"u"}}}}]}}]}}"#,
        long('a', 2000),
        long('b', 3000)
    );
    let chunks = [Bytes::copy_from_slice(body.as_bytes())];
    let seen = seen(Surface::ChatCompletions, &body);
    let prompt = seen.prompt(seen.hash(&chunks, depths), &chunks, "m", "", None);
    assert_eq!((prompt.bytes, prompt.media), (5000, 1));
    assert_eq!(block_end(prompt.blocks.len() - 1), 1024);
}

#[test]
fn a_rerank_request_is_keyed_by_its_query_first() {
    let ask = |query: &str, documents: &str| {
        prompt(Surface::Rerank, &format!(r#"{{"documents":{documents},"query":"{query}"}}"#))
    };
    let long_query = long('q', 512);
    let one = ask(&long_query, r#"["a","b"]"#);
    assert_eq!(one.ring_key, ask(&long_query, r#"["c"]"#).ring_key);
    assert_ne!(ask("q", r#"["a","b"]"#), ask("q", r#"["ab"]"#));
    assert!(ask("q", r#"[{"text":"a"}]"#).bytes > 1);
}

#[test]
fn tokenize_and_count_tokens_have_no_prompt() {
    let body = r#"{"messages":[{"role":"user","content":"q"}],"prompt":"x","system":"s"}"#;
    for surface in [Surface::Tokenize, Surface::CountTokens] {
        assert_eq!(prompt(surface, body), Prompt::default());
    }
}

#[test]
fn an_unread_prompt_has_a_size_and_no_hashes() {
    let body = r#"{"messages":[{"role":"user","content":"q"}],"x":"ignored"}"#;
    let prompt = seen(Surface::ChatCompletions, body).unread_prompt();
    assert_eq!(prompt, Prompt { bytes: r#"[{"role":"user","content":"q"}]"#.len() as u64, ..Prompt::default() });
}

#[test]
fn deep_nesting_does_not_exhaust_the_stack() {
    let levels = 300;
    let results = format!("{}\"x\"{}", r#"[{"type":"tool_result","content":"#.repeat(levels), "}]".repeat(levels));
    chat(&format!(r#"{{"role":"user","content":{results}}}"#));
    let image = format!("{}1{}", "[".repeat(900), "]".repeat(900));
    chat(&format!(r#"{{"role":"user","content":[{{"type":"image","source":{image}}}]}}"#));
    let body = format!(r#"{{"prompt":{}{}}}"#, "[".repeat(990), "]".repeat(990));
    prompt(Surface::Completions, &body);
}

#[test]
fn surrogates_are_read_across_any_cut() {
    let plain = chat("{\"role\":\"user\",\"content\":\"a😀é\u{7f}\"}");
    let escaped = r#"{"messages":[{"role":"user","content":"a\ud83d\uDE00\u00e9\u007f"}]}"#;
    let lone = r#"{"messages":[{"role":"user","content":"\ud83d\ud83d\ude00\udE00"}]}"#;
    let lone_whole = prompt(Surface::ChatCompletions, lone);
    for at in 0..escaped.len() {
        let cut = |body: &'static str| {
            let (a, b) = body.as_bytes().split_at(at.min(body.len()));
            [Bytes::from_static(a), Bytes::new(), Bytes::from_static(b)]
        };
        assert_eq!(prompt_of_chunks(Surface::ChatCompletions, &cut(escaped)), plain, "cut at {at}");
        assert_eq!(prompt_of_chunks(Surface::ChatCompletions, &cut(lone)), lone_whole, "cut at {at}");
    }
    let other =
        prompt(Surface::ChatCompletions, r#"{"messages":[{"role":"user","content":"\ud83d\ude00\ud83d\ude00"}]}"#);
    assert_ne!(lone_whole.ring_key, other.ring_key);
}

#[test]
fn a_cut_body_is_an_error_and_not_a_prompt() {
    assert_eq!(scan(&[Bytes::from_static(br#"{"model":"m","messages":["#)]), Err(ScanError::Cut { at: 25 }));
}
