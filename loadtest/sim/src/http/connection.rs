//! One client connection: its socket, what runs on it, and how it is made to end.
//!
//! A reset is not a call: the socket is told to linger for zero seconds and then dropped, which makes the kernel send RST.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Instant;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::watch;

/// What a connection is told to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Order {
    /// Carry on.
    Serve,
    /// End after the response in flight, without announcing it.
    EndAfterResponse,
    /// End now.
    End,
}

/// State of one connection, shared by all requests on it.
#[derive(Debug)]
pub(super) struct Connection {
    /// Counts from 1.
    pub(super) number: u64,
    requests: AtomicU64,
    in_progress: AtomicUsize,
    idle_since: Mutex<Instant>,
    order: watch::Sender<Order>,
    activity: watch::Sender<u64>,
    linger_zero: AtomicBool,
    frozen: AtomicBool,
}

impl Connection {
    pub(super) fn new(number: u64) -> Self {
        Self {
            number,
            requests: AtomicU64::new(0),
            in_progress: AtomicUsize::new(0),
            idle_since: Mutex::new(Instant::now()),
            order: watch::Sender::new(Order::Serve),
            activity: watch::Sender::new(0),
            linger_zero: AtomicBool::new(false),
            frozen: AtomicBool::new(false),
        }
    }

    /// Counts a request that begins and returns which one of the connection it is, from 1.
    pub(super) fn begin(&self) -> u64 {
        self.in_progress.fetch_add(1, Ordering::Relaxed);
        self.activity.send_modify(|version| *version += 1);
        self.requests.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Counts a request that is over.
    pub(super) fn end(&self) {
        *self.idle_since.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        self.in_progress.fetch_sub(1, Ordering::Relaxed);
        self.activity.send_modify(|version| *version += 1);
    }

    /// Since when no request runs; `None` while one does.
    pub(super) fn idle_since(&self) -> Option<Instant> {
        let busy = self.in_progress.load(Ordering::Relaxed) > 0;
        (!busy).then(|| *self.idle_since.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Ends it with a TCP reset, at once.
    pub(super) fn reset(&self) {
        self.linger_zero.store(true, Ordering::Relaxed);
        self.order.send_replace(Order::End);
    }

    /// Reads and writes nothing from now on, as if the machine behind it were gone: not even that the client leaves.
    pub(super) fn freeze(&self) {
        self.frozen.store(true, Ordering::Relaxed);
    }

    fn is_frozen(&self) -> bool {
        self.frozen.load(Ordering::Relaxed)
    }

    /// Ends it when the response in flight is out.
    pub(super) fn end_after_response(&self) {
        self.order.send_if_modified(|order| {
            let sooner = *order < Order::EndAfterResponse;
            if sooner {
                *order = Order::EndAfterResponse;
            }
            sooner
        });
    }

    pub(super) fn orders(&self) -> watch::Receiver<Order> {
        self.order.subscribe()
    }

    /// Changes whenever a request begins or ends.
    pub(super) fn activity(&self) -> watch::Receiver<u64> {
        self.activity.subscribe()
    }
}

/// The socket of a connection; resets it on drop when told to.
#[derive(Debug)]
pub(super) struct Wire {
    pub(super) stream: TcpStream,
    pub(super) connection: Arc<Connection>,
}

impl Drop for Wire {
    fn drop(&mut self) {
        if self.connection.linger_zero.load(Ordering::Relaxed) {
            // A socket that is already gone needs no reset.
            let _ = self.stream.set_zero_linger();
        }
    }
}

// Pending without a waker is right for a frozen socket: only an order to end comes after it, and that is not its business.
impl AsyncRead for Wire {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.connection.is_frozen() {
            return Poll::Pending;
        }
        Pin::new(&mut self.stream).poll_read(context, into)
    }
}

impl AsyncWrite for Wire {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if self.connection.is_frozen() {
            return Poll::Pending;
        }
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if self.connection.is_frozen() {
            return Poll::Pending;
        }
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.connection.is_frozen() {
            return Poll::Pending;
        }
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
