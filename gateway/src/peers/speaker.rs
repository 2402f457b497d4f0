//! What this gateway says to all others: words as they come, and now and then how many requests it has.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use prometheus::IntCounter;
use spillway_picker::pool::{Count, Pool, Tell};
use tokio::sync::Notify;

use super::mouth::Mouth;
use super::packet::MOST_RECORDS;
use super::place::Place;
use super::records::{self, Record, cut};

/// Bytes of the record that names a pool.
const POOL_BYTES: usize = 11;

/// Gathers what pools say.
pub struct Speaker {
    wake: Arc<Notify>,
    dropped: IntCounter,
    pools: BTreeMap<u64, Line>,
    /// Of the counts told last.
    round: u64,
    /// Memory for the next words.
    spare: Vec<u8>,
}

/// A pool that speaks.
struct Line {
    place: Place,
    mouth: Arc<Mouth>,
}

/// Packets' worth of records.
#[derive(Default)]
struct Draft {
    full: Vec<Vec<u8>>,
    open: Vec<u8>,
    /// The pool that the last record in `open` is about.
    pool: Option<u64>,
}

impl Speaker {
    /// One without pools. `wake` is told when there is something to say; words for which there was no room go to `dropped`.
    pub fn new(wake: Arc<Notify>, dropped: IntCounter) -> Self {
        Self { wake, dropped, pools: BTreeMap::new(), round: 0, spare: Vec::new() }
    }

    /// Listens to these pools, by the hashes of their names, and to no others.
    pub fn listen(&mut self, pools: &HashMap<u64, Arc<Pool>>) {
        self.pools.retain(|hash, line| {
            let stays = pools.get(hash).is_some_and(|pool| Arc::ptr_eq(pool, line.place.picker()));
            if !stays {
                line.place.picker().tell_peers(None);
            }
            stays
        });
        for (hash, pool) in pools {
            self.pools.entry(*hash).or_insert_with(|| {
                let mouth = Arc::new(Mouth::new(Arc::clone(&self.wake), self.dropped.clone()));
                pool.tell_peers(Some(Arc::clone(&mouth) as Arc<dyn Tell>));
                Line { place: Place::new(Arc::clone(pool)), mouth }
            });
        }
    }

    /// Tells all pools how many other gateways there are.
    pub fn expect(&self, others: u32) {
        for line in self.pools.values() {
            line.place.picker().expect_peers(others);
        }
    }

    /// What has been said since the last time, as records for one packet each.
    pub fn words(&mut self) -> Vec<Vec<u8>> {
        let mut draft = Draft::default();
        for (hash, line) in &self.pools {
            line.mouth.swap(&mut self.spare);
            draft.add_all(*hash, &self.spare);
        }
        draft.finish()
    }

    /// The same, and how many requests there are in each pool.
    ///
    /// Who hears counts takes what is above them for requests whose end was lost, so they must not be below what words have
    /// told. Words and counts are not taken in one moment; but of what was counted before the words were taken and after, the
    /// larger one is not below.
    pub fn words_and_counts(&mut self) -> Vec<Vec<u8>> {
        self.round += 1;
        let mut draft = Draft::default();
        for (hash, line) in &mut self.pools {
            let mut counts = line.place.counts();
            line.mouth.swap(&mut self.spare);
            for (endpoint, after) in line.place.counts() {
                let before = counts.entry(endpoint).or_default();
                let requests = before.requests.max(after.requests);
                *before = Count { requests, waiting: before.waiting.max(after.waiting) };
            }
            draft.add_all(*hash, &self.spare);
            let counts: Vec<(u64, Count)> = counts.into_iter().collect();
            for part in records::parts(self.round, &counts) {
                self.spare.clear();
                Record::Counts(part).encode(&mut self.spare);
                draft.add_all(*hash, &self.spare);
            }
        }
        draft.finish()
    }
}

impl Draft {
    fn add_all(&mut self, pool: u64, mut records: &[u8]) {
        while let Some((first, rest)) = cut(records) {
            self.add(pool, first);
            records = rest;
        }
    }

    fn add(&mut self, pool: u64, record: &[u8]) {
        let before = if self.pool == Some(pool) { 0 } else { POOL_BYTES };
        if self.open.len() + before + record.len() > MOST_RECORDS {
            self.full.push(std::mem::take(&mut self.open));
            self.pool = None;
        }
        if self.pool != Some(pool) {
            Record::Pool(pool).encode(&mut self.open);
            self.pool = Some(pool);
        }
        self.open.extend_from_slice(record);
    }

    fn finish(mut self) -> Vec<Vec<u8>> {
        if !self.open.is_empty() {
            self.full.push(self.open);
        }
        self.full
    }
}

#[cfg(test)]
mod tests {
    use spillway_picker::config::PoolConfig;
    use spillway_picker::pool::EndpointSpec;
    use spillway_picker::registry::Registry;
    use spillway_picker::request::{RequestInfo, Turn};
    use spillway_picker::time::Time;

    use super::*;
    use crate::peers::records::decode;

    fn pool() -> Arc<Pool> {
        let pool = Pool::new(PoolConfig::default(), &Registry::default()).unwrap();
        pool.set_endpoints(vec![EndpointSpec::new("http://a:1")], Time::from_nanos(1));
        pool
    }

    fn speaker(pools: &[(u64, &Arc<Pool>)]) -> (Speaker, IntCounter) {
        let dropped = IntCounter::new("dropped", "x").unwrap();
        let mut speaker = Speaker::new(Arc::default(), dropped.clone());
        speaker.listen(&pools.iter().map(|(hash, pool)| (*hash, Arc::clone(pool))).collect());
        (speaker, dropped)
    }

    fn request(pool: &Arc<Pool>) {
        drop(pool.decide(&RequestInfo::default(), Turn::default(), Time::from_nanos(2), None).unwrap().flight);
    }

    fn tickets(packets: &[Vec<u8>]) -> Vec<(Option<u64>, u64, bool)> {
        let mut found = Vec::new();
        for packet in packets {
            assert!(packet.len() <= MOST_RECORDS, "{} bytes", packet.len());
            let mut about = None;
            for record in decode(packet).unwrap() {
                match record {
                    Record::Pool(pool) => about = Some(pool),
                    Record::Sent { ticket, .. } => found.push((about, ticket, true)),
                    Record::Ended { ticket } => found.push((about, ticket, false)),
                    _ => {}
                }
            }
        }
        found
    }

    #[test]
    fn every_word_goes_once_in_order_and_under_its_pool() {
        let (one, two) = (pool(), pool());
        let (mut speaker, dropped) = speaker(&[(1, &one), (2, &two)]);
        for _ in 0..300 {
            request(&one);
        }
        request(&two);
        let mut expected: Vec<_> =
            (0..300).flat_map(|ticket| [(Some(1), ticket, true), (Some(1), ticket, false)]).collect();
        expected.extend([(Some(2), 0, true), (Some(2), 0, false)]);
        let packets = speaker.words();
        assert!(packets.len() > 1);
        assert_eq!(tickets(&packets), expected);
        assert!(speaker.words().is_empty());
        assert_eq!(dropped.get(), 0);
    }

    #[test]
    fn what_nobody_takes_is_dropped_and_counted() {
        let pool = pool();
        let (mut speaker, dropped) = speaker(&[(1, &pool)]);
        for _ in 0..100_000 {
            request(&pool);
        }
        let told = tickets(&speaker.words()).len() as u64;
        assert!(told < 200_000 && told + dropped.get() == 200_000, "{told} and {}", dropped.get());
    }

    #[test]
    fn a_pool_that_is_gone_says_nothing_more() {
        let pool = pool();
        let (mut speaker, _) = speaker(&[(1, &pool)]);
        request(&pool);
        speaker.listen(&HashMap::new());
        request(&pool);
        assert!(speaker.words().is_empty() && speaker.words_and_counts().is_empty());
    }

    #[test]
    fn counts_go_also_when_there_is_nothing_to_count() {
        let pool = pool();
        let (mut speaker, _) = speaker(&[(7, &pool)]);
        let packets = speaker.words_and_counts();
        let records: Vec<_> = packets.iter().flat_map(|packet| decode(packet).unwrap()).collect();
        let empty = records::Counts { round: 1, part: 0, parts: 1, counts: Vec::new() };
        assert_eq!(records, [Record::Pool(7), Record::Counts(empty)]);
    }
}
