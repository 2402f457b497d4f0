//! Errors of a server pass as they are, whether or not a stream was asked for.

use spillway_sim::{Fault, FaultKind};

use crate::harness::{Config, ENDPOINT_HTTP, Gateway, Scripted, chat, config_for, post, sims, streamed};

const CHAT: &str = "/v1/chat/completions";

#[tokio::test]
async fn a_servers_error_passes_with_status_retry_after_and_body() {
    for http in ENDPOINT_HTTP {
        let sims = sims(1).await;
        let gateway = Gateway::start(&config_for(&sims).with(http)).await;
        let body = r#"{"error":{"message":"slow down","type":"rate_limit_error","code":null}}"#;
        for code in [400, 401, 404, 422, 429, 500, 503] {
            sims[0].clear();
            let retry_after = Some("2".to_owned());
            sims[0].fault(Fault { code, retry_after, body: Some(body.to_owned()), ..Fault::new(FaultKind::Status) });
            for request in [streamed("hi", 5), chat("hi")] {
                for mut client in [gateway.h1().await, gateway.h2().await] {
                    let answer = client.call(post(CHAT, request.clone())).await;
                    assert_eq!(answer.status, code, "{}", answer.text());
                    assert_eq!(answer.header("retry-after"), "2", "{code}");
                    assert_eq!(answer.header("content-type"), "application/json", "{code}");
                    assert_eq!(answer.text(), body, "{code}");
                }
            }
            gateway.assert_idle().await;
            let counted = gateway.metric("spillway_requests_total", &[("code", &code.to_string())]).await;
            assert_eq!(counted, 4.0, "{code}");
        }
        gateway.assert_idle().await;
    }
}

#[tokio::test]
async fn rate_limit_headers_and_odd_bodies_pass() {
    let mut endpoint = Scripted::start().await;
    let gateway = Gateway::start(&Config::default().pool("main", &[]).endpoint(&endpoint.url())).await;
    let limits =
        "retry-after: 7\r\nretry-after-ms: 7000\r\nx-ratelimit-remaining-tokens: 0\r\nx-should-retry: true\r\n";
    for (status, kind, body) in [
        (429, "application/json", "{}"),
        (401, "application/json", r#"{"error":"Unauthorized"}"#),
        (502, "text/plain", "upstream connect error"),
        (500, "text/html", ""),
        (500, "application/json", "{\"error\":{"),
    ] {
        for mut client in [gateway.h1().await, gateway.h2().await] {
            let call = tokio::spawn(async move { client.call(post(CHAT, streamed("hi", 5))).await });
            let mut endpoint_call = endpoint.call().await;
            let length = body.len();
            let head =
                format!("HTTP/1.1 {status} X\r\nContent-Type: {kind}\r\n{limits}Content-Length: {length}\r\n\r\n");
            endpoint_call.send(format!("{head}{body}")).await;
            let answer = call.await.unwrap().expect(status);
            assert_eq!(answer.text(), body, "{status}");
            assert_eq!(answer.header("content-type"), kind, "{status}");
            for (name, value) in [
                ("retry-after", "7"),
                ("retry-after-ms", "7000"),
                ("x-ratelimit-remaining-tokens", "0"),
                ("x-should-retry", "true"),
            ] {
                assert_eq!(answer.header(name), value, "{status}: {name}");
            }
        }
    }
    gateway.assert_idle().await;
}

#[tokio::test]
async fn clients_errors_do_not_take_an_endpoint_out() {
    let sims = sims(1).await;
    let gateway = Gateway::start(&config_for(&sims)).await;
    let mut client = gateway.h1().await;
    for code in [400, 503] {
        sims[0].fault(Fault { code, count: Some(20), ..Fault::new(FaultKind::Status) });
        for _ in 0..20 {
            client.call(post(CHAT, chat("hi"))).await.expect(code);
        }
        client.call(post(CHAT, chat("hi"))).await.expect(200);
    }
}
