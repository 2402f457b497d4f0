//! Token counts as servers report them.
//!
//! The servers differ in what "input" means: for OpenAI's surfaces it is the whole prompt, for Messages the part that
//! was not read from or written to a cache. [`Usage`] always has the whole.

use super::place::Place;

/// Token counts of one request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Tokens of the whole prompt, the cached ones included.
    pub prompt: Option<u32>,
    /// Tokens of the prompt that were served from the prefix cache.
    pub cached: Option<u32>,
    /// Tokens generated. With several choices, of all of them.
    pub completion: Option<u32>,
}

impl Usage {
    /// Returns what was told, each with the name by which metrics know it.
    pub fn by_kind(self) -> impl Iterator<Item = (&'static str, u64)> {
        let kinds = [("prompt", self.prompt), ("cached", self.cached), ("completion", self.completion)];
        kinds.into_iter().filter_map(|(kind, tokens)| Some((kind, u64::from(tokens?))))
    }
}

/// The numbers as they stand in the reply.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    prompt: Option<u32>,
    completion: Option<u32>,
    cached: Option<u32>,
    cache_read: Option<u32>,
    cache_written: Option<u32>,
}

impl Counts {
    /// Takes note of a number; `null` and what is no count is no news.
    pub(super) fn note(&mut self, place: Place, scalar: &[u8]) {
        let slot = match place {
            Place::PromptTokens => &mut self.prompt,
            Place::CompletionTokens => &mut self.completion,
            Place::CachedTokens => &mut self.cached,
            Place::CacheReadTokens => &mut self.cache_read,
            Place::CacheWrittenTokens => &mut self.cache_written,
            _ => return,
        };
        *slot = count(scalar).or(*slot);
    }

    /// Takes over what `later` knows. Counts are running totals in every dialect: the last one stands, none are added.
    pub(super) fn update(&mut self, later: Self) {
        let Self { prompt, completion, cached, cache_read, cache_written } = later;
        self.prompt = prompt.or(self.prompt);
        self.completion = completion.or(self.completion);
        self.cached = cached.or(self.cached);
        self.cache_read = cache_read.or(self.cache_read);
        self.cache_written = cache_written.or(self.cache_written);
    }

    pub(super) fn usage(self) -> Usage {
        let beside = self.cache_read.unwrap_or(0).saturating_add(self.cache_written.unwrap_or(0));
        Usage {
            prompt: self.prompt.map(|rest| rest.saturating_add(beside)),
            cached: self.cached.or(self.cache_read),
            completion: self.completion,
        }
    }
}

/// Reads a whole number; some servers write counts as `3.0`.
fn count(scalar: &[u8]) -> Option<u32> {
    let text = std::str::from_utf8(scalar).ok()?;
    text.parse().ok().or_else(|| {
        let number: f64 = text.parse().ok()?;
        (number >= 0.0 && number <= f64::from(u32::MAX) && number.fract() == 0.0).then_some(number as u32)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_whole_numbers_or_unknown() {
        for (text, expected) in [
            ("15", Some(15)),
            ("15.0", Some(15)),
            ("1e3", Some(1000)),
            ("0", Some(0)),
            ("4294967295", Some(u32::MAX)),
            ("4294967296", None),
            ("-1", None),
            ("1.5", None),
            ("NaN", None),
            ("null", None),
            ("", None),
        ] {
            assert_eq!(count(text.as_bytes()), expected, "{text:?}");
        }
    }
}
