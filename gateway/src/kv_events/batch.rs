//! One message's payload: a batch of events in any of the encodings that vLLM and SGLang have had.
//!
//! Events are arrays that begin with their type, or maps with a key `type`; so is the batch, without a type. Arrays grew at
//! their end and maps by keys. What is not known is jumped over, one field or one event at a time, so that a newer server
//! costs what it added and not what was there. Token ids are jumped over too: nothing here could make text of them.

use thiserror::Error;
use xxhash_rust::xxh3::xxh3_64;

use super::msgpack::{Reader, Value};

/// Why bytes are no batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum DecodeError {
    /// They end too early.
    #[error("batch ends too early")]
    Short,
    /// They are no `MessagePack`.
    #[error("batch is not MessagePack")]
    Malformed,
    /// They are, but no batch.
    #[error("not a batch of events")]
    NoBatch,
}

/// What one message tells.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    /// In order.
    pub events: Vec<Event>,
    /// Events of a type that is not known, or without what their type needs.
    pub skipped: usize,
    /// The data-parallel rank, when it is told.
    pub rank: Option<u64>,
}

/// One event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Blocks were stored.
    Stored(Stored),
    /// Blocks were removed.
    Removed {
        /// Their names.
        blocks: Vec<u64>,
        /// From the device's memory; else from another tier.
        is_on_device: bool,
        /// Of which group.
        group: Option<u64>,
    },
    /// All blocks were removed.
    Cleared,
}

/// Blocks that were stored one after the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// Their names.
    pub blocks: Vec<u64>,
    /// The block before the first.
    pub parent: Option<u64>,
    /// Tokens in each.
    pub block_tokens: u32,
    /// Name of the adapter.
    pub adapter: Option<Box<str>>,
    /// Whether there is one.
    pub has_adapter: bool,
    /// In the device's memory; else in another tier.
    pub is_on_device: bool,
    /// In which group.
    pub group: Option<u64>,
    /// Whether that is one of full attention, as all were before groups were told of.
    pub is_full_attention: bool,
}

/// Fields of any event, as far as they are of use.
#[derive(Default)]
struct Fields {
    kind: Kind,
    blocks: Option<Vec<u64>>,
    parent: Option<u64>,
    block_tokens: Option<u64>,
    adapter: Option<Box<str>>,
    has_adapter: bool,
    /// In another tier than the device's memory.
    is_elsewhere: bool,
    group: Option<u64>,
    is_partial: bool,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Kind {
    Stored,
    Removed,
    Cleared,
    #[default]
    Unknown,
}

#[derive(Clone, Copy)]
enum Field {
    Blocks,
    Parent,
    BlockTokens,
    AdapterId,
    Medium,
    AdapterName,
    Group,
    Attention,
    Other,
}

/// Fields of arrays by place, after the type.
const STORED: [Field; 10] = [
    Field::Blocks,
    Field::Parent,
    // Token ids.
    Field::Other,
    Field::BlockTokens,
    Field::AdapterId,
    Field::Medium,
    Field::AdapterName,
    // Extra keys.
    Field::Other,
    Field::Group,
    Field::Attention,
];
const REMOVED: [Field; 3] = [Field::Blocks, Field::Medium, Field::Group];

/// Decodes a payload.
pub fn decode(payload: &[u8]) -> Result<Batch, DecodeError> {
    let mut reader = Reader::new(payload);
    let mut batch = Batch::default();
    match reader.next()? {
        Value::Array(length @ 2..) => {
            // The time.
            reader.skip()?;
            events(&mut reader, &mut batch)?;
            if length > 2 {
                batch.rank = reader.integer()?;
            }
            for _ in 3..length {
                reader.skip()?;
            }
        }
        Value::Map(pairs) => {
            let mut has_events = false;
            for _ in 0..pairs {
                match reader.text()? {
                    Some(b"events") => {
                        events(&mut reader, &mut batch)?;
                        has_events = true;
                    }
                    Some(b"data_parallel_rank") => batch.rank = reader.integer()?,
                    _ => reader.skip()?,
                }
            }
            if !has_events {
                return Err(DecodeError::NoBatch);
            }
        }
        _ => return Err(DecodeError::NoBatch),
    }
    Ok(batch)
}

fn events(reader: &mut Reader<'_>, batch: &mut Batch) -> Result<(), DecodeError> {
    let count = reader.array()?.ok_or(DecodeError::NoBatch)?;
    for _ in 0..count {
        // First as a whole: whatever is in it, the next one begins behind it.
        let mut one = reader.split()?;
        match event(&mut one)? {
            Some(event) => batch.events.push(event),
            None => batch.skipped += 1,
        }
    }
    Ok(())
}

/// One event; `None` when it is of no known type, or lacks what its type needs.
fn event(reader: &mut Reader<'_>) -> Result<Option<Event>, DecodeError> {
    let mut fields = Fields::default();
    match reader.next()? {
        Value::Array(length @ 1..) => {
            fields.kind = kind(reader.text()?);
            let places: &[Field] = match fields.kind {
                Kind::Stored => &STORED,
                Kind::Removed => &REMOVED,
                Kind::Cleared | Kind::Unknown => &[],
            };
            for field in places.iter().take(length as usize - 1) {
                fields.read(*field, reader)?;
            }
        }
        Value::Map(pairs) => {
            for _ in 0..pairs {
                let field = match reader.text()? {
                    Some(b"type") => {
                        fields.kind = kind(reader.text()?);
                        continue;
                    }
                    Some(b"block_hashes") => Field::Blocks,
                    Some(b"parent_block_hash") => Field::Parent,
                    Some(b"block_size") => Field::BlockTokens,
                    Some(b"lora_id") => Field::AdapterId,
                    Some(b"lora_name") => Field::AdapterName,
                    Some(b"medium") => Field::Medium,
                    Some(b"group_idx") => Field::Group,
                    Some(b"kv_cache_spec_kind") => Field::Attention,
                    _ => Field::Other,
                };
                fields.read(field, reader)?;
            }
        }
        _ => {}
    }
    Ok(fields.event())
}

fn kind(name: Option<&[u8]>) -> Kind {
    match name {
        Some(b"BlockStored") => Kind::Stored,
        Some(b"BlockRemoved") => Kind::Removed,
        Some(b"AllBlocksCleared") => Kind::Cleared,
        _ => Kind::Unknown,
    }
}

impl Fields {
    fn read(&mut self, field: Field, reader: &mut Reader<'_>) -> Result<(), DecodeError> {
        match field {
            Field::Blocks => self.blocks = names(reader)?,
            Field::Parent => self.parent = name(reader)?,
            Field::BlockTokens => self.block_tokens = reader.integer()?,
            Field::AdapterId => self.has_adapter |= reader.integer()?.is_some(),
            Field::AdapterName => {
                let name = reader.text()?.and_then(|name| std::str::from_utf8(name).ok());
                self.adapter = name.map(Into::into);
                self.has_adapter |= name.is_some();
            }
            Field::Medium => self.is_elsewhere = reader.text()?.is_some_and(|medium| medium != b"GPU"),
            Field::Group => self.group = reader.integer()?,
            Field::Attention => self.is_partial = reader.text()?.is_some_and(|kind| kind != b"full_attention"),
            Field::Other => reader.skip()?,
        }
        Ok(())
    }

    fn event(self) -> Option<Event> {
        match self.kind {
            Kind::Stored => Some(Event::Stored(Stored {
                blocks: self.blocks?,
                parent: self.parent,
                block_tokens: u32::try_from(self.block_tokens?).ok().filter(|tokens| *tokens > 0)?,
                adapter: self.adapter,
                has_adapter: self.has_adapter,
                is_on_device: !self.is_elsewhere,
                group: self.group,
                is_full_attention: !self.is_partial,
            })),
            Kind::Removed => {
                Some(Event::Removed { blocks: self.blocks?, is_on_device: !self.is_elsewhere, group: self.group })
            }
            Kind::Cleared => Some(Event::Cleared),
            Kind::Unknown => None,
        }
    }
}

/// A list of names; `None` when it is no list, or something in it is no name: half of a chain would be another chain.
fn names(reader: &mut Reader<'_>) -> Result<Option<Vec<u64>>, DecodeError> {
    let Some(count) = reader.array()? else { return Ok(None) };
    // What is announced need not come.
    let mut names = Vec::with_capacity(count.min(1_024) as usize);
    let mut are_whole = true;
    for _ in 0..count {
        match name(reader)? {
            Some(name) => names.push(name),
            None => are_whole = false,
        }
    }
    Ok(are_whole.then_some(names))
}

/// The name of a block: 64 bits with or without a sign, or a digest, whose last eight bytes a server that writes numbers
/// would have written.
fn name(reader: &mut Reader<'_>) -> Result<Option<u64>, DecodeError> {
    let mut ahead = *reader;
    let name = match ahead.next()? {
        Value::Integer(number) => Some(number),
        Value::Bytes(digest) | Value::Text(digest) => {
            Some(digest.last_chunk().map_or_else(|| xxh3_64(digest), |last| u64::from_be_bytes(*last)))
        }
        _ => None,
    };
    reader.skip()?;
    Ok(name)
}
