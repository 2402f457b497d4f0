//! Ties the blocks of one endpoint to the requests in flight there.
//!
//! What a newcomer gets wrong: events and answers race. A short request has often ended before its blocks are told of, so
//! a request stays known for a while after its end.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use super::open::{Fit, Open, Run, Stray};
use super::tree::Tree;
use super::{Change, Standing};
use crate::index::Place;
use crate::prefix::Prompt;
use crate::time::Time;

/// How long after its end a request may still be told of. Engines publish with each step.
const LINGER: Duration = Duration::from_secs(2);

/// Requests looked at for one run. Beyond the longest batches what is waiting cannot have been computed.
const LOOKED_AT: usize = 512;

/// Blocks walked up to find out what text a run continues: some blocks of text, in the smallest blocks of tokens.
const WALK: usize = 64;

/// Requests known at once. One endpoint has fewer in flight; those ended that linger are of little use beyond it.
const MOST_OPEN: usize = 8_192;

/// Blocks of all publishers of an endpoint: more than the largest caches have (16 million tokens in blocks of 16), and some
/// 200 MB.
const MOST_BLOCKS: usize = 1 << 20;

/// What the index is to be told.
#[derive(Debug, Default)]
pub(crate) struct Told {
    /// All belief ends.
    pub(crate) forget: bool,
    /// Belief in these blocks ends.
    pub(crate) withdrawn: Vec<Place>,
    /// Prompts of which so many leading blocks are there, although belief in some had ended.
    pub(crate) restored: Vec<(Arc<Prompt>, usize)>,
}

/// How a request ended.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Ended {
    /// Whether the server may have computed any of it.
    pub(crate) ran: bool,
    /// The server's own counts.
    pub(crate) prompt: Option<u32>,
    pub(crate) cached: Option<u32>,
    pub(crate) completion: Option<u32>,
}

/// Blocks and requests of one endpoint.
#[derive(Debug, Default)]
pub(crate) struct Attribution {
    trees: BTreeMap<u32, Tree>,
    /// In order of dispatch.
    open: VecDeque<Open>,
    next_id: u64,
    /// Publishers that tell of what happens, and not of history.
    current: BTreeSet<u32>,
    /// Times that belief was withdrawn.
    withdrawn: u64,
    attributed: u64,
    unattributed: u64,
    mismatched: u64,
    swept: Time,
}

impl Attribution {
    /// Enters a request before it is sent; returns its number. `None` while only history is told.
    pub(crate) fn dispatched(
        &mut self,
        prompt: &Arc<Prompt>,
        adapter: Option<&Arc<str>>,
        tokens: f64,
        now: Time,
    ) -> Option<u64> {
        if self.current.is_empty() {
            return None;
        }
        self.sweep(now);
        self.next_id += 1;
        if self.open.len() >= MOST_OPEN {
            self.open.pop_front();
        }
        self.open.push_back(Open {
            id: self.next_id,
            prompt: Arc::clone(prompt),
            adapter: adapter.cloned(),
            tokens,
            is_exact: false,
            cached: None,
            completion: None,
            ended: None,
            run: None,
            withdrawn: self.withdrawn,
        });
        Some(self.next_id)
    }

    /// The first token of a request came: its prompt has been computed, so what was stored for it is all of it.
    pub(crate) fn first_token(&mut self, id: u64) {
        let Ok(at) = self.open.binary_search_by_key(&id, |open| open.id) else { return };
        let open = &mut self.open[at];
        if let Some(run) = open.run
            && !open.is_exact
            && let Some(tree) = self.trees.get_mut(&run.publisher)
        {
            open.count(f64::from(run.reach), tree);
        }
    }

    /// Takes note of a request's end.
    pub(crate) fn ended(&mut self, id: u64, ended: Ended, told: &mut Told, now: Time) {
        let Ended { ran, prompt, cached, completion } = ended;
        let Ok(at) = self.open.binary_search_by_key(&id, |open| open.id) else { return };
        if !ran {
            self.open.remove(at);
            return;
        }
        let open = &mut self.open[at];
        open.ended = Some(now);
        open.cached = cached;
        open.completion = completion;
        if let Some(run) = open.run
            && let Some(tree) = self.trees.get_mut(&run.publisher)
        {
            if let Some(prompt) = prompt {
                open.is_exact = true;
                open.count(f64::from(prompt), tree);
            }
            if open.is_plausible(false) {
                restore(open, tree, self.withdrawn, told);
            } else {
                open.unmark(tree);
                self.mismatched += 1;
                self.open.remove(at);
            }
        } else if let Some(prompt) = prompt {
            (open.tokens, open.is_exact) = (f64::from(prompt), true);
        }
        self.sweep(now);
    }

    /// Applies a change.
    pub(crate) fn apply(&mut self, publisher: u32, change: &Change, told: &mut Told, now: Time) {
        match change {
            Change::Stored { .. } => self.stored(publisher, change, told, now),
            Change::Removed { blocks } => {
                let tree = self.trees.entry(publisher).or_default();
                let before = told.withdrawn.len();
                for block in blocks {
                    tree.remove(*block, &mut told.withdrawn);
                }
                self.withdrawn += u64::from(told.withdrawn.len() > before);
            }
            Change::Cleared | Change::Restarted => {
                self.trees.entry(publisher).or_default().clear(&mut told.withdrawn);
                // With others beside it, only what is known to be of this one goes.
                told.forget |= self.trees.len() == 1;
                self.withdrawn += 1;
                if *change == Change::Restarted {
                    self.open.clear();
                }
                let is_here = |open: &Open| open.run.is_some_and(|run| run.publisher == publisher);
                self.open.retain(|open| !is_here(open));
            }
            Change::Lost => {
                self.trees.insert(publisher, Tree::default());
                // What they made the server store may be what was missed, so what comes now is not theirs.
                self.open.clear();
            }
            Change::Current => {
                self.current.insert(publisher);
            }
            Change::Ended => {
                self.trees.remove(&publisher);
                self.current.remove(&publisher);
                self.open.clear();
            }
        }
    }

    /// Forgets all blocks and requests, but not that there are events.
    pub(crate) fn forget(&mut self) {
        self.trees.values_mut().for_each(|tree| *tree = Tree::default());
        self.open.clear();
        self.withdrawn += 1;
    }

    /// What is known.
    pub(crate) fn standing(&self) -> Standing {
        Standing {
            blocks: self.trees.values().map(|tree| tree.len() as u64).sum(),
            held: self.trees.values().map(|tree| tree.held() as u64).sum(),
            attributed: self.attributed,
            unattributed: self.unattributed,
            mismatched: self.mismatched,
        }
    }

    fn stored(&mut self, publisher: u32, change: &Change, told: &mut Told, now: Time) {
        let Change::Stored { blocks, parent, block_tokens, adapter } = change else { return };
        self.sweep(now);
        let has_room = self.trees.values().map(Tree::len).sum::<usize>() + blocks.len() <= MOST_BLOCKS;
        let tree = self.trees.entry(publisher).or_default();
        let start = tree.depth_below(*parent).filter(|_| *block_tokens > 0 && has_room);
        let (Some(start), Some(tip)) = (start, blocks.last()) else {
            self.unattributed += blocks.len() as u64;
            return;
        };
        let length = u32::try_from(blocks.len()).unwrap_or(u32::MAX).saturating_mul(*block_tokens);
        let end = start.saturating_add(length);
        let stray = Stray { start, end, block_tokens: *block_tokens, adapter, above: tree.nearest_mark(*parent, WALK) };
        let owner = continued(&self.open, publisher, *parent, blocks.len(), end).map(|at| (at, false));
        let is_current = self.current.contains(&publisher);
        let owner = owner.or_else(|| first(&self.open, &stray, tree).filter(|_| is_current));
        let (mut above, mut depth) = (*parent, start);
        for block in blocks {
            tree.store(*block, above, depth, *block_tokens);
            (above, depth) = (Some(*block), depth.saturating_add(*block_tokens));
        }
        let Some((at, is_whole)) = owner else {
            self.unattributed += blocks.len() as u64;
            return;
        };
        self.attributed += blocks.len() as u64;
        let open = &mut self.open[at];
        let begin = open.run.map_or(start, |run| run.start);
        open.run = Some(Run { publisher, tip: *tip, start: begin, reach: end, block_tokens: *block_tokens });
        if is_whole && !open.is_exact {
            // All of the prompt but what does not fill a block.
            open.tokens = f64::from(end);
        }
        if open.ended.is_some() && !open.is_plausible(false) {
            open.unmark(tree);
            self.mismatched += 1;
            self.open.remove(at);
            return;
        }
        if f64::from(start) < open.tokens {
            open.mark(tree);
            restore(open, tree, self.withdrawn, told);
        }
    }

    /// Drops requests that ended a while ago, and what they were said to hold if the server never stored the rest.
    fn sweep(&mut self, now: Time) {
        if now.since(self.swept) < LINGER / 4 {
            return;
        }
        self.swept = now;
        let Self { trees, open, mismatched, .. } = self;
        open.retain(|open| {
            let is_over = open.ended.is_some_and(|ended| now.since(ended) >= LINGER);
            if is_over
                && !open.is_plausible(true)
                && let Some(tree) = open.run.and_then(|run| trees.get_mut(&run.publisher))
            {
                open.unmark(tree);
                *mismatched += 1;
            }
            !is_over
        });
    }
}

/// The request whose blocks end at `parent`, and whose run of so many blocks to `end` may be.
fn continued(open: &VecDeque<Open>, publisher: u32, parent: Option<u64>, count: usize, end: u32) -> Option<usize> {
    let parent = parent?;
    let ends_there = |open: &Open| open.run.is_some_and(|run| run.tip == parent && run.publisher == publisher);
    open.iter().position(|open| ends_there(open) && open.continues(count, end))
}

/// The oldest of the requests that the run fits best as a whole, else the oldest of which it may be a part; with whether it
/// is the whole.
fn first(open: &VecDeque<Open>, stray: &Stray<'_>, tree: &Tree) -> Option<(usize, bool)> {
    let (mut whole, mut part) = (None, None);
    let waiting = open.iter().enumerate().filter(|(_, open)| open.run.is_none());
    for (at, open) in waiting.take(LOOKED_AT) {
        match open.fit(stray, tree) {
            Some(Fit::Whole { off }) if whole.is_none_or(|(least, _)| off < least) => whole = Some((off, at)),
            Some(Fit::Part) if part.is_none() => part = Some(at),
            _ => {}
        }
    }
    whole.map(|(_, at)| (at, true)).or(part.map(|at| (at, false)))
}

/// Has the index believe again in what is there, if belief in anything ended since the dispatch.
fn restore(open: &mut Open, tree: &Tree, withdrawn: u64, told: &mut Told) {
    if open.withdrawn != withdrawn {
        open.withdrawn = withdrawn;
        let held = open.held(tree);
        if held > 0 {
            told.restored.push((Arc::clone(&open.prompt), held));
        }
    }
}
