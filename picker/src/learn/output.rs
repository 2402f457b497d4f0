//! How long answers are, by who asks which model.

use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Tokens of an answer before anything is known: a few paragraphs of chat.
const UNKNOWN_TOKENS: f32 = 256.0;

/// Rows of the table: more pairs of tenant and model than are busy at one time, in 64 KiB.
const ROWS: usize = 4096;

/// Places a pair may be kept in.
const WAYS: usize = 4;

/// Answers after which a mean follows new ones no more slowly.
const MEMORY: u32 = 50;

/// Answers that the mean over everyone counts for, against a pair's own.
const SHARED_WEIGHT: f32 = 4.0;

#[derive(Clone, Copy, Debug, Default)]
struct Row {
    pair: u64,
    mean: f32,
    answers: u32,
}

impl Row {
    fn observe(&mut self, tokens: f32) {
        self.answers = (self.answers + 1).min(MEMORY);
        self.mean += (tokens - self.mean) / self.answers as f32;
    }
}

/// Mean output tokens for each tenant and model, in a table of fixed size. When it is full, the pair seen least among
/// four makes room: it falls back on the mean over everyone.
#[derive(Clone, Debug)]
pub struct OutputMean {
    rows: Box<[Row]>,
    everyone: Row,
}

impl Default for OutputMean {
    fn default() -> Self {
        let everyone = Row { pair: 0, mean: UNKNOWN_TOKENS, answers: 1 };
        Self { rows: vec![Row::default(); ROWS].into(), everyone }
    }
}

impl OutputMean {
    /// Takes the length of a complete answer.
    pub fn observe(&mut self, tenant: u64, model: &str, tokens: u32) {
        let tokens = tokens as f32;
        self.everyone.observe(tokens);
        let pair = pair(tenant, model);
        let ways = &mut self.rows[Self::ways(pair)];
        let at = ways.iter().position(|row| row.pair == pair).unwrap_or_else(|| {
            // Each newcomer wears the others down, or the busy pairs of last week would hold their rows for ever.
            let mut least = 0;
            for at in 0..WAYS {
                ways[at].answers = ways[at].answers.saturating_sub(1);
                if ways[at].answers < ways[least].answers {
                    least = at;
                }
            }
            ways[least] = Row { pair, mean: 0.0, answers: 0 };
            least
        });
        ways[at].observe(tokens);
    }

    /// Expected output tokens, at most `max_tokens`. A pair of which little is known is taken to be much like the rest.
    pub fn expected(&self, tenant: u64, model: &str, max_tokens: Option<u32>) -> f64 {
        let pair = pair(tenant, model);
        let own = self.rows[Self::ways(pair)].iter().find(|row| row.pair == pair).copied().unwrap_or_default();
        let answers = own.answers as f32;
        let mean = (own.mean * answers + self.everyone.mean * SHARED_WEIGHT) / (answers + SHARED_WEIGHT);
        f64::from(mean).min(max_tokens.map_or(f64::INFINITY, f64::from))
    }

    fn ways(pair: u64) -> std::ops::Range<usize> {
        let first = pair as usize % (ROWS / WAYS) * WAYS;
        first..first + WAYS
    }
}

/// One number for both; never that of an empty row.
fn pair(tenant: u64, model: &str) -> u64 {
    xxh3_64_with_seed(model.as_bytes(), tenant).max(1)
}
