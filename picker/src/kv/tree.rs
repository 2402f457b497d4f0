//! The blocks one server process says it holds, each with the block before it and the blocks of text that end in it.
//!
//! A block whose parent is not known is not taken: hung on the root it would stand for the start of a prompt.

use std::collections::HashMap;

use smallvec::SmallVec;

use crate::index::Place;

/// Blocks of text that end in one block of tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    pub(super) place: Place,
    /// Its number in the prompt.
    pub(super) at: u32,
}

#[derive(Debug)]
pub(super) struct Node {
    pub(super) parent: Option<u64>,
    /// Tokens from the start of the prompt to its end.
    pub(super) end: u32,
    pub(super) tokens: u32,
    pub(super) marks: SmallVec<[Mark; 1]>,
}

impl Node {
    pub(super) fn start(&self) -> u32 {
        self.end - self.tokens
    }
}

/// The blocks of one publisher.
#[derive(Debug, Default)]
pub(super) struct Tree {
    nodes: HashMap<u64, Node>,
    /// Where each block of text ends.
    by_text: HashMap<u64, u64>,
}

impl Tree {
    pub(super) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Blocks of text that are held.
    pub(super) fn held(&self) -> usize {
        self.by_text.len()
    }

    pub(super) fn node(&self, block: u64) -> Option<&Node> {
        self.nodes.get(&block)
    }

    /// Whether a block of text is held.
    pub(super) fn holds(&self, text: u64) -> bool {
        self.by_text.contains_key(&text)
    }

    /// How deep a child of `parent` begins; `None` when the parent is not known.
    pub(super) fn depth_below(&self, parent: Option<u64>) -> Option<u32> {
        parent.map_or(Some(0), |parent| self.nodes.get(&parent).map(|node| node.end))
    }

    /// Adds a block below a known parent, unless it is there.
    pub(super) fn store(&mut self, block: u64, parent: Option<u64>, start: u32, tokens: u32) {
        let fresh = || Node { parent, end: start.saturating_add(tokens), tokens, marks: SmallVec::new() };
        self.nodes.entry(block).or_insert_with(fresh);
    }

    /// Removes a block; the blocks of text that ended there go to `gone`.
    pub(super) fn remove(&mut self, block: u64, gone: &mut Vec<Place>) {
        if let Some(node) = self.nodes.remove(&block) {
            for mark in node.marks {
                self.by_text.remove(&mark.place.hash());
                gone.push(mark.place);
            }
        }
    }

    /// Empties it; the blocks of text go to `gone`.
    pub(super) fn clear(&mut self, gone: &mut Vec<Place>) {
        gone.extend(self.nodes.values().flat_map(|node| node.marks.iter().map(|mark| mark.place)));
        *self = Self::default();
    }

    /// Says that a block of text ends in a block. The first word counts: what the same text led to before is the same.
    pub(super) fn mark(&mut self, block: u64, mark: Mark) {
        let hash = mark.place.hash();
        if !self.by_text.contains_key(&hash)
            && let Some(node) = self.nodes.get_mut(&block)
        {
            node.marks.push(mark);
            self.by_text.insert(hash, block);
        }
    }

    /// Takes back the marks of one prompt from a block.
    pub(super) fn unmark(&mut self, block: u64, blocks: &[u64]) {
        let Some(node) = self.nodes.get_mut(&block) else { return };
        let by_text = &mut self.by_text;
        node.marks.retain(|mark| {
            let is_of_prompt = blocks.get(mark.at as usize) == Some(&mark.place.hash());
            if is_of_prompt {
                by_text.remove(&mark.place.hash());
            }
            !is_of_prompt
        });
    }

    /// The deepest block of text that ends at or above a block, looked for over so many blocks.
    pub(super) fn nearest_mark(&self, block: Option<u64>, most: usize) -> Option<Mark> {
        let mut next = block;
        for _ in 0..most {
            let node = self.nodes.get(&next?)?;
            if let Some(mark) = node.marks.iter().max_by_key(|mark| mark.at) {
                return Some(*mark);
            }
            next = node.parent;
        }
        None
    }
}
