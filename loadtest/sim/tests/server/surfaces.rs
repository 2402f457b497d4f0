//! What replies say: counts, names, headers.

use hyper::{Method, StatusCode, Version};
use serde_json::{Value, json};
use spillway_sim::{Config, Server};
use xxhash_rust::xxh3::xxh3_64;

use crate::client::{STREAM, chat, client, collect, get, post, request, send, start};

#[tokio::test]
async fn usage_counts_prompt_cached_and_output_tokens() {
    let server = start().await;
    let long = "x".repeat(400);
    let body = json!({"messages": [{"role": "user", "content": long}], "max_tokens": 7}).to_string();
    let first = post(&server, "/v1/chat/completions", &body).await.json();
    let second = post(&server, "/v1/chat/completions", &body).await;
    let (usage, prompt) = (second.json()["usage"].clone(), first["usage"]["prompt_tokens"].as_u64().unwrap());
    assert_eq!(prompt, 60, "a word of 400 bytes at 7 a token, and the marks of two roles");
    assert_eq!(usage["completion_tokens"], 7);
    assert_eq!(usage["total_tokens"], prompt + 7);
    assert_eq!(usage["prompt_tokens_details"]["cached_tokens"], (prompt - 1) / 16 * 16, "whole blocks but the last");
    assert_eq!(second.header("x-sim-cached"), ((prompt - 1) / 16 * 16).to_string());
    assert_eq!(second.header("x-sim-prompt"), prompt.to_string());
    assert_ne!(second.header("x-sim-queue-ms"), "");
}

#[tokio::test]
async fn a_reply_sent_back_in_the_next_turn_is_found_in_the_cache() {
    let server = start().await;
    let ask = async |messages: &Value, max_tokens: u32| {
        post(&server, "/v1/chat/completions", json!({"messages": messages, "max_tokens": max_tokens})).await.json()
    };
    let mut messages = json!([{"role": "user", "content": "Tell me all of it, please."}]);
    let first = ask(&messages, 200).await;
    let (first, mut said) = (first["usage"].clone(), first["choices"][0]["message"].clone());
    said = json!({"role": "assistant", "content": said["content"].take()});
    let turns = messages.as_array_mut().unwrap();
    turns.extend([said, json!({"role": "user", "content": "Go on."})]);
    let second = ask(&messages, 1).await["usage"].clone();
    // The last token of a reply is never computed, so it is in no block.
    let held = first["total_tokens"].as_u64().unwrap() - 1;
    assert_eq!(second["prompt_tokens_details"]["cached_tokens"], held / 16 * 16);
    assert_eq!(second["prompt_tokens"], first["total_tokens"].as_u64().unwrap() + 5, "three of `Go on.` and two marks");
}

#[tokio::test]
async fn a_stream_says_the_same_as_a_plain_reply_on_both_protocols() {
    let server = start().await;
    let plain = post(&server, "/v1/chat/completions", chat(40, "")).await.json();
    for version in [Version::HTTP_11, Version::HTTP_2] {
        let url = format!("{}/v1/chat/completions", server.url());
        let response = client(version).request(request(Method::POST, &url, chat(40, STREAM))).await.unwrap();
        assert_eq!(response.version(), version);
        let stream = collect(response).await.unwrap();
        let text: String = stream
            .text()
            .split("\n\n")
            .filter_map(|event| serde_json::from_str::<Value>(event.strip_prefix("data: ")?).ok())
            .filter_map(|chunk| Some(chunk["choices"][0]["delta"]["content"].as_str()?.to_owned()))
            .collect();
        assert_eq!(text, plain["choices"][0]["message"]["content"], "{version:?}");
        assert!(stream.text().ends_with("data: [DONE]\n\n"));
    }
}

#[tokio::test]
async fn the_body_comes_back_as_length_and_hash_whatever_its_framing() {
    let server = start().await;
    // Large, and not JSON: nothing may depend on understanding it.
    let body: Vec<u8> = (0..3_000_000_u32).map(|index| (index * 7 % 251) as u8).collect();
    let url = format!("{}/v1/anything/at/all", server.url());
    let reply = send(request(Method::POST, &url, body.clone())).await;
    assert_eq!(reply.header("x-sim-body-bytes"), body.len().to_string());
    assert_eq!(reply.header("x-sim-body-xxh3"), format!("{:016x}", xxh3_64(&body)));
    assert_eq!(reply.header("x-sim-framing"), format!("content-length:{}", body.len()));
    assert_eq!(reply.json()["object"], "sim.echo");
}

#[tokio::test]
async fn of_a_repeated_model_key_the_last_counts() {
    let config = Config { adapters: vec!["a".to_owned()], ..Config::default() };
    let server = Server::start(config).await.unwrap();
    let reply = post(&server, "/v1/completions", r#"{"model":"nope","prompt":"x","model":"a"}"#).await;
    assert_eq!((reply.status, reply.header("x-sim-model")), (StatusCode::OK, "a"));
    assert_eq!(reply.json()["model"], "a");
}

#[tokio::test]
async fn choices_and_prompts_multiply_and_count_each_prompt_once() {
    let server = start().await;
    let body = json!({"prompt": ["abcdefgh", "ijkl"], "n": 3, "max_tokens": 2});
    let reply = post(&server, "/v1/completions", body).await.json();
    assert_eq!(reply["choices"].as_array().unwrap().len(), 6);
    assert_eq!((&reply["usage"]["prompt_tokens"], &reply["usage"]["completion_tokens"]), (&json!(3), &json!(12)));
}

#[tokio::test]
async fn an_adapter_can_be_loaded_and_unloaded_at_run_time() {
    let server = start().await;
    let name = json!({"lora_name": "late", "lora_path": "/models/late"});
    let call = chat(2, r#","model":"late""#);
    assert_eq!(post(&server, "/v1/chat/completions", &call).await.status, StatusCode::NOT_FOUND);
    assert_eq!(post(&server, "/v1/load_lora_adapter", &name).await.status, StatusCode::OK);
    assert_eq!(post(&server, "/v1/load_lora_adapter", &name).await.status, StatusCode::BAD_REQUEST);
    assert_eq!(post(&server, "/v1/chat/completions", &call).await.json()["model"], "late");
    assert_eq!(post(&server, "/v1/unload_lora_adapter", &name).await.status, StatusCode::OK);
    assert_eq!(post(&server, "/v1/chat/completions", &call).await.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn the_surfaces_that_do_not_generate_answer_in_their_shapes() {
    let server = start().await;
    let embedded = post(&server, "/v1/embeddings", json!({"input": ["a", "b"]})).await.json();
    assert_eq!(embedded["data"][1]["object"], "embedding");
    let ranked = post(&server, "/v1/rerank", json!({"query": "q", "documents": ["a", "b"]})).await.json();
    assert!(ranked["results"][0]["relevance_score"].as_f64() >= ranked["results"][1]["relevance_score"].as_f64());
    let scored = post(&server, "/score", json!({"text_1": "q", "text_2": ["a", "b"]})).await.json();
    assert_eq!(scored["data"].as_array().unwrap().len(), 2);
    let tokens = post(&server, "/tokenize", json!({"prompt": "abcdefghi"})).await.json();
    assert_eq!(tokens["count"], 2);
    let counted = post(&server, "/v1/messages/count_tokens", chat(1, "")).await.json();
    assert!(counted["input_tokens"].as_u64() > Some(0));
    assert_eq!(get(&server, "/nowhere").await.status, StatusCode::NOT_FOUND);
    assert_eq!(get(&server, "/v1/chat/completions").await.status, StatusCode::METHOD_NOT_ALLOWED);
}

#[tokio::test]
async fn a_rendered_prompt_is_what_is_generated_from_and_only_where_that_is_enabled() {
    let closed = post(&start().await, "/v1/chat/completions/render", chat(1, "")).await;
    assert_eq!(closed.status, StatusCode::FORBIDDEN);
    assert_eq!(closed.json()["error"]["type"], "PermissionDeniedError");
    let server = Server::start(Config { scale_out: true, ..Config::default() }).await.unwrap();
    let rendered = post(&server, "/v1/chat/completions/render", chat(1, "")).await.json();
    let answered = post(&server, "/v1/chat/completions", chat(1, "")).await.json();
    let tokens = rendered["token_ids"].as_array().unwrap().len();
    assert_eq!(answered["usage"]["prompt_tokens"], tokens);
    let several = json!({"prompt": ["a b", "c"], "max_tokens": 1, "n": 2});
    let several = post(&server, "/v1/completions/render", several).await.json();
    let lengths: Vec<_> =
        several.as_array().unwrap().iter().map(|one| one["token_ids"].as_array().unwrap().len()).collect();
    assert_eq!(lengths, [2, 1], "one for each prompt, whatever the number of choices");
}

#[tokio::test]
async fn a_request_for_more_sequences_than_an_engine_should_see_is_refused() {
    let server = start().await;
    let body = json!({"prompt": vec!["a"; 17], "max_tokens": 1, "n": 128});
    let refused = post(&server, "/v1/completions", body).await;
    assert_eq!(refused.status, StatusCode::BAD_REQUEST);
    assert!(refused.json()["error"]["message"].as_str().unwrap().contains("17 prompts times n=128"));
}

#[tokio::test]
async fn a_response_is_found_only_where_it_was_made() {
    let (here, there) = (start().await, start().await);
    let made = post(&here, "/v1/responses", json!({"input": "x", "max_output_tokens": 1})).await.json();
    let path = format!("/v1/responses/{}", made["id"].as_str().unwrap());
    assert_eq!(get(&here, &path).await.status, StatusCode::OK);
    assert_eq!(get(&there, &path).await.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_request_id_becomes_the_id_of_the_reply() {
    let server = start().await;
    let mut call = request(Method::POST, &format!("{}/v1/chat/completions", server.url()), chat(1, ""));
    call.headers_mut().insert("x-request-id", "abc-1".parse().unwrap());
    assert_eq!(send(call).await.json()["id"], "chatcmpl-abc-1");
}

#[tokio::test]
async fn the_model_of_a_form_is_found_behind_a_large_file() {
    let server = start().await;
    let file = "x".repeat(100_000);
    let form = format!(
        "--b\r\ncontent-disposition: form-data; name=\"file\"; filename=\"a\"\r\n\r\n{file}\r\n\
         --b\r\ncontent-disposition: form-data; name=\"model\"\r\n\r\nwhisper\r\n--b--\r\n"
    );
    let mut call = request(Method::POST, &format!("{}/v1/audio/transcriptions", server.url()), form);
    call.headers_mut().insert("content-type", "multipart/form-data; boundary=b".parse().unwrap());
    assert_eq!(send(call).await.header("x-sim-model"), "whisper");
}

#[tokio::test]
async fn a_request_without_a_limit_gets_no_more_than_its_prompt_leaves() {
    let body = json!({"messages": [{"role": "user", "content": "hello there my friend"}]});
    for (max_model_len, tokens) in [(100, Some(16)), (22, Some(16)), (21, Some(15)), (7, Some(1)), (6, None)] {
        let server = Server::start(Config { max_model_len, ..Config::default() }).await.unwrap();
        let reply = post(&server, "/v1/chat/completions", &body).await;
        assert_eq!(reply.json()["usage"]["completion_tokens"].as_u64(), tokens, "{max_model_len}: {}", reply.text());
        assert_eq!(reply.status == StatusCode::BAD_REQUEST, tokens.is_none());
    }
}

#[tokio::test]
async fn a_body_beyond_the_limit_is_refused() {
    let server = Server::start(Config { max_body_bytes: 1_000, ..Config::default() }).await.unwrap();
    let reply = post(&server, "/v1/completions", "x".repeat(1_001)).await;
    assert_eq!(reply.status, StatusCode::PAYLOAD_TOO_LARGE);
}
