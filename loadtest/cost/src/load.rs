//! The ways to load a proxy: a number of requests as fast as it goes, requests at a rate, streams that are left, and streams
//! held open.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use hyper::body::Incoming;
use tokio::task::JoinSet;

use crate::client::{Connection, Reply, Times};
use crate::prompt::Prompts;

/// Clients in a closed loop: each has one request in flight.
pub struct Clients(Vec<Connection>);

impl Clients {
    /// Connects all of them.
    pub async fn open(target: SocketAddr, count: usize) -> anyhow::Result<Self> {
        let mut connections = Vec::with_capacity(count);
        for _ in 0..count {
            connections.push(Connection::open(target).await?);
        }
        Ok(Self(connections))
    }

    /// Sends exactly `count` requests and reads their answers.
    pub async fn send(&mut self, prompts: &mut Prompts, reply: Reply, count: usize) -> anyhow::Result<()> {
        let (prompts, left, clients) = (RefCell::new(prompts), Cell::new(count), self.0.len());
        let (prompts, left) = (&prompts, &left);
        let work = self.0.iter_mut().enumerate().map(|(nth, connection)| async move {
            if let Reply::Stream { pace, .. } = reply {
                // Streams of many users are not in step.
                tokio::time::sleep(pace.mul_f64(nth as f64 / clients as f64)).await;
            }
            while left.get() > 0 {
                left.set(left.get() - 1);
                let prompt = prompts.borrow_mut().turn();
                connection.exchange(prompt, reply).await?;
            }
            anyhow::Ok(())
        });
        futures_util::future::try_join_all(work).await?;
        Ok(())
    }
}

/// Sends `count` requests to each target, one each `every`, whether those before are answered or not. Times count from
/// when a request was due, so that a proxy that stalls pays for all that had to wait.
pub async fn open(
    targets: &[SocketAddr],
    prompts: &mut Prompts,
    reply: Reply,
    every: Duration,
    count: usize,
) -> anyhow::Result<Vec<Vec<Times>>> {
    let idle: Vec<_> = targets.iter().map(|_| Rc::new(RefCell::new(Vec::new()))).collect();
    // Connections are made ahead: what is measured is requests.
    for (target, idle) in targets.iter().zip(&idle) {
        for _ in 0..4 {
            let connection = Connection::open(*target).await?;
            idle.borrow_mut().push(connection);
        }
    }
    let step = every.div_f64(targets.len() as f64);
    let local = tokio::task::LocalSet::new();
    local
        .run_until(async {
            let mut under_way = JoinSet::new();
            let began = Instant::now();
            for nth in 0..count * targets.len() {
                let due = began + step.mul_f64(nth as f64);
                until(due).await;
                let turn = nth % targets.len();
                let (target, idle, prompt) = (targets[turn], Rc::clone(&idle[turn]), prompts.turn());
                under_way.spawn_local(async move {
                    let kept = idle.borrow_mut().pop();
                    let mut connection = match kept {
                        Some(connection) => connection,
                        None => Connection::open(target).await?,
                    };
                    let late = due.elapsed();
                    let times = connection.exchange(prompt, reply).await?;
                    idle.borrow_mut().push(connection);
                    anyhow::Ok((turn, Times { first_byte: times.first_byte + late, end: times.end + late }))
                });
            }
            let mut times = vec![Vec::with_capacity(count); targets.len()];
            while let Some(ended) = under_way.join_next().await {
                let (turn, one) = ended??;
                times[turn].push(one);
            }
            Ok(times)
        })
        .await
}

/// The runtime's timer is coarse; the last stretch is waited out by yielding.
async fn until(due: Instant) {
    const COARSE: Duration = Duration::from_micros(1_500);
    let ahead = due.saturating_duration_since(Instant::now());
    if let Some(ahead) = ahead.checked_sub(COARSE) {
        tokio::time::sleep(ahead).await;
    }
    while Instant::now() < due {
        tokio::task::yield_now().await;
    }
}

/// Begins `count` streams, so many at once, and leaves each after its first piece: the connection closes.
pub async fn leave(target: SocketAddr, at_once: usize, prompts: &mut Prompts, count: usize) -> anyhow::Result<()> {
    let (prompts, left) = (RefCell::new(prompts), Cell::new(count));
    let (prompts, left) = (&prompts, &left);
    let work = (0..at_once).map(|_| async move {
        while left.get() > 0 {
            left.set(left.get() - 1);
            let prompt = prompts.borrow_mut().turn();
            let mut connection = Connection::open(target).await?;
            drop(connection.begin(prompt).await?);
            connection.close().await;
        }
        anyhow::Ok(())
    });
    futures_util::future::try_join_all(work).await?;
    Ok(())
}

/// What streams that are held ask for: they say nothing further after their first event.
pub const HELD: Reply = Reply::Stream { events: 2, pace: Duration::from_secs(3600) };

/// Streams that have begun and are held.
#[derive(Default)]
pub struct Held(Vec<(Connection, Incoming)>);

impl Held {
    /// Opens streams until there are `count`; `prompts` ask for [`HELD`].
    pub async fn grow(&mut self, target: SocketAddr, prompts: &mut Prompts, count: usize) -> anyhow::Result<()> {
        while self.0.len() < count {
            let mut connection = Connection::open(target).await?;
            let body = connection.begin(prompts.turn()).await?;
            self.0.push((connection, body));
        }
        Ok(())
    }
}
