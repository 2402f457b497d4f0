//! Publishes what changes in the cache, as vLLM does: a ZMQ PUB with numbered batches, and a ROUTER that sends again those
//! that were missed.
//!
//! The side of ZMTP that a gateway does not have, written apart from it on purpose: if both shared their code, a test of
//! both would only prove that they agree with themselves.

mod payload;
mod zmtp;

use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{broadcast, mpsc, watch};
use tokio::task::JoinHandle;

use super::driver::News;
use super::shared::{Shared, unix_now};
use crate::fault::FaultKind;

use zmtp::Socket;

/// What messages begin with.
pub(super) const TOPIC: &str = "kv@sim";

/// Batches a replay has; vLLM's default.
const REMEMBERED: usize = 10_000;

/// Batches that a subscriber may be behind before it loses some.
const BEHIND: usize = 4_096;

/// Frames of one batch: its number, and its payload.
type Batch = (u64, Bytes);

/// One publisher.
#[derive(Debug)]
struct Publisher {
    shared: Arc<Shared>,
    remembered: Mutex<VecDeque<Batch>>,
    live: broadcast::Sender<Batch>,
    /// Goes up with each process; connections end with theirs.
    process: watch::Sender<u64>,
}

/// Binds the ports and starts to publish; returns the tasks that do it.
pub(super) async fn start(shared: &Arc<Shared>, host: IpAddr, port: u16) -> io::Result<Vec<JoinHandle<()>>> {
    let live = TcpListener::bind(SocketAddr::new(host, port)).await?;
    let replay = TcpListener::bind(SocketAddr::new(host, if port == 0 { 0 } else { port + 1 })).await?;
    let ports = (live.local_addr()?, replay.local_addr()?);
    shared.kv_ports.set(ports).expect("a server starts once");
    let publisher = Arc::new(Publisher {
        shared: shared.clone(),
        remembered: Mutex::default(),
        live: broadcast::Sender::new(BEHIND),
        process: watch::Sender::new(0),
    });
    let (sender, news) = mpsc::unbounded_channel();
    shared.driver.publish(sender);
    Ok(vec![
        tokio::spawn(publisher.clone().publish(news)),
        tokio::spawn(publisher.clone().accept(live, true)),
        tokio::spawn(publisher.accept(replay, false)),
    ])
}

impl Publisher {
    async fn publish(self: Arc<Self>, mut news: mpsc::UnboundedReceiver<News>) {
        let mut seq = 0;
        while let Some(news) = news.recv().await {
            let changes = match news {
                News::Changed(changes) => changes,
                News::Restarted => {
                    seq = 0;
                    self.remembered.lock().unwrap_or_else(PoisonError::into_inner).clear();
                    self.process.send_modify(|process| *process += 1);
                    continue;
                }
            };
            let block_size = self.shared.driver.with_engine(|engine| engine.config().block_size);
            let batch = (seq, Bytes::from(payload::batch(unix_now(), &changes, block_size)));
            seq += 1;
            let mut remembered = self.remembered.lock().unwrap_or_else(PoisonError::into_inner);
            remembered.push_back(batch.clone());
            if remembered.len() > REMEMBERED {
                remembered.pop_front();
            }
            drop(remembered);
            if self.shared.faults.strike(FaultKind::EventsLost, "/kv_events", |_| true).is_none() {
                // Without a subscriber it is gone.
                let _ = self.live.send(batch);
            }
        }
    }

    async fn accept(self: Arc<Self>, listener: TcpListener, is_live: bool) {
        loop {
            let Ok((stream, _)) = listener.accept().await else { continue };
            let this = self.clone();
            tokio::spawn(async move {
                let mut process = this.process.subscribe();
                let connection = async {
                    if let Some(silence) = this.shared.faults.standing(FaultKind::EventsSilent) {
                        this.shared.faults.released(&silence).await;
                    } else if is_live {
                        // Whoever breaks off concerns nobody.
                        let _ = this.serve_live(stream).await;
                    } else {
                        let _ = this.serve_replays(stream).await;
                    }
                };
                tokio::select! {
                    () = connection => {}
                    _ = process.changed() => {}
                }
            });
        }
    }

    async fn serve_live(&self, stream: TcpStream) -> io::Result<()> {
        let (mut socket, mut writer) = Socket::open(stream, "PUB").await?;
        let (sender, mut topics) = watch::channel(Vec::<Vec<u8>>::new());
        let subscriptions = async {
            loop {
                let message = socket.receive().await?;
                match message.first().map(|frame| frame.split_first()) {
                    Some(Some((1, topic))) => sender.send_modify(|topics| topics.push(topic.to_vec())),
                    Some(Some((0, topic))) => sender.send_modify(|topics| topics.retain(|known| known != topic)),
                    _ => return Err(io::Error::from(io::ErrorKind::InvalidData)),
                }
            }
        };
        let mut live = self.live.subscribe();
        let batches = async {
            loop {
                let (seq, payload) = match live.recv().await {
                    Ok(batch) => batch,
                    Err(broadcast::error::RecvError::Lagged(_)) => continue,
                    Err(broadcast::error::RecvError::Closed) => return Ok(()),
                };
                let is_wanted = topics.borrow_and_update().iter().any(|topic| TOPIC.as_bytes().starts_with(topic));
                if is_wanted {
                    writer.send(&[TOPIC.as_bytes(), &seq.to_be_bytes(), &payload]).await?;
                }
            }
        };
        tokio::select! {
            result = subscriptions => result,
            result = batches => result,
        }
    }

    async fn serve_replays(&self, stream: TcpStream) -> io::Result<()> {
        let (mut socket, mut writer) = Socket::open(stream, "ROUTER").await?;
        loop {
            let message = socket.receive().await?;
            let [_, from] = &message[..] else { return Err(io::ErrorKind::InvalidData.into()) };
            let from = from.as_slice().try_into().map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
            let from = u64::from_be_bytes(from);
            let batches: Vec<Batch> = {
                let remembered = self.remembered.lock().unwrap_or_else(PoisonError::into_inner);
                remembered.iter().filter(|(seq, _)| *seq >= from).cloned().collect()
            };
            for (seq, payload) in batches {
                writer.send(&[b"", TOPIC.as_bytes(), &seq.to_be_bytes(), &payload]).await?;
            }
            writer.send(&[b"", b"", &u64::MAX.to_be_bytes(), b""]).await?;
        }
    }
}
