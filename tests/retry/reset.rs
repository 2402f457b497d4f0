//! Connections that break, before the first byte and after it.

use spillway_sim::{Fault, FaultKind};

use crate::harness::{
    Answer, Config, ENDPOINT_HTTP, End, Events, Gateway, Scripted, calls, chat, config_for, post, sims, streamed,
    wait_until_quiet,
};

const CHAT: &str = "/v1/chat/completions";

fn named(id: &str, body: impl Into<bytes::Bytes>) -> http::Request<crate::harness::ReqBody> {
    let mut request = post(CHAT, body);
    request.headers_mut().insert("x-request-id", id.parse().unwrap());
    request
}

#[tokio::test]
async fn a_reset_before_the_head_is_tried_elsewhere() {
    for http in ENDPOINT_HTTP {
        let sims = sims(2).await;
        let gateway = Gateway::start(&config_for(&sims).with(http).with("policy: round_robin")).await;
        sims[0].fault(Fault::new(FaultKind::Reset));
        let mut attempts = Vec::new();
        for number in 0..6 {
            let id = format!("n{number}");
            let answer = gateway.h1().await.call(named(&id, chat("hi"))).await.expect(200);
            assert_eq!(answer.header("x-sim-replica"), "b");
            let line = gateway.logged(&id).await;
            attempts.push(line["attempts"].as_u64().unwrap());
            assert_eq!(line["endpoint"], sims[1].url(), "{line}");
            assert_eq!(line["status"], 200, "{line}");
            assert_eq!(line["error"], serde_json::Value::Null, "{line}");
        }
        assert!(attempts.contains(&2), "the broken endpoint was never met: {attempts:?}");
        assert!(attempts.contains(&1), "the broken endpoint was asked again at once each time: {attempts:?}");
        let ids: Vec<String> = calls(&sims)
            .iter()
            .flat_map(|record| record.headers.iter().filter(|(name, _)| name == "x-request-id"))
            .map(|(_, id)| id.clone())
            .collect();
        let distinct: std::collections::HashSet<_> = ids.iter().collect();
        assert_eq!(distinct.len(), ids.len(), "two attempts share an id, and servers make their own from it: {ids:?}");
        gateway.assert_idle().await;
    }
}

#[tokio::test]
async fn an_endpoint_that_breaks_before_the_first_byte_costs_nobody_an_answer() {
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
    let sims = sims(1).await;
    let mut endpoint = Scripted::start().await;
    // A gateway that has seen an endpoint fail would not ask it again so soon. A fresh one begins with the first endpoint.
    let config = Config::default().pool("main", &[]).endpoint(&endpoint.url()).endpoint(&sims[0].url());
    let config = config.with("policy: round_robin");
    for (what, sent, reset) in [
        ("FIN instead of a head", "", false),
        ("RST instead of a head", "", true),
        ("FIN within the head", &head[..30], false),
        ("RST within the head", &head[..30], true),
        ("FIN after the head", head, false),
        ("RST after the head", head, true),
    ] {
        for http in ["h1", "h2"] {
            let gateway = Gateway::start(&config).await;
            let mut client = if http == "h1" { gateway.h1().await } else { gateway.h2().await };
            let id = format!("{http} {what}").replace(' ', "-");
            let request = named(&id, streamed("hi", 3));
            let answer =
                tokio::spawn(async move { (Events::of(client.send(request).await.unwrap()).rest().await, client).0 });
            let mut call = endpoint.call().await;
            call.send(sent).await;
            if reset {
                call.reset();
            } else {
                drop(call);
            }
            let (events, end) = answer.await.unwrap();
            assert_eq!((events.last().unwrap().data.as_str(), end), ("[DONE]", End::Proper), "{id}");
            assert!(!events.iter().any(|event| event.data.contains("error")), "{id}: {events:?}");
            assert_eq!(gateway.logged(&id).await["attempts"], 2, "{id}");
            gateway.assert_idle().await;
        }
    }
}

#[tokio::test]
async fn when_all_endpoints_reset_the_client_gets_502() {
    for http in ENDPOINT_HTTP {
        let sims = sims(2).await;
        let gateway = Gateway::start(&config_for(&sims).with(http)).await;
        for sim in &sims {
            sim.fault(Fault::new(FaultKind::Reset));
        }
        for mut client in [gateway.h1().await, gateway.h2().await] {
            let answer = client.call(named("all", streamed("hi", 3))).await.expect(502);
            assert_eq!(answer.json()["error"]["code"], "endpoint_failed", "{}", answer.text());
        }
        assert_eq!(gateway.logged("all").await["attempts"], 2);
        assert_eq!(calls(&sims).len(), 4, "each endpoint once for each request");
        gateway.assert_idle().await;
    }
}

#[tokio::test]
async fn nothing_is_tried_again_after_the_first_byte() {
    for http in ENDPOINT_HTTP {
        let sims = sims(2).await;
        let gateway = Gateway::start(&config_for(&sims).with(http)).await;
        for sim in &sims {
            sim.fault(Fault { after: 1, ..Fault::new(FaultKind::CrashMidstream) });
        }
        for (number, mut client) in [gateway.h1().await, gateway.h2().await].into_iter().enumerate() {
            let id = format!("n{number}");
            let mut events = Events::of(client.send(named(&id, streamed("hi", 30))).await.unwrap());
            let (_, end) = events.rest().await;
            assert_eq!(end, End::Broken, "{id}");
            assert_eq!(calls(&sims).len(), number + 1, "{id}: a second endpoint was asked");
            assert_eq!(gateway.logged(&id).await["attempts"], 1, "{id}");
        }
        gateway.assert_idle().await;
        wait_until_quiet(&sims).await;
    }
}

/// An endpoint that fails at once always looks idle.
#[tokio::test]
async fn the_endpoint_that_fails_fastest_does_not_draw_the_traffic() {
    let faults = [
        Fault { code: 500, ..Fault::new(FaultKind::Status) },
        Fault { after: 1, ..Fault::new(FaultKind::CrashMidstream) },
    ];
    for fault in faults {
        let sims = sims(3).await;
        let gateway = Gateway::start(&config_for(&sims)).await;
        let kind = fault.kind;
        sims[0].fault(fault);
        let mut client = gateway.h1().await;
        let mut bad = 0;
        for number in 0..60 {
            let response = client.send(named(&format!("f{number}"), streamed(&format!("question {number}"), 4))).await;
            let Ok(response) = response else {
                client = gateway.h1().await;
                continue;
            };
            if response.status() != 200 {
                bad += 1;
                Answer::read(response).await.unwrap();
            } else if Events::of(response).rest().await.1 != End::Proper {
                bad += 1;
                client = gateway.h1().await;
            }
        }
        assert!(bad <= 12, "{kind:?}: {bad} of 60 requests went to the endpoint that fails at once");
    }
}
