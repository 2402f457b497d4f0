//! Endpoints that take too long: the first attempt is given up, then the next begins.

use std::time::{Duration, Instant};

use spillway_sim::{Fault, FaultKind};

use crate::harness::{
    ENDPOINT_HTTP, End, Events, Gateway, chat, config_for, eventually, post, sims, streamed, wait_until_quiet,
};

const CHAT: &str = "/v1/chat/completions";

fn named(id: &str, body: impl Into<bytes::Bytes>) -> http::Request<crate::harness::ReqBody> {
    let mut request = post(CHAT, body);
    request.headers_mut().insert("x-request-id", id.parse().unwrap());
    request
}

#[tokio::test]
async fn a_slow_first_token_is_taken_to_another_endpoint_and_never_generated_twice() {
    for http in ENDPOINT_HTTP {
        let sims = sims(2).await;
        let config = config_for(&sims).with(http).with("timeouts: {ttft: 400ms}").with("policy: round_robin");
        // Seconds to a first token: the head has long gone out by then, and the generation runs.
        sims[0].fault(Fault { factor: 5_000.0, ..Fault::new(FaultKind::Slow) });
        for number in 0..2 {
            // A gateway that has seen `a` fail would not ask it again so soon. A fresh one begins with the first endpoint.
            let gateway = Gateway::start(&config).await;
            let id = format!("n{number}");
            let mut client = if number % 2 == 0 { gateway.h1().await } else { gateway.h2().await };
            let response = client.send(named(&id, streamed("hi", 300))).await.unwrap();
            assert_eq!(response.headers()["x-sim-replica"], "b", "{id}");
            // `b` streams for 300 ms or more from here on.
            eventually("the first endpoint has stopped", async || sims[0].state().active.is_empty().then_some(()))
                .await;
            let (events, end) = Events::of(response).rest().await;
            assert_eq!((events.last().unwrap().data.as_str(), end), ("[DONE]", End::Proper), "{id}");
            assert_eq!(sims[0].state().completed, 0, "{id}: generated twice");
            let line = gateway.logged(&id).await;
            assert_eq!(line["attempts"], 2, "{line}");
            assert!(line["ttft_ms"].as_f64().unwrap() >= 400.0, "{line}");
            let counted = gateway.metric("spillway_retries_total", &[("reason", "first_byte_timeout")]).await;
            assert_eq!(counted, 1.0);
            gateway.assert_idle().await;
        }
    }
}

#[tokio::test]
async fn when_no_endpoint_answers_in_time_the_client_gets_504() {
    for http in ENDPOINT_HTTP {
        let sims = sims(2).await;
        let gateway = Gateway::start(&config_for(&sims).with(http).with("timeouts: {ttft: 200ms}")).await;
        for sim in &sims {
            sim.fault(Fault::new(FaultKind::Hang));
        }
        for mut client in [gateway.h1().await, gateway.h2().await] {
            let answer = client.call(named("late", chat("hi"))).await.expect(504);
            assert_eq!(answer.json()["error"]["code"], "endpoint_timeout", "{}", answer.text());
            assert_eq!(answer.header("x-should-retry"), "false", "an SDK's blind retry would double the work");
        }
        assert_eq!(gateway.logged("late").await["attempts"], 2);
        wait_until_quiet(&sims).await;
        gateway.assert_idle().await;
    }
}

#[tokio::test]
async fn a_total_deadline_ends_a_request_wherever_it_is() {
    for http in ENDPOINT_HTTP {
        let sims = sims(2).await;
        let gateway = Gateway::start(&config_for(&sims).with(http).with("timeouts: {total: 500ms}")).await;
        for sim in &sims {
            sim.fault(Fault { factor: 20.0, ..Fault::new(FaultKind::Slow) });
        }
        let began = Instant::now();
        let mut client = gateway.h1().await;
        let mut events = Events::of(client.send(named("stream", streamed("hi", 5_000))).await.unwrap());
        let (all, end) = events.rest().await;
        assert_eq!(end, End::Broken);
        assert!(all.iter().any(|event| event.data.contains("\"error\"")), "the client is not told");
        assert!(began.elapsed() < Duration::from_secs(5), "ended after {:?}", began.elapsed());
        wait_until_quiet(&sims).await;

        for sim in &sims {
            sim.fault(Fault::new(FaultKind::Hang));
        }
        gateway.h1().await.call(named("whole", chat("hi"))).await.expect(504);
        assert_eq!(gateway.logged("whole").await["attempts"], 1, "there was no time for another");
        wait_until_quiet(&sims).await;
        gateway.assert_idle().await;
    }
}
