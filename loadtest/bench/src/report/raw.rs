//! Each request of a run, compressed: what percentiles can be computed from again.

use std::fs::{self, File};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result};
use flate2::Compression;
use flate2::write::GzEncoder;
use serde::Serialize;

use crate::matrix::Row;
use crate::virtual_time::Run;
use crate::workload::Trace;

/// A request; times in microseconds, empty when it did not come to it.
#[derive(Serialize)]
struct Line {
    request: usize,
    sent: u64,
    ttft: Option<u64>,
    whole: Option<u64>,
    endpoint: Option<usize>,
    prompt: u32,
    cached: u32,
    output: u32,
}

/// Writes the requests of a run to a file of its own in a folder.
pub fn write(folder: &Path, row: &Row, run: &Run, trace: &Trace) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let plain = |text: &str| text.replace(|c: char| !c.is_alphanumeric() && c != '.', "-");
    let name = format!("{}_{}_{}.csv.gz", plain(&row.scenario), plain(&row.load), row.policy);
    let path = folder.join(name);
    write_lines(&path, run, trace).with_context(|| format!("cannot write {}", path.display()))
}

fn write_lines(path: &Path, run: &Run, trace: &Trace) -> Result<()> {
    let file = GzEncoder::new(File::create(path)?, Compression::best());
    let mut writer = csv::Writer::from_writer(file);
    let us = |time: Duration| time.as_micros() as u64;
    for outcome in &run.outcomes {
        let since = |time: Duration| us(time.saturating_sub(outcome.sent));
        writer.serialize(Line {
            request: outcome.request,
            sent: us(outcome.sent),
            ttft: outcome.first.map(since),
            whole: outcome.last.filter(|_| outcome.completed).map(since),
            endpoint: outcome.endpoint,
            prompt: trace.prompt_tokens(&trace.requests[outcome.request]),
            cached: outcome.cached,
            output: outcome.tokens,
        })?;
    }
    writer.into_inner().map_err(csv::IntoInnerError::into_error)?.finish()?;
    Ok(())
}
