//! What operators are shown of the other gateways.

use std::net::SocketAddr;
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use serde::Serialize;

/// The latest view; nothing while the gateway does not talk.
#[derive(Default)]
pub struct Board(ArcSwapOption<View>);

/// How it stands.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct View {
    /// The number of this process.
    pub id: String,
    /// Where it listens.
    pub listen: SocketAddr,
    /// Other gateways that there are, by the configuration or DNS.
    pub expected: u32,
    /// Where they are.
    pub gateways: Vec<Gateway>,
    /// Those that are heard.
    pub heard: Vec<Peer>,
}

/// An address that is sent to.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Gateway {
    /// Where.
    pub address: SocketAddr,
    /// Whether it is known to be this gateway's own.
    pub own: bool,
}

/// A gateway that is heard.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Peer {
    /// The number of its process.
    pub id: String,
    /// Where its latest packet came from.
    pub address: SocketAddr,
    /// How long ago that was.
    pub age_seconds: f64,
    /// How far its clock is ahead of ours, less what packets take.
    pub clock_ahead_seconds: f64,
    /// Whether it hashes prompts as this gateway does; if not, only its requests count.
    pub same_hashes: bool,
}

impl Board {
    /// Shows another view.
    pub fn show(&self, view: Option<View>) {
        self.0.store(view.map(Arc::new));
    }

    /// What is shown.
    pub fn view(&self) -> Option<Arc<View>> {
        self.0.load_full()
    }
}
