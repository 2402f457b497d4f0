//! What others say, told to the pools; and who of them is there.
//!
//! Packets come late, twice, out of order or not at all, and from whoever likes. Time is an argument: nothing here waits or
//! looks at a clock.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use spillway_picker::pool::{Count, Event, Pool, Sent, Slot, Word};
use spillway_picker::time::Time;

use super::packet::{self, Key, NoPacket};
use super::place::Place;
use super::records::{self, Counts, Record};
use super::window::Window;

/// How far the clock of a sender may be off: more than clocks that are set by the network ever are, and so little that what
/// was recorded is soon of no use.
pub const MOST_SKEW: Duration = Duration::from_secs(30);

/// Silence after which a gateway is gone: five counts in a row that were lost.
pub const SILENCE: Duration = Duration::from_secs(1);

/// Silence after which a sender is forgotten. Before that its packets of before could be taken again: sent 30 s ahead of time,
/// they are good for twice [`MOST_SKEW`].
const FORGET: Duration = Duration::from_secs(61);

/// Senders that are known at a time, those that left among them. Only who has the secret is one; this bounds what an error of
/// theirs costs.
const MOST_SENDERS: usize = 1_000;

/// What came of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Verdict {
    /// It was taken.
    Ok,
    /// Made without the secret.
    Mac,
    /// Sent too long ago, or in the future.
    Stale,
    /// Taken before.
    Replayed,
    /// Of another form.
    Version,
    /// Cut off, or with numbers that cannot be.
    Malformed,
    /// Sent by this process.
    Own,
    /// Of one sender too many.
    Excess,
}

impl Verdict {
    /// All of them.
    pub const ALL: [Self; 8] =
        [Self::Ok, Self::Mac, Self::Stale, Self::Replayed, Self::Version, Self::Malformed, Self::Own, Self::Excess];

    /// The value of `result` in metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Mac => "mac",
            Self::Stale => "stale",
            Self::Replayed => "replayed",
            Self::Version => "version",
            Self::Malformed => "malformed",
            Self::Own => "own",
            Self::Excess => "excess",
        }
    }
}

impl From<NoPacket> for Verdict {
    fn from(why: NoPacket) -> Self {
        match why {
            NoPacket::Malformed => Self::Malformed,
            NoPacket::Version => Self::Version,
            NoPacket::Mac => Self::Mac,
        }
    }
}

/// Another gateway that is there.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Heard {
    /// Its number.
    pub id: u64,
    /// Where its latest packet came from.
    pub from: SocketAddr,
    /// When.
    pub at: Time,
    /// How far its clock was ahead of ours then, in seconds, less what the packet took.
    pub ahead: f64,
    /// Whether its block hashes mean what ours do.
    pub is_same_scheme: bool,
}

/// Comes and goes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Passage {
    /// It is heard.
    Came(Heard),
    /// It has said that it goes.
    Left(Heard),
    /// It has not been heard for [`SILENCE`].
    FellSilent(Heard),
}

/// Hears.
pub struct Hearer {
    own: u64,
    scheme: u32,
    /// When this process began, by its clock, since 1970.
    began: Duration,
    /// Packets of this process that came back to it.
    ours: Window,
    pools: HashMap<u64, Place>,
    senders: HashMap<u64, Sender>,
    passages: Vec<Passage>,
}

struct Sender {
    window: Window,
    heard: Heard,
    is_here: bool,
    pools: HashMap<u64, Line>,
}

/// What one sender says of one pool.
#[derive(Default)]
struct Line {
    at: Time,
    round: u64,
    /// The parts of that round which have come.
    come: Vec<bool>,
    counts: Vec<(u64, Count)>,
}

impl Hearer {
    /// One that hears nobody yet. `own` is the number of this process, `scheme` what its block hashes mean, `began` the time
    /// since 1970 by its clock.
    pub fn new(own: u64, scheme: u32, began: Duration) -> Self {
        Self {
            own,
            scheme,
            began,
            ours: Window::default(),
            pools: HashMap::new(),
            senders: HashMap::new(),
            passages: Vec::new(),
        }
    }

    /// Tells these pools, by the hashes of their names, and no others.
    pub fn tell(&mut self, pools: &HashMap<u64, Arc<Pool>>) {
        let is_same = |hash: &u64, place: &Place| pools.get(hash).is_some_and(|pool| Arc::ptr_eq(pool, place.picker()));
        self.pools.retain(|hash, place| is_same(hash, place));
        for sender in self.senders.values_mut() {
            sender.pools.retain(|hash, _| self.pools.contains_key(hash));
        }
        for (hash, pool) in pools {
            self.pools.entry(*hash).or_insert_with(|| Place::new(Arc::clone(pool)));
        }
    }

    /// Takes a packet that came `from` somewhere. `wall` is the time since 1970 by our clock.
    pub fn hear(&mut self, packet: &[u8], from: SocketAddr, key: &Key, wall: Duration, now: Time) -> Verdict {
        let (head, bytes) = match packet::open(packet, key) {
            Ok(opened) => opened,
            Err(why) => return why.into(),
        };
        let sent = Duration::from_millis(head.sent_ms);
        // What was sent before this process began may have been taken by one before it, which nobody remembers.
        if sent.abs_diff(wall) > MOST_SKEW || sent < self.began {
            return Verdict::Stale;
        }
        if head.sender == self.own {
            // One that was recorded and comes from elsewhere would make that address ours.
            return if self.ours.take(head.sequence) { Verdict::Own } else { Verdict::Replayed };
        }
        let ahead = sent.as_secs_f64() - wall.as_secs_f64();
        let is_same_scheme = head.scheme == self.scheme;
        let heard = Heard { id: head.sender, from, at: now, ahead, is_same_scheme };
        if self.senders.len() >= MOST_SENDERS && !self.senders.contains_key(&head.sender) {
            return Verdict::Excess;
        }
        let sender = self.senders.entry(head.sender).or_insert_with(|| Sender {
            window: Window::default(),
            heard,
            is_here: false,
            pools: HashMap::new(),
        });
        if !sender.window.take(head.sequence) {
            return Verdict::Replayed;
        }
        let Ok(records) = records::decode(bytes) else { return Verdict::Malformed };
        sender.heard = heard;
        // It says more than once that it goes.
        if !sender.is_here && records.contains(&Record::Left) {
            return Verdict::Ok;
        }
        if !std::mem::replace(&mut sender.is_here, true) {
            self.passages.push(Passage::Came(heard));
        }
        let mut about = None;
        for record in records {
            match record {
                Record::Pool(hash) => about = Some(hash).filter(|hash| self.pools.contains_key(hash)),
                Record::Left => {
                    sender.window.close();
                    sender.leave(&self.pools, now);
                    self.passages.push(Passage::Left(heard));
                }
                record => {
                    if let Some(hash) = about
                        && let Some(place) = self.pools.get_mut(&hash)
                    {
                        let line = sender.pools.entry(hash).or_default();
                        line.at = now;
                        line.take(&record, heard, place, now);
                    }
                }
            }
        }
        Verdict::Ok
    }

    /// Ends what has not been heard for too long.
    pub fn look(&mut self, now: Time) {
        for sender in self.senders.values_mut().filter(|sender| sender.is_here) {
            if now.since(sender.heard.at) > SILENCE {
                sender.leave(&self.pools, now);
                self.passages.push(Passage::FellSilent(sender.heard));
                continue;
            }
            // A pool of which it says nothing any more is no longer part of its configuration.
            sender.pools.retain(|hash, line| {
                let stays = now.since(line.at) <= SILENCE;
                if let Some(place) = self.pools.get(hash).filter(|_| !stays) {
                    place.picker().observe(Event::PeerLeft { peer: sender.heard.id }, now);
                }
                stays
            });
        }
        self.senders.retain(|_, sender| now.since(sender.heard.at) <= FORGET);
    }

    /// Takes it that all are gone. Their packets of before stay taken.
    pub fn forget_all(&mut self, now: Time) {
        for sender in self.senders.values_mut().filter(|sender| sender.is_here) {
            sender.leave(&self.pools, now);
        }
    }

    /// Whether another gateway is there at this address.
    pub fn is_at(&self, address: SocketAddr) -> bool {
        self.senders.values().any(|sender| sender.is_here && sender.heard.from == address)
    }

    /// Those who are there, in the order of their numbers.
    pub fn here(&self) -> Vec<Heard> {
        let here = self.senders.values().filter(|sender| sender.is_here).map(|sender| sender.heard);
        let mut here: Vec<Heard> = here.collect();
        here.sort_by_key(|heard| heard.id);
        here
    }

    /// Who came and went since this was last asked.
    pub fn passages(&mut self) -> Vec<Passage> {
        std::mem::take(&mut self.passages)
    }
}

impl Sender {
    fn leave(&mut self, pools: &HashMap<u64, Place>, now: Time) {
        self.is_here = false;
        for (hash, _) in self.pools.drain() {
            if let Some(place) = pools.get(&hash) {
                place.picker().observe(Event::PeerLeft { peer: self.heard.id }, now);
            }
        }
    }
}

impl Line {
    fn take(&mut self, record: &Record<'_>, sender: Heard, place: &mut Place, now: Time) {
        let peer = sender.id;
        let word = match record {
            Record::Sent { ticket, endpoint, uncached, output, streams, blocks } => {
                // One that is not known here is another gateway's alone.
                let Some(endpoint) = place.slot(*endpoint) else { return };
                // Under another scheme they are numbers without meaning.
                let blocks = if sender.is_same_scheme { &**blocks } else { &[] };
                let (ticket, uncached, output, streams) = (*ticket, *uncached, *output, *streams);
                Word::Sent(Sent { ticket, endpoint, uncached, output, streams, blocks })
            }
            Record::FirstToken { ticket } => Word::FirstToken { ticket: *ticket },
            Record::Ended { ticket } => Word::Ended { ticket: *ticket },
            Record::Counts(counts) => {
                if let Some(counts) = self.count(counts) {
                    let known = |(endpoint, count)| Some((place.slot(endpoint)?, count));
                    let counts: Vec<(Slot, Count)> = counts.into_iter().filter_map(known).collect();
                    place.picker().observe(Event::PeerCounts { peer, counts: &counts }, now);
                }
                return;
            }
            Record::Pool(_) | Record::Left => return,
        };
        place.picker().observe(Event::Peer { peer, word }, now);
    }

    /// Takes a part of what is in flight; all of it, once all parts have come.
    fn count(&mut self, counts: &Counts) -> Option<Vec<(u64, Count)>> {
        let parts = counts.parts as usize;
        if counts.round > self.round {
            self.round = counts.round;
            self.come = vec![false; parts];
            self.counts.clear();
        } else if counts.round < self.round || self.come.len() != parts {
            return None;
        }
        let come = self.come.get_mut(counts.part as usize)?;
        if std::mem::replace(come, true) {
            return None;
        }
        self.counts.extend_from_slice(&counts.counts);
        self.come.iter().all(|come| *come).then(|| std::mem::take(&mut self.counts))
    }
}

#[cfg(test)]
mod tests;
