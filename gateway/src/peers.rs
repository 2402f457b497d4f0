//! Talking to the other gateways in front of the same endpoints, so that each counts the others' requests like its own.
//!
//! Over UDP, since a word that is late is of no use and one that is lost does no harm: when the others are not heard, this
//! gateway is back at what gateways agree on without a word. So nothing here fails a request, and no request waits for
//! anything here. What is said are hashes and counts, signed with a secret that all share and not encrypted.
//!
//! [`Peers`] takes what the configuration says; `talk` has the tasks. What is under them takes time and randomness as
//! arguments: [`packet`] and [`records`] are the form on the wire, [`window`] knows what has come before, [`hearer`] who is
//! there, [`speaker`] and [`mouth`] what is to be said, [`directory`] where the others are.

pub mod board;
pub mod directory;
pub mod hearer;
mod look;
pub mod mouth;
pub mod packet;
pub mod place;
pub mod records;
pub mod scheme;
pub mod speaker;
mod talk;
pub mod window;

use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use async_trait::async_trait;
use pingora_core::server::ShutdownWatch;
use pingora_core::services::background::BackgroundService;
use tokio::sync::watch;
use tracing::{error, info};

use self::packet::Key;
use self::talk::Talk;
use crate::config;
use crate::config::watch::{Change as FileChange, Watcher};
use crate::fleet::Fleet;

/// Shortest secret: as long as what packets are signed with.
const LEAST_SECRET: usize = 16;

/// Follows what the configuration says of peers.
pub struct Peers {
    fleet: Arc<Fleet>,
    /// The number of this process.
    id: u64,
    current: watch::Sender<Option<Arc<Settings>>>,
    /// Follows the file of the secret of those settings, without keeping their socket open when they are over.
    secret: Mutex<Option<(Weak<Settings>, Watcher)>>,
}

/// What a configuration asks for, made ready.
pub(crate) struct Settings {
    config: config::Peers,
    socket: UdpSocket,
    /// The content of the file of the secret.
    content: Vec<u8>,
    key: Key,
}

/// Another configuration, made ready and not yet in force.
pub struct Change(Option<Arc<Settings>>);

/// Why a configuration of peers cannot come into force.
#[derive(Debug, thiserror::Error)]
pub enum CannotTalk {
    /// The address is taken, or not ours.
    #[error("cannot listen for peers on {address}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why.
        source: std::io::Error,
    },
    /// There is no file of the secret, or it cannot be read.
    #[error("cannot read the secret of peers in {path}")]
    Secret {
        /// The file.
        path: String,
        /// Why.
        source: std::io::Error,
    },
    /// Its content could be guessed.
    #[error("the secret of peers in {path} has {length} bytes, and needs {LEAST_SECRET}")]
    Short {
        /// The file.
        path: String,
        /// Bytes of it, without white space at its ends.
        length: usize,
    },
}

impl CannotTalk {
    /// The key of the configuration that is at fault.
    pub fn key(&self) -> &'static str {
        match self {
            Self::Listen { .. } => "peers.listen",
            Self::Secret { .. } | Self::Short { .. } => "peers.secret_file",
        }
    }

    /// The message with its cause.
    pub fn in_full(&self) -> String {
        match self {
            Self::Listen { source, .. } | Self::Secret { source, .. } => format!("{self}: {source}"),
            Self::Short { .. } => self.to_string(),
        }
    }
}

impl Peers {
    /// One that is silent. `id` is a random number that no other process has.
    pub fn new(fleet: Arc<Fleet>, id: u64) -> Self {
        Self { fleet, id, current: watch::Sender::new(None), secret: Mutex::default() }
    }

    /// Opens and reads what a configuration asks for. Nothing changes before [`set`](Self::set).
    pub fn prepare(&self, config: &config::Peers) -> Result<Change, CannotTalk> {
        let Some(address) = config.listen else { return Ok(Change(None)) };
        let content = read_secret(config.secret_file.as_deref().unwrap_or(Path::new("")))?;
        let current = self.current.borrow().clone();
        if let Some(same) = current.as_ref().filter(|known| known.config == *config && known.content == content) {
            return Ok(Change(Some(Arc::clone(same))));
        }
        let held = current.filter(|known| known.config.listen == config.listen);
        let socket = match held {
            Some(held) => held.socket.try_clone(),
            None => UdpSocket::bind(address).and_then(|socket| socket.set_nonblocking(true).map(|()| socket)),
        };
        let socket = socket.map_err(|source| CannotTalk::Listen { address, source })?;
        let key = Key::new(content.trim_ascii());
        Ok(Change(Some(Arc::new(Settings { config: config.clone(), socket, content, key }))))
    }

    /// Puts a change in force.
    pub fn set(&self, change: Change) {
        self.current.send_if_modified(|current| {
            let is_same = match (&*current, &change.0) {
                (Some(old), Some(new)) => Arc::ptr_eq(old, new),
                (old, new) => old.is_none() && new.is_none(),
            };
            *current = change.0;
            !is_same
        });
    }

    /// Looks whether the file of the secret has another content, and puts that in force. One that is no secret changes nothing.
    pub fn poll(&self) {
        let Some(current) = self.current.borrow().clone() else { return };
        let Some(path) = &current.config.secret_file else { return };
        let mut secret = self.secret.lock().unwrap_or_else(PoisonError::into_inner);
        let watcher = match &mut *secret {
            Some((of, watcher)) if of.as_ptr() == Arc::as_ptr(&current) => watcher,
            other => &mut other.insert((Arc::downgrade(&current), Watcher::new(&current.content))).1,
        };
        let outcome = match watcher.poll(std::fs::read(path)) {
            None => return,
            Some(FileChange::Content(_)) => self.prepare(&current.config).map(|change| self.set(change)),
            Some(FileChange::Unreadable(source)) => {
                Err(CannotTalk::Secret { path: path.display().to_string(), source })
            }
        };
        match outcome {
            Ok(()) => info!(file = %path.display(), "secret of peers applied"),
            Err(problem) => error!(problem = problem.in_full(), "secret of peers rejected, the old one stays"),
        }
    }
}

/// Reads the file of a secret. White space at its ends does not count: files end with a line break that nobody means, and which
/// not all tools write.
fn read_secret(path: &Path) -> Result<Vec<u8>, CannotTalk> {
    let name = || path.display().to_string();
    let content = std::fs::read(path).map_err(|source| CannotTalk::Secret { path: name(), source })?;
    let length = content.trim_ascii().len();
    if length < LEAST_SECRET {
        return Err(CannotTalk::Short { path: name(), length });
    }
    Ok(content)
}

/// The background service around [`Peers`].
pub struct PeersService(pub Arc<Peers>);

#[async_trait]
impl BackgroundService for PeersService {
    async fn start(&self, shutdown: ShutdownWatch) {
        let talk = Arc::new(Talk::new(Arc::clone(&self.0.fleet), self.0.id));
        talk::follow(talk, self.0.current.subscribe(), shutdown).await;
    }
}

/// Takes whatever bytes for a packet, and for the records of one: never panics.
pub fn fuzz(bytes: &[u8]) {
    let key = Key::new(b"a secret that is known");
    let _ = packet::open(bytes, &key);
    if let Ok(records) = records::decode(bytes) {
        let heads = records.len() * 3;
        let told: usize = records
            .iter()
            .map(|record| match record {
                records::Record::Sent { blocks, .. } => blocks.len() * 8,
                records::Record::Counts(counts) => counts.counts.len() * 10,
                _ => 0,
            })
            .sum();
        assert!(heads + told <= bytes.len(), "more than the bytes say");
    }
}
