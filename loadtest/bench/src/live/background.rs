//! A thread with a runtime of its own, which may give way to all others on its core.
//!
//! The servers of a session live there. In one runtime with the clients, a step that ends for forty sequences would put forty
//! tasks before the request that is due; and of two threads with equal rights the kernel lets one wait for the other for
//! milliseconds. A thread whose scheduling class is "idle" is put aside at once.

use std::fs::read_link;
use std::io;
use std::process::{Command, Stdio};
use std::thread::{JoinHandle, spawn};

use anyhow::{Context as _, Result};
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::oneshot::{Sender, channel};

/// Tasks that are run between two looks at sockets and timers. The default is many times as long.
const EACH: u32 = 8;

/// A runtime of one thread that looks at sockets and timers often.
pub(super) fn runtime() -> io::Result<Runtime> {
    Builder::new_current_thread().event_interval(EACH).enable_all().build()
}

/// The thread; it ends with this.
#[derive(Debug)]
pub(super) struct Background {
    handle: Handle,
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Background {
    /// Starts it. Only on a machine that is quiet does it get by when it gives way.
    pub(super) fn start(gives_way: bool) -> Result<Self> {
        let runtime = runtime()?;
        let handle = runtime.handle().clone();
        let (end, ended) = channel();
        let thread = spawn(move || {
            if gives_way {
                give_way();
            }
            // An error is an end too.
            let _ = runtime.block_on(ended);
        });
        Ok(Self { handle, end: Some(end), thread: Some(thread) })
    }

    /// What runs on this handle runs in the thread.
    pub(super) fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Runs something there, and waits for it here.
    pub(super) async fn run<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> Result<T> {
        self.handle.spawn(work).await.context("the thread of the servers has ended")
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Changes the class of this thread. Where that cannot be done requests are sent later, which the report says.
fn give_way() {
    let thread = read_link("/proc/thread-self").ok();
    let Some(number) = thread.as_deref().and_then(|path| path.file_name()) else { return };
    let _ = Command::new("chrt").args(["--idle", "--pid", "0"]).arg(number).stderr(Stdio::null()).status();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_run_there_runs_in_another_thread_and_comes_back() {
        let background = Background::start(true).unwrap();
        let there = background.run(async { std::thread::current().id() }).await.unwrap();
        assert_ne!(there, std::thread::current().id());
    }
}
