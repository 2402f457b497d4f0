//! ZMTP 3.0 from the side of a server: handshake, and messages both ways.

use std::io::{self, ErrorKind};

use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};

/// Subscriptions and questions are short.
const LONGEST: u64 = 64 << 10;

/// What a peer says.
#[derive(Debug)]
pub(super) struct Socket {
    reader: BufReader<OwnedReadHalf>,
}

/// What is said to it.
#[derive(Debug)]
pub(super) struct Writer {
    half: OwnedWriteHalf,
}

impl Socket {
    /// Shakes hands as a socket of this type.
    pub(super) async fn open(stream: TcpStream, kind: &str) -> io::Result<(Self, Writer)> {
        stream.set_nodelay(true)?;
        let (reader, half) = stream.into_split();
        let (mut this, mut writer) = (Self { reader: BufReader::new(reader) }, Writer { half });
        let mut greeting = [0; 64];
        greeting[0] = 0xff;
        greeting[9] = 0x7f;
        greeting[10] = 3;
        greeting[12..16].copy_from_slice(b"NULL");
        writer.half.write_all(&greeting).await?;
        this.reader.read_exact(&mut greeting).await?;
        if greeting[10] < 3 || !greeting[12..].starts_with(b"NULL\0") {
            return Err(ErrorKind::InvalidData.into());
        }
        let ready = [b"\x05READY\x0bSocket-Type\0\0\0", &[kind.len() as u8][..], kind.as_bytes()].concat();
        writer.frame(4, &ready).await?;
        let (flags, command) = this.frame().await?;
        if flags & 4 == 0 || !command.starts_with(b"\x05READY") {
            return Err(ErrorKind::InvalidData.into());
        }
        Ok((this, writer))
    }

    /// The frames of the next message; commands are passed over.
    pub(super) async fn receive(&mut self) -> io::Result<Vec<Vec<u8>>> {
        let mut frames = Vec::new();
        loop {
            let (flags, body) = self.frame().await?;
            if flags & 4 != 0 {
                continue;
            }
            frames.push(body);
            if flags & 1 == 0 {
                return Ok(frames);
            }
            if frames.len() > 8 {
                return Err(ErrorKind::InvalidData.into());
            }
        }
    }

    async fn frame(&mut self) -> io::Result<(u8, Vec<u8>)> {
        let flags = self.reader.read_u8().await?;
        let length =
            if flags & 2 == 0 { u64::from(self.reader.read_u8().await?) } else { self.reader.read_u64().await? };
        if length > LONGEST {
            return Err(ErrorKind::InvalidData.into());
        }
        let mut body = vec![0; length as usize];
        self.reader.read_exact(&mut body).await?;
        Ok((flags, body))
    }
}

impl Writer {
    /// Sends a message.
    pub(super) async fn send(&mut self, frames: &[&[u8]]) -> io::Result<()> {
        for (at, frame) in frames.iter().enumerate() {
            self.frame(u8::from(at + 1 < frames.len()), frame).await?;
        }
        Ok(())
    }

    async fn frame(&mut self, flags: u8, body: &[u8]) -> io::Result<()> {
        let mut bytes = match u8::try_from(body.len()) {
            Ok(length) => vec![flags, length],
            Err(_) => [&[flags | 2][..], &(body.len() as u64).to_be_bytes()].concat(),
        };
        bytes.extend_from_slice(body);
        self.half.write_all(&bytes).await
    }
}
