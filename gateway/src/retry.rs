//! Whether a failed attempt is followed by another: one pure function.
//!
//! The rule that stands above all others: never after a byte of a response went to the client.

use crate::patience::Expired;

/// What went wrong with an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// No connection: nothing was sent.
    Connect,
    /// A kept-alive connection turned out to be dead. Servers close idle connections; that is nobody's fault.
    StaleConnection,
    /// A fresh connection broke.
    Reset,
    /// A deadline passed.
    Expired(Expired),
    /// The client went away.
    ClientGone,
    /// The client's headers cannot be passed on.
    Malformed,
    /// Anything else, such as a response that is not HTTP.
    Other,
}

impl Failure {
    /// The `reason` label of `spillway_retries_total`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Connect => "connect",
            Self::StaleConnection => "stale_connection",
            Self::Reset => "reset",
            Self::Expired(Expired::FirstByte) => "first_byte_timeout",
            Self::Expired(Expired::Gap) => "gap_timeout",
            Self::Expired(Expired::Total) => "total_timeout",
            Self::ClientGone => "client_gone",
            Self::Malformed => "malformed",
            Self::Other => "other",
        }
    }
}

/// What to do about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Try the same endpoint once more, on a fresh connection.
    Again,
    /// Try another endpoint.
    Elsewhere,
    /// Give up.
    Stop,
}

/// What the decision rests on.
#[derive(Clone, Copy, Debug)]
pub struct Situation {
    /// What went wrong.
    pub failure: Failure,
    /// Whether a response byte went to the client.
    pub response_began: bool,
    /// Attempts made so far, this one included; second tries after a stale connection do not count.
    pub attempts: u32,
    /// The pool's `retries.attempts`: most attempts for one request.
    pub most_attempts: u32,
    /// Whether this attempt was itself the second try after a stale connection.
    pub was_again: bool,
}

/// Decides.
pub fn verdict(situation: Situation) -> Verdict {
    let Situation { failure, response_began, attempts, most_attempts, was_again } = situation;
    if response_began {
        return Verdict::Stop;
    }
    match failure {
        Failure::StaleConnection if !was_again => Verdict::Again,
        Failure::Connect | Failure::Reset | Failure::StaleConnection | Failure::Expired(Expired::FirstByte)
            if attempts < most_attempts =>
        {
            Verdict::Elsewhere
        }
        _ => Verdict::Stop,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Failure; 9] = [
        Failure::Connect,
        Failure::StaleConnection,
        Failure::Reset,
        Failure::Expired(Expired::FirstByte),
        Failure::Expired(Expired::Gap),
        Failure::Expired(Expired::Total),
        Failure::ClientGone,
        Failure::Malformed,
        Failure::Other,
    ];

    fn first(failure: Failure) -> Situation {
        Situation { failure, response_began: false, attempts: 1, most_attempts: 3, was_again: false }
    }

    #[test]
    fn nothing_is_retried_once_the_response_began() {
        for failure in ALL {
            let began = Situation { response_began: true, ..first(failure) };
            assert_eq!(verdict(began), Verdict::Stop, "{failure:?}");
        }
    }

    #[test]
    fn a_stale_connection_gets_one_fresh_try_at_the_same_endpoint() {
        let stale = first(Failure::StaleConnection);
        assert_eq!(verdict(stale), Verdict::Again);
        assert_eq!(verdict(Situation { was_again: true, ..stale }), Verdict::Elsewhere);
    }

    #[test]
    fn a_client_that_left_and_a_spent_total_end_it() {
        for failure in [Failure::ClientGone, Failure::Malformed, Failure::Expired(Expired::Total), Failure::Other] {
            assert_eq!(verdict(first(failure)), Verdict::Stop, "{failure:?}");
        }
    }

    #[test]
    fn attempts_are_bounded() {
        let last = Situation { attempts: 3, ..first(Failure::Connect) };
        assert_eq!(verdict(last), Verdict::Stop);
        assert_eq!(verdict(first(Failure::Connect)), Verdict::Elsewhere);
    }
}
