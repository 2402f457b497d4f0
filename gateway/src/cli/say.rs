//! Answers on standard output.

use std::fmt::Display;
use std::io::{self, Write as _};

use anyhow::Context as _;

/// Prints a text as it stands. Whoever reads it may have seen enough (`spillway schema | head`), which is no error.
pub(crate) fn say(text: impl Display) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    match write!(out, "{text}").and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written.context("cannot write to standard output"),
    }
}
