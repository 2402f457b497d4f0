//! What of a pool outlives a reload of its settings, its list of endpoints among it.
//!
//! Two write that list: a reload, and what DNS answers meanwhile. Each takes the lock, and an answer to a question that is
//! no longer asked is dropped; so neither can undo the other. Readers take no lock.

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::{ArcSwap, ArcSwapOption, Guard};
use spillway_picker::pool::{EndpointSpec, Pool};
use spillway_picker::request::Turn;
use spillway_picker::time::Time;
use tokio::sync::watch;

use super::roster::{Member, Roster};
use crate::address::{self, Address};
use crate::catalogue::Catalogue;
use crate::config::{self, Dns, EndpointUrl};
use crate::dns::overlap::Overlap;
use crate::dns::{Answer, LookError};
use crate::engine::models::Card;

/// What was found out about a configuration before it came into force.
#[derive(Debug, Default)]
pub struct Found {
    /// Where host names of endpoints led.
    pub hosts: HashMap<EndpointUrl, SocketAddr>,
    /// What was answered to the questions of pools with `dns`, by the pool's name.
    pub answers: HashMap<String, Answer>,
}

/// How the discovery of a pool's endpoints goes.
#[derive(Clone, Debug)]
pub struct Discovery {
    /// The name asked for.
    pub name: String,
    /// When endpoints were last answered.
    pub answered_at: Option<Time>,
    /// Why the latest look found none, if it did not.
    pub error: Option<Arc<str>>,
}

/// What outlives a reload of a pool's settings.
pub struct PoolState {
    /// The pool's name.
    pub name: Arc<str>,
    /// The picker.
    pub picker: Arc<Pool>,
    /// What the endpoints list as their models.
    pub catalogue: Catalogue,
    /// Whether every endpoint has been looked at once, or the pool came with a reload: a process that serves must not be
    /// called unready for what is new.
    pub looked: AtomicBool,
    roster: ArcSwap<Roster>,
    writer: Mutex<Writer>,
    changed: watch::Sender<()>,
    discovery: ArcSwapOption<Discovery>,
    in_flight: AtomicU32,
    rotation: AtomicU64,
}

/// What a change of the list starts from.
#[derive(Default)]
struct Writer {
    /// The question whose answers are taken; `None` while the configuration lists the endpoints.
    dns: Option<Dns>,
    overlap: Overlap,
    http2: bool,
}

/// One request's place within `limits.in_flight`; given back on drop.
pub struct Admitted {
    state: Arc<PoolState>,
}

impl Drop for Admitted {
    fn drop(&mut self) {
        self.state.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

impl PoolState {
    pub(super) fn new(name: &str, picker: Arc<Pool>, looked: bool) -> Self {
        Self {
            name: name.into(),
            picker,
            catalogue: Catalogue::default(),
            looked: AtomicBool::new(looked),
            roster: ArcSwap::default(),
            writer: Mutex::default(),
            changed: watch::Sender::new(()),
            discovery: ArcSwapOption::empty(),
            in_flight: AtomicU32::new(0),
            rotation: AtomicU64::new(0),
        }
    }

    /// Takes a place, unless `most` are taken. Every request takes one, so that a limit set later counts those before it.
    pub fn admit(self: &Arc<Self>, most: Option<u32>) -> Option<Admitted> {
        let most = most.unwrap_or(u32::MAX);
        self.in_flight
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |taken| (taken < most).then(|| taken + 1))
            .ok()
            .map(|_| Admitted { state: Arc::clone(self) })
    }

    /// Requests admitted and not yet ended.
    pub fn in_flight(&self) -> u32 {
        self.in_flight.load(Ordering::Relaxed)
    }

    /// The randomness of the next decision.
    pub fn turn(&self) -> Turn {
        Turn { random: fastrand::u64(..), rotation: self.rotation.fetch_add(1, Ordering::Relaxed) }
    }

    /// The next decision's turn without taking it: for explaining one.
    pub fn peek_turn(&self) -> Turn {
        Turn { random: 0, rotation: self.rotation.load(Ordering::Relaxed) }
    }

    /// The endpoints and where they are. Cheap; hold it briefly.
    pub fn roster(&self) -> Guard<Arc<Roster>> {
        self.roster.load()
    }

    /// Where an endpoint is, once its name has been resolved.
    pub fn address(&self, endpoint: &str) -> Option<Arc<Address>> {
        self.roster().address(endpoint).cloned()
    }

    /// How discovery goes; `None` while the configuration lists the endpoints.
    pub fn discovery(&self) -> Option<Arc<Discovery>> {
        self.discovery.load_full()
    }

    /// Tells when DNS has changed the list of endpoints.
    pub fn changes(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    /// Records what an endpoint lists as its models; returns whether that has changed.
    pub fn list(&self, endpoint: &Arc<str>, cards: &[Card]) -> bool {
        let is_other = self.catalogue.record(endpoint, cards);
        if is_other {
            // It may have gone while it was being asked, or others may only have been waiting for it to take their place.
            let roster = self.roster();
            let here: HashSet<&str> = roster.members().iter().map(|member| &*member.id).collect();
            self.catalogue.retain(|id| here.contains(id));
        }
        is_other
    }

    /// Puts the endpoints of `settings` in force, as far as they are known; returns the ids of those that went. Those behind
    /// another name stay until the name has led somewhere.
    pub(super) fn follow(&self, settings: &config::Pool, found: &Found, now: Time) -> Vec<Arc<str>> {
        let mut writer = self.writer();
        let before = self.roster();
        writer.http2 = settings.http2;
        let Some(dns) = &settings.dns else {
            (writer.dns, writer.overlap) = (None, Overlap::default());
            self.discovery.store(None);
            let member = |endpoint: &config::Endpoint| {
                let known = before.address(&endpoint.url.to_string()).map(|address| address.socket);
                let asked = || found.hosts.get(&endpoint.url).copied();
                let socket = address::literal(&endpoint.url).or(known).or_else(asked);
                Member::listed(endpoint, socket, settings.http2)
            };
            return self.replace(settings.endpoints.iter().map(member).collect(), now);
        };
        let is_other = !writer.dns.as_ref().is_some_and(|known| known.is_same_question(dns));
        writer.dns = Some(dns.clone());
        if is_other {
            writer.overlap = Overlap::default();
            let unasked = Discovery { name: dns.name.clone(), answered_at: None, error: None };
            self.discovery.store(Some(Arc::new(unasked)));
        }
        if let Some(answer) = found.answers.get(&*self.name) {
            return self.take(&mut writer, dns, answer, now);
        }
        let mut members = before.members().to_vec();
        for address in members.iter_mut().filter_map(|member| member.address.as_mut()) {
            Arc::make_mut(address).http2 = settings.http2;
        }
        self.replace(members, now)
    }

    /// Takes an answer to the question of `dns`, unless another is asked by now; returns the ids of the endpoints that went,
    /// and whether anything has changed.
    pub(super) fn answered(&self, dns: &Dns, answer: &Answer, now: Time) -> Option<Vec<Arc<str>>> {
        let mut writer = self.writer();
        if !writer.dns.as_ref().is_some_and(|asked| asked.is_same_question(dns)) {
            return None;
        }
        let before = self.roster.load_full();
        let gone = self.take(&mut writer, dns, answer, now);
        if Arc::ptr_eq(&before, &self.roster()) {
            return None;
        }
        self.changed.send_replace(());
        Some(gone)
    }

    /// Takes note that a look found nothing. The endpoints stay.
    pub fn failed(&self, dns: &Dns, error: &LookError) {
        let _writer = self.writer();
        if let Some(before) = self.discovery().filter(|before| before.name == dns.name) {
            let error = Some(error.to_string().into());
            self.discovery.store(Some(Arc::new(Discovery { error, ..(*before).clone() })));
        }
    }

    /// Takes where host names lead.
    pub fn locate(&self, hosts: &HashMap<EndpointUrl, SocketAddr>, now: Time) {
        let writer = self.writer();
        let mut members = self.roster().members().to_vec();
        for member in &mut members {
            if let Some(&socket) = hosts.get(&member.url) {
                member.address = Some(Arc::new(Address::new(socket, &member.url, writer.http2, None)));
            }
        }
        self.replace(members, now);
    }

    fn writer(&self) -> MutexGuard<'_, Writer> {
        // Every change leaves what the lock guards whole at each step that can panic, which is none.
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, writer: &mut Writer, dns: &Dns, answer: &Answer, now: Time) -> Vec<Arc<str>> {
        writer.overlap.take(answer);
        let http2 = writer.http2;
        let members = writer.overlap.endpoints().map(|(socket, found)| Member::found(dns, socket, found, http2));
        let answered = Discovery { name: dns.name.clone(), answered_at: Some(now), error: None };
        self.discovery.store(Some(Arc::new(answered)));
        self.replace(members.collect(), now)
    }

    /// Makes `members` the list; the lock is held. Returns the ids of those that went.
    fn replace(&self, members: Vec<Member>, now: Time) -> Vec<Arc<str>> {
        let before = self.roster.load_full();
        if before.members() == members {
            return Vec::new();
        }
        let specs = |members: &[Member]| members.iter().map(Member::spec).collect::<Vec<EndpointSpec>>();
        let (old, new) = (specs(before.members()), specs(&members));
        let kept: HashSet<Arc<str>> = members.iter().map(|member| Arc::clone(&member.id)).collect();
        // Before the picker knows them: from then on requests are sent there.
        self.roster.store(Arc::new(Roster::after(&before, members)));
        if old != new {
            self.picker.set_endpoints(new, now);
        }
        let gone: Vec<_> = old.into_iter().map(|spec| spec.id).filter(|id| !kept.contains(id)).collect();
        if !gone.is_empty() {
            self.catalogue.retain(|id| kept.contains(id));
        }
        gone
    }
}
