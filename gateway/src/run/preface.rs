//! A time limit on the first bytes of a connection that may be HTTP/2 without TLS.
//!
//! To tell the versions apart Pingora waits for 24 bytes, for ever: a silent connection would never be closed.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use pingora_core::apps::ServerApp;
use pingora_core::protocols::Stream;
use pingora_core::server::ShutdownWatch;

/// Longest wait for the first 24 bytes. Any request fits in far less than that; the head that follows has Pingora's own
/// limit.
const FIRST_BYTES: Duration = Duration::from_secs(10);

/// Length of the HTTP/2 preface, RFC 9113 section 3.4.
const PREFACE: usize = 24;

/// An app whose connections must speak soon.
pub(super) struct Timed<A> {
    app: Arc<A>,
}

impl<A> Timed<A> {
    pub(super) fn new(app: A) -> Self {
        Self { app: Arc::new(app) }
    }
}

#[async_trait]
impl<A: ServerApp + Send + Sync + 'static> ServerApp for Timed<A> {
    async fn process_new(self: &Arc<Self>, mut session: Stream, shutdown: &ShutdownWatch) -> Option<Stream> {
        let mut first = [0; PREFACE];
        match tokio::time::timeout(FIRST_BYTES, session.try_peek(&mut first)).await {
            Ok(Ok(_)) => self.app.process_new(session, shutdown).await,
            _ => None,
        }
    }

    async fn cleanup(&self) {
        self.app.cleanup().await;
    }
}
