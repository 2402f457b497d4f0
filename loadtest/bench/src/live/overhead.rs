//! What a gateway adds to the first token, by the clock, measured shortly before the run.
//!
//! The same request goes straight to a server that takes no time to speak of, and through the gateway, in turn. What a
//! newcomer gets wrong: sent at times that keep step with a timer on the way, all answers would seem to take the same; so
//! times are random.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use bytes::Bytes;
use serde::Serialize;
use spillway_sim::Config;

use super::arm::Arm;
use super::client::Client;
use super::clock::Clock;
use super::fleet::Servers;
use super::front::Setting;
use super::seen::Seen;
use crate::virtual_time::MODEL;
use crate::workload::random::Random;

/// Pairs of requests, and those before them that do not count.
const PAIRS: usize = 150;
const WARM: usize = 20;

/// What a first token takes apart from the model, seconds by the clock, medians.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Overhead {
    /// A direct call: what the test bench takes, a step of about a millisecond included. It stays in all figures.
    pub(super) direct: f64,
    /// What stands between adds to that.
    pub(super) added: f64,
}

/// Measures both.
pub(super) async fn of(arm: &Arm, setting: &Setting, config: Config, body: Bytes) -> Result<Overhead> {
    let config = Config { model: MODEL.to_owned(), engine: Config::default().engine, time_scale: 1.0, ..config };
    let servers = Servers::start(vec![config], true).await?;
    let address = servers.addresses()[0];
    let front = setting.start(arm, &[(address, 1.0)]).await?;
    let (mut through, _) = front.clients();
    let through = through.swap_remove(0);
    let [direct, through] = medians(address, through, &body).await?;
    Ok(Overhead { direct: direct.as_secs_f64(), added: through.saturating_sub(direct).as_secs_f64() })
}

async fn medians(address: SocketAddr, through: Client, body: &Bytes) -> Result<[Duration; 2]> {
    let clients = [Client::new(address), through];
    let mut times = [Vec::new(), Vec::new()];
    let mut clock = Clock::default();
    let mut random = Random::new(0, "overhead");
    for number in 0..2 * (PAIRS + WARM) {
        let which = number % 2;
        clock.at(Instant::now() + Duration::from_secs_f64(0.001 + 0.001 * random.unit()), number);
        clock.next().await;
        let mut seen = Seen::new(number, Instant::now());
        clients[which].chat(body.clone(), true, &mut seen).await;
        let first = seen.first.filter(|_| seen.completed);
        let first = first.with_context(|| format!("a trial request failed: {:?}", seen.failure))?;
        if number >= 2 * WARM {
            times[which].push(first.saturating_duration_since(seen.due));
        }
    }
    ensure!(times.iter().all(|times| times.len() == PAIRS), "not all trial requests came back");
    Ok(times.map(|mut times| {
        times.sort_unstable();
        times[times.len() / 2]
    }))
}
