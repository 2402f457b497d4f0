//! Gateways that talk: what one sent counts at the others, and nothing of it stays.

use std::sync::{Arc, Mutex};

use proptest::prelude::*;
use spillway_picker::config::{Affinity, PoolConfig};
use spillway_picker::pool::{Count, Endpoint, Event, Outcome, Sent, Slot, Tell, Word};

use crate::support::{Fleet, at, config, page, plain, prompt, request};

const PEER: u64 = 7;

fn sent(fleet: &Fleet, ticket: u64, position: usize) -> Sent<'static> {
    Sent { ticket, endpoint: fleet.slot(position), uncached: 2_000, output: 100, streams: true, blocks: &[] }
}

fn hear(fleet: &Fleet, word: Word<'_>, ms: u64) {
    fleet.pool.observe(Event::Peer { peer: PEER, word }, at(ms));
}

fn count(fleet: &Fleet, counts: &[(Slot, Count)], ms: u64) {
    fleet.pool.observe(Event::PeerCounts { peer: PEER, counts }, at(ms));
}

/// Requests of others at each endpoint, as a decision sees them.
fn outside(fleet: &Fleet, ms: u64) -> Vec<f64> {
    fleet.explain(&plain(400), at(ms)).endpoints.iter().map(|endpoint| endpoint.outside).collect()
}

/// Prefills and streams known at each endpoint.
fn known(fleet: &Fleet, ms: u64) -> Vec<(u32, u32)> {
    fleet.explain(&plain(400), at(ms)).endpoints.iter().map(|of| (of.prefills, of.decodes)).collect()
}

#[test]
fn what_another_gateway_sent_counts_until_it_is_over() {
    let fleet = Fleet::new(config("adaptive"), 2);
    count(&fleet, &[], 0);
    hear(&fleet, Word::Sent(sent(&fleet, 1, 0)), 1);
    assert_eq!((outside(&fleet, 2), known(&fleet, 2)), (vec![1.0, 0.0], vec![(1, 0), (0, 0)]));
    let shown =
        |ms| fleet.pool.snapshot(at(ms)).iter().map(|of| (of.in_flight, of.prefills, of.decodes, of.peers)).next();
    assert_eq!(shown(3), Some((0, 0, 0, 1)));
    hear(&fleet, Word::FirstToken { ticket: 1 }, 10);
    assert_eq!(shown(11), Some((0, 0, 0, 1)));
    assert_eq!((outside(&fleet, 11), known(&fleet, 11)), (vec![1.0, 0.0], vec![(0, 1), (0, 0)]));
    hear(&fleet, Word::Ended { ticket: 1 }, 20);
    hear(&fleet, Word::Ended { ticket: 1 }, 21);
    hear(&fleet, Word::FirstToken { ticket: 1 }, 22);
    assert_eq!((outside(&fleet, 23), known(&fleet, 23)), (vec![0.0; 2], vec![(0, 0); 2]));
    assert_eq!(fleet.in_flight(at(24)), [0, 0], "it was never ours");
}

#[test]
fn a_page_that_shows_what_was_told_shows_nothing_else() {
    let fleet = Fleet::new(config("adaptive"), 1);
    count(&fleet, &[], 0);
    for ticket in 0..5 {
        hear(&fleet, Word::Sent(sent(&fleet, ticket, 0)), 1);
    }
    fleet.scrape(0, page(2.0, 3.0, 1), at(2));
    assert_eq!(outside(&fleet, 3), [5.0]);
    fleet.scrape(0, page(2.0, 9.0, 2), at(4));
    assert_eq!(outside(&fleet, 5), [11.0], "six of somebody else");
}

#[test]
fn an_endpoint_where_others_wait_is_avoided() {
    for policy in ["adaptive", "least_request", "pxbs", "hyperpod", "least_tokens"] {
        let mut fleet = Fleet::new(config(policy), 2);
        count(&fleet, &[], 0);
        for ticket in 0..8 {
            hear(&fleet, Word::Sent(sent(&fleet, ticket, 0)), 1);
        }
        let picked = fleet.pick(&plain(4_000), at(2));
        assert_eq!(picked.endpoint.slot, fleet.slot(1), "{policy}");
    }
}

#[test]
fn a_prompt_that_another_gateway_sent_is_believed_there() {
    let mut fleet = Fleet::new(config("adaptive"), 8);
    count(&fleet, &[], 0);
    let asked = prompt(3, 16_000);
    let word = Word::Sent(Sent { blocks: &asked.blocks, ..sent(&fleet, 1, 5) });
    hear(&fleet, word, 1);
    hear(&fleet, Word::Ended { ticket: 1 }, 500);
    let picked = fleet.pick(&request(3, 16_000), at(501));
    assert_eq!(picked.endpoint.slot, fleet.slot(5));
    assert!(picked.cached_tokens > 3_000, "{picked:?}");
}

#[test]
fn of_lost_words_the_next_count_makes_up() {
    let fleet = Fleet::new(config("adaptive"), 2);
    count(&fleet, &[], 0);
    for ticket in 0..6 {
        hear(&fleet, Word::Sent(sent(&fleet, ticket, (ticket % 2) as usize)), 1);
    }
    // At the first endpoint one has ended and one more has its first token; at the second all are over.
    count(&fleet, &[(fleet.slot(0), Count { requests: 2, waiting: 1 })], 200);
    assert_eq!((outside(&fleet, 201), known(&fleet, 201)), (vec![2.0, 0.0], vec![(1, 1), (0, 0)]));
    // Words on those that are taken to be over change nothing any more.
    hear(&fleet, Word::FirstToken { ticket: 0 }, 202);
    hear(&fleet, Word::Ended { ticket: 1 }, 203);
    assert_eq!(known(&fleet, 204), [(1, 1), (0, 0)]);
    count(&fleet, &[(fleet.slot(0), Count { requests: 9, waiting: 9 })], 400);
    assert_eq!(outside(&fleet, 401), [2.0, 0.0], "of requests that were never told nothing is known but their number");
}

#[test]
fn whoever_leaves_takes_all_along_and_is_heard_again_when_it_counts() {
    let fleet = Fleet::new(config("adaptive"), 1);
    count(&fleet, &[], 0);
    hear(&fleet, Word::Sent(sent(&fleet, 1, 0)), 1);
    hear(&fleet, Word::Sent(sent(&fleet, 2, 0)), 1);
    hear(&fleet, Word::FirstToken { ticket: 2 }, 2);
    fleet.pool.observe(Event::PeerLeft { peer: PEER }, at(3));
    assert_eq!((outside(&fleet, 4), known(&fleet, 4)), (vec![0.0], vec![(0, 0)]));
    hear(&fleet, Word::Sent(sent(&fleet, 3, 0)), 5);
    assert_eq!(outside(&fleet, 6), [0.0], "a late word of one that has left");
    count(&fleet, &[], 7);
    hear(&fleet, Word::Sent(sent(&fleet, 4, 0)), 8);
    assert_eq!(outside(&fleet, 9), [1.0]);
}

#[test]
fn a_request_that_does_not_stream_waits_for_its_predicted_time() {
    let fleet = Fleet::new(config("adaptive"), 1);
    count(&fleet, &[], 0);
    hear(&fleet, Word::Sent(Sent { streams: false, ..sent(&fleet, 1, 0) }), 0);
    assert_eq!(known(&fleet, 1), [(1, 0)]);
    assert_eq!(known(&fleet, 60_000), [(0, 1)]);
    count(&fleet, &[(fleet.slot(0), Count { requests: 1, waiting: 0 })], 60_000);
    hear(&fleet, Word::Ended { ticket: 1 }, 60_001);
    assert_eq!(known(&fleet, 60_002), [(0, 0)]);
}

#[test]
fn an_endpoint_that_is_gone_or_unknown_is_passed_over() {
    let fleet = Fleet::new(config("adaptive"), 2);
    count(&fleet, &[], 0);
    let gone = sent(&fleet, 1, 1);
    hear(&fleet, Word::Sent(gone), 1);
    fleet.pool.set_endpoints(crate::support::specs(1), at(2));
    hear(&fleet, Word::Sent(Sent { ticket: 2, ..gone }), 3);
    hear(&fleet, Word::Ended { ticket: 1 }, 4);
    count(&fleet, &[(gone.endpoint, Count { requests: 3, waiting: 3 })], 5);
    assert_eq!(outside(&fleet, 6), [0.0]);
}

/// Whether a prefix that nobody is known to hold counts as cached somewhere.
fn is_guessed(fleet: &Fleet) -> bool {
    let trace = fleet.explain(&request(9, 16_000), at(1_000));
    trace.endpoints.iter().any(|endpoint| endpoint.cached_tokens > 0.0)
}

#[test]
fn guesses_are_for_gateways_that_do_not_talk() {
    let affinity = Affinity { gateways: 3, ..Affinity::default() };
    let fleet = Fleet::new(PoolConfig { affinity, ..config("adaptive") }, 4);
    assert!(is_guessed(&fleet), "nobody talks");
    fleet.pool.observe(Event::PeerCounts { peer: 1, counts: &[] }, at(0));
    assert!(is_guessed(&fleet), "one of two talks");
    fleet.pool.observe(Event::PeerCounts { peer: 2, counts: &[] }, at(0));
    assert!(!is_guessed(&fleet), "all talk");
    fleet.pool.observe(Event::PeerLeft { peer: 1 }, at(1));
    assert!(is_guessed(&fleet), "one fell silent");

    let fleet = Fleet::new(config("adaptive"), 4);
    assert!(!is_guessed(&fleet), "there is no other");
    fleet.pool.expect_peers(1);
    assert!(is_guessed(&fleet), "there is one, that does not talk");
}

#[test]
fn a_gateway_whose_words_are_lost_is_taken_for_one_that_does_not_talk() {
    let affinity = Affinity { gateways: 2, ..Affinity::default() };
    let fleet = Fleet::new(PoolConfig { affinity, ..config("adaptive") }, 4);
    let told = |requests| [(fleet.slot(0), Count { requests, waiting: 0 })];
    count(&fleet, &[], 0);
    assert!(!is_guessed(&fleet), "the other talks");
    for step in 1..10 {
        count(&fleet, &told(100), step * 200);
    }
    assert!(is_guessed(&fleet), "a hundred requests of which nothing was told");
    for ticket in 0..100 {
        hear(&fleet, Word::Sent(sent(&fleet, ticket, 0)), 2_000);
    }
    for step in 10..30 {
        count(&fleet, &told(100), step * 200);
    }
    assert!(!is_guessed(&fleet), "now it is known of each");
}

/// Learned seconds of a prefill of 1,000 tokens at an endpoint that takes 100 ms for it, of which one of three requests is ours.
fn learned_among_others(gateways: u32) -> f64 {
    let affinity = Affinity { gateways, ..Affinity::default() };
    let mut fleet = Fleet::new(PoolConfig { affinity, ..config("adaptive") }, 1);
    for step in 0..300_u64 {
        let now = step * 1_000;
        let mut pick = fleet.pick(&plain(4_000), at(now));
        // Two of others are before ours in two of three cases.
        let wait = if step % 3 == 0 { 0 } else { 200 };
        fleet.first_token(&mut pick, at(now + wait + 100));
        fleet.end(pick, Outcome::Completed, at(now + 900));
    }
    let seen = &fleet.pool.snapshot(at(400_000))[0];
    seen.prefill_fixed_seconds + 1_000.0 * seen.prefill_token_seconds
}

#[test]
fn without_pages_the_prompts_of_silent_gateways_are_not_taken_for_slowness() {
    let (alone, three) = (learned_among_others(1), learned_among_others(3));
    assert!((0.2..0.27).contains(&alone), "the mean of what is seen: {alone}");
    assert!(three < 0.17, "others are in it: {three}");
}

/// What was told, by name and ticket.
#[derive(Default)]
struct Told(Mutex<Vec<(&'static str, u64)>>);

impl Tell for Told {
    fn tell(&self, word: Word<'_>, _: &Endpoint) {
        let said = match word {
            Word::Sent(sent) if sent.blocks.is_empty() => ("sent", sent.ticket),
            Word::Sent(sent) => ("sent anew", sent.ticket),
            Word::FirstToken { ticket } => ("token", ticket),
            Word::Ended { ticket } => ("ended", ticket),
        };
        self.0.lock().expect("no test panics while it tells").push(said);
    }
}

impl Told {
    fn take(&self) -> Vec<(&'static str, u64)> {
        std::mem::take(&mut self.0.lock().expect("no test panics while it tells"))
    }
}

#[test]
fn every_request_is_told_of_from_its_start_to_its_end_however_it_ends() {
    let mut fleet = Fleet::new(config("adaptive"), 1);
    let told = Arc::new(Told::default());
    let before = fleet.pick(&request(1, 4_000), at(0));
    fleet.pool.tell_peers(Some(told.clone()));
    let mut first = fleet.pick(&request(1, 4_000), at(1));
    let second = fleet.pick(&request(2, 4_000), at(2));
    assert_eq!(told.take(), [("sent", 0), ("sent anew", 1)], "of the first prompt its blocks were there before");
    assert_eq!(fleet.pool.counts(), [(fleet.slot(0), Count { requests: 3, waiting: 3 })]);
    fleet.first_token(&mut first, at(3));
    fleet.first_token(&mut first, at(4));
    assert_eq!(fleet.pool.counts(), [(fleet.slot(0), Count { requests: 3, waiting: 2 })]);
    drop(second);
    fleet.end(first, Outcome::Completed, at(5));
    fleet.end(before, Outcome::Completed, at(6));
    assert_eq!(told.take(), [("token", 0), ("ended", 1), ("ended", 0)]);
    assert_eq!(fleet.pool.counts(), []);
    fleet.pool.tell_peers(None);
    drop(fleet.pick(&request(1, 4_000), at(7)));
    assert_eq!(told.take(), []);
}

#[derive(Clone, Debug)]
enum Heard {
    Sent(u64, usize, bool),
    FirstToken(u64),
    Ended(u64),
    Counts(Vec<(usize, u32, u32)>),
    Left,
}

fn heard() -> impl Strategy<Value = (u64, Heard)> {
    let ticket = 0..12_u64;
    let what = prop_oneof![
        6 => (ticket.clone(), 0..3_usize, any::<bool>()).prop_map(|(ticket, at, streams)| Heard::Sent(ticket, at, streams)),
        3 => ticket.clone().prop_map(Heard::FirstToken),
        3 => ticket.prop_map(Heard::Ended),
        1 => prop::collection::vec((0..3_usize, 0..4_u32, 0..4_u32), 0..5).prop_map(Heard::Counts),
        1 => Just(Heard::Left),
    ];
    (0..3_u64, what)
}

proptest! {
    #[test]
    fn whatever_is_heard_in_whatever_order_nothing_stays(heard in prop::collection::vec(heard(), 0..80)) {
        let mut fleet = Fleet::new(config("adaptive"), 3);
        let mut ours = Vec::new();
        for (step, (peer, heard)) in heard.into_iter().enumerate() {
            let now = at(step as u64 * 7);
            match heard {
                Heard::Sent(ticket, position, streams) => {
                    let word = Word::Sent(Sent { streams, ..sent(&fleet, ticket, position) });
                    fleet.pool.observe(Event::Peer { peer, word }, now);
                }
                Heard::FirstToken(ticket) => {
                    fleet.pool.observe(Event::Peer { peer, word: Word::FirstToken { ticket } }, now);
                }
                Heard::Ended(ticket) => fleet.pool.observe(Event::Peer { peer, word: Word::Ended { ticket } }, now),
                Heard::Counts(counts) => {
                    let count = |(position, requests, waiting): &(usize, u32, u32)| {
                        (fleet.slot(*position), Count { requests: *requests, waiting: *waiting })
                    };
                    let counts: Vec<_> = counts.iter().map(count).collect();
                    fleet.pool.observe(Event::PeerCounts { peer, counts: &counts }, now);
                }
                Heard::Left => fleet.pool.observe(Event::PeerLeft { peer }, now),
            }
            if step % 5 == 0 {
                ours.push(fleet.pick(&plain(2_000), now));
            }
        }
        prop_assert_eq!(fleet.in_flight(at(1_000)).iter().sum::<u32>() as usize, ours.len());
        drop(ours);
        for peer in 0..3 {
            fleet.pool.observe(Event::PeerLeft { peer }, at(1_001));
        }
        prop_assert_eq!(outside(&fleet, 1_002), vec![0.0; 3]);
        prop_assert_eq!(known(&fleet, 1_002), vec![(0, 0); 3]);
        let ahead: Vec<_> = fleet.explain(&plain(400), at(1_002)).endpoints.iter().map(|of| of.pending_seconds).collect();
        prop_assert_eq!(ahead, vec![0.0; 3]);
    }
}
