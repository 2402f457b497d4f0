//! Why a request would go where: one path for the command line and the admin port, so that both print the same table.

use std::fmt;

use bytes::Bytes;
use serde::Serialize;
use spillway_picker::explain::Trace;

use crate::error::Refusal;
use crate::fleet::{Fleet, Live};
use crate::scan::Scanner;
use crate::select_target::Known;
use crate::surface::{Inspected, Surface};

/// A decision that was made for show: nothing was reserved.
#[derive(Debug, Serialize)]
pub struct Explanation {
    /// The API the body was read as.
    pub surface: &'static str,
    /// The model asked for.
    pub model: Option<String>,
    /// The pool it leads to.
    pub pool: String,
    /// The name sent on, where it differs.
    pub sent_on: Option<String>,
    /// Whether that is a LoRA adapter.
    pub adapter: bool,
    /// Whether the name leads to several places and this is the one of them that the conversation belongs to. Without the
    /// request's headers and key, a session header and a tenant count as absent.
    pub split: bool,
    /// The decision.
    pub decision: Trace,
}

/// Explains what would happen to `body` on `path`.
pub fn explain(fleet: &Fleet, live: &Live, path: &str, body: &Bytes) -> Result<Explanation, Refusal> {
    let surface = Surface::classify("POST", path);
    if !surface.reads_body() {
        return Err(Refusal::UnknownPath(path.to_owned()));
    }
    let bad = |error: crate::scan::ScanError| Refusal::BadBody(error.to_string());
    let mut scanner = Scanner::new();
    scanner.feed(body).map_err(bad)?;
    let scan = scanner.finish().map_err(bad)?;
    let chunks = [body.clone()];
    let inspected = Inspected::new(surface, scan, &chunks).map_err(|_| Refusal::BadModel)?;
    let mut known =
        Known { inspected: Some(&inspected), chunks: &chunks, headers: None, caller: None, random: 0, hashed: None };
    let (target, info) = known.target(live)?;
    let info = info.ok_or(Refusal::Internal)?;
    let mut trace = Trace::default();
    // An endpoint that cannot be had is part of the explanation, not a failure of it.
    let _ = target.pool.state.picker.decide(&info, target.pool.state.peek_turn(), fleet.now(), Some(&mut trace));
    Ok(Explanation {
        surface: surface.name(),
        model: inspected.model,
        pool: target.pool.state.name.to_string(),
        sent_on: target.sent_on.as_deref().map(str::to_owned),
        adapter: target.adapter,
        split: target.arm.is_some(),
        decision: trace,
    })
}

/// The API a body without a path most likely belongs to.
pub fn guess_path(body: &[u8]) -> &'static str {
    let Ok(serde_json::Value::Object(object)) = serde_json::from_slice(body) else { return "/v1/chat/completions" };
    let has = |key: &str| object.contains_key(key);
    if has("prompt") {
        "/v1/completions"
    } else if has("input") {
        if has("instructions") || has("max_output_tokens") { "/v1/responses" } else { "/v1/embeddings" }
    } else {
        "/v1/chat/completions"
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let model = self.model.as_deref().unwrap_or("(none given)");
        write!(out, "{} for model {model} -> pool {}", self.surface, self.pool)?;
        if let Some(name) = &self.sent_on {
            write!(out, ", sent on as {name}")?;
        }
        if self.adapter {
            write!(out, " (LoRA adapter)")?;
        }
        if self.split {
            write!(out, " (one arm of a split)")?;
        }
        writeln!(out)?;
        write!(out, "{}", self.decision)
    }
}
