//! The fields that routing reads, odd values included.

use super::*;

#[test]
fn routing_fields_are_read() {
    let body = r#"{"model":"org/m:8b","stream":true,"stream_options":{"x":1,"include_usage":true},"max_tokens":5,
        "max_completion_tokens":7,"n":2,"priority":-3,"user":"u","prompt_cache_key":"k","cache_salt":"s",
        "previous_response_id":"resp_1"}"#;
    let seen = seen(Surface::ChatCompletions, body);
    assert_eq!(seen.model.as_deref(), Some("org/m:8b"));
    assert_eq!(&body[seen.model_range.clone().unwrap()], "\"org/m:8b\"");
    assert!(seen.stream && seen.include_usage);
    assert_eq!((seen.max_tokens, seen.n, seen.priority), (Some(7), 2, Some(-3)));
    assert_eq!((seen.user.as_deref(), seen.prompt_cache_key.as_deref()), (Some("u"), Some("k")));
    assert_eq!((seen.cache_salt.as_deref(), seen.previous_response_id.as_deref()), (Some("s"), Some("resp_1")));
    assert_eq!(seen.body_bytes, body.len());
}

#[test]
fn odd_values_of_routing_fields_count_as_absent() {
    let odd = seen(
        Surface::ChatCompletions,
        r#"{"model":"m","stream":null,"stream_options":null,"max_tokens":"9","n":null,"priority":1.5,"user":7,"metadata":[]}"#,
    );
    assert!(!odd.stream && !odd.include_usage);
    assert_eq!((odd.max_tokens, odd.n, odd.priority, odd.user), (None, 1, None, None));
    let odd = seen(Surface::Responses, r#"{"max_output_tokens":1e30,"n":-1,"stream":"True","prompt_cache_key":null}"#);
    assert_eq!((odd.max_tokens, odd.n, odd.stream, odd.prompt_cache_key), (Some(u32::MAX), 1, true, None));
    assert_eq!(seen(Surface::ChatCompletions, r#"{"max_tokens":null,"max_completion_tokens":3}"#).max_tokens, Some(3));
    let user = seen(Surface::Messages, r#"{"metadata":{"user_id":"a","user_id":"b"}}"#).user;
    assert_eq!(user.as_deref(), Some("b"), "the last of repeated keys counts");
}

#[test]
fn a_model_is_a_string_or_absent() {
    assert_eq!(seen(Surface::ChatCompletions, r#"{"model":"m\u00e9\"\n"}"#).model.as_deref(), Some("mé\"\n"));
    for absent in [r#"{"model":null}"#, r#"{"model":""}"#, r#"{"x":{"model":"m"}}"#] {
        assert_eq!(seen(Surface::ChatCompletions, absent).model, None, "{absent}");
    }
    for wrong in [r#"{"model":1}"#, r#"{"model":["m"]}"#, r#"{"model":true}"#, r#"{"model":{"id":"m"}}"#] {
        let refused = try_seen(Surface::ChatCompletions, wrong).unwrap_err();
        assert_eq!((refused, refused.param()), (InspectError::ModelNotString, "model"), "{wrong}");
    }
    let named = |bytes| try_seen(Surface::ChatCompletions, &format!(r#"{{"model":"{}"}}"#, long('m', bytes)));
    assert!(named(MAX_MODEL_BYTES).is_ok());
    assert_eq!(named(MAX_MODEL_BYTES + 1).unwrap_err(), InspectError::ModelTooLong);
}
