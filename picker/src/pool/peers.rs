//! Other gateways that route to the same endpoints, as far as they talk to this one.
//!
//! Each tells the others of its requests: sent where, with which prompt; first token; over. Here these stand beside our own, in
//! the line of prefills and among the streams, so that a decision sees what one gateway for all would see, a few milliseconds
//! late. What others say is a help and never a need: a word that is lost costs a prefix computed twice, or makes an endpoint look
//! busier than it is until the next count; and when gateways fall silent, this one is back at what gateways agree on without a
//! word, the homes of a prefix on the ring and the load that metrics pages show.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use crate::pool::state::Dispatch;
use crate::pool::topology::Topology;
use crate::pool::{Endpoint, Slot, State};
use crate::time::Time;

/// Requests of one gateway that are followed at most. More are only seen on metrics pages.
const MOST_FOLLOWED: usize = 65_536;

/// Part of another gateway's requests, of those it has or is taken to have, in which what it told and what it counts differ, from
/// which it is not to be relied on: then prefixes stay on their homes, as with a gateway that says nothing. A word that is late by a
/// tenth of a second makes a difference of some percent.
const UNRELIABLE: f64 = 0.2;

/// Weight of the newest count: a second or so at five counts a second.
const COUNT_WEIGHT: f64 = 0.2;

/// Fewer requests say nothing of that.
const LEAST_COUNTED: f64 = 8.0;

/// What gateways tell each other of one request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Word<'a> {
    /// It was sent to an endpoint.
    Sent(Sent<'a>),
    /// Its first token came.
    FirstToken {
        /// The request, by the number its gateway gave it.
        ticket: u64,
    },
    /// It is over.
    Ended {
        /// The request.
        ticket: u64,
    },
}

/// A request that was sent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sent<'a> {
    /// Its number at its gateway; rising.
    pub ticket: u64,
    /// The endpoint.
    pub endpoint: Slot,
    /// Tokens of its prompt that are to be computed there.
    pub uncached: u32,
    /// Tokens it is expected to produce.
    pub output: u32,
    /// Whether its first token will be told of.
    pub streams: bool,
    /// Hashes of its prompt's blocks; none when the gateway believes that they were there before.
    pub blocks: &'a [u64],
}

/// How many requests a gateway has at one endpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// All of them.
    pub requests: u32,
    /// Of these, the ones whose first token will be told of and has not come.
    pub waiting: u32,
}

/// Takes what this gateway has to tell the others. Called in the middle of decisions: it must not wait.
pub trait Tell: Send + Sync {
    /// Takes one word on a request at `endpoint`.
    fn tell(&self, word: Word<'_>, endpoint: &Endpoint);
}

/// Those who talk, and their requests.
#[derive(Default)]
pub(crate) struct Peers {
    /// Others that there are, as far as this gateway was told.
    expected: AtomicU32,
    /// Others that talk.
    heard: AtomicU32,
    /// Those of them that can be relied on.
    reliable: AtomicU32,
    gateways: Mutex<HashMap<u64, Gateway>>,
    /// Whether `teller` has any: read before each word.
    tells: AtomicBool,
    teller: RwLock<Option<Arc<dyn Tell>>>,
    tickets: AtomicU64,
}

/// Requests of one other gateway, by ticket.
#[derive(Default)]
struct Gateway {
    /// Mean part of its requests that was told wrong.
    wrong: f64,
    guests: BTreeMap<u64, Guest>,
}

/// One request of another gateway.
struct Guest {
    slot: Slot,
    state: Arc<State>,
    /// Its ticket at the endpoint.
    ticket: u64,
    output: u32,
    /// Its first token will be told of and has not been.
    waits: bool,
}

impl Guest {
    fn first_token(&mut self, now: Time) {
        self.waits = false;
        self.state.guest_first_token(self.ticket, now);
    }

    fn end(&self, now: Time) {
        self.state.guest_ended(self.ticket, self.output, now);
    }
}

impl fmt::Debug for Peers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Peers").field("expected", &self.expected).field("heard", &self.heard).finish_non_exhaustive()
    }
}

impl Peers {
    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Gateway>> {
        self.gateways.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn expect(&self, others: u32) {
        self.expected.store(others, Ordering::Relaxed);
    }

    pub(crate) fn set_teller(&self, teller: Option<Arc<dyn Tell>>) {
        let mut place = self.teller.write().unwrap_or_else(PoisonError::into_inner);
        self.tells.store(teller.is_some(), Ordering::Relaxed);
        *place = teller;
    }

    /// A number for a request, when there is anyone to tell of it.
    pub(crate) fn ticket(&self) -> Option<u64> {
        self.tells.load(Ordering::Relaxed).then(|| self.tickets.fetch_add(1, Ordering::Relaxed))
    }

    pub(crate) fn tell(&self, word: Word<'_>, endpoint: &Endpoint) {
        if let Some(teller) = &*self.teller.read().unwrap_or_else(PoisonError::into_inner) {
            teller.tell(word, endpoint);
        }
    }

    /// All gateways, this one included, where the configuration says `configured`.
    pub(crate) fn gateways(&self, configured: u32) -> u32 {
        let others = self.expected.load(Ordering::Relaxed).max(self.heard.load(Ordering::Relaxed));
        configured.max(1 + others)
    }

    /// The part of all gateways, of which there are `configured` or more, that is heard or this one.
    pub(crate) fn known(&self, configured: u32) -> f64 {
        let known = f64::from(1 + self.heard.load(Ordering::Relaxed));
        (known / f64::from(self.gateways(configured))).min(1.0)
    }

    /// Whether some of `gateways` do not talk to this one, or not so that they can be relied on.
    pub(crate) fn any_silent(&self, gateways: u32) -> bool {
        1 + self.reliable.load(Ordering::Relaxed) < gateways
    }

    /// Another gateway said something of a request.
    pub(crate) fn heard(&self, peer: u64, word: Word<'_>, topology: &Topology, now: Time) {
        let mut gateways = self.lock();
        let Some(gateway) = gateways.get_mut(&peer) else {
            // Not before it has told that it is there: it may be one that left, whose last words come late.
            return;
        };
        match word {
            Word::Sent(sent) => {
                let Some(endpoint) = topology.endpoint(sent.endpoint) else { return };
                if topology.reads_prefixes() {
                    topology.index.insert(sent.endpoint, sent.blocks);
                }
                if gateway.guests.len() < MOST_FOLLOWED && !gateway.guests.contains_key(&sent.ticket) {
                    let state = endpoint.state.clone();
                    let ticket = state.guest_dispatched(&dispatch(&sent, &state, now), now);
                    let guest = Guest { slot: sent.endpoint, state, ticket, output: sent.output, waits: sent.streams };
                    gateway.guests.insert(sent.ticket, guest);
                }
            }
            Word::FirstToken { ticket } => {
                if let Some(guest) = gateway.guests.get_mut(&ticket) {
                    guest.first_token(now);
                }
            }
            Word::Ended { ticket } => {
                if let Some(guest) = gateway.guests.remove(&ticket) {
                    guest.end(now);
                }
            }
        }
    }

    /// Another gateway told how many requests it has at each endpoint, none where it says nothing. Of more, words were lost: the
    /// oldest are taken to be over, and of more that wait, to have their first token.
    pub(crate) fn counted(&self, peer: u64, counts: &[(Slot, Count)], now: Time) {
        let mut gateways = self.lock();
        let gateway = gateways.entry(peer).or_default();
        // Of each endpoint: how many too many there are, and how many too many of them wait.
        let mut surplus: HashMap<Slot, (i64, i64)> = HashMap::new();
        for (slot, Count { requests, waiting }) in counts {
            let (all, wait) = surplus.entry(*slot).or_default();
            *all -= i64::from(*requests);
            *wait -= i64::from(*waiting);
        }
        for guest in gateway.guests.values() {
            let (all, wait) = surplus.entry(guest.slot).or_default();
            *all += 1;
            *wait += i64::from(guest.waits);
        }
        let counted: u32 = counts.iter().map(|(_, count)| count.requests).sum();
        let there = f64::from(counted).max(gateway.guests.len() as f64);
        if there >= LEAST_COUNTED {
            let wrong = surplus.values().map(|(all, _)| all.unsigned_abs()).sum::<u64>() as f64 / there;
            gateway.wrong += (wrong.min(1.0) - gateway.wrong) * COUNT_WEIGHT;
        }
        if surplus.values().any(|(all, wait)| *all > 0 || *wait > 0) {
            gateway.guests.retain(|_, guest| {
                let (all, wait) = surplus.entry(guest.slot).or_default();
                let is_over = *all > 0;
                if is_over {
                    *all -= 1;
                    *wait -= i64::from(guest.waits);
                    guest.end(now);
                } else if *wait > 0 && guest.waits {
                    *wait -= 1;
                    guest.first_token(now);
                }
                !is_over
            });
        }
        self.publish(&gateways);
    }

    fn publish(&self, gateways: &HashMap<u64, Gateway>) {
        let reliable = gateways.values().filter(|gateway| gateway.wrong < UNRELIABLE).count();
        self.heard.store(gateways.len() as u32, Ordering::Relaxed);
        self.reliable.store(reliable as u32, Ordering::Relaxed);
    }

    /// Another gateway left, or has not been heard for too long.
    pub(crate) fn left(&self, peer: u64, now: Time) {
        let mut gateways = self.lock();
        for guest in gateways.remove(&peer).into_iter().flat_map(|gateway| gateway.guests.into_values()) {
            guest.end(now);
        }
        self.publish(&gateways);
    }
}

fn dispatch<'a>(sent: &Sent<'_>, state: &State, now: Time) -> Dispatch<'a> {
    let uncached = f64::from(sent.uncached);
    let service = state.sheet.rates().prefill(uncached);
    let service = if service > 0.0 { service.min(60.0) } else { 0.0 };
    let ttft = Duration::from_secs_f64(state.sheet.pending(now) + service);
    Dispatch {
        size: 0,
        service: Duration::from_secs_f64(service),
        ttft,
        streams: sent.streams,
        adapter: None,
        uncached,
        output: sent.output,
    }
}
