//! The replaying session: gives a body that has been read already back to Pingora's proxy loop, on every attempt.
//!
//! Pingora picks the peer before it reads the body; Spillway needs the body to pick. So the body is read first and the
//! downstream session is wrapped in a `Replay`, which answers the loop's body reads from memory and forwards the rest.
//! The newcomer's trap: while wrapped, setters of the real session (keep-alive and others) do nothing, and without
//! [`Handle::restore`] HTTP/1 keep-alive is lost.
//!
//! The wrapper is also where two rules of the response live, because every response byte passes here on its way out:
//! the head is held until the first body byte, so that a failure before it can still be retried elsewhere; and the
//! deadlines for the first byte, for the gap between bytes and for the whole exchange run here.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::Stream;
use http::HeaderMap;
use pingora_core::protocols::Digest;
use pingora_core::protocols::http::custom::CustomMessageWrite;
use pingora_core::protocols::http::custom::server::Session as CustomSession;
use pingora_core::protocols::http::{HttpTask, ServerSession};
use pingora_core::protocols::l4::socket::SocketAddr;
use pingora_core::{Error, ErrorType, Result};
use pingora_http::{RequestHeader, ResponseHeader};
use pingora_proxy::Session;
use tokio::time::Instant;

use crate::body::Body;
use crate::patience::{Expired, Patience, Watch};

/// Longest slice handed to the loop at once, in bytes: the size of Pingora's own HTTP/1 body reads.
const SLICE: usize = 64 * 1024;

/// The request's side of a wrapped session: what the hooks keep in their context.
#[derive(Clone)]
pub struct Handle {
    shared: Arc<Mutex<Shared>>,
}

#[derive(Default)]
struct Shared {
    body: Body,
    patience: Patience,
    /// The real session, on its way back from a dropped `Replay`.
    slot: Option<ServerSession>,
    expired: Option<Expired>,
    /// Set while a stream has not come to its first output token.
    awaits_token: bool,
    /// Set when the response is to end abnormally after what has come of it.
    breaks_off: bool,
    /// Set once a response body byte has been handed to the client's connection.
    first_byte: Option<Instant>,
}

impl Handle {
    /// Wraps the session of a request whose body has been read whole.
    ///
    /// Set what must be set on the real session before: while wrapped its setters do nothing.
    pub fn wrap(session: &mut Session, body: Body, hold_head: bool) -> Self {
        let shared = Arc::new(Mutex::new(Shared { body: body.clone(), ..Shared::default() }));
        let inner = std::mem::replace(&mut *session.downstream_session, ServerSession::new_custom(Box::new(())));
        let replay = Replay {
            inner: Some(inner),
            shared: Arc::clone(&shared),
            body,
            next: 0,
            rest: Bytes::new(),
            hold_head,
            head: None,
            watch: Watch::new(Patience::default()),
        };
        *session.downstream_session = ServerSession::new_custom(Box::new(replay));
        Self { shared }
    }

    /// Puts the real session back. Does nothing when it is back already.
    pub fn restore(&self, session: &mut Session) {
        if !session.downstream_session.is_custom() {
            return;
        }
        // Dropping the wrapper moves the real session into the slot.
        *session.downstream_session = ServerSession::new_custom(Box::new(()));
        if let Some(inner) = self.lock().slot.take() {
            *session.downstream_session = inner;
        }
    }

    /// Replaces the body that the next attempt sends.
    pub fn set_body(&self, body: Body) {
        self.lock().body = body;
    }

    /// Length in bytes of the body that the next attempt sends.
    pub fn body_len(&self) -> usize {
        self.lock().body.len()
    }

    /// Sets the deadlines of the next attempt.
    pub fn set_patience(&self, patience: Patience) {
        let mut shared = self.lock();
        shared.patience = patience;
        shared.expired = None;
        shared.awaits_token = false;
    }

    /// Which deadline ended the attempt, if one did.
    pub fn expired(&self) -> Option<Expired> {
        self.lock().expired
    }

    /// Says that the response is a stream whose first output token is still to come.
    pub fn await_token(&self, awaits: bool) {
        self.lock().awaits_token = awaits;
    }

    /// Lets the response end abnormally, after what has come of it: its framing ended well, its content did not.
    pub fn break_off(&self) {
        self.lock().breaks_off = true;
    }

    /// When the first response body byte went to the client's connection.
    pub fn first_byte(&self) -> Option<Instant> {
        self.lock().first_byte
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Replay {
    /// `Some` until dropped.
    inner: Option<ServerSession>,
    shared: Arc<Mutex<Shared>>,
    /// What this attempt sends; `next` and `rest` are the place in it.
    body: Body,
    next: usize,
    rest: Bytes,
    hold_head: bool,
    /// The response head, held until the first body byte.
    head: Option<Box<ResponseHeader>>,
    watch: Watch,
}

impl Drop for Replay {
    fn drop(&mut self) {
        let inner = self.inner.take();
        self.lock().slot = inner;
    }
}

impl Replay {
    fn inner(&self) -> &ServerSession {
        self.inner.as_ref().expect("the real session leaves only when the wrapper is dropped")
    }

    fn inner_mut(&mut self) -> &mut ServerSession {
        self.inner.as_mut().expect("the real session leaves only when the wrapper is dropped")
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next_slice(&mut self) -> Option<Bytes> {
        if self.rest.is_empty() {
            self.rest = self.body.chunks().get(self.next)?.clone();
            self.next += 1;
        }
        let cut = self.rest.len().min(SLICE);
        Some(self.rest.split_to(cut))
    }

    fn is_drained(&self) -> bool {
        self.rest.is_empty() && self.next >= self.body.chunks().len()
    }

    /// Writes pieces of a response that has begun. The gap to the next one counts from the end of the write: the time that a
    /// slow client takes is not its endpoint's silence.
    async fn pass_on(&mut self, tasks: Vec<HttpTask>) -> Result<bool> {
        let (awaits_token, breaks_off) = {
            let shared = self.lock();
            (shared.awaits_token, shared.breaks_off)
        };
        let tasks = if breaks_off { tasks.into_iter().filter_map(without_end).collect() } else { tasks };
        let written = self.inner_mut().response_duplex_vec(tasks).await;
        self.watch.alive(!awaits_token);
        if breaks_off {
            written?;
            return Err(Error::explain(ErrorType::ConnectionClosed, "stream ended without its end marker").into_up());
        }
        written
    }

    /// Notes that response bytes go to the client: from here no attempt can follow, and the body is needed no longer.
    fn commit(&mut self) {
        let first = !self.watch.is_answered();
        let flowing = !self.lock().awaits_token;
        let at = self.watch.alive(flowing);
        if first {
            let mut shared = self.lock();
            shared.first_byte = Some(at);
            shared.body = Body::default();
        }
    }
}

/// What is left of a task when the end of the response is not to be told.
fn without_end(task: HttpTask) -> Option<HttpTask> {
    match task {
        HttpTask::Body(data, _) => data.map(|data| HttpTask::Body(Some(data), false)),
        HttpTask::Header(head, _) => Some(HttpTask::Header(head, false)),
        HttpTask::Trailer(_) | HttpTask::Done => None,
        other => Some(other),
    }
}

#[async_trait]
impl CustomSession for Replay {
    fn req_header(&self) -> &RequestHeader {
        self.inner().req_header()
    }

    fn req_header_mut(&mut self) -> &mut RequestHeader {
        self.inner_mut().req_header_mut()
    }

    async fn read_body_bytes(&mut self) -> Result<Option<Bytes>> {
        Ok(self.next_slice())
    }

    async fn drain_request_body(&mut self) -> Result<()> {
        self.rest = Bytes::new();
        self.next = self.body.chunks().len();
        Ok(())
    }

    async fn write_response_header(&mut self, head: Box<ResponseHeader>, _end: bool) -> Result<()> {
        self.inner_mut().write_response_header(head).await
    }

    async fn write_response_header_ref(&mut self, head: &ResponseHeader, _end: bool) -> Result<()> {
        self.inner_mut().write_response_header_ref(head).await
    }

    async fn write_body(&mut self, data: Bytes, end: bool) -> Result<()> {
        self.commit();
        let written = self.inner_mut().write_response_body(data, end).await;
        self.watch.alive(true);
        written
    }

    async fn write_trailers(&mut self, trailers: HeaderMap) -> Result<()> {
        self.inner_mut().write_response_trailers(trailers).await
    }

    async fn response_duplex_vec(&mut self, tasks: Vec<HttpTask>) -> Result<bool> {
        if self.watch.is_answered() {
            return self.pass_on(tasks).await;
        }
        let mut ready = Vec::with_capacity(tasks.len() + 1);
        for task in tasks {
            match &task {
                HttpTask::Header(head, false) if self.hold_head && !head.status.is_informational() => {
                    if let HttpTask::Header(head, _) = task {
                        self.head = Some(head);
                    }
                    continue;
                }
                HttpTask::Body(data, false) if data.as_ref().is_none_or(Bytes::is_empty) => continue,
                // Nothing has gone out: the held head and the body stay, the one for nobody, the other for a retry.
                HttpTask::Failed(_) if !self.watch.is_answered() => {
                    if let HttpTask::Failed(error) = task {
                        return Err(error);
                    }
                    continue;
                }
                _ => {}
            }
            if let Some(head) = self.head.take() {
                ready.push(HttpTask::Header(head, false));
            }
            if !matches!(&task, HttpTask::Header(head, _) if head.status.is_informational()) {
                self.commit();
            }
            ready.push(task);
        }
        if ready.is_empty() {
            return Ok(false);
        }
        if self.watch.is_answered() {
            self.pass_on(ready).await
        } else {
            self.inner_mut().response_duplex_vec(ready).await
        }
    }

    fn set_read_timeout(&mut self, timeout: Option<Duration>) {
        self.inner_mut().set_read_timeout(timeout);
    }

    fn get_read_timeout(&self) -> Option<Duration> {
        self.inner().get_read_timeout()
    }

    fn set_write_timeout(&mut self, timeout: Option<Duration>) {
        self.inner_mut().set_write_timeout(timeout);
    }

    fn get_write_timeout(&self) -> Option<Duration> {
        self.inner().get_write_timeout()
    }

    fn set_total_drain_timeout(&mut self, timeout: Option<Duration>) {
        self.inner_mut().set_total_drain_timeout(timeout);
    }

    fn get_total_drain_timeout(&self) -> Option<Duration> {
        self.inner().get_total_drain_timeout()
    }

    fn request_summary(&self) -> String {
        self.inner().request_summary()
    }

    fn response_written(&self) -> Option<&ResponseHeader> {
        self.inner().response_written()
    }

    async fn shutdown(&mut self, _code: u32, _ctx: &str) {
        self.inner_mut().shutdown().await;
    }

    fn is_body_done(&mut self) -> bool {
        self.is_drained()
    }

    async fn finish(&mut self) -> Result<()> {
        self.inner_mut().finish_body().await
    }

    fn is_body_empty(&mut self) -> bool {
        self.body.is_empty()
    }

    async fn read_body_or_idle(&mut self, no_body_expected: bool) -> Result<Option<Bytes>> {
        if !no_body_expected && let Some(slice) = self.next_slice() {
            return Ok(Some(slice));
        }
        // Not through `inner_mut`: the wait needs the session and the watch side by side.
        let Some(inner) = &mut self.inner else { return Ok(None) };
        tokio::select! {
            biased;
            read = inner.read_body_or_idle(true) => read,
            expired = self.watch.run_out() => {
                self.lock().expired = Some(expired);
                Error::e_explain(ErrorType::ReadTimedout, "a deadline of the attempt passed")
            }
        }
    }

    fn body_bytes_sent(&self) -> usize {
        self.inner().body_bytes_sent()
    }

    fn body_bytes_read(&self) -> usize {
        self.inner().body_bytes_read()
    }

    fn digest(&self) -> Option<&Digest> {
        self.inner().digest()
    }

    fn digest_mut(&mut self) -> Option<&mut Digest> {
        self.inner_mut().digest_mut()
    }

    fn client_addr(&self) -> Option<&SocketAddr> {
        self.inner().client_addr()
    }

    fn server_addr(&self) -> Option<&SocketAddr> {
        self.inner().server_addr()
    }

    fn pseudo_raw_h1_request_header(&self) -> Bytes {
        self.inner().to_h1_raw()
    }

    /// The proxy loop calls this at the start of each attempt: rewind.
    fn enable_retry_buffering(&mut self) {
        let (body, patience) = {
            let shared = self.lock();
            (shared.body.clone(), shared.patience)
        };
        self.body = body;
        self.next = 0;
        self.rest = Bytes::new();
        self.head = None;
        self.watch = Watch::new(patience);
    }

    fn retry_buffer_truncated(&self) -> bool {
        false
    }

    fn get_retry_buffer(&self) -> Option<Bytes> {
        None
    }

    async fn finish_custom(&mut self) -> Result<()> {
        Ok(())
    }

    fn take_custom_message_reader(
        &mut self,
    ) -> Option<Box<dyn Stream<Item = Result<Bytes>> + Unpin + Send + Sync + 'static>> {
        None
    }

    fn restore_custom_message_reader(
        &mut self,
        _reader: Box<dyn Stream<Item = Result<Bytes>> + Unpin + Send + Sync + 'static>,
    ) -> Result<()> {
        Ok(())
    }

    fn take_custom_message_writer(&mut self) -> Option<Box<dyn CustomMessageWrite>> {
        None
    }

    fn restore_custom_message_writer(&mut self, _writer: Box<dyn CustomMessageWrite>) -> Result<()> {
        Ok(())
    }

    fn is_upgrade_req(&self) -> bool {
        self.inner().is_upgrade_req()
    }

    fn was_upgraded(&self) -> bool {
        self.inner().was_upgraded()
    }
}
