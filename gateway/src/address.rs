//! Where an endpoint is on the network, and the Pingora peer that leads there.
//!
//! An endpoint's identity is its URL as configured; the socket address behind a host name may change under it.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use http::HeaderValue;
use pingora_core::protocols::l4::ext::TcpKeepalive;
use pingora_core::upstreams::peer::HttpPeer;

use crate::config::{EndpointUrl, Scheme};

/// Idle connections are given up after this. vLLM, SGLang and TensorRT-LLM close theirs after 5 s, llama.cpp too: staying
/// below keeps most requests off connections that are about to die.
const IDLE: Duration = Duration::from_secs(4);

/// An endpoint that takes none of what is sent for this long is stuck; it also bounds how late a client's departure is
/// seen while an HTTP/2 write is blocked.
const WRITE: Duration = Duration::from_secs(5);

/// A connection whose packets go nowhere looks alive for minutes. So what is sent must be acknowledged within `WRITE`, and
/// a silent connection is asked whether it is there.
const PROBE_AFTER: Duration = Duration::from_secs(15);
const PROBE_EVERY: Duration = Duration::from_secs(5);
const PROBES: usize = 3;

/// Requests that share one HTTP/2 connection: what servers commonly allow, and few enough that one lost packet does not
/// stall everybody.
const H2_STREAMS: usize = 100;

/// Where an endpoint is, when its URL says so itself.
pub fn literal(url: &EndpointUrl) -> Option<SocketAddr> {
    url.host().parse().ok().map(|ip: IpAddr| SocketAddr::new(ip, url.port()))
}

/// Where an endpoint is, asking the name server if need be.
pub async fn resolve(url: &EndpointUrl) -> io::Result<SocketAddr> {
    if let Some(socket) = literal(url) {
        return Ok(socket);
    }
    let mut found = tokio::net::lookup_host((url.host(), url.port())).await?;
    found.next().ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "name has no address"))
}

/// A resolved endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// Where to connect.
    pub socket: SocketAddr,
    /// The value of `Host`: host and port as configured.
    pub authority: HeaderValue,
    /// Whether to speak HTTP/2.
    pub http2: bool,
    /// Over TLS, the name that the certificate must be for.
    tls_name: Option<Arc<str>>,
}

impl Address {
    /// An endpoint that is at `socket`. `tls_name` is what its certificate must be for, when that is not the URL's host.
    pub fn new(socket: SocketAddr, url: &EndpointUrl, http2: bool, tls_name: Option<&Arc<str>>) -> Self {
        let authority = HeaderValue::from_str(&url.authority()).expect("host names and addresses are plain ASCII");
        let tls_name = (url.scheme() == Scheme::Https).then(|| tls_name.cloned().unwrap_or_else(|| url.host().into()));
        Self { socket, authority, http2, tls_name }
    }

    /// A peer for one attempt or one scrape. `connect` bounds TCP and TLS set-up.
    pub fn peer(&self, connect: Duration) -> HttpPeer {
        let name = self.tls_name.as_deref().unwrap_or_default();
        let mut peer = HttpPeer::new(self.socket, self.tls_name.is_some(), name.to_owned());
        peer.options.connection_timeout = Some(connect);
        peer.options.total_connection_timeout = Some(connect);
        peer.options.idle_timeout = Some(IDLE);
        peer.options.write_timeout = Some(WRITE);
        peer.options.tcp_keepalive = Some(TcpKeepalive {
            idle: PROBE_AFTER,
            interval: PROBE_EVERY,
            count: PROBES,
            #[cfg(target_os = "linux")]
            user_timeout: WRITE,
        });
        if self.http2 {
            // Both ends of the range: otherwise Pingora remembers for ever that an endpoint once refused HTTP/2.
            peer.options.set_http_version(2, 2);
            peer.options.max_h2_streams = H2_STREAMS;
        }
        peer
    }
}
