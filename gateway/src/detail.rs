//! What an error of Pingora's says to the operator, without what was being read when it happened.
//!
//! Where Pingora cannot parse a head it quotes all of it, and a broken endpoint may have written a completion, a prompt or a
//! key there. Logs hold none of these.

use std::fmt::Write as _;

use pingora_core::{BError, Error, ErrorType};

/// Longest detail, in bytes. Causes are a few words each.
const LONGEST: usize = 512;

/// The error and its causes, outermost first.
pub fn of(error: &Error) -> String {
    let mut text = String::new();
    let mut next = Some(error);
    while let Some(error) = next.take() {
        if !text.is_empty() {
            text.push_str(": ");
        }
        text.push_str(error.etype().as_str());
        if let Some(context) = error.context.as_ref().filter(|_| !quotes(error)) {
            let _ = write!(text, " ({})", context.as_str());
        }
        match error.cause.as_ref().map(|cause| (cause, cause.downcast_ref::<BError>())) {
            Some((_, Some(inner))) => next = Some(inner),
            Some((cause, None)) => {
                let _ = write!(text, ": {cause}");
            }
            None => {}
        }
    }
    if text.len() > LONGEST {
        let end = (0..=LONGEST).rev().find(|at| text.is_char_boundary(*at)).unwrap_or_default();
        text.truncate(end);
        text.push_str("...");
    }
    text
}

/// Whether the context may hold bytes of a peer.
fn quotes(error: &Error) -> bool {
    *error.etype() == ErrorType::InvalidHTTPHeader
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_read_is_not_told() {
        let cause = Error::because(ErrorType::InvalidHTTPHeader, "buf: SECRET", std::fmt::Error);
        let error = Error::because(ErrorType::ReadError, "when reading the head", cause);
        let told = of(&error);
        assert!(!told.contains("SECRET"), "{told}");
        assert!(told.starts_with("ReadError (when reading the head): InvalidHTTPHeader: "), "{told}");
    }

    #[test]
    fn it_has_a_bound() {
        let error = Error::explain(ErrorType::ReadError, "\u{e9}".repeat(10_000));
        assert!(of(&error).len() < LONGEST + 10);
    }
}
