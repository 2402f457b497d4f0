//! Every API the gateway carries reaches the server, whatever is in it; the rest reaches nobody.

use bytes::Bytes;
use http::Method;
use serde_json::json;

use crate::harness::{Gateway, calls, config_for, get, hash, noise, post, record_of, request, sim_of, sims};

#[tokio::test]
async fn every_api_reaches_the_server() {
    let sims = sims(1).await;
    let gateway = Gateway::start(&config_for(&sims)).await;
    let text = json!({"model": "sim-model", "prompt": "hello", "input": "hello", "query": "q", "documents": ["a", "b"],
        "text_1": "a", "text_2": "b", "tokens": [1, 2], "max_tokens": 2, "messages": [{"role": "user", "content": "hello"}]});
    let body = text.to_string();
    let (mut h1, mut h2) = (gateway.h1().await, gateway.h2().await);
    for path in [
        "/v1/chat/completions",
        "/v1/completions",
        "/v1/responses",
        "/v1/messages",
        "/v1/messages/count_tokens",
        "/v1/embeddings",
        "/v1/rerank",
        "/v2/rerank",
        "/rerank",
        "/v1/score",
        "/score",
        "/tokenize",
        "/detokenize",
        "/v1/moderations",
        "/v1/audio/speech",
        "/v1/images/generations",
        "/v1/some/thing-new.json",
    ] {
        for client in [&mut h1, &mut h2] {
            let answer = client.call(post(path, body.clone())).await;
            assert_eq!(answer.status, 200, "{path}: {}", answer.text());
            let record = record_of(&sims, &answer);
            assert_eq!((record.method.as_str(), record.path.as_str()), ("POST", path));
            assert_eq!(answer.header("x-sim-body-xxh3"), hash(body.as_bytes()), "{path}");
            assert!(!answer.header("x-request-id").is_empty(), "{path}");
        }
    }
    gateway.assert_idle().await;
}

#[tokio::test]
async fn a_query_is_passed_on() {
    let sims = sims(1).await;
    let gateway = Gateway::start(&config_for(&sims)).await;
    let body = json!({"model": "sim-model", "messages": [{"role": "user", "content": "hello"}]}).to_string();
    let answer = gateway.post("/v1/chat/completions?api-version=2024%2D10&x", body).await.expect(200);
    assert_eq!(record_of(&sims, &answer).query.as_deref(), Some("api-version=2024%2D10&x"));
}

#[tokio::test]
async fn an_upload_arrives_as_it_was_sent() {
    let sims = sims(1).await;
    let gateway = Gateway::start(&config_for(&sims)).await;
    let mut body = b"--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.wav\"\r\n\r\n".to_vec();
    body.extend(noise(2_000_000, 7));
    // Nearly the boundary, and bytes that are no text.
    body.extend(
        b"\r\n--bX\x00\xff\r\n--b\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nsim-model\r\n--b--\r\n",
    );
    let body = Bytes::from(body);
    let mut request = post("/v1/audio/transcriptions", body.clone());
    request.headers_mut().insert("content-type", "multipart/form-data; boundary=b".parse().unwrap());
    let answer = gateway.h1().await.call(request).await.expect(200);
    assert_eq!(answer.header("x-sim-body-xxh3"), hash(&body));
}

#[tokio::test]
async fn what_is_not_an_api_for_clients_reaches_nobody() {
    let sims = sims(1).await;
    let gateway = Gateway::start(&config_for(&sims)).await;
    let body = r#"{"model":"sim-model","lora_name":"x","lora_path":"/x"}"#;
    for (method, path, status) in [
        (Method::POST, "/sleep", 404),
        (Method::POST, "/reset_prefix_cache", 404),
        (Method::POST, "/v1/load_lora_adapter", 404),
        (Method::POST, "/v1/../sleep", 404),
        (Method::POST, "/v1/%2e%2e/sleep", 404),
        (Method::POST, "//v1/chat/completions", 404),
        (Method::GET, "/metrics", 404),
        (Method::GET, "/", 404),
        (Method::GET, "/v1/chat/completions", 405),
        (Method::DELETE, "/v1/chat/completions", 405),
        (Method::POST, "/v1/models", 405),
    ] {
        let answer = gateway.h1().await.call(request(method.clone(), path, body)).await;
        assert_eq!(answer.status, status, "{method} {path}: {}", answer.text());
        assert!(answer.json()["error"]["message"].is_string(), "{method} {path}: {}", answer.text());
        assert_eq!(answer.headers.contains_key("allow"), status == 405, "{method} {path}");
    }
    assert!(calls(&sims).is_empty(), "an endpoint was asked: {:?}", calls(&sims));
    gateway.assert_idle().await;
}

#[tokio::test]
async fn bodies_that_strict_gateways_refuse_are_for_the_server_to_judge() {
    let sims = sims(1).await;
    let gateway = Gateway::start(&config_for(&sims)).await;
    let mut client = gateway.h1().await;
    let tool = r#""tools":[{"type":"function","function":{"name":"now"}}]"#;
    let chat = r#""model":"sim-model","messages":[{"role":"user","content":"q"}]"#;
    for (path, body) in [
        ("chat/completions", format!("{{{chat},{tool}}}")),
        ("chat/completions", format!("{{{chat},\"stop\":null,\"tools\":null,\"tool_choice\":\"auto\"}}")),
        ("chat/completions", format!("{{{chat},\"return_token_ids\":true,\"vllm_xargs\":{{\"a\":1}}}}")),
        ("chat/completions", r#"{"model":"sim-model","messages":[{"role":"assistant","content":null}]}"#.into()),
        ("chat/completions", r#"{"model":"sim-model","messages":[{"role":"user","content":[]}]}"#.into()),
        ("chat/completions", r#"{"model":"sim-model","messages":"wrong"}"#.into()),
        ("completions", r#"{"model":"sim-model","prompt":[1,2,3]}"#.into()),
        ("completions", r#"{"model":"sim-model","prompt":[[1,2],[3]]}"#.into()),
        ("completions", r#"{"model":"sim-model","prompt":["a","b"]}"#.into()),
        ("completions", r#"{"model":"sim-model","prompt":[]}"#.into()),
        ("completions", r#"{"model":"sim-model","prompt":""}"#.into()),
        ("completions", r#"{"model":"sim-model","prompt":null,"prompt_embeds":"AAAA"}"#.into()),
    ] {
        let answer = client.call(post(&format!("/v1/{path}"), body.clone())).await;
        assert_eq!(answer.header("x-sim-body-xxh3"), hash(body.as_bytes()), "{body} got {}", answer.text());
    }
}

#[tokio::test]
async fn the_same_body_arrives_the_same_twenty_times() {
    let sims = sims(2).await;
    let gateway = Gateway::start(&config_for(&sims)).await;
    let body = r#"{"model":"sim-model","tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object","required":["b"],"properties":{"b":{"type":"string"},"a":{"type":"integer"}}}}}],"messages":[{"role":"user","content":"hi"}]}"#;
    let mut client = gateway.h1().await;
    for _ in 0..20 {
        let answer = client.call(post("/v1/chat/completions", body)).await.expect(200);
        assert_eq!(answer.header("x-sim-body-xxh3"), hash(body.as_bytes()));
    }
}

#[tokio::test]
async fn an_endpoint_that_lists_nothing_judges_names_itself() {
    let config = spillway_sim::Config { flavor: spillway_sim::Flavor::LlamaCpp, ..spillway_sim::Config::default() };
    let sims = [sim_of(config).await];
    let gateway = Gateway::start(&config_for(&sims)).await;
    let answer = gateway
        .post("/v1/chat/completions", r#"{"model":"sim-model","messages":[{"role":"user","content":"q"}]}"#)
        .await;
    answer.expect(200);
    gateway.h1().await.call(get("/v1/models")).await.expect(200);
}
