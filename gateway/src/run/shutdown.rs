//! Ending the process: readiness fails first, then the listeners close, then requests finish, then it is over.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use pingora_core::server::{ShutdownSignal, ShutdownSignalWatch};
use tokio::signal::unix::{SignalKind, signal};
use tracing::{error, info};

use crate::fleet::Fleet;

/// Share of the drain time in which connections are still accepted after readiness has failed, so that load balancers
/// can take note; and at most so long.
const NOTICE_SHARE: u32 = 10;
const NOTICE: Duration = Duration::from_secs(3);

/// How often a draining process looks whether it is idle.
const LOOK: Duration = Duration::from_millis(20);

/// Time from then to the end, in which the threads of access log and trace write their last lines: some times what they gather.
const LAST_LINES: Duration = Duration::from_millis(100);

/// SIGTERM drains, SIGINT stops at once.
pub(super) struct Signals {
    fleet: Arc<Fleet>,
    drain: Duration,
}

impl Signals {
    pub(super) fn new(fleet: Arc<Fleet>, drain: Duration) -> Self {
        Self { fleet, drain }
    }
}

#[async_trait]
impl ShutdownSignalWatch for Signals {
    async fn recv(&self) -> ShutdownSignal {
        let (Ok(mut terminate), Ok(mut interrupt)) = (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
        else {
            error!("cannot listen for signals; only SIGKILL will stop this process");
            return std::future::pending().await;
        };
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => return ShutdownSignal::FastShutdown,
        }
        self.fleet.start_draining();
        info!(active = self.fleet.active(), "shutting down: not ready any more, requests may finish");
        let notice = NOTICE.min(self.drain / NOTICE_SHARE);
        tokio::select! {
            () = tokio::time::sleep(notice) => {}
            _ = interrupt.recv() => return ShutdownSignal::FastShutdown,
        }
        let fleet = Arc::clone(&self.fleet);
        // Pingora sleeps through its grace period whatever happens; this thread ends the process when it is idle.
        std::thread::spawn(move || {
            while fleet.active() > 0 {
                std::thread::sleep(LOOK);
            }
            std::thread::sleep(LAST_LINES);
            info!("shut down: idle");
            std::process::exit(0);
        });
        ShutdownSignal::GracefulTerminate
    }
}
