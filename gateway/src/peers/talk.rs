//! The tasks: one hears, one speaks, one looks where the others are. None of them is waited for by a request.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use spillway_picker::pool::Pool;
use tokio::net::UdpSocket;
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval};
use tracing::{info, warn};

use super::Settings;
use super::board::{Gateway, Peer, View};
use super::directory::{Directory, sendable};
use super::hearer::{Hearer, Passage, Verdict};
use super::look;
use super::packet::{Head, MOST_BYTES, seal};
use super::place::hash_of;
use super::records::Record;
use super::scheme::scheme;
use super::speaker::Speaker;
use crate::fleet::Fleet;

/// How long words gather once there is one: what they are late by is far below what a decision can tell, and a packet is
/// not sent for each.
const GATHER: Duration = Duration::from_millis(5);

/// Time between two counts, which are also the sign of life. A request whose end was lost is counted for so long.
const COUNT_EVERY: Duration = Duration::from_millis(200);

/// Time between two looks at who has fallen silent.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Pause after the socket failed to receive, which it does for reasons that last.
const AFTER_ERROR: Duration = Duration::from_millis(100);

/// Least time between two log lines about packets that were refused or could not be sent: anybody can send some.
const LOG_EVERY: Duration = Duration::from_secs(60);

/// How often it is said that this gateway goes; packets get lost.
const FAREWELLS: usize = 2;

/// What lasts over changes of the configuration.
pub(super) struct Talk {
    fleet: Arc<Fleet>,
    id: u64,
    scheme: u32,
    sequence: AtomicU64,
    hearer: Mutex<Hearer>,
    speaker: Mutex<Speaker>,
    wake: Arc<Notify>,
    refused: Mutex<Complaint<[u64; Verdict::ALL.len()]>>,
    unsent: Mutex<Complaint<u64>>,
}

/// What has gone wrong since it was last said.
#[derive(Default)]
struct Complaint<T> {
    since: T,
    said: Option<Instant>,
}

impl<T: Default> Complaint<T> {
    /// What is to be said, if it is time.
    fn due(&mut self, now: Instant) -> Option<T> {
        if self.said.is_some_and(|said| now.duration_since(said) < LOG_EVERY) {
            return None;
        }
        self.said = Some(now);
        Some(std::mem::take(&mut self.since))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Talk {
    pub(super) fn new(fleet: Arc<Fleet>, id: u64) -> Self {
        let (wake, scheme) = (Arc::<Notify>::default(), scheme());
        let speaker =
            Speaker::new(Arc::clone(&wake), fleet.metrics().peer_words_dropped_total.with_label_values::<&str>(&[]));
        Self {
            fleet,
            id,
            scheme,
            sequence: AtomicU64::new(1),
            hearer: Mutex::new(Hearer::new(id, scheme, wall())),
            speaker: Mutex::new(speaker),
            wake,
            refused: Mutex::default(),
            unsent: Mutex::default(),
        }
    }

    fn pools(&self) -> HashMap<u64, Arc<Pool>> {
        let live = self.fleet.live();
        live.pools.iter().map(|(name, pool)| (hash_of(name), Arc::clone(&pool.state.picker))).collect()
    }

    fn count(&self, direction: &str, result: &str) {
        self.fleet.metrics().peer_packets_total.with_label_values(&[direction, result]).inc();
    }

    /// Counts a packet, and says now and then which ones were refused.
    fn judged(&self, verdict: Verdict, from: SocketAddr) {
        self.count("received", verdict.as_str());
        if matches!(verdict, Verdict::Ok | Verdict::Own) {
            return;
        }
        let mut refused = lock(&self.refused);
        refused.since[verdict as usize] += 1;
        // What the network has doubled is no reason to say anything.
        if verdict != Verdict::Replayed
            && let Some(since) = refused.due(Instant::now())
        {
            let of = |verdict: Verdict| since[verdict as usize];
            warn!(
                mac = of(Verdict::Mac), stale = of(Verdict::Stale), replayed = of(Verdict::Replayed),
                version = of(Verdict::Version), malformed = of(Verdict::Malformed), excess = of(Verdict::Excess),
                latest = verdict.as_str(), from = %from, "packets of peers were refused"
            );
        }
    }
}

/// Says who came and went.
fn log(passages: Vec<Passage>) {
    for turn in passages {
        match turn {
            Passage::Came(peer) => {
                info!(peer = %number(peer.id), address = %peer.from, "peer is heard");
                if !peer.is_same_scheme {
                    warn!(peer = %number(peer.id), address = %peer.from,
                        "peer hashes prompts in another way: its requests count, its prompts do not");
                }
            }
            Passage::Left(peer) => info!(peer = %number(peer.id), address = %peer.from, "peer left"),
            Passage::FellSilent(peer) => warn!(peer = %number(peer.id), address = %peer.from, "peer fell silent"),
        }
    }
}

/// The number of a process, as people are shown it.
fn number(id: u64) -> String {
    format!("{id:016x}")
}

fn wall() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// The tasks under one configuration; dropping it ends them.
pub(super) struct Session {
    voice: Arc<Voice>,
    tasks: JoinSet<()>,
}

/// What the tasks share.
struct Voice {
    talk: Arc<Talk>,
    socket: UdpSocket,
    settings: Arc<Settings>,
    listen: SocketAddr,
    directory: Arc<Mutex<Directory>>,
}

impl Session {
    /// Begins to hear and to speak.
    pub(super) fn begin(talk: &Arc<Talk>, settings: &Arc<Settings>) -> std::io::Result<Self> {
        let socket = UdpSocket::from_std(settings.socket.try_clone()?)?;
        let listen = socket.local_addr()?;
        let directory = Arc::new(Mutex::new(Directory::new(listen)));
        let (talk, settings) = (Arc::clone(talk), Arc::clone(settings));
        let voice = Arc::new(Voice { talk, socket, settings, listen, directory: Arc::clone(&directory) });
        let mut tasks = JoinSet::new();
        tasks.spawn(look::run(voice.settings.config.clone(), directory));
        tasks.spawn(Arc::clone(&voice).hear());
        tasks.spawn(Arc::clone(&voice).speak());
        Ok(Self { voice, tasks })
    }

    /// Says that this gateway goes, and is silent and deaf from then on.
    pub(super) async fn leave(mut self) {
        self.tasks.shutdown().await;
        let voice = &self.voice;
        let mut packets = lock(&voice.talk.speaker).words();
        let mut farewell = Vec::new();
        Record::Left.encode(&mut farewell);
        packets.extend(std::iter::repeat_n(farewell, FAREWELLS));
        voice.send(packets, false).await;
        let none = HashMap::new();
        let mut speaker = lock(&voice.talk.speaker);
        speaker.expect(0);
        speaker.listen(&none);
        let mut hearer = lock(&voice.talk.hearer);
        hearer.forget_all(voice.talk.fleet.now());
        hearer.tell(&none);
        voice.talk.fleet.peers().show(None);
    }
}

impl Voice {
    async fn hear(self: Arc<Self>) {
        let talk = &self.talk;
        let mut changes = talk.fleet.changes();
        let mut looks = interval(LOOK_EVERY);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // One more than a packet has, so that a longer one is not taken for its beginning.
        let mut buffer = [0; MOST_BYTES + 1];
        lock(&talk.hearer).tell(&talk.pools());
        loop {
            tokio::select! {
                received = self.socket.recv_from(&mut buffer) => match received {
                    Ok((length, from)) => self.heard(&buffer[..length], from),
                    Err(error) => {
                        talk.count("received", "failed");
                        if lock(&talk.unsent).due(Instant::now()).is_some() {
                            warn!(listen = %self.listen, %error, "cannot hear peers");
                        }
                        tokio::time::sleep(AFTER_ERROR).await;
                    }
                },
                _ = looks.tick() => self.look(),
                changed = changes.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    lock(&talk.hearer).tell(&talk.pools());
                }
            }
        }
    }

    fn heard(&self, packet: &[u8], from: SocketAddr) {
        let now = self.talk.fleet.now();
        let (verdict, is_anothers) = {
            let mut hearer = lock(&self.talk.hearer);
            let verdict = hearer.hear(packet, from, &self.settings.key, wall(), now);
            (verdict, verdict == Verdict::Own && hearer.is_at(from))
        };
        if verdict == Verdict::Own && !is_anothers {
            lock(&self.directory).heard_ourselves(from, now);
        }
        self.talk.judged(verdict, from);
    }

    fn look(&self) {
        let now = self.talk.fleet.now();
        let (passages, here) = {
            let mut hearer = lock(&self.talk.hearer);
            hearer.look(now);
            (hearer.passages(), hearer.here())
        };
        log(passages);
        let directory = lock(&self.directory);
        let expected = directory.expected(now);
        lock(&self.talk.speaker).expect(expected);
        let gateways =
            directory.all().map(|address| Gateway { address, own: directory.is_ours(address, now) }).collect();
        let heard = here.iter().map(|peer| Peer {
            id: number(peer.id),
            address: peer.from,
            age_seconds: now.seconds_since(peer.at),
            clock_ahead_seconds: peer.ahead,
            same_hashes: peer.is_same_scheme,
        });
        let view = View { id: number(self.talk.id), listen: self.listen, expected, gateways, heard: heard.collect() };
        self.talk.fleet.peers().show(Some(view));
    }

    async fn speak(self: Arc<Self>) {
        let talk = &self.talk;
        let mut changes = talk.fleet.changes();
        let mut counts = interval(COUNT_EVERY);
        counts.set_missed_tick_behavior(MissedTickBehavior::Delay);
        lock(&talk.speaker).listen(&talk.pools());
        loop {
            tokio::select! {
                _ = counts.tick() => {
                    let packets = lock(&talk.speaker).words_and_counts();
                    self.send(packets, true).await;
                }
                () = talk.wake.notified() => {
                    tokio::time::sleep(GATHER).await;
                    let packets = lock(&talk.speaker).words();
                    self.send(packets, false).await;
                }
                changed = changes.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    lock(&talk.speaker).listen(&talk.pools());
                }
            }
        }
    }

    /// Sends records to the other gateways; `to_all` also where this one is known to be, to see whether it still is.
    async fn send(&self, packets: Vec<Vec<u8>>, to_all: bool) {
        if packets.is_empty() {
            return;
        }
        let addresses: Vec<SocketAddr> = {
            let (directory, now) = (lock(&self.directory), self.talk.fleet.now());
            if to_all { directory.all().collect() } else { directory.others(now).collect() }
        };
        for records in packets {
            let head = Head {
                sender: self.talk.id,
                sequence: self.talk.sequence.fetch_add(1, Ordering::Relaxed),
                sent_ms: wall().as_millis() as u64,
                scheme: self.talk.scheme,
            };
            let packet = seal(&head, &records, &self.settings.key);
            for address in &addresses {
                match self.socket.send_to(&packet, sendable(self.listen, *address)).await {
                    Ok(_) => self.talk.count("sent", "ok"),
                    Err(error) => self.unsent(*address, &error),
                }
            }
        }
    }

    fn unsent(&self, address: SocketAddr, error: &std::io::Error) {
        self.talk.count("sent", "failed");
        let mut unsent = lock(&self.talk.unsent);
        unsent.since += 1;
        if let Some(packets) = unsent.due(Instant::now()) {
            warn!(packets, latest = %address, %error, "packets to peers could not be sent");
        }
    }
}

/// Talks as the configuration says until the process ends.
pub(super) async fn follow(
    talk: Arc<Talk>,
    mut settings: watch::Receiver<Option<Arc<Settings>>>,
    mut shutdown: watch::Receiver<bool>,
) {
    let mut session: Option<Session> = None;
    loop {
        let wanted = settings.borrow_and_update().clone();
        match wanted {
            None => {
                if let Some(session) = session.take() {
                    session.leave().await;
                }
            }
            Some(wanted) => {
                // The old tasks end first: two would take each other's packets.
                drop(session.take());
                match Session::begin(&talk, &wanted) {
                    Ok(begun) => session = Some(begun),
                    Err(error) => warn!(%error, "cannot talk to peers"),
                }
            }
        }
        tokio::select! {
            changed = settings.changed() => if changed.is_err() { return },
            _ = shutdown.changed() => break,
        }
    }
    let Some(session) = session else { return };
    // Requests that are still in flight count elsewhere until they end.
    while talk.fleet.active() > 0 {
        tokio::time::sleep(GATHER).await;
    }
    session.leave().await;
}
