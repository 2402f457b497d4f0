//! Endpoints found by DNS: they come and go without a failed request, and an outage of DNS takes none away.

mod outage;
mod records;
mod reload;
mod rollout;

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use http::Method;
use serde_json::Value;
use spillway_sim::Server;

use crate::harness::{Config, Gateway, NameServer, eventually, sim_of};

const CHAT: &str = "/v1/chat/completions";

/// The name asked for.
const NAME: &str = "vllm.test.";

/// Tries to find a port that is free on all addresses.
const TRIES: u32 = 20;

/// Simulated servers `a`, `b`, `c`, ... on 127.0.0.2, 127.0.0.3, ... and one port, as the pods of a Service are.
async fn pods(count: u8) -> Vec<Server> {
    'tries: for _ in 0..TRIES {
        let mut pods: Vec<Server> = Vec::new();
        for pod in 0..count {
            let port = pods.first().map_or(0, |first| first.addr().port());
            let listen = SocketAddr::from((Ipv4Addr::new(127, 0, 0, 2 + pod), port));
            // Asking first: a sim that cannot listen says so by a panic of its helper.
            if std::net::TcpListener::bind(listen).is_err() {
                continue 'tries;
            }
            let replica = char::from(b'a' + pod).to_string();
            pods.push(sim_of(spillway_sim::Config { replica, listen, ..spillway_sim::Config::default() }).await);
        }
        return pods;
    }
    panic!("no port was free on {count} addresses in {TRIES} tries");
}

fn ips(pods: &[Server]) -> Vec<IpAddr> {
    pods.iter().map(|pod| pod.addr().ip()).collect()
}

/// One pool named `main` over what [`NAME`] leads to, on the port of `pods`.
fn config_over(dns: &NameServer, pods: &[Server]) -> Config {
    let port = format!("port: {}", pods[0].addr().port());
    Config::default().pool("main", &[]).with(&dns.setting(NAME, &port)).with("policy: round_robin")
}

/// What `/pools` says of the pool.
async fn pool(gateway: &Gateway) -> Value {
    gateway.admin(Method::GET, "/pools", "").await.expect(200).json()["main"].take()
}

/// The endpoints of the pool.
async fn endpoints(gateway: &Gateway) -> BTreeSet<String> {
    let pool = pool(gateway).await;
    let ids = pool["endpoints"].as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap().to_owned());
    ids.collect()
}

fn urls(pods: &[Server]) -> BTreeSet<String> {
    pods.iter().map(Server::url).collect()
}

/// Waits until the endpoints of the pool are these.
async fn become_these(gateway: &Gateway, expected: &BTreeSet<String>) {
    let what = format!("the endpoints are {expected:?}");
    eventually(&what, async || (endpoints(gateway).await == *expected).then_some(())).await;
}

/// Waits until the name server has answered `more` looks from here on.
async fn looks(dns: &NameServer, more: usize) {
    let kind = hickory_proto::rr::RecordType::AAAA;
    // One may be under way.
    let enough = dns.questions(kind) + more + 1;
    eventually("the name is asked for again", async || (dns.questions(kind) >= enough).then_some(())).await;
}
