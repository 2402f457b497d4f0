//! Sends the requests of a trace when they are due, whatever becomes of those before.
//!
//! Times count from when a request was due. At the horizon everything still open is broken off, as virtual time does.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::task::JoinSet;
use tokio::time::{sleep_until, timeout_at};

use super::body;
use super::client::Client;
use super::clock::Clock;
use super::seen::Seen;
use crate::workload::random::Random;
use crate::workload::trace::{Request, Start, Text, Trace};

/// A trace with the bodies that can be written before the run.
#[derive(Debug)]
pub(super) struct Load {
    trace: Trace,
    /// Name of the model or adapter that each request asks for.
    models: Vec<String>,
    bodies: Vec<Option<Bytes>>,
    followers: Vec<Vec<usize>>,
    /// Requests whose answer is said again later.
    repeated: Vec<bool>,
}

/// To which of several addresses a request goes.
#[derive(Debug)]
pub(super) enum Deal {
    /// By the lot that virtual time draws for several gateways.
    Lots(Random),
    /// In turn.
    Turns(usize),
}

impl Deal {
    fn next(&mut self, among: usize) -> usize {
        match self {
            Self::Lots(random) => random.below(among),
            Self::Turns(turn) => {
                *turn += 1;
                (*turn - 1) % among
            }
        }
    }
}

impl Load {
    /// Writes the bodies of a trace; `model` names what a request asks for.
    pub(super) fn new(trace: Trace, model: impl Fn(Option<usize>) -> String) -> Self {
        let models: Vec<String> = trace.requests.iter().map(|request| model(request.adapter)).collect();
        let written = |(request, model): (_, &String)| {
            (!body::waits(request)).then(|| body::write(&trace, request, model, |_| String::new()))
        };
        let bodies = trace.requests.iter().zip(&models).map(written).collect();
        let mut repeated = vec![false; trace.requests.len()];
        for message in trace.requests.iter().flat_map(|request| &request.messages) {
            if let Text::Reply { request } = message.text {
                repeated[request] = true;
            }
        }
        Self { followers: trace.followers(), models, bodies, repeated, trace }
    }

    pub(super) fn trace(&self) -> &Trace {
        &self.trace
    }

    /// A body like those of the load, of median length, that asks for little output.
    pub(super) fn typical(&self) -> Option<Bytes> {
        let known = self.bodies.iter().enumerate().filter_map(|(request, body)| Some((body.as_ref()?.len(), request)));
        let mut known: Vec<_> = known.collect();
        known.sort_unstable();
        let (_, request) = *known.get(known.len() / 2)?;
        let asked = Request { output: 2, streams: true, ..self.trace.requests[request].clone() };
        Some(body::write(&self.trace, &asked, &self.models[request], |_| String::new()))
    }

    /// Plays the trace from `origin` on, `scale` times as fast as it says. What was seen comes in the order in which it
    /// ended.
    pub(super) async fn play(&self, clients: &[Arc<Client>], mut deal: Deal, origin: Instant, scale: f64) -> Vec<Seen> {
        let wall = |model: Duration| model.div_f64(scale);
        let end = origin + wall(self.trace.horizon);
        let mut clock = Clock::default();
        for (request, asked) in self.trace.requests.iter().enumerate() {
            if let Start::At(at) = asked.start {
                clock.at(origin + wall(at), request);
            }
        }
        let (mut open, mut all) = (JoinSet::new(), Vec::new());
        let mut replies: HashMap<usize, String> = HashMap::new();
        let mut later: HashMap<usize, Bytes> = HashMap::new();
        let mut over = std::pin::pin!(sleep_until(end.into()));
        loop {
            tokio::select! {
                biased;
                (at, request) = clock.next() => {
                    let Some(body) = self.bodies[request].clone().or_else(|| later.remove(&request)) else { continue };
                    let (client, streams) = (clients[deal.next(clients.len())].clone(), self.trace.requests[request].streams);
                    open.spawn(async move {
                        let mut seen = Seen::new(request, at);
                        // Broken off at the end: what has been seen until then stays.
                        let _ = timeout_at(end.into(), client.chat(body, streams, &mut seen)).await;
                        seen
                    });
                }
                Some(seen) = open.join_next() => {
                    let seen: Seen = seen.expect("a request does not panic");
                    self.follow(&seen, &mut replies, &mut later, &mut clock, scale);
                    all.push(seen);
                }
                () = &mut over => break,
            }
        }
        while let Some(seen) = open.join_next().await {
            all.push(seen.expect("a request does not panic"));
        }
        all
    }

    /// Those who waited for an answer go on.
    fn follow(
        &self,
        seen: &Seen,
        replies: &mut HashMap<usize, String>,
        later: &mut HashMap<usize, Bytes>,
        clock: &mut Clock,
        scale: f64,
    ) {
        if self.repeated[seen.request] {
            replies.insert(seen.request, seen.text.clone());
        }
        let Some(ended) = seen.ended else { return };
        for &follower in &self.followers[seen.request] {
            let asked = &self.trace.requests[follower];
            if self.bodies[follower].is_none() {
                let reply = |request| replies.get(&request).cloned().unwrap_or_default();
                later.insert(follower, body::write(&self.trace, asked, &self.models[follower], reply));
            }
            if let Start::After { pause, .. } = asked.start {
                clock.at(ended + pause.div_f64(scale), follower);
            }
        }
    }
}
