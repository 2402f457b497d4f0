//! The lines a process writes, as they come.

use std::io::{BufRead, BufReader, Read};
use std::sync::{Arc, Mutex, PoisonError};

/// Lines read so far from one of a child's pipes. Reading goes on in a thread of its own: a full pipe would stop the child.
#[derive(Clone, Debug, Default)]
pub(super) struct Lines {
    lines: Arc<Mutex<Vec<String>>>,
}

impl Lines {
    pub(super) fn of(pipe: impl Read + Send + 'static) -> Self {
        let all = Self::default();
        let kept = all.clone();
        std::thread::spawn(move || {
            for line in BufReader::new(pipe).lines().map_while(Result::ok) {
                kept.lines.lock().unwrap_or_else(PoisonError::into_inner).push(line);
            }
        });
        all
    }

    pub(super) fn all(&self) -> Vec<String> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The last line for which `find` has an answer.
    pub(super) fn find<T>(&self, find: impl FnMut(&String) -> Option<T>) -> Option<T> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).iter().rev().find_map(find)
    }
}
