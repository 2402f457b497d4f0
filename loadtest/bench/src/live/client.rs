//! Connections to one address, kept alive between requests, as many as are needed; and one exchange over one of them.

use std::io;
use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use super::events::{Lines, Said, said, whole};
use super::prompt_ack::PromptAck;
use super::seen::Seen;

/// A client of one address. Nothing limits how many requests it has open at once: a limit would slow the load down.
#[derive(Debug)]
pub(super) struct Client {
    target: SocketAddr,
    idle: Mutex<Vec<SendRequest<Full<Bytes>>>>,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum Broken {
    #[error("no connection")]
    Connect(#[from] io::Error),
    #[error("connection broke")]
    Http(#[from] hyper::Error),
}

impl Client {
    pub(super) fn new(target: SocketAddr) -> Self {
        Self { target, idle: Mutex::default() }
    }

    /// One exchange, from the connection to the last byte. `seen` is filled in as it goes, so that whoever breaks off has
    /// what there was.
    pub(super) async fn chat(&self, body: Bytes, streams: bool, seen: &mut Seen) {
        seen.began = Some(Instant::now());
        let result = self.exchange(body, streams, seen).await;
        if let Err(broken) = result {
            seen.failure.get_or_insert_with(|| broken.to_string());
        }
        seen.completed = seen.failure.is_none();
        seen.ended = Some(Instant::now());
    }

    async fn exchange(&self, body: Bytes, streams: bool, seen: &mut Seen) -> Result<(), Broken> {
        let mut connection = self.connection().await?;
        let request = self.request("POST", "/v1/chat/completions", body);
        let response = connection.send_request(request).await?;
        seen.endpoint = endpoint(response.headers());
        let status = response.status();
        let read = if status != 200 {
            seen.failure = Some(format!("status {}", status.as_u16()));
            response.into_body().collect().await.map(drop)
        } else if streams {
            stream(response, seen).await
        } else {
            plain(response, seen).await
        };
        read?;
        self.put_back(connection);
        Ok(())
    }

    /// The body at a path, if it is answered with 200.
    pub(super) async fn get(&self, path: &str) -> Result<Option<Bytes>, Broken> {
        let mut connection = self.connection().await?;
        let response = connection.send_request(self.request("GET", path, Bytes::new())).await?;
        let right = response.status() == 200;
        let body = response.into_body().collect().await?.to_bytes();
        self.put_back(connection);
        Ok(right.then_some(body))
    }

    fn request(&self, method: &str, path: &str, body: Bytes) -> Request<Full<Bytes>> {
        Request::builder()
            .method(method)
            .uri(path)
            .header("host", self.target.to_string())
            .header("content-type", "application/json")
            .body(Full::new(body))
            .expect("method, path and headers are valid")
    }

    async fn connection(&self) -> Result<SendRequest<Full<Bytes>>, Broken> {
        loop {
            let kept = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
            let Some(mut connection) = kept else { break };
            if !connection.is_closed() && connection.ready().await.is_ok() {
                return Ok(connection);
            }
        }
        let socket = TcpStream::connect(self.target).await?;
        socket.set_nodelay(true)?;
        let (connection, driver) = handshake(TokioIo::new(PromptAck(socket))).await?;
        tokio::spawn(driver);
        Ok(connection)
    }

    fn put_back(&self, connection: SendRequest<Full<Bytes>>) {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
    }
}

async fn stream(response: Response<Incoming>, seen: &mut Seen) -> Result<(), hyper::Error> {
    let mut body = response.into_body();
    let (mut lines, mut done) = (Lines::default(), false);
    while let Some(frame) = body.frame().await {
        let Ok(piece) = frame?.into_data() else { continue };
        let now = Instant::now();
        lines.feed(&piece, |data| match said(data) {
            Said::Text(text) => seen.token(now, &text),
            Said::Usage(usage) => seen.usage = Some(usage),
            Said::Done => done = true,
            Said::Error => seen.failure = Some("error within the stream".to_owned()),
            Said::Other => {}
        });
    }
    if !done {
        seen.failure.get_or_insert_with(|| "stream cut short".to_owned());
    }
    Ok(())
}

async fn plain(response: Response<Incoming>, seen: &mut Seen) -> Result<(), hyper::Error> {
    let body = response.into_body().collect().await?.to_bytes();
    match whole(&body) {
        Some((text, usage)) => {
            seen.token(Instant::now(), &text);
            seen.usage = Some(usage);
        }
        None => seen.failure = Some("no chat completion".to_owned()),
    }
    Ok(())
}

/// The number at the end of the name of the server that answered.
fn endpoint(headers: &HeaderMap) -> Option<usize> {
    headers.get("x-sim-replica")?.to_str().ok()?.rsplit('-').next()?.parse().ok()
}
