//! Reads what a model server says of itself: its metrics page and its list of models.
//!
//! All of it is pure: bytes in, facts out. What a page does not say is `None`, never zero: a server that has just
//! started, one that hides a family behind a flag, and one that is idle look alike only to careless readers.

mod adapters;
mod gather;
pub mod models;
mod names;
pub mod page;
mod series;
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
    /// SGLang, started with `--enable-metrics`.
    Sglang,
    /// TensorRT-LLM behind `trtllm-serve`, with `return_perf_metrics` and `enable_iter_perf_stats`.
    TrtLlm,
    /// TensorRT-LLM behind Triton.
    Triton,
    /// Text Generation Inference.
    Tgi,
    /// The server of llama.cpp, started with `--metrics`.
    LlamaCpp,
    /// `LMDeploy`, started with `--enable-metrics`.
    LmDeploy,
}

/// Every engine, in the order that decides where a page has series of several: those that are run inside other servers
/// come first.
pub const ENGINES: &[Engine] =
    &[Engine::Vllm, Engine::Sglang, Engine::TrtLlm, Engine::Triton, Engine::Tgi, Engine::LlamaCpp, Engine::LmDeploy];

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
            Self::Sglang => "sglang",
            Self::TrtLlm => "trtllm",
            Self::Triton => "triton",
            Self::Tgi => "tgi",
            Self::LlamaCpp => "llamacpp",
            Self::LmDeploy => "lmdeploy",
        }
    }

    /// Returns the engine whose series are on this page; `None` when there are none, as on the page of a server that has
    /// only just started, or of one that is no engine.
    ///
    /// A page may have series of several, when one server passes on the metrics of another. Then one whose table knows a
    /// series comes before one that only has the right prefix, and the order of [`ENGINES`] decides between equals: never
    /// the order of the lines.
    pub fn detect(page: &Page<'_>) -> Option<Self> {
        let mut best: Option<(bool, usize)> = None;
        for sample in page.samples() {
            let own = |engine: &Self| Some(!engine.names().tells(engine.names().strip(sample.name())?));
            let found = ENGINES.iter().enumerate().find_map(|(order, engine)| Some((own(engine)?, order)));
            best = [best, found].into_iter().flatten().min();
            if best == Some((false, 0)) {
                break;
            }
        }
        best.map(|(_, order)| ENGINES[order])
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
    let _ = read(data, None);
    if let Ok(page) = page::parse(data) {
        for engine in ENGINES {
            let _ = engine.facts(&page);
        }
        for sample in page.samples() {
            let _ = (sample.value(), sample.label("engine"), sample.label(""), sample.labels().count());
        }
    }
    let _ = models::parse(data);
}
