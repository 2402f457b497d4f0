//! Where the other gateways are: the addresses that the configuration or DNS leads to, and which of them are this one's.
//!
//! A gateway's own address may be among them: all replicas have one list, and a name leads to all of them. What it sends there
//! comes back to it, by which it knows.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use spillway_picker::time::Time;

/// How long an address counts as ours after a packet of ours came from there: several counts, so that a few that are lost do
/// not matter. It may be another gateway's soon, where addresses are used again.
const OURS_FOR: Duration = Duration::from_secs(3);

/// Addresses of gateways.
#[derive(Clone, Debug)]
pub struct Directory {
    /// Where this gateway listens.
    listen: SocketAddr,
    addresses: BTreeSet<SocketAddr>,
    /// Items that lead to no address which can be sent to.
    lost: u32,
    /// When packets of our own last came from an address in the list.
    ours: BTreeMap<SocketAddr, Time>,
    /// When one last came from another address, which the network has put in place of ours.
    ours_elsewhere: Option<Time>,
}

impl Directory {
    /// One without addresses.
    pub fn new(listen: SocketAddr) -> Self {
        let (addresses, ours) = Default::default();
        Self { listen, addresses, lost: 0, ours, ours_elsewhere: None }
    }

    /// Takes where gateways are. Each item is one gateway's addresses, or several gateways' of one address each. One without an
    /// address that can be sent to still stands for a gateway, which is then never heard.
    pub fn set(&mut self, addresses: impl IntoIterator<Item = Vec<SocketAddr>>) {
        (self.addresses, self.lost) = Default::default();
        for found in addresses {
            let found = reachable(self.listen, found);
            self.lost += u32::from(found.is_empty());
            self.addresses.extend(found);
        }
        self.ours.retain(|address, _| self.addresses.contains(address));
    }

    /// Takes note of a packet of our own.
    pub fn heard_ourselves(&mut self, from: SocketAddr, now: Time) {
        let from = canonical(from);
        if self.addresses.contains(&from) {
            self.ours.insert(from, now);
        } else {
            self.ours_elsewhere = Some(now);
        }
    }

    /// All addresses.
    pub fn all(&self) -> impl Iterator<Item = SocketAddr> {
        self.addresses.iter().copied()
    }

    /// Whether an address is known to be this gateway's.
    pub fn is_ours(&self, address: SocketAddr, now: Time) -> bool {
        address == self.listen || self.ours.get(&address).is_some_and(|at| is_fresh(*at, now))
    }

    /// Those that are not known to be this gateway's.
    pub fn others(&self, now: Time) -> impl Iterator<Item = SocketAddr> {
        self.all().filter(move |address| !self.is_ours(*address, now))
    }

    /// How many other gateways there are.
    pub fn expected(&self, now: Time) -> u32 {
        let others = self.others(now).count();
        let is_one_ours = others == self.addresses.len() && self.ours_elsewhere.is_some_and(|at| is_fresh(at, now));
        others.saturating_sub(is_one_ours.into()) as u32 + self.lost
    }
}

fn is_fresh(at: Time, now: Time) -> bool {
    now.since(at) <= OURS_FOR
}

/// An IPv4 address by its own name, where a socket of IPv6 gives it as one of its.
pub fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

/// Of addresses of one name, those that a socket can send to; of one kind, since a gateway that has both kinds would count
/// as two. A socket of IPv6 reaches IPv4 too, where the system lets it.
fn reachable(listen: SocketAddr, found: Vec<SocketAddr>) -> Vec<SocketAddr> {
    let found: Vec<SocketAddr> = found.into_iter().map(canonical).collect();
    let takes_v6 = listen.is_ipv6() && found.iter().any(SocketAddr::is_ipv6);
    found.into_iter().filter(|address| address.is_ipv6() == takes_v6).collect()
}

/// The address as a socket that listens at `listen` must be given it.
pub fn sendable(listen: SocketAddr, address: SocketAddr) -> SocketAddr {
    match address.ip() {
        IpAddr::V4(v4) if listen.is_ipv6() => SocketAddr::new(v4.to_ipv6_mapped().into(), address.port()),
        _ => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Time {
        Time::from_nanos(seconds * 1_000_000_000)
    }

    fn address(text: &str) -> SocketAddr {
        text.parse().unwrap_or_else(|_| panic!("{text}"))
    }

    fn directory(listen: &str, found: &[&[&str]]) -> Directory {
        let mut directory = Directory::new(address(listen));
        directory.set(found.iter().map(|one| one.iter().map(|text| address(text)).collect()));
        directory
    }

    #[test]
    fn the_own_address_is_not_another_gateway_once_it_was_heard() {
        let mut directory = directory("0.0.0.0:8766", &[&["10.0.0.1:8766", "10.0.0.2:8766", "10.0.0.3:8766"]]);
        assert_eq!(directory.expected(at(1)), 3);
        directory.heard_ourselves(address("10.0.0.2:8766"), at(1));
        assert_eq!(directory.expected(at(1)), 2);
        assert!(directory.others(at(1)).all(|other| other != address("10.0.0.2:8766")));
        assert_eq!(directory.all().count(), 3, "it is asked again and again whose it is");
        assert_eq!(directory.expected(at(10)), 3, "by then it may be another's");
    }

    #[test]
    fn an_own_packet_from_nowhere_in_the_list_takes_one_away_and_no_more() {
        let mut directory = directory("0.0.0.0:8766", &[&["10.0.0.1:8766", "10.0.0.2:8766"]]);
        directory.heard_ourselves(address("192.168.0.1:40000"), at(1));
        assert_eq!(directory.expected(at(2)), 1);
        directory.heard_ourselves(address("10.0.0.1:8766"), at(2));
        assert_eq!(directory.expected(at(2)), 1);
    }

    #[test]
    fn an_address_that_is_listened_at_is_ours_from_the_start() {
        let directory = directory("127.0.0.1:1", &[&["127.0.0.1:1"], &["127.0.0.1:2"], &["127.0.0.1:2"]]);
        assert_eq!(directory.expected(at(0)), 1);
        assert_eq!(directory.others(at(0)).collect::<Vec<_>>(), [address("127.0.0.1:2")]);
    }

    #[test]
    fn of_both_kinds_of_addresses_one_counts() {
        let both: &[&[&str]] = &[&["10.0.0.1:1", "[fd00::1]:1"], &["10.0.0.2:1"]];
        assert_eq!(directory("0.0.0.0:1", both).expected(at(0)), 2);
        let found: Vec<SocketAddr> = directory("[::]:1", both).all().collect();
        assert_eq!(found, [address("10.0.0.2:1"), address("[fd00::1]:1")]);
        assert_eq!(sendable(address("[::]:1"), found[0]), address("[::ffff:10.0.0.2]:1"));
        assert_eq!(directory("0.0.0.0:1", &[&["[fd00::1]:1"]]).expected(at(0)), 1, "it cannot be reached");
        assert_eq!(directory("0.0.0.0:1", &[&[]]).expected(at(0)), 1, "its name leads nowhere");
        let mut mapped = directory("[::]:1", both);
        mapped.heard_ourselves(address("[::ffff:10.0.0.2]:1"), at(0));
        assert_eq!(mapped.expected(at(0)), 1);
    }
}
