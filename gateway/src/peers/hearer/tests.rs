//! Two gateways in memory: what one says, packet by packet, and what the other makes of it.

use spillway_picker::config::{Affinity, Policy, PoolConfig};
use spillway_picker::explain::{EndpointTrace, Trace};
use spillway_picker::flight::Flight;
use spillway_picker::pool::EndpointSpec;
use spillway_picker::prefix::Prompt;
use spillway_picker::registry::Registry;
use spillway_picker::request::{RequestInfo, Turn};

use super::*;
use crate::peers::packet::{Head, seal};
use crate::peers::place::hash_of;
use crate::peers::speaker::Speaker;

const SECRET: &[u8] = b"0123456789abcdef";
const WALL: Duration = Duration::from_secs(1_700_000_000);
const SCHEME: u32 = 5;

fn from() -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 1], 8_766))
}

fn at(millis: u64) -> Time {
    Time::from_nanos(1 + millis * 1_000_000)
}

/// `adaptive` looks at prompts; in a large pool the fewest in flight spreads requests evenly.
fn pool(endpoints: &[&str]) -> Arc<Pool> {
    let policy = Policy::Named(if endpoints.len() > 2 { "least_request" } else { "adaptive" }.to_owned());
    let affinity = Affinity { enabled: true, ..Affinity::default() };
    let pool = Pool::new(PoolConfig { policy, affinity, ..PoolConfig::default() }, &Registry::default()).unwrap();
    pool.set_endpoints(endpoints.iter().map(|id| EndpointSpec::new(*id)).collect(), at(0));
    pool
}

fn named(pools: &[(&str, &Arc<Pool>)]) -> HashMap<u64, Arc<Pool>> {
    pools.iter().map(|(name, pool)| (hash_of(name), Arc::clone(pool))).collect()
}

/// A gateway that speaks.
struct Other {
    id: u64,
    scheme: u32,
    pool: Arc<Pool>,
    speaker: Speaker,
    sequence: u64,
}

impl Other {
    fn new(id: u64, endpoints: &[&str]) -> Self {
        let pool = pool(endpoints);
        let dropped = prometheus::IntCounter::new("dropped", "x").unwrap();
        let mut speaker = Speaker::new(Arc::default(), dropped);
        speaker.listen(&named(&[("main", &pool)]));
        Self { id, scheme: SCHEME, pool, speaker, sequence: 0 }
    }

    fn request(&self, blocks: Vec<u64>, now: Time) -> Flight {
        let bytes = blocks.len() as u64 * 256;
        let prompt = Arc::new(Prompt { ring_key: blocks.first().copied(), blocks, bytes, ..Prompt::default() });
        let request = RequestInfo { prompt, streams: true, ..RequestInfo::default() };
        self.pool.decide(&request, Turn::default(), now, None).unwrap().flight.unwrap()
    }

    fn sealed(&mut self, records: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
        let mut seal = |records: Vec<u8>| {
            self.sequence += 1;
            let head = Head {
                sender: self.id,
                sequence: self.sequence,
                sent_ms: WALL.as_millis() as u64,
                scheme: self.scheme,
            };
            seal(&head, &records, &Key::new(SECRET))
        };
        records.into_iter().map(&mut seal).collect()
    }

    fn words(&mut self) -> Vec<Vec<u8>> {
        let records = self.speaker.words();
        self.sealed(records)
    }

    fn counts(&mut self) -> Vec<Vec<u8>> {
        let records = self.speaker.words_and_counts();
        self.sealed(records)
    }
}

/// The gateway that hears, and its pool.
struct Ours {
    hearer: Hearer,
    pool: Arc<Pool>,
}

impl Ours {
    fn new(endpoints: &[&str]) -> Self {
        let pool = pool(endpoints);
        let mut hearer = Hearer::new(1, SCHEME, WALL.saturating_sub(Duration::from_secs(60)));
        hearer.tell(&named(&[("main", &pool)]));
        Self { hearer, pool }
    }

    fn hear(&mut self, packets: &[Vec<u8>], now: Time) -> Vec<Verdict> {
        let key = Key::new(SECRET);
        packets.iter().map(|packet| self.hearer.hear(packet, from(), &key, WALL, now)).collect()
    }

    /// Requests of others at all endpoints together, and tokens believed to be cached of a prompt of these blocks.
    fn sees(&self, blocks: Vec<u64>, now: Time) -> (u32, u32) {
        let bytes = blocks.len() as u64 * 256;
        let prompt = Arc::new(Prompt { ring_key: blocks.first().copied(), blocks, bytes, ..Prompt::default() });
        let request = RequestInfo { prompt, streams: true, ..RequestInfo::default() };
        let mut trace = Trace::default();
        self.pool.decide(&request, Turn::default(), now, Some(&mut trace)).unwrap();
        let sum = |of: fn(&EndpointTrace) -> f64| trace.endpoints.iter().map(of).sum::<f64>().round() as u32;
        (sum(|one| one.outside), sum(|one| one.cached_tokens))
    }

    fn outside(&self, now: Time) -> u32 {
        self.sees(Vec::new(), now).0
    }
}

const BOTH: [&str; 2] = ["http://a:1", "http://b:1"];

#[test]
fn anothers_requests_and_prompts_are_seen_and_end() {
    let (mut other, mut ours) = (Other::new(2, &BOTH), Ours::new(&BOTH));
    assert_eq!(ours.hear(&other.counts(), at(0)), [Verdict::Ok]);
    let blocks: Vec<u64> = (100..110).collect();
    let flight = other.request(blocks.clone(), at(1));
    assert_eq!(ours.hear(&other.words(), at(5)), [Verdict::Ok]);
    let (outside, cached) = ours.sees(blocks.clone(), at(6));
    assert!(outside == 1 && cached > 100, "{outside} {cached}");
    drop(flight);
    ours.hear(&other.words(), at(10));
    let (outside, cached) = ours.sees(blocks, at(11));
    assert!(outside == 0 && cached > 100, "{outside} {cached}");
}

#[test]
fn an_end_that_is_lost_is_made_good_by_the_next_count() {
    let (mut other, mut ours) = (Other::new(2, &BOTH), Ours::new(&BOTH));
    ours.hear(&other.counts(), at(0));
    let mut flights: Vec<Flight> = (0..50).map(|number| other.request(vec![number], at(1))).collect();
    ours.hear(&other.words(), at(5));
    assert_eq!(ours.outside(at(6)), 50);
    flights.truncate(20);
    drop(other.words());
    assert_eq!(ours.outside(at(7)), 50);
    ours.hear(&other.counts(), at(200));
    assert_eq!(ours.outside(at(201)), 20);
}

#[test]
fn who_is_silent_or_says_so_is_gone_with_all_it_had() {
    for says_so in [false, true] {
        let (mut other, mut ours) = (Other::new(2, &BOTH), Ours::new(&BOTH));
        ours.hear(&other.counts(), at(0));
        let _flight = other.request(vec![1], at(1));
        ours.hear(&other.words(), at(5));
        ours.hearer.look(at(1_000));
        assert_eq!((ours.outside(at(1_000)), ours.hearer.here().len()), (1, 1));
        if says_so {
            let mut left = Vec::new();
            Record::Left.encode(&mut left);
            let farewell = other.sealed(vec![left.clone(), left]);
            assert_eq!(ours.hear(&farewell, at(1_001)), [Verdict::Ok; 2]);
        } else {
            ours.hearer.look(at(1_006));
        }
        assert_eq!((ours.outside(at(1_007)), ours.hearer.here().len()), (0, 0), "says so: {says_so}");
        let passages = ours.hearer.passages();
        assert!(matches!(passages[..], [Passage::Came(_), Passage::Left(_) | Passage::FellSilent(_)]), "{passages:?}");
        ours.hear(&other.counts(), at(1_100));
        assert_eq!(ours.hearer.here().len(), 1, "it is back");
    }
}

#[test]
fn what_is_late_twice_foreign_or_old_is_not_taken() {
    let (mut other, mut ours) = (Other::new(2, &BOTH), Ours::new(&BOTH));
    let packets = other.counts();
    let key = Key::new(SECRET);
    let mut hear = |packet: &[u8], key: &Key, wall| ours.hearer.hear(packet, from(), key, wall, at(0));
    assert_eq!(hear(&packets[0], &Key::new(b"another secret..."), WALL), Verdict::Mac);
    assert_eq!(hear(&packets[0], &key, WALL + Duration::from_secs(31)), Verdict::Stale);
    assert_eq!(hear(&packets[0], &key, WALL.saturating_sub(Duration::from_secs(31))), Verdict::Stale);
    assert_eq!(hear(&packets[0], &key, WALL), Verdict::Ok);
    assert_eq!(hear(&packets[0], &key, WALL), Verdict::Replayed);
    assert_eq!(hear(&[2; 100], &key, WALL), Verdict::Version);
    assert_eq!(hear(&[1; 3], &key, WALL), Verdict::Malformed);
    let broken = other.sealed(vec![vec![1, 200, 200]]);
    assert_eq!(hear(&broken[0], &key, WALL), Verdict::Malformed);
    let mut own = Other::new(1, &BOTH);
    let own = own.counts();
    assert_eq!(hear(&own[0], &key, WALL), Verdict::Own);
    assert_eq!(hear(&own[0], &key, WALL), Verdict::Replayed);
    // A process that began later cannot know whether one before it has taken this.
    let mut later = Hearer::new(3, SCHEME, WALL + Duration::from_secs(1));
    assert_eq!(later.hear(&packets[0], from(), &key, WALL + Duration::from_secs(2), at(2)), Verdict::Stale);
}

#[test]
fn packets_of_one_who_fell_silent_are_not_taken_again() {
    let (mut other, mut ours) = (Other::new(2, &BOTH), Ours::new(&BOTH));
    let packets = other.counts();
    ours.hear(&packets, at(0));
    ours.hearer.look(at(5_000));
    assert_eq!(ours.hear(&packets, at(5_001)), [Verdict::Replayed]);
    assert!(ours.hearer.here().is_empty(), "it is not there for that");
}

#[test]
fn counts_in_parts_count_when_all_parts_have_come() {
    let names: Vec<String> = (0..150).map(|number| format!("http://e{number}:1")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let (mut other, mut ours) = (Other::new(2, &names), Ours::new(&names));
    ours.hear(&other.counts(), at(0));
    // One on each endpoint.
    let mut flights: Vec<Flight> = (0..150).map(|_| other.request(Vec::new(), at(1))).collect();
    let used: std::collections::HashSet<Slot> = flights.iter().map(|flight| flight.endpoint().slot).collect();
    assert_eq!(used.len(), 150);
    ours.hear(&other.words(), at(2));
    flights.truncate(130);
    drop(other.words());
    let packets = other.counts();
    assert_eq!(packets.len(), 2, "three parts do not fit into one");
    ours.hear(&packets[1..], at(3));
    assert_eq!(ours.outside(at(3)), 150);
    ours.hear(&packets[..1], at(4));
    assert_eq!(ours.outside(at(4)), 130);
}

#[test]
fn a_part_that_is_lost_leaves_what_was_known() {
    let (mut line, count) = (Line::default(), Count { requests: 1, waiting: 0 });
    let counts: Vec<(u64, Count)> = (0..130).map(|endpoint| (endpoint, count)).collect();
    let (first, second) = (records::parts(1, &counts), records::parts(2, &counts));
    assert_eq!(first.len(), 3);
    assert_eq!([&first[2], &first[0], &first[0]].map(|part| line.count(part)), [None, None, None]);
    assert_eq!(line.count(&second[1]), None);
    assert_eq!(line.count(&first[1]), None, "of a round that is over");
    assert_eq!(line.count(&second[0]), None);
    assert_eq!(line.count(&second[2]).map(|counts| counts.len()), Some(130));
    assert_eq!(line.count(&second[2]), None, "once is enough");
    assert_eq!(line.count(&records::parts(3, &[])[0]), Some(Vec::new()));
}

#[test]
fn endpoints_and_pools_that_are_not_known_here_do_not_matter() {
    let (mut other, mut ours) = (Other::new(2, &["http://elsewhere:1"]), Ours::new(&BOTH));
    ours.hear(&other.counts(), at(0));
    let _flight = other.request(vec![1], at(1));
    assert_eq!(ours.hear(&other.counts(), at(2)), [Verdict::Ok]);
    assert_eq!(ours.outside(at(3)), 0);
    ours.hearer.tell(&named(&[("another", &ours.pool)]));
    assert_eq!(ours.hear(&other.counts(), at(200)), [Verdict::Ok]);
}

#[test]
fn a_pool_that_is_no_longer_spoken_of_has_no_requests_of_others() {
    let (mut other, mut ours) = (Other::new(2, &BOTH), Ours::new(&BOTH));
    ours.hear(&other.counts(), at(0));
    let _flight = other.request(vec![1], at(1));
    ours.hear(&other.words(), at(2));
    other.speaker.listen(&HashMap::new());
    for tick in 1..10 {
        let mut pool = Vec::new();
        Record::Pool(3).encode(&mut pool);
        let alive = other.sealed(vec![pool]);
        ours.hear(&alive, at(tick * 200));
        ours.hearer.look(at(tick * 200));
    }
    assert_eq!((ours.outside(at(1_801)), ours.hearer.here().len()), (0, 1));
}

#[test]
fn hashes_of_another_scheme_are_not_believed_but_requests_count() {
    let (mut other, mut ours) = (Other::new(2, &BOTH), Ours::new(&BOTH));
    other.scheme = SCHEME + 1;
    ours.hear(&other.counts(), at(0));
    let blocks: Vec<u64> = (100..110).collect();
    let _flight = other.request(blocks.clone(), at(1));
    ours.hear(&other.words(), at(2));
    assert_eq!(ours.sees(blocks, at(3)), (1, 0));
}

#[test]
fn senders_are_forgotten_when_nothing_of_theirs_can_be_good_any_more() {
    let mut ours = Ours::new(&BOTH);
    let mut other = Other::new(10, &BOTH);
    for id in 0..MOST_SENDERS as u64 {
        other.id = 10 + id;
        assert_eq!(ours.hear(&other.counts(), at(0)), [Verdict::Ok]);
    }
    let mut late = Other::new(5, &BOTH);
    assert_eq!(ours.hear(&late.counts(), at(1)), [Verdict::Excess]);
    ours.hearer.look(at(62_000));
    assert_eq!(ours.hear(&late.counts(), at(62_001)), [Verdict::Ok]);
}
