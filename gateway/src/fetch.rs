//! Small GETs to endpoints: metrics pages, health, model lists. Bounded in time and size, one at a time per caller.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::HOST;
use pingora_core::connectors::ConnectorOptions;
use pingora_core::connectors::http::Connector;
use pingora_http::RequestHeader;

use crate::address::Address;
use crate::detail;

/// Longest answer read, in bytes: a vLLM page is 50 kB per engine, a megabyte with many.
const LARGEST: usize = 4 * 1024 * 1024;

/// Connections kept for the next fetch: one or two per endpoint of a large fleet. Were there fewer than endpoints, each
/// would be gone before its turn came.
const KEPT: usize = 4096;

/// Most interim answers (1xx) before the answer.
const INTERIM: u32 = 8;

/// Why a fetch failed.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// Connecting, sending or receiving failed.
    #[error("{}", detail::of(.0))]
    Transport(Box<pingora_core::Error>),
    /// The whole exchange took too long.
    #[error("no answer within {0:?}")]
    Timeout(Duration),
    /// Interim answers and no end of them, or an upgrade nobody asked for.
    #[error("no final answer")]
    NoAnswer,
    /// More than this reads.
    #[error("answer is larger than {LARGEST} bytes")]
    TooLarge,
}

/// An answer.
#[derive(Debug)]
pub struct Page {
    /// HTTP status.
    pub status: u16,
    /// The `content-type` header, empty when absent.
    pub content_type: String,
    /// The body.
    pub body: Bytes,
}

/// A connection pool for such GETs, apart from the one that carries requests.
pub struct Fetcher {
    connector: Connector,
}

impl Default for Fetcher {
    fn default() -> Self {
        Self { connector: Connector::new(Some(ConnectorOptions::new(KEPT))) }
    }
}

impl Fetcher {
    /// Fetches `path` from an endpoint.
    pub async fn get(
        &self,
        address: &Address,
        path: &str,
        accept: &str,
        timeout: Duration,
    ) -> Result<Page, FetchError> {
        // On the heap: it is some kilobytes, and a caller that waits for its next turn has no use for them.
        tokio::time::timeout(timeout, Box::pin(self.exchange(address, path, accept, timeout)))
            .await
            .map_err(|_| FetchError::Timeout(timeout))?
    }

    async fn exchange(
        &self,
        address: &Address,
        path: &str,
        accept: &str,
        timeout: Duration,
    ) -> Result<Page, FetchError> {
        let peer = address.peer(timeout);
        let mut tries = 0;
        loop {
            tries += 1;
            let (mut session, reused) = self.connector.get_http_session(&peer).await.map_err(FetchError::Transport)?;
            match converse(&mut session, address, path, accept).await {
                Ok(page) => {
                    self.connector.release_http_session(session, &peer, peer.options.idle_timeout).await;
                    return Ok(page);
                }
                // A kept-alive connection that the server had closed meanwhile is nobody's failure.
                Err(FetchError::Transport(_)) if reused && tries < 3 => {}
                Err(error) => return Err(error),
            }
        }
    }
}

async fn converse(
    session: &mut pingora_core::protocols::http::client::HttpSession,
    address: &Address,
    path: &str,
    accept: &str,
) -> Result<Page, FetchError> {
    let head = (|| {
        let mut head = RequestHeader::build("GET", path.as_bytes(), Some(3))?;
        head.insert_header(HOST, address.authority.clone())?;
        head.insert_header("accept", accept)?;
        head.insert_header("user-agent", concat!("spillway/", env!("CARGO_PKG_VERSION")))?;
        Ok(head)
    })();
    session
        .write_request_header(Box::new(head.map_err(FetchError::Transport)?))
        .await
        .map_err(FetchError::Transport)?;
    session.finish_request_body().await.map_err(FetchError::Transport)?;
    // Interim answers come before the answer; a body must not be asked of one.
    let mut heads = 0;
    loop {
        session.read_response_header().await.map_err(FetchError::Transport)?;
        heads += 1;
        let status = session.response_header().map(|head| head.status);
        if status.is_none_or(|status| !status.is_informational()) {
            break;
        }
        if status == Some(http::StatusCode::SWITCHING_PROTOCOLS) || heads > INTERIM {
            return Err(FetchError::NoAnswer);
        }
    }
    let (status, content_type) = session.response_header().map_or((0, String::new()), |head| {
        let content_type = head.headers.get("content-type").and_then(|value| value.to_str().ok());
        (head.status.as_u16(), content_type.unwrap_or_default().to_owned())
    });
    let mut body = BytesMut::new();
    while let Some(chunk) = session.read_response_body().await.map_err(FetchError::Transport)? {
        if body.len() + chunk.len() > LARGEST {
            return Err(FetchError::TooLarge);
        }
        body.extend_from_slice(&chunk);
    }
    Ok(Page { status, content_type, body: body.freeze() })
}
