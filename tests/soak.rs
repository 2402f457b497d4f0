//! Ten thousand requests of every kind at once, with clients that leave at any moment: nothing is altered, nothing leaks.
//!
//! What each client does follows from a seed that is printed; `SPILLWAY_SOAK_SEED` repeats it. How the requests meet each
//! other does not.

use std::time::{Duration, Instant};

use bytes::Bytes;
use fastrand::Rng;
use serde_json::json;
use spillway_sim::{Fault, FaultKind};

use crate::harness::{Answer, Client, End, Events, Gateway, config_for, hash, noise, post, sims, wait_until_quiet};

const REQUESTS: usize = 10_000;
const CLIENTS: usize = 64;

/// Shares of all requests.
const STREAMED: f64 = 0.5;
const ABANDONED: f64 = 0.05;
const LARGE: f64 = 0.05;

/// What came of one client's requests.
#[derive(Debug, Default)]
struct Tally {
    whole: usize,
    streamed: usize,
    abandoned: usize,
}

/// One request to be made.
struct Order {
    /// Its name in the access log.
    id: String,
    body: Bytes,
    stream: bool,
    tokens: u32,
}

impl Order {
    fn draw(id: String, random: &mut Rng) -> Self {
        let stream = random.f64() < STREAMED;
        let tokens = random.u32(1..12);
        let padding = if random.f64() < LARGE { random.usize(65_536..400_000) } else { random.usize(0..3_000) };
        let padding = String::from_utf8(noise(padding, random.u64(..))).unwrap();
        let prompt = format!("question {} of many", random.u32(..50));
        let messages = json!([{"role": "user", "content": prompt}]);
        let body = json!({"padding": padding, "messages": messages, "stream": stream, "max_tokens": tokens,
            "model": "sim-model"});
        Self { id, body: body.to_string().into(), stream, tokens }
    }

    fn request(&self) -> http::Request<crate::harness::ReqBody> {
        let mut request = post("/v1/chat/completions", self.body.clone());
        request.headers_mut().insert("x-request-id", self.id.parse().unwrap());
        request
    }
}

async fn connect(gateway: &Gateway, number: usize) -> Client {
    if number.is_multiple_of(2) { gateway.h1().await } else { gateway.h2().await }
}

async fn client(gateway: &Gateway, number: usize, mut random: Rng, requests: usize) -> Tally {
    let mut tally = Tally::default();
    let mut connection = connect(gateway, number).await;
    for turn in 0..requests {
        let order = Order::draw(format!("{number}-{turn}"), &mut random);
        let id = &order.id;
        if random.f64() < ABANDONED {
            let keep = !number.is_multiple_of(2) && random.bool();
            connection = abandon(connection, &order, &mut random).await;
            // An HTTP/2 client can give up one stream and keep the connection.
            if !keep {
                connection = connect(gateway, number).await;
            }
            tally.abandoned += 1;
            continue;
        }
        let response = connection.send(order.request()).await.unwrap_or_else(|error| panic!("request {id}: {error:?}"));
        let head = response.headers().clone();
        if order.stream && response.status() == 200 {
            let mut stream = Events::of(response);
            let (events, end) = stream.rest().await;
            assert_eq!(end, End::Proper, "request {id} broke off: {:?}", stream.error());
            assert_eq!(events.last().unwrap().data, "[DONE]", "request {id}: {events:?}");
            let pieces = events
                .iter()
                .filter(|event| event.data.contains("\"content\":\"") && !event.data.contains("\"content\":\"\""));
            assert_eq!(pieces.count(), order.tokens as usize, "request {id}: {events:?}");
            tally.streamed += 1;
        } else {
            let answer = Answer::read(response).await.unwrap_or_else(|error| panic!("request {id}: {error:?}"));
            let answer = answer.expect(200);
            assert_eq!(answer.json()["usage"]["completion_tokens"], order.tokens, "request {id}: {}", answer.text());
            tally.whole += 1;
        }
        assert_eq!(head["x-sim-body-xxh3"], hash(&order.body), "request {id}: {} bytes altered", order.body.len());
    }
    tally
}

/// Leaves at a random moment: while the request is under way, before the head, or in the middle of the answer.
async fn abandon(mut connection: Client, order: &Order, random: &mut Rng) -> Client {
    let moment = Duration::from_micros(random.u64(0..15_000));
    let events = random.u32(0..4);
    let _ = tokio::time::timeout(moment, async {
        let Ok(response) = connection.send(order.request()).await else { return };
        if order.stream && response.status() == 200 {
            let mut stream = Events::of(response);
            for _ in 0..events {
                stream.next().await;
            }
        }
    })
    .await;
    connection
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn endpoints_that_break_before_they_answer_cost_no_client_an_answer() {
    let sims = sims(3).await;
    let gateway = std::sync::Arc::new(Gateway::start(&config_for(&sims).with("policy: round_robin")).await);
    // The third never fails: three attempts always find one that answers.
    for sim in &sims[..2] {
        for early in [false, true] {
            sim.fault(Fault { probability: Some(0.1), early, ..Fault::new(FaultKind::Reset) });
        }
        sim.fault(Fault { probability: Some(0.2), ..Fault::new(FaultKind::CloseAfterStream) });
    }
    let clients: Vec<_> = (0..16)
        .map(|number| {
            let gateway = gateway.clone();
            tokio::spawn(async move { client(&gateway, number, Rng::with_seed(number as u64), 100).await })
        })
        .collect();
    for one in clients {
        one.await.unwrap();
    }
    wait_until_quiet(&sims).await;
    gateway.assert_idle().await;
    let retried = gateway.metric("spillway_retries_total", &[]).await;
    assert!(retried >= 5.0, "only {retried} retries: nothing was tested");
    let failed: Vec<_> =
        gateway.log().into_iter().filter(|line| line["status"] != 200 && line["status"] != 499).collect();
    assert!(failed.is_empty(), "{failed:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_requests_lose_no_byte_and_leave_nothing_behind() {
    let seed = std::env::var("SPILLWAY_SOAK_SEED")
        .ok()
        .and_then(|seed| seed.parse().ok())
        .unwrap_or_else(|| fastrand::u64(..));
    println!("SPILLWAY_SOAK_SEED={seed}");
    let sims = sims(2).await;
    let gateway = std::sync::Arc::new(Gateway::start(&config_for(&sims)).await);
    let began = Instant::now();
    let clients: Vec<_> = (0..CLIENTS)
        .map(|number| {
            let gateway = gateway.clone();
            let random = Rng::with_seed(seed ^ (number as u64) << 32);
            tokio::spawn(async move { client(&gateway, number, random, REQUESTS / CLIENTS).await })
        })
        .collect();
    let mut total = Tally::default();
    for one in clients {
        let tally = one.await.unwrap_or_else(|error| panic!("SPILLWAY_SOAK_SEED={seed}: {error}"));
        total.whole += tally.whole;
        total.streamed += tally.streamed;
        total.abandoned += tally.abandoned;
    }
    println!("{total:?} in {:?}", began.elapsed());
    assert_eq!(total.whole + total.streamed + total.abandoned, REQUESTS / CLIENTS * CLIENTS);
    wait_until_quiet(&sims).await;
    gateway.assert_idle().await;
    let answered = gateway.metric("spillway_requests_total", &[("code", "200")]).await;
    assert!(answered >= (total.whole + total.streamed) as f64, "{answered} of {total:?} counted");
    let failed: Vec<_> =
        gateway.log().into_iter().filter(|line| line["status"] != 200 && line["status"] != 499).collect();
    assert!(failed.is_empty(), "SPILLWAY_SOAK_SEED={seed}: {failed:?}");
}
