//! A gateway under test: the executable, its configuration file, and what it says of itself.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::Method;
use serde_json::Value;

use super::client::{Answer, Client, get, post};
use super::config::Config;
use super::fetch::fetch;
use super::metrics::{self, Sample};
use super::ports::Ports;
use super::process::Process;
use super::raw::Raw;
use super::wait::{eventually, eventually_within};

/// A debug build on a busy machine; and readiness waits up to five seconds for endpoints that do not answer.
const START: Duration = Duration::from_secs(30);

/// Tries to find ports that stay free until the gateway has them.
const TRIES: u32 = 3;

/// A running gateway.
#[derive(Debug)]
pub(crate) struct Gateway {
    process: Process,
    ports: Ports,
    directory: tempfile::TempDir,
}

impl Gateway {
    /// Starts a gateway and waits until it is ready.
    pub(crate) async fn start(config: &Config) -> Self {
        let gateway = Self::start_unready(config).await;
        let ready =
            async || gateway.metrics_port("/readyz").await.is_some_and(|answer| answer.status == 200).then_some(());
        eventually_within(START, "the gateway is ready", ready).await;
        gateway
    }

    /// Starts a gateway and waits until its ports are open.
    pub(crate) async fn start_unready(config: &Config) -> Self {
        for _ in 0..TRIES {
            let ports = Ports::free();
            let directory = tempfile::tempdir().expect("a temporary directory can be made");
            std::fs::write(directory.path().join("spillway.yaml"), config.yaml(&ports)).unwrap();
            let process = Process::start(&directory.path().join("spillway.yaml"));
            let mut gateway = Self { process, ports, directory };
            if gateway.opens().await {
                return gateway;
            }
        }
        panic!("the gateway found its ports taken {TRIES} times");
    }

    /// Whether all ports are open. False if one was taken by somebody else.
    async fn opens(&mut self) -> bool {
        let began = Instant::now();
        let ports = self.ports.all();
        loop {
            if let Some(status) = self.process.ended() {
                let events = self.process.stderr.all().join("\n");
                assert!(events.contains("in use"), "the gateway ended with {status}:\n{events}");
                return false;
            }
            let mut open = 0;
            for port in ports {
                open += usize::from(tokio::net::TcpStream::connect(port).await.is_ok());
            }
            if open == ports.len() {
                return true;
            }
            if self.process.stderr.all().iter().any(|line| line.contains("in use")) {
                return false;
            }
            assert!(began.elapsed() < START, "only {open} of {} ports open after {START:?}", ports.len());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Where clients connect with HTTP/1.1.
    pub(crate) fn addr(&self) -> SocketAddr {
        self.ports.h1
    }

    /// Where operators ask and change things.
    pub(crate) fn admin_addr(&self) -> SocketAddr {
        self.ports.admin
    }

    /// A fresh HTTP/1.1 connection.
    pub(crate) async fn h1(&self) -> Client {
        Client::h1(self.ports.h1).await
    }

    /// A fresh HTTP/2 connection.
    pub(crate) async fn h2(&self) -> Client {
        Client::h2(self.ports.h2).await
    }

    /// A fresh connection for bytes.
    pub(crate) async fn raw(&self) -> Raw {
        Raw::connect(self.ports.h1).await
    }

    /// Posts JSON on a fresh HTTP/1.1 connection.
    pub(crate) async fn post(&self, path: &str, body: impl Into<Bytes>) -> Answer {
        self.h1().await.call(post(path, body)).await
    }

    /// Gets a path on a fresh HTTP/1.1 connection.
    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.h1().await.call(get(path)).await
    }

    /// Asks the admin port.
    pub(crate) async fn admin(&self, method: Method, path: &str, body: impl Into<Bytes>) -> Answer {
        fetch(self.ports.admin, method, path, body).await.unwrap_or_else(|error| panic!("admin {path}: {error}"))
    }

    /// Asks the metrics port; `None` if nobody answers there.
    pub(crate) async fn metrics_port(&self, path: &str) -> Option<Answer> {
        fetch(self.ports.metrics, Method::GET, path, "").await.ok()
    }

    async fn samples(&self) -> Vec<Sample> {
        let page = self.metrics_port("/metrics").await.expect("the metrics port answers").expect(200);
        metrics::samples(&page.text())
    }

    /// Sum of the series with this name and at least these labels; 0 if there is none.
    pub(crate) async fn metric(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        // From +0, which the sum of no floats is not.
        self.samples().await.iter().filter(|one| one.is(name, labels)).fold(0.0, |sum, one| sum + one.value)
    }

    /// Waits until every gauge of something in flight is 0.
    pub(crate) async fn assert_idle(&self) {
        const GAUGES: [&str; 4] =
            ["spillway_in_flight", "spillway_pool_in_flight", "spillway_active_requests", "spillway_body_memory_bytes"];
        let mut left = Vec::new();
        let began = Instant::now();
        while began.elapsed() < Duration::from_secs(10) {
            left = self.samples().await;
            assert!(left.iter().any(|one| one.name == GAUGES[0]), "{} is not on the page", GAUGES[0]);
            left.retain(|one| GAUGES.contains(&&*one.name) && one.value != 0.0);
            if left.is_empty() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        panic!("not 0 although nothing is in flight: {left:#?}");
    }

    /// The access log so far.
    pub(crate) fn log(&self) -> Vec<Value> {
        self.process.stdout.all().iter().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    /// Waits for the access-log line of a request.
    pub(crate) async fn logged(&self, request_id: &str) -> Value {
        let is_it = |line: &Value| line["request_id"] == request_id;
        let parsed = |line: &String| serde_json::from_str(line).ok().filter(is_it);
        let line = async || self.process.stdout.find(parsed);
        eventually(&format!("request {request_id} is in the access log"), line).await
    }

    /// What the process has said on standard error so far.
    pub(crate) fn events(&self) -> Vec<String> {
        self.process.stderr.all()
    }

    /// The configuration file.
    pub(crate) fn config_file(&self) -> PathBuf {
        self.directory.path().join("spillway.yaml")
    }

    /// Replaces the configuration file, keeping the ports.
    pub(crate) fn rewrite(&self, config: &Config) {
        std::fs::write(self.config_file(), config.yaml(&self.ports)).unwrap();
    }

    /// Sends the process a signal by name: `TERM`, `HUP`, `KILL`.
    pub(crate) fn signal(&self, name: &str) {
        self.process.signal(name);
    }

    /// Waits until the process has ended.
    pub(crate) async fn ended(&mut self) -> ExitStatus {
        eventually_within(START, "the gateway has ended", async || self.process.ended()).await
    }

    /// Memory of the process that is in RAM, in bytes.
    pub(crate) fn resident_bytes(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.pid())).expect("Linux has /proc");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a running process has memory");
        line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") * 1024
    }
}
