//! KV events: what vLLM and SGLang tell, over ZMQ, of the blocks that come into their caches and go.
//!
//! All but [`zmtp`] is pure: bytes in, changes out. What a newcomer gets wrong: a batch is not just more knowledge. It may
//! only be applied after all before it, or a block that has gone is believed to be there for ever; see [`sequence`].

pub mod batch;
mod msgpack;
pub mod sequence;
pub mod source;
pub mod zmtp;

use spillway_picker::kv::{Adapter, Change};

use batch::{Batch, Event};

/// Which of a server's groups of blocks is followed. A hybrid model has several, each telling of the same tokens; one of
/// full attention says when a prefix is of no more use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Group {
    /// The first of full attention that was told of.
    chosen: Option<Number>,
}

/// The number of a group, which old servers do not give.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Number(Option<u64>);

impl Group {
    /// The changes that a batch means for blocks on the device, in order.
    pub fn changes(&mut self, batch: Batch) -> Vec<Change> {
        batch.events.into_iter().filter_map(|event| self.change(event)).collect()
    }

    fn change(&mut self, event: Event) -> Option<Change> {
        match event {
            Event::Stored(stored) => {
                let is_here = stored.is_on_device && stored.is_full_attention;
                if !is_here || *self.chosen.get_or_insert(Number(stored.group)) != Number(stored.group) {
                    return None;
                }
                let adapter = match (stored.adapter, stored.has_adapter) {
                    (Some(name), _) => Adapter::Named(name),
                    (None, true) => Adapter::Unnamed,
                    (None, false) => Adapter::None,
                };
                let (blocks, parent, block_tokens) = (stored.blocks, stored.parent, stored.block_tokens);
                Some(Change::Stored { blocks, parent, block_tokens, adapter })
            }
            Event::Removed { blocks, is_on_device, group } => {
                // One that gives no number removes from all.
                let is_here = is_on_device && (group.is_none() || self.chosen == Some(Number(group)));
                is_here.then_some(Change::Removed { blocks })
            }
            Event::Cleared => Some(Change::Cleared),
        }
    }
}

/// Decodes whatever bytes, as a message of each kind: never panics.
pub fn fuzz(bytes: &[u8]) {
    if let Ok(batch) = batch::decode(bytes) {
        let changes = Group::default().changes(batch);
        assert!(changes.len() <= bytes.len(), "more changes than bytes");
    }
    let _ = source::vllm(bytes);
    let _ = source::sglang(bytes);
    let _ = zmtp::frame::header(bytes);
    let parts: Vec<bytes::Bytes> = bytes.split(|byte| *byte == 0).map(bytes::Bytes::copy_from_slice).collect();
    let _ = (sequence::Message::live(&parts), sequence::Message::replayed(&parts));
}

#[cfg(test)]
mod tests;
