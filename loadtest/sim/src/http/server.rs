//! A running server, as tests and the demo hold it.
//!
//! It lives on the runtime it was started on and ends with its handle.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use super::kv_events;
use super::listen;
use super::record::Received;
use super::shared::{Shared, State};
use crate::Config;
use crate::fault::Fault;

/// A running simulated server.
#[derive(Debug)]
pub struct Server {
    shared: Arc<Shared>,
    address: SocketAddr,
    admin: SocketAddr,
    tasks: Vec<JoinHandle<()>>,
}

impl Server {
    /// Starts a server on the current tokio runtime.
    pub async fn start(config: Config) -> io::Result<Self> {
        let listener = TcpListener::bind(config.listen).await?;
        let address = listener.local_addr()?;
        let admin_listener = match config.admin_listen {
            Some(address) => Some(TcpListener::bind(address).await?),
            None => None,
        };
        let admin = admin_listener.as_ref().map_or(Ok(address), TcpListener::local_addr)?;
        let shared = Arc::new(Shared::new(config));
        let engine = {
            let shared = shared.clone();
            async move { shared.driver.run().await }
        };
        let mut tasks = vec![tokio::spawn(engine)];
        tasks.push(tokio::spawn(listen::model_port(shared.clone(), listener, address)));
        if let Some(listener) = admin_listener {
            tasks.push(tokio::spawn(listen::admin_port(shared.clone(), listener)));
        }
        if let Some(port) = shared.config.kv_events_port {
            tasks.extend(kv_events::start(&shared, address.ip(), port).await?);
        }
        Ok(Self { shared, address, admin, tasks })
    }

    /// Address of the model port.
    pub fn addr(&self) -> SocketAddr {
        self.address
    }

    /// URL of the model port, without a slash at the end.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// URL under which `/admin/` is found.
    pub fn admin_url(&self) -> String {
        format!("http://{}", self.admin)
    }

    /// Ports of KV events and of their replays, if it has any.
    pub fn kv_events_ports(&self) -> Option<(u16, u16)> {
        self.shared.kv_ports.get().map(|(live, replay)| (live.port(), replay.port()))
    }

    /// Puts a fault in force, unchecked, and returns its number.
    pub fn fault(&self, fault: Fault) -> u64 {
        self.shared.fault(fault)
    }

    /// Puts a fault in force at a model time from the start of the server, for so much model time; `None` lasts.
    pub fn schedule(&mut self, fault: Fault, at: Duration, lasts: Option<Duration>) {
        let driver = &self.shared.driver;
        let (since, until) = (driver.instant(at), lasts.map(|lasts| driver.instant(at + lasts)));
        if fault.kind.is_of_speed() {
            // The engine knows of it in advance, and so at the very step.
            self.shared.fault_between(fault, since, until);
            return;
        }
        let shared = self.shared.clone();
        self.tasks.push(tokio::spawn(async move {
            tokio::time::sleep_until(since.into()).await;
            shared.fault_between(fault, since, until);
        }));
    }

    /// Lifts all faults in force; those scheduled for later stay.
    pub fn clear(&self) {
        self.shared.clear();
    }

    /// Ends every sequence and empties cache, counters and records. Faults stay.
    pub fn reset(&self) {
        self.shared.reset();
    }

    /// Resets every connection and empties the engine, as a restart does, then refuses connections for `down_ms`.
    pub fn crash(&self, down_ms: u64) {
        self.shared.crash(down_ms);
    }

    /// What the server is doing at this moment.
    pub fn state(&self) -> State {
        self.shared.state()
    }

    /// The last requests received, oldest first.
    pub fn last(&self) -> Vec<Received> {
        self.shared.records.last(usize::MAX)
    }

    /// Body of a recorded request, if it was kept.
    pub fn body(&self, seq: u64) -> Option<Bytes> {
        self.shared.records.body_of(seq)
    }

    /// Closes the ports, resets all connections and waits until its tasks are gone.
    pub async fn shutdown(mut self) {
        self.stop();
        for task in self.tasks.drain(..) {
            // Aborted on purpose: the only error there can be.
            let _ = task.await;
        }
    }

    fn stop(&self) {
        for task in &self.tasks {
            task.abort();
        }
        self.shared.reset_connections();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}
