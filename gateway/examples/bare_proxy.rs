//! The least proxy that Pingora allows: what `make cost` measures Spillway against.
//!
//! It differs from Spillway in nothing but what a request costs in the hooks: allocator, threads, the pool of idle
//! connections and the server's configuration are those of `run.rs`. It logs, counts, probes and retries nothing.
//!
//! ```sh
//! cargo run --release --example bare_proxy -- 127.0.0.1:8080 1 127.0.0.1:8001 127.0.0.1:8002
//! ```

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::Context as _;
use async_trait::async_trait;
use pingora::server::Server;
use pingora::server::configuration::ServerConf;
use pingora_core::Result;
use pingora_core::upstreams::peer::HttpPeer;
use pingora_proxy::{ProxyHttp, Session, http_proxy_service};

/// As in Spillway's `main.rs`.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// As in Spillway's `run.rs`.
const IDLE_CONNECTIONS: usize = 4096;

struct RoundRobin {
    endpoints: Vec<SocketAddr>,
    turn: AtomicUsize,
}

#[async_trait]
impl ProxyHttp for RoundRobin {
    type CTX = ();

    fn new_ctx(&self) {}

    async fn upstream_peer(&self, _session: &mut Session, _ctx: &mut ()) -> Result<Box<HttpPeer>> {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        let endpoint = self.endpoints[turn % self.endpoints.len()];
        Ok(Box::new(HttpPeer::new(endpoint, false, String::new())))
    }
}

fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let listen = arguments.next().context("usage: bare_proxy LISTEN THREADS ENDPOINT...")?;
    let threads = arguments.next().context("no number of threads")?.parse()?;
    let endpoints = arguments.map(|one| one.parse().context(one)).collect::<anyhow::Result<Vec<SocketAddr>>>()?;
    anyhow::ensure!(!endpoints.is_empty(), "no endpoints");
    let conf = ServerConf { threads, upstream_keepalive_pool_size: IDLE_CONNECTIONS, ..ServerConf::default() };
    let mut server = Server::new_with_opt_and_conf(None, conf);
    server.bootstrap();
    let conf = Arc::clone(&server.configuration);
    let mut service = http_proxy_service(&conf, RoundRobin { endpoints, turn: AtomicUsize::new(0) });
    service.add_tcp(&listen);
    server.add_service(service);
    server.run_forever()
}
