//! A timer that is late by microseconds.
//!
//! tokio's timers count in milliseconds and round up, which at a time scale of 4 would be four model milliseconds a step. On
//! Linux the kernel's own timer is waited for beside the sockets; elsewhere, and when there is none to be had, it is tokio's.

use std::time::Instant;

/// One timer, for one waiter.
#[derive(Debug)]
pub struct Timer {
    #[cfg(target_os = "linux")]
    kernel: Option<kernel::Alarm>,
}

impl Timer {
    /// A timer on the current tokio runtime.
    pub fn new() -> Self {
        Self {
            #[cfg(target_os = "linux")]
            kernel: kernel::Alarm::new().ok(),
        }
    }

    /// Waits until `time`, never less. May be dropped and asked again.
    pub async fn until(&mut self, time: Instant) {
        #[cfg(target_os = "linux")]
        if let Some(alarm) = &mut self.kernel {
            if alarm.until(time).await.is_ok() {
                return;
            }
            self.kernel = None;
        }
        tokio::time::sleep_until(time.into()).await;
    }
}

impl Default for Timer {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(target_os = "linux")]
mod kernel {
    use std::io;
    use std::os::fd::OwnedFd;
    use std::time::{Duration, Instant};

    use rustix::io::Errno;
    use rustix::time::{
        Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
    };
    use tokio::io::Interest;
    use tokio::io::unix::AsyncFd;

    /// A timer of the kernel. Setting it forgets what an earlier setting has come to.
    #[derive(Debug)]
    pub(super) struct Alarm {
        fd: AsyncFd<OwnedFd>,
    }

    impl Alarm {
        #[expect(
            deprecated,
            reason = "what replaces it is unsafe, for types whose descriptor may change; this one owns it"
        )]
        pub(super) fn new() -> io::Result<Self> {
            let fd = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC)?;
            Ok(Self { fd: AsyncFd::with_interest(fd, Interest::READABLE)? })
        }

        pub(super) async fn until(&mut self, time: Instant) -> io::Result<()> {
            let left = time.saturating_duration_since(Instant::now());
            // Zero would stop it.
            if left.is_zero() {
                return Ok(());
            }
            let value = Itimerspec { it_interval: span(Duration::ZERO), it_value: span(left) };
            timerfd_settime(&self.fd, TimerfdTimerFlags::empty(), &value)?;
            loop {
                let mut ready = self.fd.readable().await?;
                match rustix::io::read(&self.fd, &mut [0_u8; 8]) {
                    Ok(_) => return Ok(()),
                    // What was ready is an earlier setting that nobody had waited for.
                    Err(Errno::AGAIN) => ready.clear_ready(),
                    Err(error) => return Err(error.into()),
                }
            }
        }
    }

    fn span(time: Duration) -> Timespec {
        Timespec { tv_sec: time.as_secs().try_into().unwrap_or(i64::MAX), tv_nsec: time.subsec_nanos().into() }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn it_is_never_early_not_even_after_a_wait_that_was_given_up() {
        let mut timer = Timer::new();
        let start = Instant::now();
        for ms in [1, 3, 20, 5] {
            let time = start + Duration::from_millis(ms);
            timer.until(time).await;
            assert!(Instant::now() >= time);
            // Due while nobody waits for it.
            let soon = Instant::now() + Duration::from_micros(50);
            tokio::select! {
                biased;
                () = timer.until(soon) => {}
                () = async {} => while Instant::now() < soon {},
            }
        }
    }
}
