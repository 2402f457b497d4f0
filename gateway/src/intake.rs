//! Taking a request in: the checks that need only its head, and its body read whole ahead of the pick.

use std::time::{Duration, Instant};

use http::HeaderMap;
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, EXPECT, HOST, TRANSFER_ENCODING};
use pingora_core::protocols::http::ServerSession;
use pingora_core::{Error, ErrorType};
use pingora_http::RequestHeader;
use pingora_proxy::Session;

use crate::body::BodyBuffer;
use crate::budget::{Budget, Share};
use crate::config::Limits;
use crate::error::Refusal;

/// Why a body could not be taken in.
pub enum IntakeError {
    /// Answer with this.
    Refused(Refusal),
    /// The client is gone, or sends what is not HTTP.
    Broken(Box<Error>),
}

impl From<Refusal> for IntakeError {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

/// Refuses heads that a well-meant client never sends, because two parsers could read them differently.
pub fn check_head(head: &RequestHeader, limits: &Limits) -> Result<(), Refusal> {
    let headers = &head.headers;
    let is_h1 = head.version < http::Version::HTTP_2;
    let size = head.raw_path().len()
        + headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 4).sum::<usize>();
    if size as u64 > limits.headers {
        return Err(Refusal::HeadersTooLarge(limits.headers));
    }
    if head.version == http::Version::HTTP_11 && !headers.contains_key(HOST) {
        return Err(Refusal::BadRequest("the Host header is missing"));
    }
    let mut codings = headers.get_all(TRANSFER_ENCODING).iter();
    let is_chunked = |coding: &http::HeaderValue| coding.as_bytes().eq_ignore_ascii_case(b"chunked");
    if is_h1 && codings.next().is_some_and(|coding| !is_chunked(coding) || codings.next().is_some()) {
        return Err(Refusal::BadRequest("Transfer-Encoding must be chunked"));
    }
    Ok(())
}

/// Refuses a body with two framings. Pingora drops the length before any hook can see it; the head as it came has both.
pub fn check_framing(session: &ServerSession) -> Result<(), Refusal> {
    if !session.req_header().headers.contains_key(TRANSFER_ENCODING) {
        return Ok(());
    }
    let Some(session) = session.as_http1() else { return Ok(()) };
    let head = session.get_headers_raw_bytes();
    let is_length = |line: &[u8]| {
        let name = line.split(|byte| *byte == b':').next().unwrap_or_default();
        name.eq_ignore_ascii_case(CONTENT_LENGTH.as_str().as_bytes())
    };
    if head.split(|byte| *byte == b'\n').any(is_length) {
        return Err(Refusal::BadRequest("both Content-Length and Transfer-Encoding are given"));
    }
    Ok(())
}

/// Whether the body is in a form the scanner can read.
pub fn check_encoding(headers: &HeaderMap) -> Result<(), Refusal> {
    let plain = |value: &http::HeaderValue| {
        let value = value.as_bytes().trim_ascii();
        value.is_empty() || value.eq_ignore_ascii_case(b"identity")
    };
    if headers.get_all(CONTENT_ENCODING).iter().all(plain) { Ok(()) } else { Err(Refusal::Encoding) }
}

/// The length the client declares, if it does.
pub fn declared_length(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.trim().parse().ok()
}

/// A body being read: bounded in size by the limits, in memory by the budget, in time by both timeouts.
pub struct Intake {
    buffer: BodyBuffer,
    share: Share,
    limit: u64,
    idle: Duration,
    end: Instant,
}

impl Intake {
    /// Refuses what is declared too large, finds room, and tells a waiting client to go on.
    pub async fn open(session: &mut Session, limits: &Limits, budget: &Budget) -> Result<Self, IntakeError> {
        let declared = declared_length(&session.req_header().headers);
        if declared.is_some_and(|length| length > limits.body) {
            return Err(Refusal::TooLarge(limits.body).into());
        }
        let share = match declared {
            Some(length) => budget.reserve(length).await,
            None => budget.open(),
        };
        let share = share.map_err(|_| Refusal::Memory)?;
        if expects_continue(session) {
            session.write_continue_response().await.map_err(|error| IntakeError::Broken(error.into_down()))?;
        }
        Ok(Self {
            buffer: BodyBuffer::default(),
            share,
            limit: limits.body,
            idle: limits.body_idle,
            end: Instant::now() + limits.body_timeout,
        })
    }

    /// The next chunk; `None` at the end of the body.
    pub async fn chunk(&mut self, session: &mut ServerSession) -> Result<Option<bytes::Bytes>, IntakeError> {
        let wait = self.idle.min(self.end.saturating_duration_since(Instant::now()));
        let read = tokio::time::timeout(wait, session.read_request_body()).await;
        let chunk = match read {
            Err(_) => return Err(Refusal::SlowBody.into()),
            // Pingora's own read timeout of the connection.
            Ok(Err(error)) if *error.etype() == ErrorType::ReadTimedout => return Err(Refusal::SlowBody.into()),
            Ok(Err(error)) => return Err(broken(error)),
            Ok(Ok(None)) => return Ok(None),
            Ok(Ok(Some(chunk))) => chunk,
        };
        let length = (self.buffer.len() + chunk.len()) as u64;
        if length > self.limit {
            return Err(Refusal::TooLarge(self.limit).into());
        }
        self.share.cover(length).map_err(|_| Refusal::Memory)?;
        self.buffer.push(chunk.clone());
        Ok(Some(chunk))
    }

    /// The body and the room it takes.
    pub fn finish(self) -> (crate::body::Body, Share) {
        (self.buffer.finish(), self.share)
    }
}

/// A body that is not framed as HTTP says is the client's fault; a connection that ends is its departure.
fn broken(error: Box<Error>) -> IntakeError {
    match error.etype() {
        ErrorType::ConnectionClosed | ErrorType::ReadError | ErrorType::WriteError | ErrorType::H2Error => {
            IntakeError::Broken(error.into_down())
        }
        _ => Refusal::BadRequest("the request body is not framed correctly").into(),
    }
}

fn expects_continue(session: &Session) -> bool {
    let head = session.req_header();
    head.version == http::Version::HTTP_11
        && head.headers.get(EXPECT).is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"100-continue"))
}
