//! A steady stream of requests while something is changed under it, every answer kept.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::task::{JoinHandle, JoinSet};

use crate::harness::{Answer, Client, Gateway, eventually, post};

/// Fifty requests a second, each when its time has come, whether or not the one before has been answered.
const PERIOD: Duration = Duration::from_millis(20);

/// One request and what became of it.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    /// When it was sent.
    pub(crate) at: Instant,
    /// Who answered, or what happened instead.
    pub(crate) outcome: Result<String, String>,
}

impl Sent {
    pub(crate) fn reached(&self, replica: &str) -> bool {
        self.outcome.as_deref() == Ok(replica)
    }
}

/// Requests under way.
pub(crate) struct Traffic {
    sent: Arc<Mutex<Vec<Sent>>>,
    stop: tokio::sync::oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Traffic {
    /// Starts to ask for `model`.
    pub(crate) fn start(gateway: &Gateway, model: &str) -> Self {
        let (address, model) = (gateway.addr(), model.to_owned());
        let (stop, mut stopped) = tokio::sync::oneshot::channel();
        let sent = Arc::<Mutex<Vec<Sent>>>::default();
        let kept = sent.clone();
        let task = tokio::spawn(async move {
            let mut tick = tokio::time::interval(PERIOD);
            let mut requests = JoinSet::new();
            let mut number = 0;
            while stopped.try_recv().is_err() {
                tick.tick().await;
                number += 1;
                let (model, kept) = (model.clone(), kept.clone());
                requests.spawn(async move {
                    let at = Instant::now();
                    let outcome = ask(address, &model, number).await;
                    kept.lock().unwrap().push(Sent { at, outcome });
                });
            }
            requests.join_all().await;
        });
        Self { sent, stop, task }
    }

    /// Waits until one of `replicas` has answered a request sent after `since`.
    pub(crate) async fn reaches(&self, replica: &str, since: Instant) {
        let is_it = |sent: &Sent| sent.at > since && sent.reached(replica);
        let what = format!("a request reaches {replica}");
        eventually(&what, async || self.sent.lock().unwrap().iter().any(is_it).then_some(())).await;
    }

    /// Waits until a request sent after `moment` has been answered.
    pub(crate) async fn passes(&self, moment: Instant) {
        let is_later = |sent: &Sent| sent.at > moment;
        eventually("time passes", async || self.sent.lock().unwrap().iter().any(is_later).then_some(())).await;
    }

    /// Stops, waits for what is under way, and returns all in the order sent. Panics if any failed.
    pub(crate) async fn stop(self) -> Vec<Sent> {
        let _ = self.stop.send(());
        self.task.await.unwrap();
        let mut sent = std::mem::take(&mut *self.sent.lock().unwrap());
        sent.sort_by_key(|one| one.at);
        let failed: Vec<_> = sent.iter().filter(|one| one.outcome.is_err()).collect();
        assert!(failed.is_empty(), "{} of {} requests failed: {failed:#?}", failed.len(), sent.len());
        sent
    }
}

async fn ask(address: SocketAddr, model: &str, number: u32) -> Result<String, String> {
    let body = serde_json::json!({"model": model, "max_tokens": 2,
        "messages": [{"role": "user", "content": format!("question {number}")}]});
    let mut client = Client::try_h1(address).await.map_err(|error| error.to_string())?;
    let request = post("/v1/chat/completions", body.to_string());
    let response = client.send(request).await.map_err(|error| format!("{error:?}"))?;
    let answer = Answer::read(response).await.map_err(|error| format!("{error:?}"))?;
    if answer.status == 200 {
        Ok(answer.header("x-sim-replica").to_owned())
    } else {
        Err(format!("{}: {}", answer.status, answer.text()))
    }
}

/// Who answered.
pub(crate) fn replicas(sent: &[Sent]) -> BTreeSet<&str> {
    sent.iter().filter_map(|one| one.outcome.as_deref().ok()).collect()
}
