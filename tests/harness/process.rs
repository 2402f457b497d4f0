//! The gateway's executable as a child that does not outlive its test.

use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};

use super::log::Lines;

/// A running `spillway`.
#[derive(Debug)]
pub(super) struct Process {
    child: Child,
    pub(super) stdout: Lines,
    pub(super) stderr: Lines,
}

impl Process {
    /// Runs `spillway --config FILE`.
    pub(super) fn start(config: &Path) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_spillway"))
            .arg("--config")
            .arg(config)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the executable was built before its tests");
        let stdout = Lines::of(child.stdout.take().expect("stdout is a pipe"));
        let stderr = Lines::of(child.stderr.take().expect("stderr is a pipe"));
        Self { child, stdout, stderr }
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// How it ended, if it has.
    pub(super) fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("the child is ours to wait for")
    }

    /// Sends it a signal by name: `TERM`, `HUP`, `KILL`.
    pub(super) fn signal(&self, name: &str) {
        let sent = Command::new("kill").arg(format!("-{name}")).arg(self.pid().to_string()).status();
        assert!(sent.is_ok_and(|status| status.success()), "cannot send {name} to {}", self.pid());
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            let (log, events) = (self.stdout.all(), self.stderr.all());
            eprintln!("--- last events of the gateway\n{}", tail(&events));
            eprintln!("--- last lines of its access log ({} in all)\n{}", log.len(), tail(&log));
            let failed: Vec<_> =
                log.into_iter().filter(|line| line.contains("\"error\":") && !line.contains("client_gone")).collect();
            eprintln!("--- last of them that failed ({} in all)\n{}", failed.len(), tail(&failed));
        }
    }
}

fn tail(lines: &[String]) -> String {
    lines[lines.len().saturating_sub(20)..].join("\n")
}
