//! Free ports for a process that must be told its ports before it starts.
//!
//! Between the choice and the start another program can take one; the gateway's start is then tried again with others.

use std::collections::HashSet;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

/// Below the range from which Linux takes the ports of outgoing connections, of which these tests open thousands.
const CHOICE: Range<u16> = 12_000..32_000;

/// Ports handed out in this process: two gateways never get the same one.
static TAKEN: Mutex<Option<HashSet<u16>>> = Mutex::new(None);

/// The listeners of one gateway.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ports {
    /// HTTP/1.1.
    pub(super) h1: SocketAddr,
    /// HTTP/2 without TLS, and HTTP/1.1.
    pub(super) h2: SocketAddr,
    pub(super) metrics: SocketAddr,
    pub(super) admin: SocketAddr,
}

impl Ports {
    pub(super) fn free() -> Self {
        Self { h1: free(), h2: free(), metrics: free(), admin: free() }
    }

    pub(super) fn all(&self) -> [SocketAddr; 4] {
        [self.h1, self.h2, self.metrics, self.admin]
    }
}

/// A loopback address on which nobody listens for datagrams.
pub(crate) fn free_udp() -> SocketAddr {
    for _ in 0..100 {
        let address = free();
        if UdpSocket::bind((Ipv4Addr::UNSPECIFIED, address.port())).is_ok() {
            return address;
        }
    }
    panic!("no free UDP port in {CHOICE:?} after 100 tries");
}

/// A loopback address on which nobody listens.
pub(super) fn free() -> SocketAddr {
    let mut taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
    let taken = taken.get_or_insert_default();
    for _ in 0..1000 {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, fastrand::u16(CHOICE)));
        if taken.insert(address.port()) && TcpListener::bind(address).is_ok() {
            return address;
        }
    }
    panic!("no free port in {CHOICE:?} after 1000 tries");
}
