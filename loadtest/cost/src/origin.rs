//! The servers behind the proxies: four endpoints in one process that answer at once and at little cost.
//!
//! A chat that does not stream gets one JSON completion. One that does gets `max_tokens` events, `seed` microseconds apart:
//! fields that every router passes on, though some drop headers and write the body anew. So no body is parsed whole.

use std::convert::Infallible;
use std::io::Write as _;
use std::net::Ipv4Addr;
use std::time::Duration;

use anyhow::Context as _;
use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::stream;
use http::{Request, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::time::{MissedTickBehavior, interval};

/// The end of a body that is looked at: what stands behind the messages.
const TAIL: usize = 4096;

/// A page as vLLM wrote it, for the proxy that reads it.
const METRICS: &str = include_str!("../../../gateway/fixtures/vllm-metrics-underload.txt");

const MODELS: &str = r#"{"object":"list","data":[{"id":"tiny","object":"model","created":1795996391,"owned_by":"vllm","root":"tiny","parent":null,"max_model_len":131072}]}"#;

/// A completion as vLLM writes it.
pub const COMPLETION: &str = r#"{"id":"chatcmpl-b4ee70de85fe6bdc","object":"chat.completion","created":1795996391,"model":"tiny","choices":[{"index":0,"message":{"role":"assistant","content":"The queue is empty, so the request goes to the endpoint that holds its prefix. It answers within a few milliseconds, and the tokens that follow come at the pace of the decode step.","refusal":null,"tool_calls":[]},"logprobs":null,"finish_reason":"stop","stop_reason":null}],"usage":{"prompt_tokens":482,"total_tokens":521,"completion_tokens":39,"prompt_tokens_details":null},"prompt_logprobs":null}"#;

const EVENT: &str = "data: {\"id\":\"chatcmpl-b4ee70de85fe6bdc\",\"object\":\"chat.completion.chunk\",\"created\":1795996391,\"model\":\"tiny\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\" queue\"},\"logprobs\":null,\"finish_reason\":null,\"token_ids\":null}]}\n\n";

const DONE: &str = "data: [DONE]\n\n";

type Answer = Response<UnsyncBoxBody<Bytes, Infallible>>;

/// Serves on `count` ports of the loopback address, which it prints in one line; runs until killed.
pub async fn serve(count: usize) -> anyhow::Result<()> {
    let mut listeners = Vec::new();
    for _ in 0..count {
        listeners.push(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.context("cannot listen")?);
    }
    let ports: Vec<String> =
        listeners.iter().map(|one| Ok(one.local_addr()?.port().to_string())).collect::<std::io::Result<_>>()?;
    println!("{}", ports.join(" "));
    std::io::stdout().flush()?;
    let mut accepting = tokio::task::JoinSet::new();
    for listener in listeners {
        accepting.spawn(accept(listener));
    }
    while let Some(ended) = accepting.join_next().await {
        ended??;
    }
    Ok(())
}

async fn accept(listener: TcpListener) -> std::io::Result<()> {
    loop {
        let (socket, _) = listener.accept().await?;
        socket.set_nodelay(true)?;
        tokio::spawn(async move {
            // A proxy that closes a connection is no concern of the origin's.
            let _ = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(socket), service_fn(answer))
                .await;
        });
    }
}

async fn answer(request: Request<Incoming>) -> Result<Answer, Infallible> {
    let (head, body) = request.into_parts();
    let tail = tail(body).await;
    Ok(match (head.method.as_str(), head.uri.path()) {
        ("POST", "/v1/chat/completions") if memchr::memmem::find(&tail, br#""stream":true"#).is_some() => {
            let pace = Duration::from_micros(number(&tail, r#""seed":"#).unwrap_or(0));
            // SGLang's router gives the older field the newer name.
            let count =
                ["max_tokens", "max_completion_tokens"].iter().find_map(|key| number(&tail, &format!("\"{key}\":")));
            events_of(count.unwrap_or(1).max(1), pace)
        }
        ("POST", "/v1/chat/completions") => whole("application/json", COMPLETION),
        ("GET", "/health") => whole("text/plain", ""),
        ("GET", "/metrics") => whole("text/plain; version=0.0.4; charset=utf-8", METRICS),
        ("GET", "/v1/models") => whole("application/json", MODELS),
        _ => {
            let mut answer = whole("text/plain", "no such thing\n");
            *answer.status_mut() = StatusCode::NOT_FOUND;
            answer
        }
    })
}

/// Reads a body to its end and keeps the last of it.
async fn tail(mut body: Incoming) -> Vec<u8> {
    let mut tail = Vec::new();
    while let Some(Ok(frame)) = body.frame().await {
        let Ok(data) = frame.into_data() else { continue };
        tail.extend_from_slice(&data[data.len().saturating_sub(TAIL)..]);
        let before = tail.len().saturating_sub(TAIL);
        tail.drain(..before);
    }
    tail
}

/// The number behind a key.
fn number(text: &[u8], key: &str) -> Option<u64> {
    let from = memchr::memmem::find(text, key.as_bytes())? + key.len();
    let digits = text[from..].iter().take_while(|byte| byte.is_ascii_digit());
    digits.map(|digit| u64::from(digit - b'0')).reduce(|value, digit| value * 10 + digit)
}

fn whole(content_type: &'static str, body: &'static str) -> Answer {
    let mut answer = Response::new(Full::new(Bytes::from_static(body.as_bytes())).boxed_unsync());
    answer.headers_mut().insert(http::header::CONTENT_TYPE, http::HeaderValue::from_static(content_type));
    answer
}

/// The first event goes out at once; the end mark goes with the last.
fn events_of(count: u64, pace: Duration) -> Answer {
    let mut ticks = interval(pace.max(Duration::from_micros(1)));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let events = stream::unfold((ticks, 0), move |(mut ticks, sent)| async move {
        if sent == count {
            return None;
        }
        if !pace.is_zero() {
            ticks.tick().await;
        }
        let sent = sent + 1;
        let event =
            if sent == count { Bytes::from([EVENT, DONE].concat()) } else { Bytes::from_static(EVENT.as_bytes()) };
        Some((event, (ticks, sent)))
    });
    let body = StreamBody::new(events.map(|event| Ok::<_, Infallible>(Frame::data(event))));
    let mut answer = Response::new(body.boxed_unsync());
    answer
        .headers_mut()
        .insert(http::header::CONTENT_TYPE, http::HeaderValue::from_static("text/event-stream; charset=utf-8"));
    answer
}
