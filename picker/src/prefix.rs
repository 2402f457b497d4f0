//! Turns the text of a prompt into chained block hashes and a ring key, while the request body arrives.
//!
//! Two prompts that begin with the same text, cut into roles and fields at the same places, get the same leading
//! hashes, however the body was cut into pieces on the way. The one thing to know: marks are *not* bytes in the
//! stream. A mark is folded into the hash of its block together with the place where it stood, so no text can imitate
//! one, and marks do not move the block grid. Only hashes leave this module; the text is never kept beyond the block
//! that is being filled.

mod grid;
mod mark;
#[cfg(test)]
mod tests;

use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

pub use grid::block_end;
pub use mark::{Mark, Role};

pub(crate) use grid::block_bytes;
use mark::Seam;

/// A head (tools and system text) of at least this many bytes gives the ring key alone. Below it, heads are greetings
/// and one-line instructions that too many unrelated chats share.
const MIN_HEAD_BYTES: u64 = 1024;

/// The shortest prefix of a plain prompt that is worth a ring key of its own; deeper cuts double from here.
const MIN_PLAIN_BYTES: u64 = 512;

/// Stream bytes that a token id takes: about the length of a token's text, so depths mean the same for both.
const TOKEN_ID_BYTES: u64 = 4;

/// Stream bytes that a medium takes: the smallest block, so that an image shows in a block hash as soon as it is seen
/// even when the text around it is one short question.
const MEDIUM_BYTES: u64 = 256;

/// How deep prompts are hashed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Depths {
    /// The ring key never looks deeper than this, in bytes (`affinity.ring_depth`). Zero: no ring key from text.
    pub ring_depth: usize,
    /// Nothing past this is hashed, in bytes (`affinity.max`).
    pub max: usize,
}

impl Default for Depths {
    /// 4 KiB: a system prompt and some of the first question. 1 MiB: about 250,000 tokens, more than most contexts.
    fn default() -> Self {
        Self { ring_depth: 4096, max: 1 << 20 }
    }
}

/// What is known of a prompt once its body has been read. Hashes and counts, never text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prompt {
    /// Chained hashes of the full blocks, first block first; block `i` ends at [`block_end`]`(i)`. A last, partly
    /// filled block has no hash.
    pub blocks: Vec<u64>,
    /// What the consistent-hash ring is asked for. `None` when the prompt is empty.
    pub ring_key: Option<u64>,
    /// Bytes of decoded text, hashed or not. Media and token ids count nothing here.
    pub bytes: u64,
    /// Of these, bytes of 0x80 and above: many of them mean CJK and kin, which take more tokens per byte. Bytes
    /// reported by [`PrefixHasher::skipped`] are not looked at.
    pub wide_bytes: u64,
    /// Images, audio and files.
    pub media: u32,
    /// Tokens that the client sent as ids.
    pub token_ids: u64,
}

impl Prompt {
    /// The share of the prompt, in [0, 1], that its first `blocks` blocks cover. An empty prompt gives 0.
    ///
    /// Multiply by the estimated tokens of the prompt to get the tokens those blocks stand for.
    pub fn share(&self, blocks: usize) -> f64 {
        match blocks.min(self.blocks.len()) {
            0 => 0.0,
            matched => (block_end(matched - 1) as f64 / self.length().max(1) as f64).min(1.0),
        }
    }

    /// The prompt's length in the measure of [`block_end`]: bytes of text, and what token ids and media stand for.
    pub fn length(&self) -> u64 {
        self.bytes + self.token_ids * TOKEN_ID_BYTES + u64::from(self.media) * MEDIUM_BYTES
    }
}

/// Hashes one prompt as its text is decoded.
///
/// Feed the prompt in canonical order (tools; system or instructions; then each message with its role, content parts
/// and tool calls), put a [`Mark`] before everything the text alone would run together, and call [`finish`]. A block
/// that lies whole inside one piece of text is hashed where it is; only a partly filled block is copied, at most 4 KiB.
///
/// [`finish`]: PrefixHasher::finish
#[derive(Clone, Debug)]
pub struct PrefixHasher {
    ring_depth: u64,
    max: u64,
    /// Place in the stream, in bytes.
    position: u64,
    /// Chained hash of all full blocks; 0 before the first.
    chain: u64,
    /// Digest of the marks since the last full block; 0 when there are none.
    marks: u64,
    /// The partly filled block.
    partial: Vec<u8>,
    feeding: Feeding,
    at_ring_depth: Option<u64>,
    head: Option<Cut>,
    first_user: Option<Cut>,
    prompt: Prompt,
}

/// Hash of everything before a place in the stream.
#[derive(Clone, Copy, Debug)]
struct Cut {
    depth: u64,
    digest: u64,
}

/// Text and token ids share the stream; a seam is recorded where one turns into the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Feeding {
    Text,
    TokenIds,
}

impl PrefixHasher {
    /// Starts a prompt. Allocates nothing.
    pub fn new(depths: Depths) -> Self {
        Self {
            ring_depth: depths.ring_depth as u64,
            max: depths.max as u64,
            position: 0,
            chain: 0,
            marks: 0,
            partial: Vec::new(),
            feeding: Feeding::Text,
            at_ring_depth: None,
            head: None,
            first_user: None,
            prompt: Prompt::default(),
        }
    }

    /// Separates what follows from what came before. Adds no length.
    pub fn mark(&mut self, mark: Mark) {
        self.seam(Seam::Mark(mark));
    }

    /// Adds decoded text. Pieces may be cut anywhere, inside characters too: only their concatenation counts.
    pub fn text(&mut self, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        self.prompt.bytes += bytes.len() as u64;
        self.prompt.wide_bytes += count_wide(bytes);
        self.turn_to(Feeding::Text);
        self.feed(bytes);
    }

    /// Adds an image, a sound or a file by the hash of its bytes.
    pub fn media(&mut self, payload_hash: u64) {
        self.prompt.media = self.prompt.media.saturating_add(1);
        self.seam(Seam::Medium);
        for _ in 0..MEDIUM_BYTES / 8 {
            self.feed(&payload_hash.to_le_bytes());
        }
    }

    /// Adds one token that the client sent as an id.
    pub fn token_id(&mut self, id: u64) {
        self.prompt.token_ids += 1;
        self.turn_to(Feeding::TokenIds);
        if id > u64::from(u32::MAX) {
            self.seam(Seam::WideTokenId(id >> 32));
        }
        self.feed(&id.to_le_bytes()[..TOKEN_ID_BYTES as usize]);
    }

    /// Tools, system text and instructions end here; only the first call counts. Call it before the mark of the first other message.
    pub fn head_ends(&mut self) {
        self.head = self.head.or_else(|| Some(self.cut()));
    }

    /// The first message of the user ends here. Only the first call counts.
    pub fn first_user_ends(&mut self) {
        self.first_user = self.first_user.or_else(|| Some(self.cut()));
    }

    /// Whether `affinity.max` is reached. Further text only counts, so callers may stop decoding and report lengths
    /// to [`skipped`](Self::skipped) instead.
    pub fn is_full(&self) -> bool {
        self.position >= self.max
    }

    /// Counts text that was not decoded because the hasher is full.
    pub fn skipped(&mut self, bytes: usize) {
        self.prompt.bytes += bytes as u64;
    }

    /// Identity of the conversation so far: the hash of everything up to the end of the first message of the user, which
    /// all its turns repeat; of the whole of a prompt that has no such message. `None` for an empty prompt. Independent of
    /// the model, unlike everything that [`finish`](Self::finish) returns.
    pub fn conversation(&self) -> Option<u64> {
        let cut = self.first_user.unwrap_or_else(|| self.cut());
        (cut.depth > 0).then_some(cut.digest)
    }

    /// Ends the prompt.
    ///
    /// `scope` (see [`scope`]) is mixed into every hash, last, because the model may stand at the end of the body.
    /// `explicit_key` is `prompt_cache_key` or a session header; it wins over the text unless it is empty.
    pub fn finish(self, scope: u64, explicit_key: Option<&[u8]>) -> Prompt {
        let scoped = |hash: u64| xxh3_64_with_seed(&hash.to_le_bytes(), scope);
        let ring_key = match explicit_key {
            Some(key) if !key.is_empty() => Some(xxh3_64_with_seed(key, EXPLICIT_KEY_SEED)),
            _ => self.text_key(),
        };
        let mut prompt = self.prompt;
        prompt.ring_key = ring_key.map(scoped);
        for hash in &mut prompt.blocks {
            *hash = scoped(*hash);
        }
        prompt
    }

    /// The hash of as much text as prompts of one kind share, before the scope is mixed in: the head if it is long
    /// enough to tell kinds apart, else up to the end of the first user message, which all turns of a chat repeat.
    fn text_key(&self) -> Option<u64> {
        let end = self.cut();
        let cut = match (self.head, self.first_user) {
            (Some(head), _) if head.depth >= MIN_HEAD_BYTES => head,
            (_, Some(first_user)) => first_user,
            (Some(_), None) => end,
            (None, None) => self.plain_cut().unwrap_or(end),
        };
        match cut.depth.min(self.ring_depth) {
            0 => None,
            depth if depth == cut.depth => Some(cut.digest),
            _ => self.at_ring_depth,
        }
    }

    /// The deepest of 512, 1,024, 2,048, ... bytes that the prompt and `ring_depth` reach: prompts made from one
    /// template meet at such a depth, while their ends differ. `None` for a prompt under 512 bytes, which is then
    /// keyed whole: repeats of it still meet, and anything less would be a guess about where the template ends.
    fn plain_cut(&self) -> Option<Cut> {
        let reach = self.position.min(self.ring_depth);
        let depth = 1 << reach.checked_ilog2()?;
        // Every such depth is the end of a block, so its hash is known.
        let block = grid::block_ending_at(depth).filter(|_| depth >= MIN_PLAIN_BYTES)?;
        self.prompt.blocks.get(block).map(|&digest| Cut { depth, digest })
    }

    fn cut(&self) -> Cut {
        Cut { depth: self.position, digest: digest(self.chain, self.marks, &self.partial) }
    }

    fn turn_to(&mut self, feeding: Feeding) {
        if self.feeding != feeding {
            self.feeding = feeding;
            self.seam(match feeding {
                Feeding::Text => Seam::Text,
                Feeding::TokenIds => Seam::TokenIds,
            });
        }
    }

    fn seam(&mut self, seam: Seam) {
        let (code, value) = seam.encode();
        let place = (self.partial.len() as u64) << 16 | u64::from(code);
        self.marks = hash_words([self.marks, place, value]);
    }

    /// Adds bytes to the stream, up to `max`, and keeps the digest at `ring_depth` when they pass it.
    fn feed(&mut self, bytes: &[u8]) {
        let room = self.max.saturating_sub(self.position).min(bytes.len() as u64) as usize;
        let bytes = &bytes[..room];
        let to_ring_depth = self.ring_depth.saturating_sub(self.position);
        if to_ring_depth == 0 || to_ring_depth > bytes.len() as u64 {
            return self.absorb(bytes);
        }
        let (shallow, deep) = bytes.split_at(to_ring_depth as usize);
        self.absorb(shallow);
        self.at_ring_depth = Some(self.cut().digest);
        self.absorb(deep);
    }

    fn absorb(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let size = block_bytes(self.prompt.blocks.len());
            if self.partial.is_empty() && bytes.len() >= size {
                let (block, rest) = bytes.split_at(size);
                self.chain = digest(self.chain, self.marks, block);
                bytes = rest;
                self.position += size as u64;
            } else {
                let (taken, rest) = bytes.split_at(bytes.len().min(size - self.partial.len()));
                self.partial.extend_from_slice(taken);
                bytes = rest;
                self.position += taken.len() as u64;
                if self.partial.len() < size {
                    return;
                }
                self.chain = digest(self.chain, self.marks, &self.partial);
                self.partial.clear();
            }
            self.marks = 0;
            self.prompt.blocks.push(self.chain);
        }
    }
}

/// Seed of explicit keys, so that a key equal to some hashed text is not that text. Any fixed odd number would do.
const EXPLICIT_KEY_SEED: u64 = 0x9e37_79b9_7f4a_7c15;

/// Hash of all that two prompts must have in common before a shared text means a shared cache: the model or adapter
/// that the server is asked for, the tenant's cache scope, and the request's `cache_salt`.
pub fn scope(model: &str, tenant: &str, salt: Option<&str>) -> u64 {
    let salt = salt.map_or(0, |salt| xxh3_64_with_seed(salt.as_bytes(), 1));
    hash_words([xxh3_64(model.as_bytes()), xxh3_64(tenant.as_bytes()), salt])
}

/// Hash of everything up to here: the blocks before, the marks since, and the bytes since. At the end of a block with
/// no mark after it this is the block's own hash, so a prefix has one digest whatever it was cut for.
fn digest(chain: u64, marks: u64, since: &[u8]) -> u64 {
    if since.is_empty() && marks == 0 { chain } else { hash_words([chain, marks, text_hash(since)]) }
}

fn hash_words(words: [u64; 3]) -> u64 {
    let mut bytes = [0; 24];
    for (place, word) in bytes.chunks_exact_mut(8).zip(words) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    xxh3_64(&bytes)
}

/// The hash of a stretch of text. The smallest full block, which most blocks are, is one byte too long for the short way
/// of xxh3 and too short to pay for its long one: in two halves it takes half the time.
fn text_hash(bytes: &[u8]) -> u64 {
    /// What the short way takes at its fastest.
    const HALF: usize = 128;
    if bytes.len() == 2 * HALF {
        let (first, second) = bytes.split_at(HALF);
        return xxh3_64_with_seed(second, xxh3_64(first));
    }
    xxh3_64(bytes)
}

/// Bytes of 0x80 and above. Adds up their top bits in one counter per place in a block, which vectors do at once, because
/// this pass runs over every prompt and a plain count is several times slower.
fn count_wide(bytes: &[u8]) -> u64 {
    const BLOCK: usize = 16;
    /// A counter holds eight bits, so it must be emptied before 256 additions.
    const RUN: usize = u8::MAX as usize;
    let (blocks, rest) = bytes.as_chunks::<BLOCK>();
    let mut count = rest.iter().filter(|byte| **byte >= 0x80).count() as u64;
    for run in blocks.chunks(RUN) {
        let mut counters = [0_u8; BLOCK];
        for block in run {
            for (counter, byte) in counters.iter_mut().zip(block) {
                *counter += byte >> 7;
            }
        }
        count += counters.iter().map(|counter| u64::from(*counter)).sum::<u64>();
    }
    count
}
