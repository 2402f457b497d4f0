//! Cores and the time spent on them, by the kernel's account.

use std::fs;
use std::process::{Command, id};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde::Serialize;

/// Busy cores up to which a machine is called quiet.
const MOST_OF_OTHERS: f64 = 0.25;

/// Ticks a second in /proc; a constant of the interface to programs.
const TICKS: f64 = 100.0;

/// Where the two halves of a run have their place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Cores {
    /// Of this process, and of what stands between; `None` when nobody is pinned.
    pub(super) pinned: Option<(u32, u32)>,
}

impl Cores {
    /// Takes the first two cores that this process may use, and pins it to the first. To be called before there are other
    /// threads.
    pub(super) fn pin() -> Result<Self> {
        let allowed = allowed()?;
        let (Some(&ours), Some(&theirs)) = (allowed.first(), allowed.get(1)) else { return Ok(Self::default()) };
        let pinned = Command::new("taskset").args(["-c", "-p", &ours.to_string(), &id().to_string()]).output();
        let pinned = pinned.context("cannot run taskset; --no-pin goes without")?;
        ensure!(pinned.status.success(), "taskset: {}", String::from_utf8_lossy(&pinned.stderr));
        Ok(Self { pinned: Some((ours, theirs)) })
    }
}

/// Cores that this process may use.
fn allowed() -> Result<Vec<u32>> {
    let status = fs::read_to_string("/proc/self/status").context("cannot read /proc/self/status")?;
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap_or_default();
    Ok(cores(list))
}

fn cores(list: &str) -> Vec<u32> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.trim().parse::<u32>().ok()?..=last.trim().parse::<u32>().ok()?)
    };
    list.split(',').filter_map(range).flatten().collect()
}

/// Time on cores up to a moment.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Spent {
    ours: Duration,
    theirs: Duration,
    machine: Duration,
}

/// Parts of the two cores that were busy, 0 to 1 each core and so 0 to 2 for a process that keeps both busy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(super) struct Busy {
    /// Load, clients and servers.
    pub(super) load: f64,
    /// What stands between.
    pub(super) front: f64,
    /// Everything else on the machine.
    pub(super) others: f64,
}

impl Spent {
    /// Time spent so far by this process, by those with these ids and all they have started, and by everybody.
    pub(super) fn now(between: &[u32]) -> Self {
        let theirs = between.iter().flat_map(|&process| family(process)).map(of).sum();
        Self { ours: of(id()), theirs, machine: machine() }
    }

    /// What was busy since then, over a time by the clock.
    pub(super) fn since(self, before: Self, wall: Duration) -> Busy {
        let part = |now: Duration, then: Duration| now.saturating_sub(then).as_secs_f64() / wall.as_secs_f64();
        let (load, front) = (part(self.ours, before.ours), part(self.theirs, before.theirs));
        Busy { load, front, others: (part(self.machine, before.machine) - load - front).max(0.0) }
    }
}

/// Waits until the whole machine has been all but idle for some seconds in a row, or until patience ends.
pub(super) fn wait_until_quiet(patience: Duration) {
    const EACH: Duration = Duration::from_millis(500);
    const IN_A_ROW: u32 = 6;
    let until = Instant::now() + patience;
    let (mut before, mut quiet) = (machine(), 0);
    while quiet < IN_A_ROW && Instant::now() < until {
        sleep(EACH);
        let now = machine();
        quiet = if now.saturating_sub(before) < EACH.mul_f64(MOST_OF_OTHERS) { quiet + 1 } else { 0 };
        before = now;
    }
}

/// A process and everything below it.
pub(super) fn family(process: u32) -> Vec<u32> {
    let mut all = vec![process];
    let mut next = 0;
    while let Some(&one) = all.get(next) {
        let children = fs::read_to_string(format!("/proc/{one}/task/{one}/children")).unwrap_or_default();
        all.extend(children.split_whitespace().filter_map(|child| child.parse::<u32>().ok()));
        next += 1;
    }
    all
}

/// Time on cores of one process; zero when it is gone.
fn of(process: u32) -> Duration {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    // After the name in brackets, which may contain anything: state is field 3, user time 14, system time 15.
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    ticks(fields.skip(11).take(2))
}

/// Time on cores of everybody, time that another guest of the host took included.
fn machine() -> Duration {
    let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
    let line = stat.lines().next().unwrap_or_default();
    // user nice system idle iowait irq softirq steal
    let fields = line.split_whitespace().skip(1).take(8).enumerate();
    ticks(fields.filter(|(place, _)| ![3, 4].contains(place)).map(|(_, field)| field))
}

fn ticks<'a>(fields: impl Iterator<Item = &'a str>) -> Duration {
    Duration::from_secs_f64(fields.filter_map(|field| field.parse::<f64>().ok()).sum::<f64>() / TICKS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_cores_is_read_with_its_ranges() {
        assert_eq!(cores("\t0-2,5,7-7\n"), [0, 1, 2, 5, 7]);
        assert!(cores("").is_empty());
    }

    #[test]
    fn time_spent_grows_with_work_and_a_process_that_is_gone_spends_none() {
        let before = Spent::now(&[]);
        let mut sum = 0_u64;
        while Spent::now(&[]).ours < before.ours + Duration::from_millis(30) {
            sum = (0..100_000).fold(sum, u64::wrapping_add);
        }
        let busy = Spent::now(&[]).since(before, Duration::from_secs(1));
        assert!(busy.load >= 0.03, "{busy:?}, {sum}");
        assert_eq!(of(u32::MAX), Duration::ZERO);
    }
}
