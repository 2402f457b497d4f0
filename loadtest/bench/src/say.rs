//! What is said on standard output.

use std::io::{self, Write as _};

use anyhow::{Context as _, Result};

/// Prints a text and ends the line. Whoever reads it may have seen enough, which is no error.
pub fn say(text: &str) -> Result<()> {
    match writeln!(io::stdout().lock(), "{text}") {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written.context("cannot write to standard output"),
    }
}
