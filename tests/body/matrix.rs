//! Each framing x each version to endpoints x each size x each way for a first attempt to fail: the endpoint gets the
//! client's bytes, with one length.

use bytes::Bytes;
use futures_util::stream;
use http::Request;
use spillway_sim::{Fault, FaultKind, Server};

use crate::harness::{
    Answer, Client, ENDPOINT_HTTP, Gateway, calls, chunked, config_for, hash, json_of_size, noise, post, record_of,
    sims,
};

const CHAT: &str = "/v1/chat/completions";

/// Takes any body, JSON or not.
const FORM: &str = "/v1/audio/transcriptions";

/// Pingora's own retry buffer ends at 64 KiB and HTTP/2 windows begin there; 20 MiB is a prompt with images.
const SIZES: [usize; 5] = [65_535, 65_536, 65_537, (1 << 20) + 1, 20 << 20];

/// How the client frames its bodies.
#[derive(Clone, Copy, Debug)]
enum Framing {
    H1Length,
    H1Chunked,
    H2Length,
    H2NoLength,
}

impl Framing {
    async fn connect(self, gateway: &Gateway) -> Client {
        match self {
            Self::H1Length | Self::H1Chunked => gateway.h1().await,
            Self::H2Length | Self::H2NoLength => gateway.h2().await,
        }
    }

    async fn send(self, client: &mut Client, path: &str, body: &Bytes) -> Answer {
        let request: Request<_> = match self {
            Self::H1Length | Self::H2Length => post(path, body.clone()),
            // Pieces of a size that divides nothing else here.
            Self::H1Chunked | Self::H2NoLength => chunked(path, stream::iter(pieces(body, 9_973))),
        };
        client.call(request).await
    }
}

fn pieces(body: &Bytes, size: usize) -> Vec<Bytes> {
    (0..body.len()).step_by(size).map(|at| body.slice(at..body.len().min(at + size))).collect()
}

/// Asserts that `body` reached a sim unchanged.
fn assert_arrived(sims: &[Server], answer: &Answer, body: &Bytes, what: &str) {
    assert_eq!(answer.status, 200, "{what}: {}", answer.text());
    assert_eq!(answer.header("x-sim-body-bytes"), body.len().to_string(), "{what}: bytes lost or added");
    assert_eq!(answer.header("x-sim-body-xxh3"), hash(body), "{what}: as many bytes, but not the same");
    let record = record_of(sims, answer);
    let lengths: Vec<_> = record.headers.iter().filter(|(name, _)| name == "content-length").collect();
    assert_eq!(lengths.len(), 1, "{what}: one Content-Length, whatever the client sent: {:?}", record.headers);
    assert_eq!(lengths[0].1, body.len().to_string(), "{what}");
    assert!(record.headers.iter().all(|(name, _)| name != "transfer-encoding"), "{what}: {:?}", record.headers);
    if what.contains("http2: ") {
        assert_eq!(record.version == "HTTP/2.0", what.contains("http2: true"), "{what}: came with {}", record.version);
    }
}

async fn every_size_arrives(framing: Framing) {
    for http in ENDPOINT_HTTP {
        every_size_arrives_by(framing, http).await;
    }
}

async fn every_size_arrives_by(framing: Framing, http: &str) {
    let sims = sims(2).await;
    let gateway = Gateway::start(&config_for(&sims).with(http)).await;
    let mut client = framing.connect(&gateway).await;
    for size in SIZES {
        let body = json_of_size(size);
        let answer = framing.send(&mut client, CHAT, &body).await;
        assert_arrived(&sims, &answer, &body, &format!("{framing:?}, {http}, {size} bytes"));
    }
    for size in [0, 1, 65_537] {
        let body = Bytes::from(noise(size, 1));
        let answer = framing.send(&mut client, FORM, &body).await;
        assert_arrived(&sims, &answer, &body, &format!("{framing:?}, {http}, {size} bytes that are not JSON"));
    }
    gateway.assert_idle().await;
}

/// With `early`, the connection breaks while the body is being sent; otherwise when all of it has been.
async fn every_size_arrives_at_the_second_try(framing: Framing, early: bool) {
    for http in ENDPOINT_HTTP {
        every_size_arrives_at_the_second_try_by(framing, http, early).await;
    }
}

async fn every_size_arrives_at_the_second_try_by(framing: Framing, http: &str, early: bool) {
    let sims = sims(2).await;
    sims[0].fault(Fault { early, ..Fault::new(FaultKind::Reset) });
    let bodies = SIZES.map(|size| (CHAT, json_of_size(size)));
    let odd = [0, 1, 65_537].map(|size| (FORM, Bytes::from(noise(size, 2))));
    for (path, body) in bodies.into_iter().chain(odd) {
        let what = format!("{framing:?}, {http}, {} bytes, second try", body.len());
        let failed = calls(&sims[..1]).len();
        // A gateway that has seen `a` fail would not ask it again so soon. A fresh one begins with the first endpoint.
        let gateway = Gateway::start(&config_for(&sims).with(http).with("policy: round_robin")).await;
        let mut client = framing.connect(&gateway).await;
        let answer = framing.send(&mut client, path, &body).await;
        assert_arrived(&sims, &answer, &body, &what);
        assert_eq!(answer.header("x-sim-replica"), "b", "{what}: `a` resets everything");
        assert_eq!(calls(&sims[..1]).len(), failed + 1, "{what}: there was no first try");
        gateway.assert_idle().await;
    }
}

#[tokio::test]
async fn an_h1_body_with_a_length_arrives_unchanged() {
    every_size_arrives(Framing::H1Length).await;
}

#[tokio::test]
async fn an_h1_chunked_body_arrives_unchanged() {
    every_size_arrives(Framing::H1Chunked).await;
}

#[tokio::test]
async fn an_h2_body_with_a_length_arrives_unchanged() {
    every_size_arrives(Framing::H2Length).await;
}

#[tokio::test]
async fn an_h2_body_without_a_length_arrives_unchanged() {
    every_size_arrives(Framing::H2NoLength).await;
}

#[tokio::test]
async fn an_h1_body_with_a_length_is_sent_again_when_the_first_endpoint_resets() {
    every_size_arrives_at_the_second_try(Framing::H1Length, false).await;
}

#[tokio::test]
async fn an_h1_chunked_body_is_sent_again_when_the_first_endpoint_resets() {
    every_size_arrives_at_the_second_try(Framing::H1Chunked, false).await;
}

#[tokio::test]
async fn an_h2_body_with_a_length_is_sent_again_when_the_first_endpoint_resets() {
    every_size_arrives_at_the_second_try(Framing::H2Length, false).await;
}

#[tokio::test]
async fn an_h2_body_without_a_length_is_sent_again_when_the_first_endpoint_resets() {
    every_size_arrives_at_the_second_try(Framing::H2NoLength, false).await;
}

#[tokio::test]
async fn an_h1_body_is_sent_again_when_the_first_endpoint_resets_half_way_through_it() {
    every_size_arrives_at_the_second_try(Framing::H1Length, true).await;
}

#[tokio::test]
async fn an_h2_body_is_sent_again_when_the_first_endpoint_resets_half_way_through_it() {
    every_size_arrives_at_the_second_try(Framing::H2NoLength, true).await;
}

#[tokio::test]
async fn a_connection_carries_one_large_body_after_another() {
    let sims = sims(1).await;
    let gateway = Gateway::start(&config_for(&sims)).await;
    let mut client = gateway.h1().await;
    for size in [300_000, 300_001, 300_002] {
        let body = json_of_size(size);
        let answer = client.call(post(CHAT, body.clone())).await;
        assert_arrived(&sims, &answer, &body, &format!("{size} bytes on a kept connection"));
        assert!(client.is_open().await, "the connection was closed after {size} bytes");
    }
}

#[tokio::test]
async fn single_bytes_make_a_whole_body() {
    let sims = sims(1).await;
    let gateway = Gateway::start(&config_for(&sims)).await;
    // An HTTP/2 library takes a flood of tiny frames for an attack; a hundred are none.
    for (framing, size) in [(Framing::H1Chunked, 3_000), (Framing::H2NoLength, 100)] {
        let body = json_of_size(size);
        let mut client = framing.connect(&gateway).await;
        let answer = client.call(chunked(CHAT, stream::iter(pieces(&body, 1)))).await;
        assert_arrived(&sims, &answer, &body, &format!("{framing:?}, a byte at a time"));
    }
}
