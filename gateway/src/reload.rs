//! Bringing a changed file into force: found by polling, by SIGHUP or by `POST /reload`.
//!
//! A file that does not validate changes nothing, counts as rejected and says why in the log and in `/config`.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use async_trait::async_trait;
use pingora_core::server::ShutdownWatch;
use pingora_core::services::background::BackgroundService;
use serde::Serialize;
use tracing::{error, info, warn};

use crate::config::watch::{Change, POLL, Watcher};
use crate::config::{self, Problem};
use crate::fleet::Fleet;
use crate::picker_config;

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

/// Loads the file again when it has changed.
pub struct Reloader {
    fleet: Arc<Fleet>,
    path: PathBuf,
    started_with: config::Config,
    state: Mutex<State>,
}

struct State {
    watcher: Watcher,
    status: Status,
}

impl Reloader {
    /// A reloader of `path`, whose `contents` are in force.
    pub fn new(fleet: Arc<Fleet>, path: PathBuf, contents: &[u8]) -> Self {
        let started_with = fleet.live().config.clone();
        let state = State { watcher: Watcher::new(contents), status: Status::default() };
        Self { fleet, path, started_with, state: Mutex::new(state) }
    }

    /// What came of the latest attempt.
    pub fn status(&self) -> Status {
        self.lock().status.clone()
    }

    /// Reads the file and brings it into force now.
    pub fn reload(&self) -> Status {
        let mut state = self.lock();
        match std::fs::read(&self.path) {
            Ok(contents) => {
                state.watcher.accept(&contents);
                self.apply(&mut state, &contents);
            }
            Err(error) => self.unreadable(&mut state, &error),
        }
        state.status.clone()
    }

    fn poll(&self) {
        let mut state = self.lock();
        match state.watcher.poll(std::fs::read(&self.path)) {
            Some(Change::Content(contents)) => self.apply(&mut state, &contents),
            Some(Change::Unreadable(error)) => self.unreadable(&mut state, &error),
            None => {}
        }
    }

    fn apply(&self, state: &mut State, contents: &[u8]) {
        let known = picker_config::known(self.fleet.registry());
        let (result, problems) = match config::load(contents, &known) {
            Err(problems) => ("rejected", problems.0),
            Ok(config) if config == self.fleet.live().config => ("unchanged", Vec::new()),
            Ok(config) => match self.fleet.apply(config) {
                Ok(()) => ("applied", Vec::new()),
                Err(error) => ("rejected", vec![whole_file(error.to_string())]),
            },
        };
        for problem in &problems {
            error!(file = %self.path.display(), line = problem.line, column = problem.column, key = problem.path,
                problem = problem.message, "configuration rejected, the old one stays");
        }
        let needs_restart = config::restart_only_changes(&self.started_with, &self.fleet.live().config);
        if result == "applied" {
            info!(file = %self.path.display(), hash = self.fleet.live().config.fingerprint(), "configuration applied");
            if !needs_restart.is_empty() {
                warn!(keys = needs_restart.join(", "), "these keys take effect with a restart only");
            }
        }
        self.note(state, result, problems, needs_restart);
    }

    fn unreadable(&self, state: &mut State, error: &std::io::Error) {
        error!(file = %self.path.display(), %error, "configuration is not readable, the old one stays");
        let needs_restart = state.status.needs_restart.clone();
        self.note(state, "rejected", vec![whole_file(format!("not readable: {error}"))], needs_restart);
    }

    fn note(&self, state: &mut State, result: &'static str, problems: Vec<Problem>, needs_restart: Vec<String>) {
        self.fleet.metrics().config_reload_total.with_label_values(&[result]).inc();
        let at = humantime::format_rfc3339_millis(SystemTime::now()).to_string();
        state.status = Status { at, result, problems, needs_restart };
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
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
                _ = tick.tick() => self.0.poll(),
                _ = hangup.recv() => {
                    self.0.reload();
                }
                _ = shutdown.changed() => return,
            }
        }
    }
}
