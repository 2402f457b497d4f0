//! Bytes of ZMTP: greeting, commands, heads of frames.

use super::Kind;

/// Length of a greeting.
pub const GREETING_BYTES: usize = 64;

/// More frames of the message follow.
pub const MORE: u8 = 1;
/// The length takes eight bytes, not one.
const LONG: u8 = 2;
/// The frame is a command.
pub const COMMAND: u8 = 4;

/// The head of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// What it is.
    pub flags: u8,
    /// Bytes of its body.
    pub length: u64,
}

/// Our greeting: version 3.0, in which subscriptions are messages and both old and new peers understand them.
pub fn greeting() -> [u8; GREETING_BYTES] {
    let mut greeting = [0; GREETING_BYTES];
    greeting[0] = 0xff;
    greeting[9] = 0x7f;
    greeting[10] = 3;
    greeting[12..16].copy_from_slice(b"NULL");
    greeting
}

/// Whether a greeting is of a peer that speaks version 3 without encryption.
pub fn is_greeting(greeting: &[u8; GREETING_BYTES]) -> bool {
    let mechanism = &greeting[12..32];
    greeting[0] == 0xff
        && greeting[9] & 1 == 1
        && greeting[10] >= 3
        && mechanism == b"NULL\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"
}

/// The command that ends our half of the handshake.
pub fn ready(kind: Kind) -> Vec<u8> {
    let mut body = b"\x05READY".to_vec();
    let mut property = |name: &str, value: &str| {
        body.push(name.len() as u8);
        body.extend_from_slice(name.as_bytes());
        body.extend_from_slice(&(value.len() as u32).to_be_bytes());
        body.extend_from_slice(value.as_bytes());
    };
    match kind {
        Kind::Sub => property("Socket-Type", "SUB"),
        Kind::Dealer => {
            property("Socket-Type", "DEALER");
            property("Identity", "");
        }
    }
    body
}

/// What a ping wants back; `None` when the command is none.
pub fn ping(command: &[u8]) -> Option<&[u8]> {
    // Two bytes say for how long the peer will be content.
    command.strip_prefix(b"\x04PING")?.get(2..)
}

/// Appends a frame.
pub fn write(bytes: &mut Vec<u8>, flags: u8, body: &[u8]) {
    if let Ok(length) = u8::try_from(body.len()) {
        bytes.extend_from_slice(&[flags, length]);
    } else {
        bytes.push(flags | LONG);
        bytes.extend_from_slice(&(body.len() as u64).to_be_bytes());
    }
    bytes.extend_from_slice(body);
}

/// Bytes of the length that follows these flags.
pub fn length_bytes(flags: u8) -> usize {
    if flags & LONG == 0 { 1 } else { 8 }
}

/// Reads the head of a frame; `None` when it is short, or has flags that have no meaning.
pub fn header(bytes: &[u8]) -> Option<Header> {
    let (&flags, rest) = bytes.split_first()?;
    let length = rest.get(..length_bytes(flags))?.iter().fold(0, |length, byte| length << 8 | u64::from(*byte));
    (flags & !(MORE | LONG | COMMAND) == 0).then_some(Header { flags, length })
}
