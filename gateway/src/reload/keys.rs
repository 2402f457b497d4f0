//! The file of API keys, followed like the configuration: a change of its content takes effect, a file that is wrong
//! changes nothing and says so.

use std::path::{Path, PathBuf};

use serde::Serialize;
use tracing::{error, info};

use super::{now, whole_file};
use crate::auth::Keys;
use crate::config::watch::{Change, Watcher};
use crate::config::{self, Problem};

/// Keys read, and the bytes they were read from.
pub struct Read {
    /// The keys.
    pub keys: Keys,
    contents: Vec<u8>,
}

/// Reads a file of keys; on failure every problem in it. `path` of a problem that is not the content's is empty.
pub fn read(path: &Path) -> Result<Read, Vec<Problem>> {
    let contents = std::fs::read(path)
        .map_err(|error| vec![whole_file(format!("{} is not readable: {error}", path.display()))])?;
    let file = config::load_keys(&contents).map_err(|problems| problems.0)?;
    Ok(Read { keys: Keys::new(&file), contents })
}

/// What `/config` shows of the keys. Nothing of a key itself.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Status {
    /// When the file was last read, RFC 3339 in UTC.
    pub at: String,
    /// `applied` or `rejected`.
    pub result: &'static str,
    /// Keys in force.
    pub keys: usize,
    /// Whose they are.
    pub tenants: Vec<String>,
    /// Why the file was rejected.
    pub problems: Vec<Problem>,
}

/// Follows one file.
pub(super) struct KeyFile {
    pub(super) path: PathBuf,
    watcher: Watcher,
    pub(super) status: Status,
}

impl KeyFile {
    /// Follows `path`, whose content `read` is in force.
    pub(super) fn new(path: PathBuf, read: &Read) -> Self {
        let mut file = Self { path, watcher: Watcher::new(&read.contents), status: Status::default() };
        file.applied(&read.keys);
        file
    }

    /// Looks at the file; returns other keys when it has them.
    pub(super) fn poll(&mut self) -> Option<Result<Keys, ()>> {
        match self.watcher.poll(std::fs::read(&self.path))? {
            Change::Content(contents) => Some(match config::load_keys(&contents) {
                Ok(file) => {
                    let keys = Keys::new(&file);
                    self.applied(&keys);
                    info!(file = %self.path.display(), keys = keys.len(), "API keys applied");
                    Ok(keys)
                }
                Err(problems) => {
                    self.reject(problems.0);
                    Err(())
                }
            }),
            Change::Unreadable(error) => {
                self.reject(vec![whole_file(format!("not readable: {error}"))]);
                Some(Err(()))
            }
        }
    }

    /// Takes note of keys that were read another way.
    pub(super) fn accept(&mut self, read: &Read) {
        self.watcher.accept(&read.contents);
        self.applied(&read.keys);
    }

    fn applied(&mut self, keys: &Keys) {
        let tenants = keys.tenants().iter().map(ToString::to_string).collect();
        self.status = Status { at: now(), result: "applied", keys: keys.len(), tenants, problems: Vec::new() };
    }

    pub(super) fn reject(&mut self, problems: Vec<Problem>) {
        for problem in &problems {
            error!(file = %self.path.display(), line = problem.line, column = problem.column, key = problem.path,
                problem = problem.message, "API keys rejected, the old ones stay");
        }
        self.status = Status { at: now(), result: "rejected", problems, ..std::mem::take(&mut self.status) };
    }
}
