//! Simulated model servers on the test's runtime.

use std::net::{Ipv4Addr, SocketAddr};

use spillway_sim::{Received, Server};

use super::client::Answer;
use super::wait::eventually;

/// Simulated servers called `a`, `b`, `c`, ... that serve `sim-model`.
pub(crate) async fn sims(count: usize) -> Vec<Server> {
    let mut sims = Vec::with_capacity(count);
    for replica in (b'a'..=b'z').take(count).map(char::from) {
        sims.push(sim_of(spillway_sim::Config { replica: replica.into(), ..spillway_sim::Config::default() }).await);
    }
    sims
}

/// One simulated server. Its admin surface has a port of its own, so that it can be asked whatever fault the model port
/// suffers from.
pub(crate) async fn sim_of(config: spillway_sim::Config) -> Server {
    let admin_listen = Some(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
    Server::start(spillway_sim::Config { admin_listen, ..config }).await.expect("loopback has a free port")
}

/// Waits until no sim generates anything or has a request open.
pub(crate) async fn wait_until_quiet(sims: &[Server]) {
    for sim in sims {
        let name = sim.state().replica;
        eventually(&format!("sim {name} has nothing left to do"), async || {
            let state = sim.state();
            (state.active.is_empty() && state.in_progress == 0).then_some(())
        })
        .await;
    }
}

/// What the sims' records say of the request behind an answer.
pub(crate) fn record_of(sims: &[Server], answer: &Answer) -> Received {
    let (replica, seq) = (answer.header("x-sim-replica"), answer.header("x-sim-seq"));
    let sim = sims.iter().find(|sim| sim.state().replica == replica);
    let sim = sim.unwrap_or_else(|| panic!("no sim called {replica:?} answered: {:?}", answer.headers));
    let seq: u64 = seq.parse().expect("answers of sims are numbered");
    sim.last().into_iter().find(|record| record.seq == seq).expect("the last 256 requests are kept")
}

/// Requests that clients' traffic has caused: all but those by which the gateway looks at its endpoints.
pub(crate) fn calls(sims: &[Server]) -> Vec<Received> {
    let is_call = |record: &Received| record.path != "/v1/models";
    sims.iter().flat_map(Server::last).filter(is_call).collect()
}
