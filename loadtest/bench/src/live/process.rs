//! A program started for one run: on its core, with its log in a file, ended by its id.

use std::ffi::OsString;
use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use super::client::Client;
use super::machine::family;

/// Longest time from the start of a program until it serves.
const PATIENCE: Duration = Duration::from_secs(60);

/// A running program.
#[derive(Debug)]
pub(super) struct Process {
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts a program. It writes what it has to say of itself to `log`, and its access log to nowhere.
    pub(super) fn start(program: &Path, arguments: &[OsString], core: Option<u32>, log: &Path) -> Result<Self> {
        let mut command = match core {
            Some(core) => {
                let mut command = Command::new("taskset");
                command.args(["-c", &core.to_string()]).arg(program);
                command
            }
            None => Command::new(program),
        };
        let file = File::create(log).with_context(|| format!("cannot write {}", log.display()))?;
        let child = command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(file).spawn();
        let child = child.with_context(|| format!("cannot start {}", program.display()))?;
        Ok(Self { child, log: log.to_owned() })
    }

    /// Its id, which is that of the program: taskset becomes it.
    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits until a path is answered with 200.
    pub(super) async fn ready(&mut self, at: SocketAddr, path: &str) -> Result<()> {
        let until = Instant::now() + PATIENCE;
        let client = Client::new(at);
        while Instant::now() < until && self.child.try_wait()?.is_none() {
            if matches!(client.get(path).await, Ok(Some(_))) {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let said = std::fs::read_to_string(&self.log).unwrap_or_default();
        let last: Vec<&str> = said.lines().rev().take(5).collect();
        bail!("it does not answer {path} on {at}; its log, latest first:\n{}", last.join("\n"))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It has nothing left to finish, and its children would outlive it.
        let all = family(self.id()).into_iter().map(|process| process.to_string());
        let _ = Command::new("kill").arg("-KILL").args(all).stderr(Stdio::null()).status();
        let _ = self.child.wait();
    }
}

/// Ports that nobody listens on; all are held until all are known, so that they differ.
pub(super) fn free_ports(count: usize) -> Result<Vec<u16>> {
    let held = (0..count).map(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0))).collect::<Result<Vec<_>, _>>()?;
    held.iter().map(|listener| Ok(listener.local_addr()?.port())).collect()
}

/// The version that a program says it has: what follows its name on the first line that has a digit.
pub(super) fn version(program: &Path, flag: &str) -> String {
    let said = Command::new(program).arg(flag).output();
    let text = said.map(|said| [said.stdout, said.stderr].concat()).unwrap_or_default();
    let text = String::from_utf8_lossy(&text).replace(&*program.to_string_lossy(), "");
    let line = text.lines().map(str::trim).find(|line| line.contains(|c: char| c.is_ascii_digit()));
    line.unwrap_or("version unknown").to_owned()
}
