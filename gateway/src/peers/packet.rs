//! A packet as it goes over the network: head, records, and a code that only those who share the secret can make.
//!
//! ```text
//! version 1 | sender 8 | sequence 8 | milliseconds since 1970 8 | scheme 4 | records | MAC 16
//! ```
//!
//! All numbers are little-endian. The MAC is HMAC-SHA256 over everything before it. It is checked before anything else is
//! read, so that what [`records`](super::records) decodes was made by a gateway; that must not be relied on for more than
//! speed, since a gateway may err too.

use hmac::{Hmac, Mac as _};
use sha2::Sha256;

/// The form of packets. Another one is another number; gateways of different numbers do not talk.
const VERSION: u8 = 1;

/// Largest packet: what goes unfragmented through every tunnel that IPv6 allows (an MTU of 1,280), with some to spare.
pub const MOST_BYTES: usize = 1_200;

const HEAD_BYTES: usize = 1 + 8 + 8 + 8 + 4;

/// Half of SHA-256's output, as RFC 2104 section 5 allows: guessing 128 bits is hopeless.
const MAC_BYTES: usize = 16;

/// Bytes of records in one packet.
pub const MOST_RECORDS: usize = MOST_BYTES - HEAD_BYTES - MAC_BYTES;

/// What packets are signed with.
#[derive(Clone)]
pub struct Key(Hmac<Sha256>);

impl Key {
    /// The key that a secret makes.
    pub fn new(secret: &[u8]) -> Self {
        Self(Hmac::new_from_slice(secret).expect("HMAC takes a key of any length"))
    }
}

/// What stands before the records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// The process that sends: a random number it has chosen at its start.
    pub sender: u64,
    /// Rises by one with each packet of the sender.
    pub sequence: u64,
    /// When it was sent, by the sender's clock, in milliseconds since 1970.
    pub sent_ms: u64,
    /// What the sender's block hashes mean, see [`scheme`](super::scheme).
    pub scheme: u32,
}

/// Why a packet is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoPacket {
    /// Too short or too long.
    #[error("malformed")]
    Malformed,
    /// Another form.
    #[error("version")]
    Version,
    /// Made by somebody without the secret, or changed on the way.
    #[error("mac")]
    Mac,
}

/// Makes a packet of records, which must not be more than [`MOST_RECORDS`] bytes.
pub fn seal(head: &Head, records: &[u8], key: &Key) -> Vec<u8> {
    let mut packet = Vec::with_capacity(HEAD_BYTES + records.len() + MAC_BYTES);
    packet.push(VERSION);
    for number in [head.sender, head.sequence, head.sent_ms] {
        packet.extend_from_slice(&number.to_le_bytes());
    }
    packet.extend_from_slice(&head.scheme.to_le_bytes());
    packet.extend_from_slice(records);
    let mac = key.0.clone().chain_update(&packet).finalize().into_bytes();
    packet.extend_from_slice(&mac[..MAC_BYTES]);
    packet
}

/// Takes a packet apart: its head and its records.
pub fn open<'a>(packet: &'a [u8], key: &Key) -> Result<(Head, &'a [u8]), NoPacket> {
    if packet.len() < HEAD_BYTES + MAC_BYTES || packet.len() > MOST_BYTES {
        return Err(NoPacket::Malformed);
    }
    if packet[0] != VERSION {
        return Err(NoPacket::Version);
    }
    let (signed, mac) = packet.split_at(packet.len() - MAC_BYTES);
    key.0.clone().chain_update(signed).verify_truncated_left(mac).map_err(|_| NoPacket::Mac)?;
    let (head, records) = signed.split_at(HEAD_BYTES);
    let number = |at: usize| head[at..].first_chunk().map(|bytes| u64::from_le_bytes(*bytes)).unwrap_or_default();
    let scheme = head.last_chunk().map(|bytes| u32::from_le_bytes(*bytes)).unwrap_or_default();
    Ok((Head { sender: number(1), sequence: number(9), sent_ms: number(17), scheme }, records))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HEAD: Head = Head { sender: u64::MAX - 1, sequence: 7, sent_ms: 1_700_000_000_000, scheme: 0xdead_beef };

    #[test]
    fn what_was_sealed_opens_with_the_same_key_alone() {
        let (ours, other) = (Key::new(b"0123456789abcdef"), Key::new(b"0123456789abcdeg"));
        let packet = seal(&HEAD, b"records", &ours);
        assert_eq!(open(&packet, &ours), Ok((HEAD, &b"records"[..])));
        assert_eq!(open(&packet, &other), Err(NoPacket::Mac));
    }

    #[test]
    fn a_change_of_any_bit_is_seen() {
        let key = Key::new(b"0123456789abcdef");
        let packet = seal(&HEAD, b"some records", &key);
        for bit in 0..packet.len() * 8 {
            let mut changed = packet.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            let expected = if bit < 8 { NoPacket::Version } else { NoPacket::Mac };
            assert_eq!(open(&changed, &key), Err(expected), "bit {bit}");
        }
    }

    #[test]
    fn lengths_that_cannot_be_are_refused_and_the_largest_is_taken() {
        let key = Key::new(b"0123456789abcdef");
        let largest = seal(&HEAD, &[1; MOST_RECORDS], &key);
        assert_eq!(largest.len(), MOST_BYTES);
        assert!(open(&largest, &key).is_ok());
        assert_eq!(open(&seal(&HEAD, &[1; MOST_RECORDS + 1], &key), &key), Err(NoPacket::Malformed));
        let empty = seal(&HEAD, &[], &key);
        assert!(open(&empty, &key).is_ok());
        for length in 0..empty.len() {
            assert_eq!(open(&empty[..length], &key), Err(NoPacket::Malformed), "{length} bytes");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_are_taken_for_a_packet(bytes in prop::collection::vec(any::<u8>(), 0..2_000)) {
            prop_assert!(open(&bytes, &Key::new(b"0123456789abcdef")).is_err());
        }
    }
}
