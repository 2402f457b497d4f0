//! A streamed reply, with the faults that strike in its middle.
//!
//! The stream owns its generation: a client that goes away drops the body, and with it the sequences.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;

use super::body::AnyBody;
use super::connection::Connection;
use super::driver::{Generation, Item};
use super::listen::FLUSH;
use super::reply::ApiError;
use super::shared::Shared;
use super::surface::{Head, Out, Piece, Surface};
use crate::engine::Finish;
use crate::fault::{FaultKind, Strike};
use crate::tokenizer::word;

/// Kinds that strike a stream, in the order they are asked for.
const MIDSTREAM: [FaultKind; 4] =
    [FaultKind::CrashMidstream, FaultKind::Truncate, FaultKind::ErrorMidstream, FaultKind::Stall];

/// A streamed reply in progress.
pub(super) struct Sse {
    shared: Arc<Shared>,
    connection: Arc<Connection>,
    generation: Generation,
    head: Head,
    surface: Box<dyn Surface>,
    /// Choices per prompt: only the first of each counts for `head.cached`.
    choices: usize,
    /// News read ahead of the stream, to answer with its head.
    ahead: Option<Item>,
    out: Out,
    /// Text and tokens per choice not yet sent.
    held: Vec<(String, u32)>,
    open: usize,
    sent: u32,
    fault: Option<Strike>,
    ended: bool,
}

impl Sse {
    /// A stream for `path`, which decides the faults it meets.
    pub(super) fn new(
        shared: Arc<Shared>,
        connection: Arc<Connection>,
        generation: Generation,
        head: Head,
        surface: Box<dyn Surface>,
        (choices, path): (usize, &str),
    ) -> Self {
        let fault = MIDSTREAM.into_iter().find_map(|kind| shared.faults.strike(kind, path, |_| true));
        let all = head.counts.len();
        let mut sse = Self {
            shared,
            connection,
            generation,
            head,
            surface,
            choices,
            ahead: None,
            out: Out::new(),
            held: vec![(String::new(), 0); all],
            open: all,
            sent: 0,
            fault,
            ended: false,
        };
        sse.surface.open(&sse.head, &mut sse.out);
        sse
    }

    /// Waits until the first choice leaves the queue; returns the time it spent there.
    pub(super) async fn admitted(&mut self) -> Option<Duration> {
        match self.generation.next().await {
            Some(Item::Scheduled { choice, cached, queued }) => {
                self.scheduled(choice, cached);
                Some(self.generation.wall(queued))
            }
            other => {
                self.ahead = other;
                None
            }
        }
    }

    /// Waits for the first token; returns the time the first choice spent in the queue.
    pub(super) async fn first_token(&mut self) -> Option<Duration> {
        let mut queued = None;
        while self.ahead.is_none() {
            match self.generation.next().await {
                Some(Item::Scheduled { choice, cached, queued: model }) => {
                    queued.get_or_insert(self.generation.wall(model));
                    self.scheduled(choice, cached);
                }
                token => {
                    self.ahead = token;
                    break;
                }
            }
        }
        queued
    }

    /// Prompt tokens found in the cache, as known so far.
    pub(super) fn cached(&self) -> usize {
        self.head.cached
    }

    pub(super) fn into_body(self) -> AnyBody {
        let frames = stream::unfold(self, |mut sse| async move {
            let frame = sse.next().await?;
            Some((frame.map(Frame::data), sse))
        });
        StreamBody::new(frames).boxed_unsync()
    }

    async fn next(&mut self) -> Option<io::Result<Bytes>> {
        loop {
            if let Some(event) = self.out.pop_front() {
                return Some(Ok(event));
            }
            if self.ended {
                return None;
            }
            if let Some(strike) = self.fault.take_if(|strike| strike.fault.after <= self.sent) {
                self.suffer(&strike).await?;
                if self.ended && self.out.is_empty() {
                    return Some(Err(io::Error::other("stream cut by a fault")));
                }
                continue;
            }
            if self.open == 0 {
                self.surface.close(&self.head, &mut self.out);
                self.ended = true;
                continue;
            }
            let item = match self.ahead.take() {
                Some(item) => Some(item),
                None => self.generation.next().await,
            };
            match item {
                Some(Item::Scheduled { choice, cached, .. }) => self.scheduled(choice, cached),
                Some(Item::Token { choice, token, finish }) => self.token(choice, token, finish),
                // The engine was reset: a real one would be gone with its connections.
                None => return Some(Err(io::Error::other("engine lost the request"))),
            }
        }
    }

    /// Plays a fault. `None` ends the body cleanly; `ended` without output cuts it.
    async fn suffer(&mut self, strike: &Strike) -> Option<()> {
        let fault = &strike.fault;
        match fault.kind {
            FaultKind::CrashMidstream => {
                tokio::time::sleep(FLUSH).await;
                if fault.restart {
                    self.shared.crash(0);
                }
                self.connection.reset();
                std::future::pending::<()>().await;
            }
            FaultKind::Truncate if fault.cut => {
                tokio::time::sleep(FLUSH).await;
                self.ended = true;
            }
            FaultKind::Truncate => return None,
            FaultKind::ErrorMidstream => {
                self.surface.error(&ApiError::engine_dead(), &mut self.out);
                self.ended = true;
            }
            _ => match fault.ms {
                Some(ms) => tokio::time::sleep(Duration::from_millis(ms)).await,
                None => self.shared.faults.released(strike).await,
            },
        }
        Some(())
    }

    fn scheduled(&mut self, choice: usize, cached: u32) {
        if choice.is_multiple_of(self.choices) {
            self.head.cached += cached as usize;
        }
    }

    fn token(&mut self, choice: usize, token: u32, finish: Option<Finish>) {
        let (text, count) = &mut self.held[choice];
        text.push_str(word(token));
        *count += 1;
        let due = self.head.counts[choice] == 0 || *count >= self.shared.config.stream_interval;
        if !due && finish.is_none() {
            return;
        }
        self.sent += *count;
        self.head.counts[choice] += std::mem::take(count);
        let text = std::mem::take(text);
        self.surface.piece(&self.head, &Piece { choice, text: &text, finish }, &mut self.out);
        if finish.is_some() {
            self.open -= 1;
        }
    }
}
