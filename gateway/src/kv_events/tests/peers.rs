//! What a peer on the other end of a connection can do, and what it costs.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::kv_events::zmtp::{Connection, Kind, ZmtpError, frame};

const SOON: Duration = Duration::from_secs(5);

/// A peer that shakes hands and then says these bytes.
async fn peer(says: Vec<u8>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        shake_hands(&mut stream).await;
        let _ = stream.write_all(&says).await;
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest).await;
    });
    address
}

async fn shake_hands(stream: &mut TcpStream) {
    stream.write_all(&frame::greeting()).await.unwrap();
    let mut ready = Vec::new();
    frame::write(&mut ready, frame::COMMAND, b"\x05READY\x0bSocket-Type\0\0\0\x03PUB");
    stream.write_all(&ready).await.unwrap();
    let mut theirs = [0; frame::GREETING_BYTES];
    stream.read_exact(&mut theirs).await.unwrap();
}

async fn heard(says: Vec<u8>) -> Result<Vec<bytes::Bytes>, ZmtpError> {
    let mut connection = Connection::open(peer(says).await, Kind::Sub, SOON).await?;
    connection.receive().await
}

fn frames(list: &[(u8, &[u8])]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (flags, body) in list {
        frame::write(&mut bytes, *flags, body);
    }
    bytes
}

#[tokio::test]
async fn messages_come_whole_and_commands_between_them_are_passed_over() {
    let big = vec![7; 100_000];
    let said = frames(&[(frame::COMMAND, b"\x04PING\0\x0a"), (frame::MORE, b"kv@m"), (frame::MORE, b"seq"), (0, &big)]);
    let message = heard(said).await.unwrap();
    assert_eq!(message.iter().map(bytes::Bytes::len).collect::<Vec<_>>(), [4, 3, 100_000]);
}

#[tokio::test]
async fn what_is_announced_is_not_believed() {
    let endless = [&[2][..], &u64::MAX.to_be_bytes()].concat();
    assert!(matches!(heard(endless).await, Err(ZmtpError::TooLarge)));
    let many: Vec<_> = (0..100).map(|_| (frame::MORE, &b"x"[..])).collect();
    assert!(matches!(heard(frames(&many)).await, Err(ZmtpError::TooLarge)));
    let commands: Vec<_> = (0..100).map(|_| (frame::COMMAND, &b"\x04WHAT"[..])).collect();
    assert!(matches!(heard(frames(&commands)).await, Err(ZmtpError::Protocol)));
    assert!(matches!(heard(vec![0x80, 0]).await, Err(ZmtpError::Protocol)));
    // A command in the middle of a message.
    let split = frames(&[(frame::MORE, b"a"), (frame::COMMAND, b"\x04PING\0\x0a")]);
    assert!(matches!(heard(split).await, Err(ZmtpError::Protocol)));
}

#[tokio::test]
async fn who_does_not_speak_zmtp_or_nothing_at_all_is_left() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let silent = Connection::open(address, Kind::Sub, Duration::from_millis(50)).await;
    assert!(matches!(silent, Err(ZmtpError::Timeout(_))), "{silent:?}");
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let answer =
                b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\nX-Padding: 0123456789\r\n\r\n";
            let _ = stream.write_all(answer).await;
            let mut rest = Vec::new();
            let _ = stream.read_to_end(&mut rest).await;
        }
    });
    assert!(matches!(Connection::open(address, Kind::Sub, SOON).await, Err(ZmtpError::Greeting)));
}
