//! What packets say: one record after the other, each with its kind and length, so that kinds of later versions are passed
//! over.
//!
//! ```text
//! kind 1 | length 2 | body
//! ```
//!
//! In a body, hashes are 8 bytes and all other numbers have 7 bits to a byte, lowest first (LEB128). What follows in a body
//! after all that is known of its kind is passed over too.

use std::borrow::Cow;

use spillway_picker::pool::{Count, Sent, Word};

use super::packet::MOST_RECORDS;

/// Hashes of a prompt that are told: with them one record fits into a packet. They stand for its first 72 KiB, see `block_end`
/// of the picker; that what is beyond is cached there too, the others do not know.
pub const MOST_BLOCKS: usize = 120;

/// Endpoints in one record of counts: with them it fits into a packet, however large the numbers are.
pub const MOST_COUNTS: usize = 60;

/// Records in which counts of one pool may come: 60,000 endpoints.
const MOST_PARTS: u32 = 1_000;

const POOL: u8 = 1;
const SENT: u8 = 2;
const FIRST_TOKEN: u8 = 3;
const ENDED: u8 = 4;
const COUNTS: u8 = 5;
const LEFT: u8 = 6;

/// Bytes before a body.
const BEFORE: usize = 3;

/// One thing that is said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record<'a> {
    /// What follows is about this pool, by the hash of its name.
    Pool(u64),
    /// A request was sent.
    Sent {
        /// The request, by its number at the sender.
        ticket: u64,
        /// The endpoint, by the hash of its id.
        endpoint: u64,
        /// Tokens of its prompt that are to be computed there.
        uncached: u32,
        /// Tokens it is expected to produce.
        output: u32,
        /// Whether its first token will be told of.
        streams: bool,
        /// Hashes of the first blocks of its prompt.
        blocks: Cow<'a, [u64]>,
    },
    /// A request's first token came.
    FirstToken {
        /// The request.
        ticket: u64,
    },
    /// A request is over.
    Ended {
        /// The request.
        ticket: u64,
    },
    /// How many requests there are at endpoints, or a part of that.
    Counts(Counts),
    /// The sender goes.
    Left,
}

/// A part of what a gateway has in flight in a pool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Rises with each time that all is counted.
    pub round: u64,
    /// Which part this is, from 0.
    pub part: u32,
    /// How many parts there are.
    pub parts: u32,
    /// Requests by the hash of their endpoint's id.
    pub counts: Vec<(u64, Count)>,
}

/// A record that is cut off, or has a number that cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("malformed")]
pub struct Malformed;

impl<'a> Record<'a> {
    /// A word on a request at the endpoint with this hash.
    pub fn of(word: Word<'a>, endpoint: u64) -> Self {
        match word {
            Word::Sent(Sent { ticket, endpoint: _, uncached, output, streams, blocks }) => {
                let blocks = Cow::Borrowed(&blocks[..blocks.len().min(MOST_BLOCKS)]);
                Self::Sent { ticket, endpoint, uncached, output, streams, blocks }
            }
            Word::FirstToken { ticket } => Self::FirstToken { ticket },
            Word::Ended { ticket } => Self::Ended { ticket },
        }
    }

    /// Appends it to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&[0; BEFORE]);
        let kind = match self {
            Self::Pool(pool) => {
                out.extend_from_slice(&pool.to_le_bytes());
                POOL
            }
            Self::Sent { ticket, endpoint, uncached, output, streams, blocks } => {
                number(*ticket, out);
                out.extend_from_slice(&endpoint.to_le_bytes());
                number((*uncached).into(), out);
                number((*output).into(), out);
                out.push(u8::from(*streams));
                number(blocks.len() as u64, out);
                for block in &**blocks {
                    out.extend_from_slice(&block.to_le_bytes());
                }
                SENT
            }
            Self::FirstToken { ticket } => {
                number(*ticket, out);
                FIRST_TOKEN
            }
            Self::Ended { ticket } => {
                number(*ticket, out);
                ENDED
            }
            Self::Counts(Counts { round, part, parts, counts }) => {
                number(*round, out);
                number((*part).into(), out);
                number((*parts).into(), out);
                number(counts.len() as u64, out);
                for (endpoint, Count { requests, waiting }) in counts {
                    out.extend_from_slice(&endpoint.to_le_bytes());
                    number((*requests).into(), out);
                    number((*waiting).into(), out);
                }
                COUNTS
            }
            Self::Left => LEFT,
        };
        let length = out.len() - start - BEFORE;
        debug_assert!(length + BEFORE <= MOST_RECORDS, "a record must fit into a packet");
        out[start] = kind;
        out[start + 1..start + BEFORE].copy_from_slice(&(length as u16).to_le_bytes());
    }
}

/// Cuts the first record off `bytes`, as it is written.
pub fn cut(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let [_, low, high, ..] = bytes else { return None };
    bytes.split_at_checked(BEFORE + usize::from(u16::from_le_bytes([*low, *high])))
}

/// Reads records; those of unknown kind are left out. Takes memory in proportion to the bytes, whatever they say.
pub fn decode(mut bytes: &[u8]) -> Result<Vec<Record<'static>>, Malformed> {
    let mut records = Vec::new();
    while !bytes.is_empty() {
        let (first, rest) = cut(bytes).ok_or(Malformed)?;
        let mut body = Body(&first[BEFORE..]);
        let record = match first[0] {
            POOL => Record::Pool(body.hash()?),
            SENT => body.sent()?,
            FIRST_TOKEN => Record::FirstToken { ticket: body.number()? },
            ENDED => Record::Ended { ticket: body.number()? },
            COUNTS => Record::Counts(body.counts()?),
            LEFT => Record::Left,
            _ => {
                bytes = rest;
                continue;
            }
        };
        records.push(record);
        bytes = rest;
    }
    Ok(records)
}

fn number(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// What is left of a record's body.
struct Body<'a>(&'a [u8]);

impl Body<'_> {
    fn byte(&mut self) -> Result<u8, Malformed> {
        let (first, rest) = self.0.split_first().ok_or(Malformed)?;
        self.0 = rest;
        Ok(*first)
    }

    fn hash(&mut self) -> Result<u64, Malformed> {
        let (first, rest) = self.0.split_first_chunk().ok_or(Malformed)?;
        self.0 = rest;
        Ok(u64::from_le_bytes(*first))
    }

    fn number(&mut self) -> Result<u64, Malformed> {
        let mut value = 0;
        for shift in (0..u64::BITS).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if bits << shift >> shift != bits {
                return Err(Malformed);
            }
            value |= bits << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(Malformed)
    }

    fn small(&mut self) -> Result<u32, Malformed> {
        self.number()?.try_into().map_err(|_| Malformed)
    }

    /// A number of things to come, each of at least `bytes`: no more than there is room for.
    fn length(&mut self, bytes: usize) -> Result<usize, Malformed> {
        let length = usize::try_from(self.number()?).map_err(|_| Malformed)?;
        if length > self.0.len() / bytes { Err(Malformed) } else { Ok(length) }
    }

    fn sent(&mut self) -> Result<Record<'static>, Malformed> {
        let (ticket, endpoint) = (self.number()?, self.hash()?);
        let (uncached, output, streams) = (self.small()?, self.small()?, self.byte()? != 0);
        let length = self.length(size_of::<u64>())?;
        let blocks = (0..length).map(|_| self.hash()).collect::<Result<Vec<_>, _>>()?.into();
        Ok(Record::Sent { ticket, endpoint, uncached, output, streams, blocks })
    }

    fn counts(&mut self) -> Result<Counts, Malformed> {
        let (round, part, parts) = (self.number()?, self.small()?, self.small()?);
        if part >= parts || parts > MOST_PARTS {
            return Err(Malformed);
        }
        let length = self.length(size_of::<u64>() + 2)?;
        let count = |_| Ok((self.hash()?, Count { requests: self.small()?, waiting: self.small()? }));
        let counts = (0..length).map(count).collect::<Result<Vec<_>, _>>()?;
        Ok(Counts { round, part, parts, counts })
    }
}

/// Cuts what a gateway has in flight into parts that fit into packets; at least one, also of nothing.
pub fn parts(round: u64, counts: &[(u64, Count)]) -> Vec<Counts> {
    let parts = counts.len().div_ceil(MOST_COUNTS).clamp(1, MOST_PARTS as usize) as u32;
    let part = |part: u32| {
        let rest = counts.get(part as usize * MOST_COUNTS..).unwrap_or_default();
        Counts { round, part, parts, counts: rest[..rest.len().min(MOST_COUNTS)].to_vec() }
    };
    (0..parts).map(part).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn count() -> impl Strategy<Value = (u64, Count)> {
        let count = (any::<u32>(), any::<u32>()).prop_map(|(requests, waiting)| Count { requests, waiting });
        (any::<u64>(), count)
    }

    fn record() -> impl Strategy<Value = Record<'static>> {
        let blocks = prop::collection::vec(any::<u64>(), 0..=MOST_BLOCKS);
        let sent = (any::<u64>(), any::<u64>(), any::<u32>(), any::<u32>(), any::<bool>(), blocks).prop_map(
            |(ticket, endpoint, uncached, output, streams, blocks)| {
                let blocks = blocks.into();
                Record::Sent { ticket, endpoint, uncached, output, streams, blocks }
            },
        );
        let counts = prop::collection::vec(count(), 0..=MOST_COUNTS);
        let counts = (any::<u64>(), 0..MOST_PARTS, counts)
            .prop_map(|(round, part, counts)| Record::Counts(Counts { round, part, parts: MOST_PARTS, counts }));
        prop_oneof![
            any::<u64>().prop_map(Record::Pool),
            sent,
            any::<u64>().prop_map(|ticket| Record::FirstToken { ticket }),
            any::<u64>().prop_map(|ticket| Record::Ended { ticket }),
            counts,
            Just(Record::Left),
        ]
    }

    fn encoded(records: &[Record<'_>]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for record in records {
            record.encode(&mut bytes);
        }
        bytes
    }

    proptest! {
        #[test]
        fn records_are_read_as_they_were_written(records in prop::collection::vec(record(), 0..8)) {
            prop_assert_eq!(decode(&encoded(&records)).unwrap(), records);
        }

        #[test]
        fn each_record_fits_into_a_packet_beside_its_pool(record in record()) {
            let bytes = encoded(&[Record::Pool(u64::MAX), record]);
            prop_assert!(bytes.len() <= MOST_RECORDS, "{} bytes", bytes.len());
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
            if let Ok(records) = decode(&bytes) {
                prop_assert_eq!(decode(&encoded(&records)), Ok(records));
            }
        }

        #[test]
        fn a_record_that_is_cut_off_is_refused(record in record(), cut in any::<prop::sample::Index>()) {
            let bytes = encoded(&[record]);
            let length = cut.index(bytes.len());
            let expected = if length == 0 { Ok(Vec::new()) } else { Err(Malformed) };
            prop_assert_eq!(decode(&bytes[..length]), expected);
        }

        #[test]
        fn parts_together_are_all_counts(counts in prop::collection::vec(count(), 0..400)) {
            let parts = parts(5, &counts);
            prop_assert!(parts.iter().zip(0..).all(|(one, part)| one.part == part && one.parts == parts.len() as u32));
            let together: Vec<_> = parts.iter().flat_map(|one| one.counts.clone()).collect();
            prop_assert_eq!(together, counts);
        }
    }

    #[test]
    fn unknown_kinds_and_what_later_versions_add_are_passed_over() {
        let mut bytes = vec![99, 3, 0, 1, 2, 3];
        Record::Ended { ticket: 300 }.encode(&mut bytes);
        bytes.push(b'+');
        let end = bytes.len() - 1;
        bytes[7] += 1;
        assert_eq!(bytes[end], b'+');
        Record::Left.encode(&mut bytes);
        assert_eq!(decode(&bytes), Ok(vec![Record::Ended { ticket: 300 }, Record::Left]));
    }

    #[test]
    fn numbers_that_promise_more_than_there_is_are_refused() {
        // A request with 2^40 blocks, and a ticket of 70 bits.
        let mut body = vec![1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1];
        number(1 << 40, &mut body);
        assert_eq!(decode(&[&[SENT, body.len() as u8, 0][..], &body].concat()), Err(Malformed));
        let ticket = [0xff; 9].into_iter().chain([0x7f]).collect::<Vec<u8>>();
        assert_eq!(decode(&[&[ENDED, 10, 0][..], &ticket].concat()), Err(Malformed));
        assert_eq!(decode(&[COUNTS, 4, 0, 1, 2, 2, 0]), Err(Malformed), "the third part of two");
    }

    #[test]
    fn of_a_long_prompt_the_beginning_is_told() {
        let blocks: Vec<u64> = (0..500).collect();
        let slot = spillway_picker::pool::Slot::default();
        let sent = Sent { ticket: 1, endpoint: slot, uncached: 2, output: 3, streams: true, blocks: &blocks };
        let Record::Sent { blocks: told, .. } = Record::of(Word::Sent(sent), 9) else { panic!("it was sent") };
        assert_eq!(*told, blocks[..MOST_BLOCKS]);
    }
}
