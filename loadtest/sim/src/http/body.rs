//! Response bodies: whole ones, streams, and the wrapper that knows when one has ended.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Frame, SizeHint};

use super::exchange::Exchange;

/// Any response body. Its error ends the connection (h2: the stream) without the body's end.
pub(super) type AnyBody = UnsyncBoxBody<Bytes, io::Error>;

/// A body that is there as a whole.
pub(super) fn whole(bytes: impl Into<Bytes>) -> AnyBody {
    Full::new(bytes.into()).map_err(|never| match never {}).boxed_unsync()
}

/// A body on its way out, with the guard of its exchange.
pub(super) struct Tracked {
    inner: AnyBody,
    exchange: Exchange,
    delay: Option<Pin<Box<tokio::time::Sleep>>>,
}

impl Tracked {
    /// Hands out `inner`, its first byte after `delay`.
    pub(super) fn new(inner: AnyBody, mut exchange: Exchange, delay: Option<Duration>) -> Self {
        if inner.is_end_stream() {
            exchange.complete();
        }
        Self { inner, exchange, delay: delay.map(|delay| Box::pin(tokio::time::sleep(delay))) }
    }
}

impl Body for Tracked {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        if let Some(delay) = &mut self.delay {
            ready!(delay.as_mut().poll(context));
            self.delay = None;
        }
        let frame = ready!(Pin::new(&mut self.inner).poll_frame(context));
        let ended = match &frame {
            None => true,
            Some(Ok(_)) => self.inner.is_end_stream(),
            Some(Err(_)) => false,
        };
        if ended {
            self.exchange.complete();
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
