//! Simulated model servers on the test's runtime.

use std::net::{Ipv4Addr, SocketAddr};

use spillway_sim::Server;

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
