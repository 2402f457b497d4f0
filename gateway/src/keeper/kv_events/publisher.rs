//! One publisher: subscribes, keeps the order, asks for what was missed, and tells the pool.
//!
//! What comes waits in a short queue, so that a publisher that is faster than this is slowed by TCP; what it then drops for
//! us shows as a gap.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use spillway_picker::kv::Change;
use spillway_picker::pool::{Endpoint, Event};
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::Instant;
use tracing::{info, warn};

use crate::fleet::{Fleet, LivePool};
use crate::kv_events::sequence::{Message, Replayed, Sequence, Step};
use crate::kv_events::source::Source;
use crate::kv_events::zmtp::{Connection, Kind, ZmtpError};
use crate::kv_events::{Group, batch};

/// Time to connect and shake hands.
const CONNECT: Duration = Duration::from_secs(2);

/// Pauses between tries to connect: short at first, for a server that restarts, and doubled up to the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// A replay that sends nothing for so long has failed. vLLM looks for questions ten times a second at least.
const REPLAY_SILENCE: Duration = Duration::from_secs(2);

/// A replay that takes longer than this in all has failed: what is held back meanwhile is worth more than what is missing.
const REPLAY: Duration = Duration::from_secs(20);

/// Messages read and not yet applied.
const QUEUE: usize = 16;

/// What the tasks under a publisher report.
enum Incoming {
    Live(Message),
    Replayed(u64, Replayed),
    ReplayFailed(u64),
    Closed(ZmtpError),
}

/// One publisher of an endpoint.
pub(super) struct Publisher {
    fleet: Arc<Fleet>,
    pool: Arc<LivePool>,
    endpoint: Arc<Endpoint>,
    source: Source,
    sequence: Sequence,
    group: Group,
    /// Number of the replay that counts, and its task.
    replay: u64,
    replaying: Option<AbortHandle>,
    /// Whether it was said that the publisher cannot be read.
    is_failing: bool,
    was_undecodable: bool,
    /// Whether events are told as they happen, and not as history.
    is_current: bool,
}

impl Drop for Publisher {
    /// Nobody follows any more: what is known would only grow old.
    fn drop(&mut self) {
        self.tell(&[Change::Ended]);
    }
}

impl Publisher {
    pub(super) fn new(fleet: &Arc<Fleet>, pool: &Arc<LivePool>, endpoint: &Arc<Endpoint>, source: Source) -> Self {
        Self {
            fleet: Arc::clone(fleet),
            pool: Arc::clone(pool),
            endpoint: Arc::clone(endpoint),
            sequence: Sequence::new(source.replay_port.is_some()),
            source,
            group: Group::default(),
            replay: 0,
            replaying: None,
            is_failing: false,
            was_undecodable: false,
            is_current: false,
        }
    }

    /// Runs until dropped.
    pub(super) async fn follow(mut self) {
        let mut pause = FIRST_PAUSE;
        loop {
            let began = Instant::now();
            let error = match self.connect().await {
                Ok(connection) => self.read(connection).await,
                Err(error) => error,
            };
            // Once per outage.
            if !self.is_failing {
                let (pool, endpoint) = (&self.pool.state.name, &self.endpoint.id);
                warn!(pool = %pool, endpoint = %endpoint, rank = self.source.rank, %error, "kv events cannot be read");
            }
            self.is_failing = true;
            pause = if began.elapsed() > LONGEST_PAUSE { FIRST_PAUSE } else { (pause * 2).min(LONGEST_PAUSE) };
            tokio::time::sleep(pause.mul_f64(0.5 + 0.5 * fastrand::f64())).await;
        }
    }

    async fn connect(&self) -> Result<Connection, ZmtpError> {
        let mut connection = Connection::open(self.socket(self.source.port)?, Kind::Sub, CONNECT).await?;
        connection.subscribe(&self.source.topic).await?;
        Ok(connection)
    }

    /// Where a port of the endpoint is.
    fn socket(&self, port: u16) -> Result<SocketAddr, ZmtpError> {
        let address = self.pool.state.address(&self.endpoint.id);
        let address = address.ok_or_else(|| std::io::Error::from(std::io::ErrorKind::AddrNotAvailable))?;
        Ok(SocketAddr::new(address.socket.ip(), port))
    }

    /// Reads until the connection breaks; returns why it did.
    async fn read(&mut self, mut connection: Connection) -> ZmtpError {
        if std::mem::take(&mut self.is_failing) {
            info!(pool = %self.pool.state.name, endpoint = %self.endpoint.id, rank = self.source.rank, "kv events are read again");
        }
        let (sender, mut incoming) = mpsc::channel(QUEUE);
        let mut tasks = JoinSet::new();
        let live = sender.clone();
        tasks.spawn(async move {
            loop {
                let next = match connection.receive().await {
                    Ok(parts) => Message::live(&parts).map_or(Incoming::Closed(ZmtpError::Protocol), Incoming::Live),
                    Err(error) => Incoming::Closed(error),
                };
                let is_over = matches!(next, Incoming::Closed(_));
                if live.send(next).await.is_err() || is_over {
                    return;
                }
            }
        });
        let mut steps = Vec::new();
        self.sequence.connected(&mut steps);
        self.take(&mut steps, &sender, &mut tasks);
        while let Some(next) = incoming.recv().await {
            match next {
                Incoming::Live(message) => self.sequence.live(message, &mut steps),
                Incoming::Replayed(number, what) if number == self.replay => match what {
                    Replayed::Batch(message) => self.sequence.replayed(message, &mut steps),
                    Replayed::End => {
                        self.count_replay("filled");
                        self.sequence.replay_ended(&mut steps);
                    }
                },
                Incoming::ReplayFailed(number) if number == self.replay => {
                    self.count_replay("failed");
                    self.sequence.replay_failed(&mut steps);
                }
                Incoming::Replayed(..) | Incoming::ReplayFailed(_) => {}
                Incoming::Closed(error) => return error,
            }
            self.take(&mut steps, &sender, &mut tasks);
        }
        ZmtpError::Protocol
    }

    /// Does what the order of things asks for.
    fn take(&mut self, steps: &mut Vec<Step>, sender: &mpsc::Sender<Incoming>, tasks: &mut JoinSet<()>) {
        for step in steps.drain(..) {
            match step {
                Step::Apply(payload) => self.apply(&payload),
                Step::Replay(from) => {
                    self.replay += 1;
                    // The one before it has nobody who listens.
                    if let Some(before) = self.replaying.take() {
                        before.abort();
                    }
                    while tasks.try_join_next().is_some() {}
                    let address = self.source.replay_port.map(|port| self.socket(port));
                    self.replaying = Some(tasks.spawn(replay(address, from, self.replay, sender.clone())));
                }
                Step::Restarted => {
                    self.group = Group::default();
                    self.count("restarts");
                    self.tell(&[Change::Restarted]);
                }
                Step::Gap => self.count("gaps"),
                Step::Lost => {
                    self.group = Group::default();
                    self.count("losses");
                    self.tell(&[Change::Lost]);
                }
            }
        }
        if !self.is_current && !self.sequence.is_waiting() {
            self.is_current = true;
            self.tell(&[Change::Current]);
        }
    }

    fn apply(&mut self, payload: &[u8]) {
        self.count("batches");
        match batch::decode(payload) {
            Ok(batch) => {
                let skipped = batch.skipped as u64;
                if skipped > 0 {
                    self.metric("skipped", skipped);
                }
                let changes = self.group.changes(batch);
                for change in &changes {
                    match change {
                        Change::Stored { blocks, .. } => self.metric("stored_blocks", blocks.len() as u64),
                        Change::Removed { blocks } => self.metric("removed_blocks", blocks.len() as u64),
                        _ => self.count("clears"),
                    }
                }
                self.tell(&changes);
            }
            Err(error) => {
                self.count("undecodable");
                // What it said is not known, so it may have been anything.
                self.tell(&[Change::Lost]);
                if !std::mem::replace(&mut self.was_undecodable, true) {
                    warn!(pool = %self.pool.state.name, endpoint = %self.endpoint.id, %error, "kv events cannot be decoded");
                }
            }
        }
    }

    fn tell(&self, changes: &[Change]) {
        let event = Event::Cache { endpoint: self.endpoint.slot, rank: self.source.rank, changes };
        self.pool.state.picker.observe(event, self.fleet.now());
    }

    fn count(&self, what: &str) {
        self.metric(what, 1);
    }

    fn metric(&self, what: &str, count: u64) {
        let labels = [&*self.pool.state.name, &*self.endpoint.id, what];
        self.fleet.metrics().kv_events_total.with_label_values(&labels).inc_by(count);
    }

    fn count_replay(&self, result: &str) {
        let labels = [&*self.pool.state.name, &*self.endpoint.id, result];
        self.fleet.metrics().kv_event_replays_total.with_label_values(&labels).inc();
    }
}

/// Asks for the batches from one on and reports them, and how it ended.
async fn replay(
    address: Option<Result<SocketAddr, ZmtpError>>,
    from: u64,
    number: u64,
    sender: mpsc::Sender<Incoming>,
) {
    let whole = tokio::time::timeout(REPLAY, ask(address, from, number, &sender)).await;
    if !matches!(whole, Ok(Ok(()))) {
        let _ = sender.send(Incoming::ReplayFailed(number)).await;
    }
}

async fn ask(
    address: Option<Result<SocketAddr, ZmtpError>>,
    from: u64,
    number: u64,
    sender: &mpsc::Sender<Incoming>,
) -> Result<(), ZmtpError> {
    let address = address.ok_or(ZmtpError::Protocol)??;
    let mut connection = Connection::open(address, Kind::Dealer, CONNECT).await?;
    connection.send(&[b"", &from.to_be_bytes()]).await?;
    loop {
        let parts: Vec<Bytes> = tokio::time::timeout(REPLAY_SILENCE, connection.receive())
            .await
            .map_err(|_| ZmtpError::Timeout(REPLAY_SILENCE))??;
        let replayed = Message::replayed(&parts).map_err(|_| ZmtpError::Protocol)?;
        let is_end = replayed == Replayed::End;
        if sender.send(Incoming::Replayed(number, replayed)).await.is_err() || is_end {
            return Ok(());
        }
    }
}
