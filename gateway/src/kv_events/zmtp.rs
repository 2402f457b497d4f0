//! ZMTP 3.0, the protocol under ZMQ, as far as a subscriber and one who asks for replays need it: one TCP connection, no
//! encryption (mechanism NULL), messages of a few frames.
//!
//! Written here because what there is in Rust binds the C library, or reserves whatever length a peer announces and takes a
//! command apart without looking at its end. What comes is bounded before it is read, and the whole is a page of code.

pub mod frame;

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use thiserror::Error;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;

use frame::{COMMAND, GREETING_BYTES, Header, MORE};

/// Longest message, in bytes, all frames together: a batch that stores half a million tokens, far more than one step computes.
const LONGEST: u64 = 4 << 20;

/// Most frames of a message.
const MOST_FRAMES: usize = 16;

/// Commands before the peer's READY, and after it in a row: nobody sends more than one.
const MOST_COMMANDS: usize = 16;

/// A peer that takes no answer to its ping for so long does not read.
const PONG: Duration = Duration::from_secs(2);

/// What a socket is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Receives what a PUB publishes.
    Sub,
    /// Asks a ROUTER.
    Dealer,
}

/// Why a connection is of no more use.
#[derive(Debug, Error)]
pub enum ZmtpError {
    /// The network.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// It took too long.
    #[error("no answer within {0:?}")]
    Timeout(Duration),
    /// The peer does not speak ZMTP 3 without encryption.
    #[error("peer does not speak ZMTP 3 with mechanism NULL")]
    Greeting,
    /// The peer refused.
    #[error("peer refused the connection")]
    Refused,
    /// The peer sent something that has no place there.
    #[error("peer broke the protocol")]
    Protocol,
    /// More than is read.
    #[error("message is larger than {LONGEST} bytes")]
    TooLarge,
}

/// A connection after its handshake.
#[derive(Debug)]
pub struct Connection {
    stream: BufReader<TcpStream>,
}

impl Connection {
    /// Connects and shakes hands within `timeout`.
    pub async fn open(address: SocketAddr, kind: Kind, timeout: Duration) -> Result<Self, ZmtpError> {
        let opened = tokio::time::timeout(timeout, async {
            let stream = TcpStream::connect(address).await?;
            stream.set_nodelay(true)?;
            keep_alive(&stream)?;
            let mut this = Self { stream: BufReader::with_capacity(64 << 10, stream) };
            this.shake_hands(kind).await?;
            Ok(this)
        });
        opened.await.map_err(|_| ZmtpError::Timeout(timeout))?
    }

    /// Subscribes to messages that begin with `topic`.
    pub async fn subscribe(&mut self, topic: &str) -> Result<(), ZmtpError> {
        self.send(&[&[&[1], topic.as_bytes()].concat()]).await
    }

    /// Sends a message.
    pub async fn send(&mut self, parts: &[&[u8]]) -> Result<(), ZmtpError> {
        let mut bytes = Vec::new();
        for (at, part) in parts.iter().enumerate() {
            frame::write(&mut bytes, if at + 1 < parts.len() { MORE } else { 0 }, part);
        }
        self.stream.write_all(&bytes).await?;
        Ok(())
    }

    /// Receives the next message. Not to be dropped half way: what was read of it would be lost.
    pub async fn receive(&mut self) -> Result<Vec<Bytes>, ZmtpError> {
        let (mut parts, mut left, mut commands) = (Vec::new(), LONGEST, 0);
        loop {
            let (header, body) = self.frame(left).await?;
            if header.flags & COMMAND != 0 {
                commands += 1;
                if commands > MOST_COMMANDS || !parts.is_empty() {
                    return Err(ZmtpError::Protocol);
                }
                if let Some(context) = frame::ping(&body) {
                    let pong = [b"\x04PONG", context].concat();
                    let mut bytes = Vec::new();
                    frame::write(&mut bytes, COMMAND, &pong);
                    let written = tokio::time::timeout(PONG, self.stream.write_all(&bytes)).await;
                    written.map_err(|_| ZmtpError::Timeout(PONG))??;
                }
                continue;
            }
            left -= body.len() as u64;
            parts.push(body);
            if header.flags & MORE == 0 {
                return Ok(parts);
            }
            if parts.len() >= MOST_FRAMES {
                return Err(ZmtpError::TooLarge);
            }
        }
    }

    async fn shake_hands(&mut self, kind: Kind) -> Result<(), ZmtpError> {
        self.stream.write_all(&frame::greeting()).await?;
        let mut greeting = [0; GREETING_BYTES];
        self.stream.read_exact(&mut greeting).await?;
        if !frame::is_greeting(&greeting) {
            return Err(ZmtpError::Greeting);
        }
        let mut ready = Vec::new();
        frame::write(&mut ready, COMMAND, &frame::ready(kind));
        self.stream.write_all(&ready).await?;
        for _ in 0..MOST_COMMANDS {
            let (header, body) = self.frame(LONGEST).await?;
            match body.as_ref() {
                _ if header.flags & COMMAND == 0 => return Err(ZmtpError::Protocol),
                body if body.starts_with(b"\x05READY") => return Ok(()),
                body if body.starts_with(b"\x05ERROR") => return Err(ZmtpError::Refused),
                _ => {}
            }
        }
        Err(ZmtpError::Protocol)
    }

    async fn frame(&mut self, most: u64) -> Result<(Header, Bytes), ZmtpError> {
        let mut head = [0; 9];
        self.stream.read_exact(&mut head[..1]).await?;
        let length = frame::length_bytes(head[0]);
        self.stream.read_exact(&mut head[1..=length]).await?;
        let header = frame::header(&head[..=length]).ok_or(ZmtpError::Protocol)?;
        if header.length > most {
            return Err(ZmtpError::TooLarge);
        }
        // Grows as the bytes come: what is announced need not.
        let length = header.length as usize;
        let mut body = BytesMut::with_capacity(length.min(64 << 10));
        while body.len() < length {
            let left = (length - body.len()) as u64;
            if (&mut self.stream).take(left).read_buf(&mut body).await? == 0 {
                return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
            }
        }
        Ok((header, body.freeze()))
    }
}

/// A publisher that is silent and one that is gone look alike; the kernel finds out which within half a minute.
fn keep_alive(stream: &TcpStream) -> io::Result<()> {
    use rustix::net::sockopt;
    sockopt::set_socket_keepalive(stream, true)?;
    #[cfg(target_os = "linux")]
    {
        sockopt::set_tcp_keepidle(stream, Duration::from_secs(15))?;
        sockopt::set_tcp_keepintvl(stream, Duration::from_secs(5))?;
        sockopt::set_tcp_keepcnt(stream, 3)?;
    }
    Ok(())
}
