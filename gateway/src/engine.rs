//! Reads what a model server says of itself: its metrics page and its list of models.
//!
//! All of it is pure: bytes in, facts out. What a page does not say is `None`, never zero: a server that has just
//! started, one that hides a family behind a flag, and one that is idle look alike only to careless readers.

mod adapters;
mod gather;
pub mod models;
mod names;
pub mod page;
#[cfg(test)]
mod tests;

use spillway_picker::facts::Facts;
use thiserror::Error;

use page::{Page, PageError};

/// A model server whose metrics page is understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Engine {
    /// vLLM, with its Python or its Rust frontend.
    Vllm,
    /// The server of llama.cpp, started with `--metrics`.
    LlamaCpp,
}

/// Every engine, in the order in which a page is tried on them.
pub const ENGINES: &[Engine] = &[Engine::Vllm, Engine::LlamaCpp];

/// Why a scraped body gave no facts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ReadError {
    /// The body is no metrics page.
    #[error(transparent)]
    Page(#[from] PageError),
    /// It is one, but no engine's: empty, or with other names only.
    #[error("metrics page has no series of a known engine")]
    UnknownEngine,
}

impl Engine {
    /// Returns the engine of this name, as the configuration spells it.
    pub fn named(name: &str) -> Option<Self> {
        ENGINES.iter().copied().find(|engine| engine.as_str() == name)
    }

    /// Returns the name used in configuration, logs and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Vllm => "vllm",
            Self::LlamaCpp => "llamacpp",
        }
    }

    /// Returns the engine whose series are on this page; `None` when there are none, as on a page of a server that has
    /// only just started.
    pub fn detect(page: &Page<'_>) -> Option<Self> {
        page.samples().find_map(|sample| ENGINES.iter().copied().find(|engine| engine.names().owns(sample.name())))
    }

    /// Returns what the page says. The order of its lines does not matter, and a family that is not on it is `None`.
    pub fn facts(self, page: &Page<'_>) -> Facts {
        gather::facts(self.names(), page)
    }
}

/// Reads one scraped body, which was de-chunked and decompressed before. `engine` is `None` to find out by the page.
pub fn read(body: &[u8], engine: Option<Engine>) -> Result<(Engine, Facts), ReadError> {
    let page = page::parse(body)?;
    let engine = engine.or_else(|| Engine::detect(&page)).ok_or(ReadError::UnknownEngine)?;
    Ok((engine, engine.facts(&page)))
}

/// Entry for a fuzzer: any bytes as a page and as a list of models.
#[doc(hidden)]
pub fn fuzz(data: &[u8]) {
    for engine in [None, Some(Engine::Vllm), Some(Engine::LlamaCpp)] {
        let _ = read(data, engine);
    }
    if let Ok(page) = page::parse(data) {
        for sample in page.samples() {
            let _ = (sample.value(), sample.label("engine"), sample.label(""));
        }
    }
    let _ = models::parse(data);
}
