//! What the tests talk with: a plain client, and raw sockets where a client would be too polite.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::{Method, Request, Response, StatusCode, Version};
use hyper_util::client::legacy::{Client, connect::HttpConnector};
use hyper_util::rt::TokioExecutor;
use serde_json::Value;
use spillway_sim::{Config, Server, State};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Longest wait for anything: far above what any of it takes.
const PATIENCE: Duration = Duration::from_secs(10);

pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    headers: hyper::HeaderMap,
    pub(crate) body: Bytes,
}

impl Reply {
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }
}

pub(crate) async fn start() -> Server {
    Server::start(Config::default()).await.unwrap()
}

/// A server so slow that nothing ends while a test looks.
pub(crate) async fn start_slow() -> Server {
    Server::start(Config { time_scale: 0.05, ..Config::default() }).await.unwrap()
}

pub(crate) fn client(version: Version) -> Client<HttpConnector, Full<Bytes>> {
    Client::builder(TokioExecutor::new()).http2_only(version == Version::HTTP_2).build_http()
}

pub(crate) fn request(method: Method, url: &str, body: impl Into<Bytes>) -> Request<Full<Bytes>> {
    Request::builder().method(method).uri(url).body(Full::new(body.into())).unwrap()
}

pub(crate) async fn collect(response: Response<hyper::body::Incoming>) -> Result<Reply, hyper::Error> {
    let (parts, body) = response.into_parts();
    let body = body.collect().await?.to_bytes();
    Ok(Reply { status: parts.status, headers: parts.headers, body })
}

pub(crate) async fn send(request: Request<Full<Bytes>>) -> Reply {
    let response = client(Version::HTTP_11).request(request).await.unwrap();
    collect(response).await.unwrap()
}

pub(crate) async fn get(server: &Server, path: &str) -> Reply {
    send(request(Method::GET, &format!("{}{path}", server.url()), "")).await
}

pub(crate) async fn post(server: &Server, path: &str, body: impl ToString) -> Reply {
    send(request(Method::POST, &format!("{}{path}", server.url()), body.to_string())).await
}

/// A raw connection with one POST written to it.
pub(crate) async fn raw_post(address: SocketAddr, path: &str, body: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let length = body.len();
    let text = format!("POST {path} HTTP/1.1\r\nhost: sim\r\ncontent-length: {length}\r\n\r\n{body}");
    stream.write_all(text.as_bytes()).await.unwrap();
    stream
}

/// Everything until the connection ends, and how it ended.
pub(crate) async fn read_to_end(stream: &mut TcpStream) -> (String, std::io::Result<()>) {
    let mut all = Vec::new();
    let end = within(stream.read_to_end(&mut all)).await;
    (String::from_utf8_lossy(&all).into_owned(), end.map(drop))
}

/// Reads until the text appears.
pub(crate) async fn read_until(stream: &mut TcpStream, text: &str) -> String {
    let mut all = Vec::new();
    loop {
        let mut piece = [0; 4096];
        let count = within(stream.read(&mut piece)).await.unwrap();
        all.extend_from_slice(&piece[..count]);
        let seen = String::from_utf8_lossy(&all).into_owned();
        if seen.contains(text) {
            return seen;
        }
        assert!(count > 0, "connection ended before {text:?}; it said {seen:?}");
    }
}

pub(crate) async fn within<F: Future>(future: F) -> F::Output {
    tokio::time::timeout(PATIENCE, future).await.expect("took longer than any of this should")
}

/// Waits until the server's state is as wanted and returns it.
pub(crate) async fn until(server: &Server, what: &str, wanted: impl Fn(&State) -> bool) -> State {
    let deadline = tokio::time::Instant::now() + PATIENCE;
    loop {
        let state = server.state();
        if wanted(&state) {
            return state;
        }
        assert!(tokio::time::Instant::now() < deadline, "never came: {what}; state is {state:?}");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

pub(crate) fn chat(max_tokens: u32, rest: &str) -> String {
    format!(r#"{{"messages":[{{"role":"user","content":"hello there my friend"}}],"max_tokens":{max_tokens}{rest}}}"#)
}

pub(crate) const STREAM: &str = r#","stream":true"#;
