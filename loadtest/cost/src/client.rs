//! One client connection: sends a chat, reads the answer to its end, and says when its first byte came.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

use crate::origin::COMPLETION;

/// What is asked of the origin beside the prompt; it stands in the body.
#[derive(Clone, Copy)]
pub enum Reply {
    /// One JSON completion.
    Whole,
    /// Events with a pause between them.
    Stream {
        /// How many.
        events: u64,
        /// The pause.
        pace: Duration,
    },
}

impl Reply {
    /// The same with a tenth of the events and no pauses to speak of, to warm up with.
    #[must_use]
    pub fn hurried(self) -> Self {
        match self {
            Self::Stream { events, .. } => {
                Self::Stream { events: (events / 10).max(2), pace: Duration::from_millis(1) }
            }
            Self::Whole => Self::Whole,
        }
    }
}

/// When an answer came, counted from the moment the request was handed to the connection.
#[derive(Clone, Copy)]
pub struct Times {
    /// The first byte of its body.
    pub first_byte: Duration,
    /// The last one.
    pub end: Duration,
}

/// A connection that is kept alive between requests.
pub struct Connection {
    sender: SendRequest<Full<Bytes>>,
    driver: JoinHandle<hyper::Result<()>>,
    target: SocketAddr,
}

impl Connection {
    /// Connects.
    pub async fn open(target: SocketAddr) -> anyhow::Result<Self> {
        let socket = TcpStream::connect(target).await.with_context(|| format!("cannot connect to {target}"))?;
        socket.set_nodelay(true)?;
        let (sender, connection) = handshake(TokioIo::new(socket)).await?;
        Ok(Self { sender, driver: tokio::spawn(connection), target })
    }

    /// One whole exchange. An answer that is not exactly what the origin sends is an error.
    pub async fn exchange(&mut self, prompt: Bytes, reply: Reply) -> anyhow::Result<Times> {
        let sent = Instant::now();
        let mut body = self.send(prompt).await?;
        let mut first_byte = None;
        let mut length = 0;
        let mut ends = Ends::default();
        while let Some(frame) = body.frame().await {
            let Ok(data) = frame?.into_data() else { continue };
            first_byte.get_or_insert_with(|| sent.elapsed());
            length += data.len();
            ends.feed(&data);
        }
        let end = sent.elapsed();
        match reply {
            Reply::Whole => ensure!(length == COMPLETION.len(), "{length} bytes came of a completion"),
            // One end more: that of the end mark.
            Reply::Stream { events, .. } => ensure!(ends.count == events + 1, "{} of {events} events came", ends.count),
        }
        Ok(Times { first_byte: first_byte.unwrap_or(end), end })
    }

    /// Asks for a stream and reads its first piece; the rest comes while the body is held.
    pub async fn begin(&mut self, prompt: Bytes) -> anyhow::Result<Incoming> {
        let mut body = self.send(prompt).await?;
        body.frame().await.context("the stream is empty")??;
        Ok(body)
    }

    /// Closes it, whatever is under way. When this returns the socket is gone.
    pub async fn close(self) {
        self.driver.abort();
        let _ = self.driver.await;
    }

    async fn send(&mut self, prompt: Bytes) -> anyhow::Result<Incoming> {
        self.sender.ready().await?;
        let request = Request::post("/v1/chat/completions")
            .header("host", self.target.to_string())
            .header("user-agent", "OpenAI/Python 3.57.0")
            .header("accept", "application/json")
            .header("authorization", "Bearer sk-0123456789abcdef0123456789abcdef")
            .header("content-type", "application/json");
        let answer = self.sender.send_request(request.body(Full::new(prompt))?).await?;
        ensure!(answer.status() == 200, "answered {}", answer.status());
        Ok(answer.into_body())
    }
}

/// Counts the empty lines that end events, wherever the pieces are cut.
#[derive(Default)]
struct Ends {
    count: u64,
    after_break: bool,
}

impl Ends {
    fn feed(&mut self, data: &[u8]) {
        let mut last = if self.after_break { Some(0) } else { None };
        for at in memchr::memchr_iter(b'\n', data) {
            let is_end = last == Some(at);
            self.count += u64::from(is_end);
            last = if is_end { None } else { Some(at + 1) };
        }
        self.after_break = last == Some(data.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_counted_wherever_they_are_cut() {
        let text = b"data: a\n\ndata: b\n\ndata: [DONE]\n\n";
        for cut in 0..=text.len() {
            let mut ends = Ends::default();
            ends.feed(&text[..cut]);
            ends.feed(&text[cut..]);
            assert_eq!(ends.count, 3, "cut at {cut}");
        }
    }
}
