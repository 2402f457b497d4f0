//! Replies against recorded ones of real servers.

use spillway_sim::{Config, Flavor, Server};

use crate::client::{chat, get, post};
use crate::json_shape::{events, shape};

/// A recorded response: status line and body.
fn recorded(file: &str) -> (String, String) {
    let text = std::fs::read_to_string(format!("{}/fixtures/{file}", env!("CARGO_MANIFEST_DIR"))).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or(("", &text));
    (head.lines().next().unwrap_or_default().to_owned(), body.to_owned())
}

async fn tiny() -> Server {
    let adapters = vec!["lora-a".to_owned(), "lora-b".to_owned()];
    let config = Config {
        model: "tiny".to_owned(),
        adapters,
        prompt_tokens_details: false,
        max_model_len: 2048,
        ..Config::default()
    };
    Server::start(config).await.unwrap()
}

const USAGE: &str = r#","stream":true,"stream_options":{"include_usage":true}"#;
const CONTINUOUS: &str = r#","stream":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true}"#;

#[tokio::test]
async fn plain_replies_have_the_keys_of_vllm_in_its_order() {
    let server = tiny().await;
    let cases = [
        ("vllm-chat-nonstream.txt", "/v1/chat/completions", chat(4, "")),
        ("vllm-chat-lora-a.txt", "/v1/chat/completions", chat(4, r#","model":"lora-a""#)),
        (
            "vllm-completions-nonstream-batch.txt",
            "/v1/completions",
            r#"{"prompt":["a","b"],"max_tokens":4}"#.to_owned(),
        ),
    ];
    for (file, path, body) in cases {
        let reply = post(&server, path, body).await;
        assert_eq!(shape(reply.text()), shape(&recorded(file).1), "{file}");
    }
}

#[tokio::test]
async fn streams_have_the_events_of_vllm_in_its_order() {
    let server = tiny().await;
    let cases = [
        ("vllm-chat-stream-nousage.txt", "/v1/chat/completions", chat(4, r#","stream":true"#)),
        ("vllm-chat-stream-usage.txt", "/v1/chat/completions", chat(4, USAGE)),
        ("vllm-chat-stream-usage-continuous.txt", "/v1/chat/completions", chat(4, CONTINUOUS)),
        (
            "vllm-completions-stream-usage.txt",
            "/v1/completions",
            format!(r#"{{"prompt":"abc","max_tokens":4{USAGE}}}"#),
        ),
        ("vllm-messages-stream.txt", "/v1/messages", chat(4, r#","stream":true"#)),
        (
            "vllm-responses-stream.txt",
            "/v1/responses",
            r#"{"input":"a","max_output_tokens":4,"stream":true}"#.to_owned(),
        ),
    ];
    for (file, path, body) in cases {
        let reply = post(&server, path, body).await;
        assert_eq!(reply.header("content-type"), "text/event-stream; charset=utf-8");
        assert_eq!(events(reply.text()), events(&recorded(file).1), "{file}");
    }
}

#[tokio::test]
async fn errors_have_the_status_and_the_keys_of_vllm() {
    let server = tiny().await;
    let cases = [
        ("vllm-err-400-badjson.txt", "/v1/chat/completions", r#"{"model":"tiny","messages":["#.to_owned()),
        ("vllm-err-400-nomessages.txt", "/v1/chat/completions", r#"{"model":"tiny"}"#.to_owned()),
        ("vllm-err-400-toolong.txt", "/v1/chat/completions", chat(100_000, "")),
        ("vllm-err-404-model.txt", "/v1/chat/completions", chat(4, r#","model":"nope""#)),
        ("vllm-err-404-messages.txt", "/v1/messages", chat(4, r#","model":"nope""#)),
    ];
    for (file, path, body) in cases {
        let reply = post(&server, path, body).await;
        let (line, expected) = recorded(file);
        assert_eq!(format!("HTTP/1.1 {}", reply.status), line, "{file}");
        assert_eq!(shape(reply.text()), shape(&expected), "{file}");
        let same_text = !file.contains("badjson");
        assert!(!same_text || reply.text() == expected, "{file}: {} is not {expected}", reply.text());
    }
}

#[tokio::test]
async fn the_model_list_names_the_base_and_the_parent_of_each_adapter() {
    let server = tiny().await;
    let reply = get(&server, "/v1/models").await;
    assert_eq!(shape(reply.text()), shape(&recorded("vllm-models.json").1));
    assert_eq!(reply.json()["data"][2]["parent"], "tiny");
}

#[tokio::test]
async fn llama_cpp_chat_has_its_own_keys_and_closes_after_a_stream() {
    let config = Config { model: "tiny".to_owned(), flavor: Flavor::LlamaCpp, ..Config::default() };
    let server = Server::start(config).await.unwrap();
    let plain = post(&server, "/v1/chat/completions", chat(4, r#","model":"any""#)).await;
    assert_eq!(shape(plain.text()), shape(&recorded("llamacpp-chat-nonstream.txt").1));
    for (file, rest) in
        [("llamacpp-chat-stream-usage.txt", USAGE), ("llamacpp-chat-stream-nousage.txt", r#","stream":true"#)]
    {
        let stream = post(&server, "/v1/chat/completions", chat(4, rest)).await;
        assert_eq!(events(stream.text()), events(&recorded(file).1), "{file}");
        assert_eq!(stream.header("connection"), "", "the close is not announced");
    }
}
