//! Gateways that talk: each sees the others' requests and prompts, and nothing that they say, or others in their name, costs a
//! request.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use http::Method;
use serde_json::{Value, json};
use spillway_sim::{Fault, MetricsMode, Server};
use tokio::net::UdpSocket;
use tokio::task::JoinSet;

use crate::explain::explained;
use crate::harness::{
    Client, Config, Gateway, NameServer, Says, chat, config_for, eventually, free_udp, noise, post, sims, streamed,
};

const CHAT: &str = "/v1/chat/completions";

/// The file of a secret.
struct Secret {
    directory: tempfile::TempDir,
}

impl Secret {
    fn new(content: &str) -> Self {
        let secret = Self { directory: tempfile::tempdir().unwrap() };
        secret.write(content);
        secret
    }

    fn write(&self, content: &str) {
        std::fs::write(self.path(), content).unwrap();
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("secret")
    }

    /// The section of a gateway that listens on the port of `listen` and sends to `gateways`.
    fn peers(&self, listen: SocketAddr, gateways: &[SocketAddr]) -> String {
        let gateways: Vec<String> = gateways.iter().map(|address| format!("\"{address}\"")).collect();
        let (port, gateways) = (listen.port(), gateways.join(", "));
        format!(
            "peers: {{listen: \"0.0.0.0:{port}\", gateways: [{gateways}], secret_file: \"{}\"}}",
            self.path().display()
        )
    }
}

fn secret() -> Secret {
    Secret::new("a secret that all of them have\n")
}

/// Servers whose pages say nothing: what a gateway knows of others' requests it then knows from them.
async fn silent_sims(count: usize) -> Vec<Server> {
    let sims = sims(count).await;
    for sim in &sims {
        sim.fault(Fault::metrics(MetricsMode::NotFound));
    }
    sims
}

/// Two gateways over `sims` that talk, each with both in its list.
async fn two(sims: &[Server], settings: &[&str], secret: &Secret) -> [Gateway; 2] {
    let ports = [free_udp(), free_udp()];
    let config = |listen| {
        let config = config_for(sims).top(&secret.peers(listen, &ports));
        settings.iter().fold(config, |config, setting| config.with(setting))
    };
    let (one, other) = (config(ports[0]), config(ports[1]));
    let gateways = [Gateway::start(&one).await, Gateway::start(&other).await];
    for gateway in &gateways {
        hears(gateway, 1.0).await;
        expects(gateway, 1.0).await;
    }
    gateways
}

/// Waits until so many other gateways are heard.
async fn hears(gateway: &Gateway, others: f64) {
    eventually(&format!("{others} peers are heard"), async || {
        (gateway.metric("spillway_peers", &[]).await == others).then_some(())
    })
    .await;
}

/// Waits until so many other gateways are known to be there: of the addresses, the own one was told from the others'.
async fn expects(gateway: &Gateway, others: f64) {
    eventually(&format!("{others} peers are expected"), async || {
        (gateway.metric("spillway_peers_expected", &[]).await == others).then_some(())
    })
    .await;
}

async fn packets(gateway: &Gateway, direction: &str, result: &str) -> f64 {
    gateway.metric("spillway_peer_packets_total", &[("direction", direction), ("result", result)]).await
}

/// Waits for so many packets with this result.
async fn received(gateway: &Gateway, result: &str, count: f64) {
    eventually(&format!("{count} packets are {result}"), async || {
        (packets(gateway, "received", result).await >= count).then_some(())
    })
    .await;
}

/// What a gateway makes of a request, endpoint by endpoint.
async fn endpoints(gateway: &Gateway, body: String) -> Vec<Value> {
    explained(gateway, body).await["decision"]["endpoints"].as_array().unwrap().clone()
}

fn small() -> String {
    String::from_utf8(chat("hello").to_vec()).unwrap()
}

/// Requests of others that a gateway sees at all endpoints.
async fn outside(gateway: &Gateway) -> f64 {
    endpoints(gateway, small()).await.iter().map(|one| one["outside"].as_f64().unwrap()).sum()
}

async fn sees_outside(gateway: &Gateway, count: f64) {
    eventually(&format!("{count} requests of others are seen"), async || {
        (outside(gateway).await == count).then_some(())
    })
    .await;
}

/// A request that goes on until it is dropped.
async fn lasting(gateway: &Gateway, number: usize) -> (Client, http::Response<hyper::body::Incoming>) {
    let mut client = gateway.h1().await;
    let response = client.send(post(CHAT, streamed(&format!("number {number}"), 20_000))).await.unwrap();
    (client, response)
}

#[tokio::test]
async fn anothers_requests_are_seen_while_they_last_and_avoided() {
    let (sims, secret) = (silent_sims(2).await, secret());
    let [one, other] = two(&sims, &["policy: least_request"], &secret).await;
    let first = lasting(&one, 0).await;
    sees_outside(&other, 1.0).await;
    let busy = endpoints(&other, small()).await.into_iter().find(|endpoint| endpoint["outside"] == 1.0).unwrap();
    let second = lasting(&one, 1).await;
    sees_outside(&other, 2.0).await;
    drop(first);
    sees_outside(&other, 1.0).await;
    drop(second);
    sees_outside(&other, 0.0).await;
    assert!(busy["endpoint"].as_str().unwrap().starts_with("http://"));
    assert_eq!(one.metric("spillway_peer_words_dropped_total", &[]).await, 0.0);
    one.assert_idle().await;
    other.assert_idle().await;
}

#[tokio::test]
async fn what_went_through_one_is_believed_to_be_cached_by_the_other() {
    let (sims, secret) = (silent_sims(2).await, secret());
    let [one, other] = two(&sims, &["policy: adaptive"], &secret).await;
    let text = String::from_utf8(noise(8_000, 1)).unwrap();
    let body = json!({"model": "sim-model", "max_tokens": 2, "messages": [{"role": "user", "content": text}]});
    let cached = async |gateway: &Gateway| {
        let endpoints = endpoints(gateway, body.to_string()).await;
        endpoints.iter().map(|one| one["cached_tokens"].as_f64().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(cached(&other).await, [0.0, 0.0]);
    one.post(CHAT, body.to_string()).await.expect(200);
    eventually("the other gateway knows", async || {
        let cached = cached(&other).await;
        (cached.iter().any(|tokens| *tokens > 1_000.0)).then_some(())
    })
    .await;
    // How many tokens a block stands for each has learned by itself.
    let holds = |cached: Vec<f64>| cached.into_iter().map(|tokens| tokens > 1_000.0).collect::<Vec<_>>();
    assert_eq!(holds(cached(&other).await), holds(cached(&one).await));
}

#[tokio::test]
async fn who_has_another_secret_is_not_heard() {
    let sims = silent_sims(1).await;
    let (ours, theirs) = (secret(), Secret::new("a secret that nobody else has"));
    let ports = [free_udp(), free_udp()];
    let one = Gateway::start(&config_for(&sims).top(&ours.peers(ports[0], &ports[1..]))).await;
    let other = Gateway::start(&config_for(&sims).top(&theirs.peers(ports[1], &ports[..1]))).await;
    let _request = lasting(&one, 0).await;
    received(&other, "mac", 10.0).await;
    received(&one, "mac", 10.0).await;
    for gateway in [&one, &other] {
        assert_eq!(gateway.metric("spillway_peers", &[]).await, 0.0);
        assert_eq!(gateway.metric("spillway_peers_expected", &[]).await, 1.0);
        assert_eq!(packets(gateway, "received", "ok").await, 0.0);
        assert!(gateway.events().iter().any(|line| line.contains("packets of peers were refused")));
    }
    assert_eq!(outside(&other).await, 0.0);
    // A changed file is found by itself; one that is no secret is not taken.
    theirs.write("short");
    eventually("the short secret is refused", async || {
        other.events().iter().any(|line| line.contains("secret of peers rejected")).then_some(())
    })
    .await;
    theirs.write("a secret that all of them have");
    hears(&one, 1.0).await;
    hears(&other, 1.0).await;
    // What went out before is counted, but not followed.
    let _another = lasting(&one, 1).await;
    sees_outside(&other, 1.0).await;
    let all = [one.events(), other.events()].concat().join("\n");
    assert!(!all.contains("a secret that"), "a secret is in the log");
}

#[tokio::test]
async fn one_that_is_killed_takes_its_requests_with_it() {
    let (sims, secret) = (silent_sims(2).await, secret());
    let [one, other] = two(&sims, &[], &secret).await;
    let mut requests = Vec::new();
    for number in 0..4 {
        requests.push(lasting(&one, number).await);
    }
    sees_outside(&other, 4.0).await;
    one.signal("KILL");
    let began = Instant::now();
    sees_outside(&other, 0.0).await;
    hears(&other, 0.0).await;
    assert!(began.elapsed() >= Duration::from_millis(500), "a few lost packets are no death");
    assert_eq!(other.metric("spillway_peers_expected", &[]).await, 1.0, "it may come back");
    other.post(CHAT, chat("hello")).await.expect(200);
}

#[tokio::test]
async fn one_that_ends_says_so_when_its_last_request_is_over() {
    let (sims, secret) = (silent_sims(1).await, secret());
    let [mut one, other] = two(&sims, &[], &secret).await;
    let request = lasting(&one, 0).await;
    sees_outside(&other, 1.0).await;
    one.signal("TERM");
    eventually("it is draining", async || {
        one.metrics_port("/readyz").await.is_some_and(|answer| answer.status == 503).then_some(())
    })
    .await;
    assert_eq!(outside(&other).await, 1.0, "what it still has counts");
    drop(request);
    one.ended().await;
    sees_outside(&other, 0.0).await;
    hears(&other, 0.0).await;
    assert!(other.events().iter().any(|line| line.contains("peer left")), "{:#?}", other.events());
}

#[tokio::test]
async fn a_flood_of_anything_changes_nothing() {
    let (sims, secret) = (silent_sims(2).await, secret());
    let ports = [free_udp(), free_udp()];
    let config = |listen| config_for(&sims).top(&secret.peers(listen, &ports));
    let (one, other) = (Gateway::start(&config(ports[0])).await, Gateway::start(&config(ports[1])).await);
    hears(&other, 1.0).await;
    let _request = lasting(&one, 0).await;
    sees_outside(&other, 1.0).await;
    let mut flood = JoinSet::new();
    flood.spawn(async move {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let mut random = fastrand::Rng::with_seed(1);
        loop {
            let mut datagram = vec![0; random.usize(0..1_400)];
            random.fill(&mut datagram);
            if let Some(version) = datagram.first_mut().filter(|_| random.bool()) {
                *version = 1;
            }
            let _ = socket.send_to(&datagram, ports[1]).await;
            // The test's own servers run here too.
            tokio::task::yield_now().await;
        }
    });
    for result in ["malformed", "version", "mac"] {
        received(&other, result, 50.0).await;
    }
    for _ in 0..5 {
        other.post(CHAT, chat("hello")).await.expect(200);
    }
    flood.shutdown().await;
    sees_outside(&other, 1.0).await;
    assert_eq!(other.metric("spillway_peers", &[]).await, 1.0);
    let refused = other.events().iter().filter(|line| line.contains("packets of peers were refused")).count();
    assert!(refused <= 2, "{refused} lines about what anybody can send");
}

#[tokio::test]
async fn a_packet_that_is_sent_again_is_taken_once() {
    let (sims, secret) = (silent_sims(1).await, secret());
    let (ports, relay) = ([free_udp(), free_udp()], UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap());
    let way = relay.local_addr().unwrap();
    let mut relays = JoinSet::new();
    relays.spawn(async move {
        let mut packet = [0; 2_048];
        loop {
            let (length, _) = relay.recv_from(&mut packet).await.unwrap();
            for _ in 0..2 {
                let _ = relay.send_to(&packet[..length], ports[1]).await;
            }
        }
    });
    let one = Gateway::start(&config_for(&sims).top(&secret.peers(ports[0], &[way]))).await;
    let other = Gateway::start(&config_for(&sims).top(&secret.peers(ports[1], &ports[..1]))).await;
    hears(&other, 1.0).await;
    let _request = lasting(&one, 0).await;
    received(&other, "replayed", 10.0).await;
    sees_outside(&other, 1.0).await;
    assert!(packets(&other, "received", "ok").await >= 10.0);
}

#[tokio::test]
async fn peers_come_and_go_with_a_reload() {
    let (sims, secret) = (silent_sims(1).await, secret());
    let ports = [free_udp(), free_udp(), free_udp()];
    let base = || config_for(&sims);
    let one = Gateway::start(&base()).await;
    let other = Gateway::start(&base().top(&secret.peers(ports[1], &ports[..2]))).await;
    assert_eq!(one.admin(Method::GET, "/peers", "").await.expect(200).json(), Value::Null);
    let _request = lasting(&one, 0).await;
    // From nothing.
    one.rewrite(&base().top(&secret.peers(ports[0], &ports[..2])));
    hears(&other, 1.0).await;
    hears(&one, 1.0).await;
    let _another = lasting(&one, 1).await;
    // What went out before is counted, but not followed.
    sees_outside(&other, 1.0).await;
    let view = one.admin(Method::GET, "/peers", "").await.expect(200).json();
    assert_eq!((&view["expected"], view["heard"].as_array().unwrap().len()), (&json!(1), 1), "{view:#}");
    eventually("it knows which one it is", async || {
        let view = one.admin(Method::GET, "/peers", "").await.expect(200).json();
        let own: Vec<_> = view["gateways"].as_array().unwrap().iter().map(|gateway| gateway["own"] == true).collect();
        (own.iter().filter(|own| **own).count() == 1).then_some(())
    })
    .await;
    // To another address, and without the other one.
    one.rewrite(&base().top(&secret.peers(ports[2], &[ports[2]])));
    hears(&other, 0.0).await;
    sees_outside(&other, 0.0).await;
    eventually("no peer is expected", async || (one.metric("spillway_peers_expected", &[]).await == 0.0).then_some(()))
        .await;
    // With it again, and off.
    one.rewrite(&base().top(&secret.peers(ports[2], &ports[1..])));
    hears(&other, 1.0).await;
    one.rewrite(&base());
    hears(&other, 0.0).await;
    eventually("there is nothing to be told of peers", async || {
        let view = one.admin(Method::GET, "/peers", "").await.expect(200).json();
        view.is_null().then_some(())
    })
    .await;
    // On again, at the address it had.
    one.rewrite(&base().top(&secret.peers(ports[2], &ports[1..])));
    hears(&other, 1.0).await;
    assert!(other.events().iter().any(|line| line.contains("peer left")), "{:#?}", other.events());
}

#[tokio::test]
async fn a_reload_that_cannot_be_leaves_what_there_is() {
    let (sims, secret) = (silent_sims(1).await, secret());
    let [one, other] = two(&sims, &[], &secret).await;
    let taken = std::net::UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
    let short = Secret::new("too short\n");
    let elsewhere = SocketAddr::from((Ipv4Addr::LOCALHOST, taken.local_addr().unwrap().port()));
    for (peers, key) in [
        (secret.peers(elsewhere, &[elsewhere]), "peers.listen"),
        (short.peers(free_udp(), &[elsewhere]), "peers.secret_file"),
    ] {
        one.rewrite(&config_for(&sims).top(&peers));
        eventually(&format!("{key} is refused"), async || {
            let status = one.admin(Method::GET, "/config", "").await.expect(200).json()["reload"].take();
            (status["result"] == "rejected" && status["problems"][0]["path"] == key).then_some(())
        })
        .await;
    }
    hears(&other, 1.0).await;
    hears(&one, 1.0).await;
}

#[tokio::test]
async fn a_start_that_cannot_be_says_why() {
    let sims = silent_sims(1).await;
    let config = |peers: &str| {
        format!(
            "{peers}\nserver: {{listen: [{{address: \"127.0.0.1:0\"}}], metrics: {{address: \"127.0.0.1:0\"}}, admin: {{address: \"127.0.0.1:0\"}}}}\npools: {{main: {{endpoints: [\"{}\"]}}}}\n",
            sims[0].url()
        )
    };
    let taken = std::net::UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
    let elsewhere = SocketAddr::from((Ipv4Addr::LOCALHOST, taken.local_addr().unwrap().port()));
    let (secret, short) = (secret(), Secret::new("too short\n"));
    for (peers, message) in [
        (secret.peers(elsewhere, &[elsewhere]), "cannot listen for peers on 0.0.0.0:"),
        (short.peers(free_udp(), &[elsewhere]), "has 9 bytes, and needs 16"),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("spillway.yaml");
        std::fs::write(&file, config(&peers)).unwrap();
        let output = crate::cli::spillway(["run", "--config", &file.display().to_string()]).await;
        let (_, err) = crate::cli::texts(&output);
        assert_eq!(output.status.code(), Some(1), "{err}");
        assert!(err.contains(message), "{err}");
    }
}

#[tokio::test]
async fn gateways_behind_a_name_find_each_other() {
    let (sims, secret, dns) = (silent_sims(1).await, secret(), NameServer::start().await);
    let port = free_udp().port();
    let ips = [Ipv4Addr::new(127, 0, 0, 2), Ipv4Addr::new(127, 0, 0, 3)];
    dns.set("peers.test", Says::addresses(ips.map(Into::into)));
    let config = |ip: Ipv4Addr| -> Config {
        let dns = dns.setting("peers.test.", &format!("port: {port}"));
        let secret = secret.path();
        config_for(&sims)
            .top(&format!("peers: {{listen: \"{ip}:{port}\", secret_file: \"{}\", {dns}}}", secret.display()))
    };
    let gateways = [Gateway::start(&config(ips[0])).await, Gateway::start(&config(ips[1])).await];
    for gateway in &gateways {
        hears(gateway, 1.0).await;
        assert_eq!(gateway.metric("spillway_peers_expected", &[]).await, 1.0);
    }
    let _request = lasting(&gateways[0], 0).await;
    sees_outside(&gateways[1], 1.0).await;
    // It has moved away: nothing is sent there any more.
    dns.set("peers.test", Says::addresses([ips[1].into()]));
    hears(&gateways[0], 0.0).await;
    expects(&gateways[1], 0.0).await;
}
