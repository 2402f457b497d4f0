//! Batches as `MessagePack`, with the fields that vLLM 0.32 writes.

use crate::engine::CacheChange;

/// One batch: the time, its events, the rank.
pub(super) fn batch(time: f64, changes: &[CacheChange], block_size: usize) -> Vec<u8> {
    let mut out = Packer(Vec::new());
    out.array(3);
    out.0.push(0xcb);
    out.0.extend_from_slice(&time.to_be_bytes());
    out.array(changes.len());
    for change in changes {
        event(&mut out, change, block_size);
    }
    out.integer(0);
    out.0
}

fn event(out: &mut Packer, change: &CacheChange, block_size: usize) {
    match change {
        CacheChange::Stored { blocks, parent, tokens, adapter } => {
            out.map(10);
            out.pair("type", |out| out.text("BlockStored"));
            out.pair("block_hashes", |out| out.integers(blocks));
            out.pair("parent_block_hash", |out| match parent {
                Some(parent) => out.integer(*parent),
                None => out.nil(),
            });
            out.pair("token_ids", |out| out.integers(tokens));
            out.pair("block_size", |out| out.integer(block_size as u64));
            out.pair("lora_id", |out| if adapter.is_some() { out.integer(1) } else { out.nil() });
            out.pair("medium", |out| out.text("GPU"));
            out.pair("lora_name", |out| match adapter {
                Some(name) => out.text(name),
                None => out.nil(),
            });
            out.pair("group_idx", |out| out.integer(0));
            out.pair("kv_cache_spec_kind", |out| out.text("full_attention"));
        }
        CacheChange::Removed(block) => {
            out.map(4);
            out.pair("type", |out| out.text("BlockRemoved"));
            out.pair("block_hashes", |out| out.integers(&[*block]));
            out.pair("medium", |out| out.text("GPU"));
            out.pair("group_idx", |out| out.integer(0));
        }
        CacheChange::Cleared => {
            out.map(1);
            out.pair("type", |out| out.text("AllBlocksCleared"));
        }
    }
}

struct Packer(Vec<u8>);

impl Packer {
    fn nil(&mut self) {
        self.0.push(0xc0);
    }

    fn integer(&mut self, number: u64) {
        match number {
            0..=0x7f => self.0.push(number as u8),
            0x80..=0xffff => {
                self.0.push(0xcd);
                self.0.extend_from_slice(&(number as u16).to_be_bytes());
            }
            _ => {
                self.0.push(0xcf);
                self.0.extend_from_slice(&number.to_be_bytes());
            }
        }
    }

    fn integers<T: Copy + Into<u64>>(&mut self, numbers: &[T]) {
        self.array(numbers.len());
        for number in numbers {
            self.integer((*number).into());
        }
    }

    fn text(&mut self, text: &str) {
        self.0.push(0xd9);
        self.0.push(u8::try_from(text.len()).expect("names have up to 255 bytes"));
        self.0.extend_from_slice(text.as_bytes());
    }

    fn array(&mut self, length: usize) {
        self.0.push(0xdd);
        self.0.extend_from_slice(&(length as u32).to_be_bytes());
    }

    fn map(&mut self, length: u8) {
        self.0.push(0x80 | length);
    }

    fn pair(&mut self, key: &str, value: impl FnOnce(&mut Self)) {
        self.text(key);
        value(self);
    }
}
