//! Bytes on a socket, for what no well-behaved client sends.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// Longest wait for bytes that must come.
const PATIENCE: Duration = Duration::from_secs(15);

/// A connection on which nothing happens by itself.
#[derive(Debug)]
pub(crate) struct Raw {
    stream: TcpStream,
    /// Read and not yet taken.
    kept: Vec<u8>,
}

impl Raw {
    pub(crate) async fn connect(address: SocketAddr) -> Self {
        let stream =
            TcpStream::connect(address).await.unwrap_or_else(|error| panic!("cannot connect to {address}: {error}"));
        stream.set_nodelay(true).unwrap();
        Self { stream, kept: Vec::new() }
    }

    /// Writes bytes as they are.
    pub(crate) async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.try_send(bytes).await.expect("the peer still reads");
    }

    /// Writes bytes as they are, to a peer that may have closed.
    pub(crate) async fn try_send(&mut self, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        self.stream.write_all(bytes.as_ref()).await
    }

    /// Sends FIN; reading goes on.
    pub(crate) async fn half_close(&mut self) {
        self.stream.shutdown().await.expect("the connection is open");
    }

    /// Ends the connection with RST.
    pub(crate) fn reset(self) {
        self.stream.set_zero_linger().expect("the socket is open");
    }

    /// Reads a head, up to its empty line: status, and the head as text.
    pub(crate) async fn head(&mut self) -> (u16, String) {
        let end = loop {
            if let Some(end) = self.kept.windows(4).position(|four| four == b"\r\n\r\n") {
                break end + 4;
            }
            assert!(self.more().await, "closed before a head, after {:?}", String::from_utf8_lossy(&self.kept));
        };
        let head = String::from_utf8(self.kept.drain(..end).collect()).expect("a head is text");
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
        (status.unwrap_or_else(|| panic!("not a status line: {head:?}")), head)
    }

    /// Reads a response with a declared length: status, head and body.
    pub(crate) async fn answer(&mut self) -> (u16, String, String) {
        let (status, head) = self.head().await;
        let length = head.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().expect("a number"))
        });
        let length = length.unwrap_or_else(|| panic!("no content-length in {head:?}"));
        while self.kept.len() < length {
            assert!(self.more().await, "closed within a body, after {:?}", String::from_utf8_lossy(&self.kept));
        }
        let body = String::from_utf8(self.kept.drain(..length).collect()).expect("bodies here are text");
        (status, head, body)
    }

    /// Reads until the peer closes, and returns what came. A reset is an end as well.
    pub(crate) async fn until_end(&mut self) -> Vec<u8> {
        while self.more().await {}
        std::mem::take(&mut self.kept)
    }

    /// Reads once. False at the end, however it came.
    async fn more(&mut self) -> bool {
        let read = tokio::time::timeout(PATIENCE, self.stream.read_buf(&mut self.kept)).await;
        let read = read.unwrap_or_else(|_| {
            panic!("nothing for {PATIENCE:?}, after {:?}", String::from_utf8_lossy(&self.kept));
        });
        matches!(read, Ok(1..))
    }
}
