//! What a response says of its tokens is counted, and the response is not changed for it.

use serde_json::json;

use crate::harness::{Config, ENDPOINT_HTTP, Events, Gateway, Scripted, config_for, post, sims};

#[tokio::test]
async fn usage_is_counted_for_every_api_streamed_or_not() {
    for http in ENDPOINT_HTTP {
        let sims = sims(1).await;
        let gateway = Gateway::start(&config_for(&sims).with(http)).await;
        let mut counted = 0.0;
        for (path, limit) in [
            ("/v1/chat/completions", "max_tokens"),
            ("/v1/completions", "max_tokens"),
            ("/v1/responses", "max_output_tokens"),
            ("/v1/messages", "max_tokens"),
        ] {
            for stream in [false, true] {
                let mut body = json!({"model": "sim-model", "prompt": "hello", "input": "hello", "stream": stream,
                    "messages": [{"role": "user", "content": "hello"}], "stream_options": {"include_usage": true}});
                body[limit] = 7.into();
                let mut request = post(path, body.to_string());
                request.headers_mut().insert("x-request-id", format!("{path}-{stream}").parse().unwrap());
                let mut client = gateway.h1().await;
                if stream {
                    Events::of(client.send(request).await.unwrap()).rest().await;
                } else {
                    client.call(request).await.expect(200);
                }
                counted += 7.0;
                let line = gateway.logged(&format!("{path}-{stream}")).await;
                assert_eq!(line["completion_tokens"], 7, "{path}, stream {stream}: {line}");
                assert!(
                    line["prompt_tokens"].as_u64().is_some_and(|tokens| tokens > 0),
                    "{path}, stream {stream}: {line}"
                );
                assert_eq!(line["stream"], stream, "{path}: {line}");
                assert_eq!(line["ttft_ms"].is_number(), stream, "{path}: {line}");
                let labels = [("model", "sim-model"), ("kind", "completion")];
                assert_eq!(gateway.metric("spillway_tokens_total", &labels).await, counted, "{path}, stream {stream}");
            }
        }
        let streams = gateway.metric("spillway_ttft_seconds_count", &[("pool", "main")]).await;
        assert_eq!(streams, 4.0, "one time to first token for each stream");
    }
}

#[tokio::test]
async fn usage_in_any_place_of_a_stream_is_counted_once() {
    let mut endpoint = Scripted::start().await;
    let gateway = Gateway::start(&Config::default().pool("main", &[]).endpoint(&endpoint.url())).await;
    let usage = |prompt: u32, completion: u32| json!({"prompt_tokens": prompt, "completion_tokens": completion});
    let event = |value: serde_json::Value| format!("data: {value}\n\n");
    let delta = json!([{"delta": {"content": "x"}}]);
    for (what, events) in [
        ("alone", vec![json!({"choices": []}), json!({"choices": [], "usage": usage(5, 2)})]),
        ("beside the end", vec![json!({"choices": [{"finish_reason": "stop", "delta": {}}], "usage": usage(5, 2)})]),
        ("null before", vec![json!({"choices": delta, "usage": null}), json!({"choices": [], "usage": usage(5, 2)})]),
        (
            "on every event",
            vec![json!({"choices": delta, "usage": usage(5, 1)}), json!({"choices": delta, "usage": usage(5, 2)})],
        ),
    ] {
        let before = gateway.metric("spillway_tokens_total", &[]).await;
        let mut client = gateway.h1().await;
        let request = json!({"model": "sim-model", "messages": [], "stream": true}).to_string();
        let call = tokio::spawn(async move { client.call(post("/v1/chat/completions", request)).await });
        let stream: String = events.into_iter().map(event).chain(["data: [DONE]\n\n".to_owned()]).collect();
        let mut endpoint_call = endpoint.call().await;
        endpoint_call
            .send("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
            .await;
        endpoint_call.chunk(&stream).await;
        endpoint_call.chunk("").await;
        assert_eq!(call.await.unwrap().expect(200).text(), stream, "{what}");
        gateway.assert_idle().await;
        assert_eq!(gateway.metric("spillway_tokens_total", &[]).await - before, 7.0, "{what}: 5 and 2");
    }
}
