//! Follows the KV events of one endpoint: finds its publishers, and reads each in a task of its own.
//!
//! Nothing here is needed for a request to be served. Whatever fails, the pool believes as it does without events.

mod publisher;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use spillway_picker::pool::Endpoint;
use tokio::task::JoinSet;
use tracing::{info, warn};

use crate::address::Address;
use crate::config::{EventPorts, Events};
use crate::fetch::Fetcher;
use crate::fleet::{Fleet, LivePool};
use crate::kv_events::source::{self, Source};

use publisher::Publisher;

/// Time between two questions where an endpoint publishes. A server that comes up again may have other ports.
const ASK: Duration = Duration::from_secs(30);

/// The same until it has answered once: it is starting.
const ASK_SOON: Duration = Duration::from_secs(1);

/// Time for an answer. SGLang gathers its from all its processes.
const ANSWER: Duration = Duration::from_secs(5);

/// One endpoint whose events are followed.
pub(super) struct Follower {
    pub(super) fleet: Arc<Fleet>,
    pub(super) fetcher: Arc<Fetcher>,
    pub(super) pool: Arc<LivePool>,
    pub(super) endpoint: Arc<Endpoint>,
}

impl Follower {
    /// Runs until dropped.
    pub(super) async fn run(self, events: Events) {
        let mut readers: HashMap<u32, (Source, JoinSet<()>)> = HashMap::new();
        let mut was_silent = false;
        loop {
            let mut pause = ASK_SOON;
            // Before the first resolution there is no address.
            if let Some(address) = self.pool.state.address(&self.endpoint.id) {
                let found = match &events {
                    Events::At(ports) => Some(configured(ports)),
                    Events::Auto => self.ask(&address).await,
                };
                // One that does not answer may be busy: its publishers stay.
                if let Some(sources) = found {
                    pause = ASK;
                    self.read(&mut readers, &sources);
                    if sources.is_empty() && !was_silent {
                        warn!(pool = %self.pool.state.name, endpoint = %self.endpoint.id, "endpoint publishes no kv events");
                    }
                    was_silent = sources.is_empty();
                } else if !readers.is_empty() {
                    pause = ASK;
                }
            }
            tokio::time::sleep(pause.mul_f64(0.9 + 0.2 * fastrand::f64())).await;
        }
    }

    /// Makes the readers those of `sources`.
    fn read(&self, readers: &mut HashMap<u32, (Source, JoinSet<()>)>, sources: &[Source]) {
        readers.retain(|_, (source, _)| sources.contains(source));
        for source in sources {
            readers.entry(source.rank).or_insert_with(|| {
                info!(
                    pool = %self.pool.state.name, endpoint = %self.endpoint.id, rank = source.rank, port = source.port,
                    replay = source.replay_port.is_some(), "following kv events"
                );
                let publisher = Publisher::new(&self.fleet, &self.pool, &self.endpoint, source.clone());
                let mut reader = JoinSet::new();
                reader.spawn(publisher.follow());
                (source.clone(), reader)
            });
        }
    }

    /// Where the endpoint says it publishes; `None` when it says nothing.
    async fn ask(&self, address: &Address) -> Option<Vec<Source>> {
        let mut knows_neither = true;
        for (path, read) in [("/kv_event_sources", source::vllm as fn(&[u8]) -> _), ("/server_info", source::sglang)] {
            let Ok(page) = self.fetcher.get(address, path, "application/json", ANSWER).await else {
                knows_neither = false;
                continue;
            };
            knows_neither &= (400..500).contains(&page.status);
            if page.status == 200
                && let Some(sources) = read(&page.body)
            {
                return Some(sources);
            }
        }
        // It is there, and has no events.
        knows_neither.then(Vec::new)
    }
}

fn configured(ports: &EventPorts) -> Vec<Source> {
    let EventPorts { port, replay_port, ranks, topic } = ports;
    let source = |rank: u16| {
        Some(Source {
            rank: rank.into(),
            port: port.checked_add(rank)?,
            replay_port: replay_port.and_then(|port| port.checked_add(rank)),
            topic: topic.clone().unwrap_or_default(),
        })
    };
    (0..*ranks).filter_map(source).collect()
}
