//! Bringing a changed file into force: found by polling, by SIGHUP or by `POST /reload`.
//!
//! A file that does not validate changes nothing, counts as rejected and says why in the log and in `/config`.

pub mod keys;

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use futures_util::future::join_all;
use pingora_core::server::ShutdownWatch;
use pingora_core::services::background::BackgroundService;
use serde::Serialize;
use tracing::{error, info, warn};

use self::keys::KeyFile;
use crate::address;
use crate::auth::Auth;
use crate::config::watch::{Change, POLL, Watcher};
use crate::config::{self, Dns, EndpointUrl, Problem};
use crate::dns::Resolver;
use crate::fleet::{Fleet, Found};
use crate::peers::{self, Peers};
use crate::picker_config;
use crate::trace::{self, Recorder};

/// Longest wait for the addresses of new host names. A name server that takes longer must not hold up the rest of a
/// change; the names are asked for again and again after it.
const LOOK_UP: Duration = Duration::from_secs(2);

/// What came of the latest attempt to reload.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Status {
    /// When, RFC 3339 in UTC; empty before the first.
    pub at: String,
    /// `applied`, `rejected`, `unchanged` or empty.
    pub result: &'static str,
    /// Why it was rejected.
    pub problems: Vec<Problem>,
    /// Keys that differ from what the process started with and take effect with a restart only.
    pub needs_restart: Vec<String>,
}

/// The keys a configuration asks for, read before it is in force.
type NewKeys = Option<(PathBuf, keys::Read)>;

/// Loads the file again when it has changed.
pub struct Reloader {
    fleet: Arc<Fleet>,
    auth: Arc<Auth>,
    recorder: Arc<Recorder>,
    peers: Arc<Peers>,
    path: PathBuf,
    started_with: config::Config,
    /// Held for the length of a reload: there is one at a time.
    watcher: tokio::sync::Mutex<Watcher>,
    keys: Mutex<Option<KeyFile>>,
    status: Mutex<Status>,
}

impl Reloader {
    /// A reloader of `path`, whose `contents` are in force. Puts the keys they ask for in force.
    pub fn new(
        (fleet, auth, recorder, peers): (Arc<Fleet>, Arc<Auth>, Arc<Recorder>, Arc<Peers>),
        path: PathBuf,
        contents: &[u8],
    ) -> Result<Self, Vec<Problem>> {
        let started_with = fleet.live().config.clone();
        let watcher = tokio::sync::Mutex::new(Watcher::new(contents));
        let new_keys = read_keys(&started_with)?;
        let (keys, status) = Default::default();
        let this = Self { fleet, auth, recorder, peers, path, started_with, watcher, keys, status };
        this.set_keys(new_keys);
        Ok(this)
    }

    /// What came of the latest look at the file of keys; `None` without one.
    pub fn keys_status(&self) -> Option<keys::Status> {
        lock(&self.keys).as_ref().map(|file| file.status.clone())
    }

    /// What came of the latest attempt.
    pub fn status(&self) -> Status {
        lock(&self.status).clone()
    }

    /// Reads the file and brings it into force now.
    pub async fn reload(&self) -> Status {
        let mut watcher = self.watcher.lock().await;
        match std::fs::read(&self.path) {
            Ok(contents) => {
                watcher.accept(&contents);
                self.apply(&contents).await
            }
            Err(error) => self.unreadable(&error),
        }
    }

    async fn poll(&self) {
        let mut watcher = self.watcher.lock().await;
        match watcher.poll(std::fs::read(&self.path)) {
            Some(Change::Content(contents)) => drop(self.apply(&contents).await),
            Some(Change::Unreadable(error)) => drop(self.unreadable(&error)),
            None => {}
        }
        self.peers.poll();
        if let Some(file) = &mut *lock(&self.keys)
            && let Some(outcome) = file.poll()
        {
            let result = if outcome.is_ok() { "applied" } else { "rejected" };
            self.fleet.metrics().keys_reload_total.with_label_values(&[result]).inc();
            if let Ok(keys) = outcome {
                self.auth.set(Some(keys));
            }
        }
    }

    /// Puts keys in force and follows their file.
    fn set_keys(&self, new: NewKeys) {
        let mut file = lock(&self.keys);
        *file = new.map(|(path, read)| {
            let file = match file.take() {
                Some(mut same) if same.path == path => {
                    same.accept(&read);
                    same
                }
                _ => KeyFile::new(path, &read),
            };
            self.auth.set(Some(read.keys));
            file
        });
        if file.is_none() {
            self.auth.set(None);
        }
    }

    async fn apply(&self, contents: &[u8]) -> Status {
        let known = picker_config::known(self.fleet.registry());
        let (result, problems) = match config::load(contents, &known) {
            Err(problems) => ("rejected", problems.0),
            Ok(config) => match self.prepare(&config) {
                // The keys that are in force stay, and so does the rest: a file half applied is worse than an old one.
                Err(problems) => ("rejected", problems),
                Ok((keys, _, peers)) if config == self.fleet.live().config => {
                    self.set_keys(keys);
                    self.peers.set(peers);
                    ("unchanged", Vec::new())
                }
                Ok((keys, trace, peers)) => {
                    let found = self.look_up(&config).await;
                    match self.fleet.apply(config, &found) {
                        Ok(()) => {
                            self.set_keys(keys);
                            self.recorder.set(trace);
                            self.peers.set(peers);
                            ("applied", Vec::new())
                        }
                        Err(error) => ("rejected", vec![whole_file(error.to_string())]),
                    }
                }
            },
        };
        for problem in &problems {
            error!(file = %self.path.display(), line = problem.line, column = problem.column, key = problem.path,
                problem = problem.message, hint = problem.hint, "configuration rejected, the old one stays");
        }
        let needs_restart = config::restart_only_changes(&self.started_with, &self.fleet.live().config);
        if result == "applied" {
            info!(file = %self.path.display(), hash = self.fleet.live().config.fingerprint(), "configuration applied");
            if !needs_restart.is_empty() {
                warn!(keys = needs_restart.join(", "), "these keys take effect with a restart only");
            }
        }
        self.note(result, problems, needs_restart)
    }

    /// Reads and opens the files that a configuration names.
    fn prepare(&self, config: &config::Config) -> Result<(NewKeys, trace::Change, peers::Change), Vec<Problem>> {
        let keys = read_keys(config)?;
        let trace = self.recorder.open(&config.trace).map_err(|error| {
            let message = format!("{}: {error}", cannot_record(&config.trace));
            vec![Problem { path: "trace.file".to_owned(), ..whole_file(message) }]
        })?;
        let peers = self
            .peers
            .prepare(&config.peers)
            .map_err(|error| vec![Problem { path: error.key().to_owned(), ..whole_file(error.in_full()) }])?;
        Ok((keys, trace, peers))
    }

    /// Finds the addresses of names that come with `config`: the first request may be sent there at once.
    async fn look_up(&self, config: &config::Config) -> Found {
        let live = self.fleet.live_full();
        let is_known = |pool: &str, url: &EndpointUrl| {
            let pool = live.pools.get(pool);
            pool.is_some_and(|pool| pool.state.address(&url.to_string()).is_some())
        };
        let mut names = HashSet::new();
        for (pool, settings) in &config.pools {
            let urls = settings.endpoints.iter().map(|endpoint| &endpoint.url);
            names.extend(urls.filter(|url| address::literal(url).is_none() && !is_known(pool, url)).cloned());
        }
        let look_up = |url: EndpointUrl| async move {
            let socket = tokio::time::timeout(LOOK_UP, address::resolve(&url)).await.ok()?.ok()?;
            Some((url, socket))
        };
        let is_asked = |pool: &str, dns: &Dns| {
            let before = live.pools.get(pool).and_then(|pool| pool.settings.dns.as_ref());
            before.is_some_and(|before| before.is_same_question(dns))
        };
        let questions = config.pools.iter().filter_map(|(pool, settings)| Some((pool, settings.dns.as_ref()?)));
        let ask = |(pool, dns): (&String, &Dns)| {
            let (pool, mut resolver) = (pool.clone(), Resolver::new(dns.clone()));
            async move { Some((pool, tokio::time::timeout(LOOK_UP, resolver.look()).await.ok()?.ok()?)) }
        };
        let hosts = join_all(names.into_iter().map(look_up));
        let answers = join_all(questions.filter(|(pool, dns)| !is_asked(pool, dns)).map(ask));
        let (hosts, answers) = tokio::join!(hosts, answers);
        Found { hosts: hosts.into_iter().flatten().collect(), answers: answers.into_iter().flatten().collect() }
    }

    fn unreadable(&self, error: &std::io::Error) -> Status {
        error!(file = %self.path.display(), %error, "configuration is not readable, the old one stays");
        let needs_restart = lock(&self.status).needs_restart.clone();
        self.note("rejected", vec![whole_file(format!("not readable: {error}"))], needs_restart)
    }

    fn note(&self, result: &'static str, problems: Vec<Problem>, needs_restart: Vec<String>) -> Status {
        self.fleet.metrics().config_reload_total.with_label_values(&[result]).inc();
        let status = Status { at: now(), result, problems, needs_restart };
        lock(&self.status).clone_from(&status);
        status
    }
}

/// What has failed when the file of a trace cannot be opened.
pub fn cannot_record(trace: &config::Trace) -> String {
    format!("cannot record a trace to {}", trace.file.as_deref().unwrap_or(std::path::Path::new("off")).display())
}

/// Reads the keys that a configuration asks for. Their problems are told as problems of the key that names the file.
fn read_keys(config: &config::Config) -> Result<NewKeys, Vec<Problem>> {
    let Some(path) = &config.auth.keys_file else { return Ok(None) };
    match keys::read(path) {
        Ok(read) => Ok(Some((path.clone(), read))),
        Err(problems) => Err(problems
            .into_iter()
            .map(|problem| Problem {
                path: "auth.keys_file".to_owned(),
                message: match problem.path.as_str() {
                    "" => problem.message,
                    key => {
                        format!("{}:{}:{}: {key}: {}", path.display(), problem.line, problem.column, problem.message)
                    }
                },
                line: 1,
                column: 1,
                hint: problem.hint,
            })
            .collect()),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn now() -> String {
    humantime::format_rfc3339_millis(SystemTime::now()).to_string()
}

fn whole_file(message: String) -> Problem {
    Problem { path: String::new(), line: 1, column: 1, message, hint: None }
}

/// The background service around a [`Reloader`].
pub struct ReloadService(pub Arc<Reloader>);

#[async_trait]
impl BackgroundService for ReloadService {
    async fn start(&self, mut shutdown: ShutdownWatch) {
        let mut hangup = match tokio::signal::unix::signal(tokio::signal::unix::SignalKind::hangup()) {
            Ok(hangup) => hangup,
            Err(error) => {
                error!(%error, "cannot listen for SIGHUP");
                return;
            }
        };
        let mut tick = tokio::time::interval(POLL);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = tick.tick() => self.0.poll().await,
                _ = hangup.recv() => {
                    self.0.reload().await;
                }
                _ = shutdown.changed() => return,
            }
        }
    }
}
