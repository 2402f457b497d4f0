//! What is believed after which events: a pool, its requests, and a server that says what it does.

use std::sync::Arc;
use std::time::Duration;

use super::*;
use crate::config::PoolConfig;
use crate::flight::Flight;
use crate::index::Matches;
use crate::pool::{EndpointSpec, Event, Outcome, Pool, Slot};
use crate::prefix::{Depths, PrefixHasher, Prompt, block_end, scope};
use crate::registry::Registry;
use crate::request::{RequestInfo, Turn};
use crate::time::Time;

/// Tokens of one of the server's blocks, and bytes of one of its tokens: what is assumed of text until it is learned.
const BLOCK: usize = 16;
const TOKEN: usize = 4;

/// One endpoint that tells its events.
struct Scene {
    pool: Arc<Pool>,
    slot: Slot,
    now: Time,
}

impl Scene {
    fn new() -> Self {
        let pool = Pool::new(PoolConfig::default(), &Registry::default()).unwrap();
        let now = Time::from_nanos(1_000_000_000);
        pool.set_endpoints(vec![EndpointSpec::new("http://a:1")], now);
        let slot = pool.endpoints()[0].slot;
        let scene = Self { pool, slot, now };
        scene.tell(&[Change::Current]);
        scene
    }

    fn tell(&self, changes: &[Change]) {
        self.tell_of(0, changes);
    }

    fn tell_of(&self, rank: u32, changes: &[Change]) {
        self.pool.observe(Event::Cache { endpoint: self.slot, rank, changes }, self.now);
    }

    fn send(&self, text: &str) -> Flight {
        self.send_to(text, None)
    }

    fn send_to(&self, text: &str, adapter: Option<&str>) -> Flight {
        let adapter = adapter.map(Arc::from);
        let request = RequestInfo { prompt: Arc::new(prompt(text)), streams: true, adapter, ..RequestInfo::default() };
        self.pool.decide(&request, Turn::default(), self.now, None).unwrap().flight.unwrap()
    }

    fn end(&self, mut flight: Flight, text: &str, output: usize) {
        self.pool.observe(Event::FirstToken { flight: &mut flight }, self.now);
        let (prompt, completion) = (Some((text.len() / TOKEN) as u32), Some(output as u32));
        self.pool.observe(Event::Usage { flight: &mut flight, prompt, cached: None, completion }, self.now);
        self.pool.observe(Event::Ended { flight, outcome: Outcome::Completed }, self.now);
    }

    /// Sends, computes and ends one request of which nothing is cached.
    fn serve(&self, text: &str) {
        let flight = self.send(text);
        self.tell(&[stored(text, 0)]);
        self.end(flight, text, 1);
    }

    /// Leading blocks of the text that are believed to be there.
    fn believed(&self, text: &str) -> usize {
        let mut matches = Matches::default();
        self.pool.topology.load().index.matches(&prompt(text).blocks, &mut matches);
        matches.blocks(self.slot) as usize
    }

    fn standing(&self) -> Standing {
        self.pool.snapshot(self.now)[0].kv_events.expect("events were told")
    }

    fn later(&mut self) {
        self.now = self.now + Duration::from_secs(3);
    }
}

fn prompt(text: &str) -> Prompt {
    let mut hasher = PrefixHasher::new(Depths::default());
    hasher.text(text.as_bytes());
    hasher.finish(scope("m", "", None), None)
}

/// Text that differs from the start by its name.
fn text(name: u64, bytes: usize) -> String {
    let mut random = name.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    (0..bytes)
        .map(|_| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            char::from(b'a' + (random >> 60) as u8)
        })
        .collect()
}

/// Names of the full blocks of a text, as a server chains them.
fn names(text: &str) -> Vec<u64> {
    let mut parent = 7;
    text.as_bytes()
        .chunks_exact(BLOCK * TOKEN)
        .map(|block| {
            parent = xxhash_rust::xxh3::xxh3_64_with_seed(block, parent);
            parent
        })
        .collect()
}

/// The blocks of a text from block `from` on, stored.
fn stored(text: &str, from: usize) -> Change {
    let names = names(text);
    let parent = from.checked_sub(1).map(|before| names[before]);
    Change::Stored { blocks: names[from..].to_vec(), parent, block_tokens: BLOCK as u32, adapter: Adapter::None }
}

fn removed(names: &[u64]) -> Change {
    Change::Removed { blocks: names.to_vec() }
}

/// Blocks of text that lie whole within so many of the server's.
fn whole_in(blocks: usize) -> usize {
    (0..1_000).take_while(|at| block_end(*at) <= (blocks * BLOCK * TOKEN) as u64).count()
}

#[test]
fn belief_ends_when_the_server_lets_go_and_no_sooner() {
    let scene = Scene::new();
    let text = text(1, 8_192);
    scene.serve(&text);
    assert_eq!(scene.believed(&text), 32);
    assert_eq!(scene.standing().held, 32);
    let names = names(&text);
    // From the end, as servers evict.
    for left in (0..names.len()).rev() {
        scene.tell(&[removed(&names[left..=left])]);
        assert_eq!(scene.believed(&text), whole_in(left), "{left} blocks left");
    }
    assert_eq!(scene.standing().blocks, 0);
}

#[test]
fn history_is_tied_to_no_request() {
    let pool = Pool::new(PoolConfig::default(), &Registry::default()).unwrap();
    let now = Time::from_nanos(1_000_000_000);
    pool.set_endpoints(vec![EndpointSpec::new("http://a:1")], now);
    let scene = Scene { slot: pool.endpoints()[0].slot, pool, now };
    let (old, new) = (text(1, 4_096), text(2, 4_096));
    scene.tell(&[Change::Lost]);
    let flight = scene.send(&new);
    scene.tell(&[stored(&old, 0), Change::Current]);
    scene.end(flight, &new, 1);
    assert_eq!((scene.standing().blocks, scene.standing().attributed), (64, 0));
    // The next request continues what is known from then.
    let longer = old.clone() + &text(3, 1_024);
    let flight = scene.send(&longer);
    scene.tell(&[stored(&longer, 64)]);
    scene.end(flight, &longer, 1);
    assert_eq!((scene.standing().attributed, scene.standing().held), (16, 20));
}

#[test]
fn history_of_a_publisher_that_comes_later_is_tied_to_nothing_either() {
    let scene = Scene::new();
    let (old, new) = (text(1, 4_096), text(2, 4_096));
    scene.serve(&old);
    assert_eq!(scene.standing().held, 16);
    // Its port changes: who reads it now begins with what the server remembers.
    scene.tell(&[Change::Ended]);
    assert_eq!((scene.standing().blocks, scene.standing().held, scene.believed(&old)), (0, 0, 16));
    let before = scene.standing();
    let flight = scene.send(&new);
    scene.tell(&[stored(&old, 0), Change::Current]);
    scene.end(flight, &new, 1);
    assert_eq!(scene.standing().attributed, before.attributed);
    scene.serve(&new);
    assert_eq!(scene.standing().attributed, before.attributed + 64);
}

#[test]
fn without_events_nothing_is_tied() {
    let pool = Pool::new(PoolConfig::default(), &Registry::default()).unwrap();
    pool.set_endpoints(vec![EndpointSpec::new("http://a:1")], Time::from_nanos(1));
    assert_eq!(pool.snapshot(Time::from_nanos(1))[0].kv_events, None);
}

#[test]
fn a_cleared_cache_is_believed_empty_at_once() {
    let scene = Scene::new();
    let (one, other) = (text(1, 4_096), text(2, 4_096));
    scene.serve(&one);
    scene.serve(&other);
    // Idle engines tell of it late: in one batch with what the next request stores.
    let flight = scene.send(&other);
    scene.tell(&[Change::Cleared, stored(&other, 0)]);
    assert_eq!((scene.believed(&one), scene.believed(&other)), (0, 16));
    scene.end(flight, &other, 1);
    assert_eq!((scene.believed(&one), scene.believed(&other)), (0, 16));
}

#[test]
fn after_a_restart_only_what_came_since_is_there() {
    let scene = Scene::new();
    let (old, new) = (text(1, 4_096), text(2, 4_096));
    scene.serve(&old);
    scene.tell(&[Change::Restarted]);
    scene.serve(&new);
    assert_eq!((scene.believed(&old), scene.believed(&new)), (0, 16));
    assert_eq!(scene.standing().blocks, 64);
    scene.tell(&[Change::Cleared]);
    assert_eq!(scene.believed(&new), 0);
    // A child of a block that is not known.
    let orphan = Change::Stored { blocks: vec![78], parent: Some(77), block_tokens: 16, adapter: Adapter::None };
    let flight = scene.send(&text(3, 64));
    scene.tell(&[orphan]);
    assert_eq!(scene.standing().blocks, 0, "an orphan hangs on nothing, least of all on the root");
    drop(flight);
}

#[test]
fn storing_twice_is_storing_once_and_one_removal_removes() {
    let scene = Scene::new();
    let text = text(1, 4_096);
    scene.serve(&text);
    scene.tell(&[stored(&text, 0), stored(&text, 0)]);
    assert_eq!((scene.standing().blocks, scene.standing().held), (64, 16));
    scene.tell(&[removed(&names(&text))]);
    assert_eq!((scene.standing().blocks, scene.believed(&text)), (0, 0));
    scene.tell(&[removed(&names(&text))]);
}

#[test]
fn what_others_make_the_server_store_is_counted_and_believed_of_nobody() {
    let scene = Scene::new();
    let (ours, theirs) = (text(1, 4_096), text(2, 16_384));
    let flight = scene.send(&ours);
    scene.tell(&[stored(&theirs, 0)]);
    assert_eq!(scene.standing().attributed, 0, "four times as long as what we sent");
    scene.tell(&[stored(&ours, 0)]);
    scene.end(flight, &ours, 1);
    scene.tell(&[removed(&names(&theirs))]);
    assert_eq!((scene.believed(&ours), scene.standing().held), (16, 16));
    assert_eq!(scene.standing().unattributed, 256);
}

#[test]
fn the_next_turn_continues_the_reply_and_holds_all_of_it() {
    let scene = Scene::new();
    let first = text(1, 4_096);
    let with_reply = first.clone() + &text(2, 1_024);
    let second = with_reply.clone() + &text(3, 1_024);
    let flight = scene.send(&first);
    scene.tell(&[stored(&first, 0)]);
    // Decoding fills one block after the other.
    let names = names(&second);
    for at in 64..80 {
        let one = Change::Stored {
            blocks: vec![names[at]],
            parent: Some(names[at - 1]),
            block_tokens: BLOCK as u32,
            adapter: Adapter::None,
        };
        scene.tell(&[one]);
    }
    scene.end(flight, &first, 256);
    let flight = scene.send(&second);
    scene.tell(&[stored(&second, 80)]);
    scene.end(flight, &second, 1);
    assert_eq!(scene.standing(), Standing { blocks: 96, held: 24, attributed: 96, ..Standing::default() });
    // The reply's blocks go: the second turn ends where the first did.
    scene.tell(&[removed(&names[64..])]);
    assert_eq!((scene.believed(&second), scene.believed(&first)), (16, 16));
}

#[test]
fn requests_under_one_prefix_are_told_apart_by_what_they_continue_and_by_size() {
    let scene = Scene::new();
    let system = text(1, 8_192);
    let questions: Vec<String> = (0..4).map(|n| system.clone() + &text(10 + n, 1_024 << n)).collect();
    let flights: Vec<_> = questions.iter().map(|question| scene.send(question)).collect();
    // The first computes the system prompt, the others continue it, in another order than they were sent.
    scene.tell(&[stored(&questions[0], 0)]);
    for at in [3, 1, 2] {
        scene.tell(&[stored(&questions[at], 128)]);
    }
    for (flight, question) in flights.into_iter().zip(&questions) {
        scene.end(flight, question, 1);
    }
    assert_eq!((scene.standing().unattributed, scene.standing().mismatched), (0, 0));
    scene.tell(&[removed(&names(&questions[2])[128..])]);
    let believed: Vec<_> = questions.iter().map(|question| scene.believed(question)).collect();
    assert_eq!(believed[2], 32, "only the shared part is left of it: {believed:?}");
    assert_eq!([believed[0], believed[1], believed[3]], [0, 1, 3].map(|at| prompt(&questions[at]).blocks.len()));
}

#[test]
fn a_long_prompt_is_stored_in_chunks_and_is_one_request() {
    let scene = Scene::new();
    let text = text(1, 65_536);
    let flight = scene.send(&text);
    let names = names(&text);
    for chunk in [0..512_usize, 512..1_024] {
        let parent = chunk.start.checked_sub(1).map(|before| names[before]);
        let blocks = names[chunk].to_vec();
        scene.tell(&[Change::Stored { blocks, parent, block_tokens: BLOCK as u32, adapter: Adapter::None }]);
    }
    scene.end(flight, &text, 1);
    assert_eq!(scene.standing().attributed, 1_024);
    scene.tell(&[removed(&names[512..])]);
    assert_eq!(scene.believed(&text), whole_in(512));
}

#[test]
fn a_match_that_the_servers_own_count_disproves_is_undone() {
    let scene = Scene::new();
    let (ours, theirs) = (text(1, 4_096), text(2, 5_120));
    let flight = scene.send(&ours);
    scene.tell(&[stored(&theirs, 0)]);
    assert_eq!(scene.standing().attributed, 80, "it might have been ours");
    scene.end(flight, &ours, 1);
    assert_eq!((scene.standing().mismatched, scene.standing().held), (1, 0));
    scene.tell(&[removed(&names(&theirs))]);
    assert_eq!(scene.believed(&ours), 16, "believed as without events");
}

#[test]
fn what_was_never_stored_to_its_end_is_undone_when_nothing_more_can_come() {
    let mut scene = Scene::new();
    let (ours, theirs) = (text(1, 8_192), text(2, 4_096));
    let flight = scene.send(&ours);
    scene.tell(&[stored(&theirs, 0)]);
    scene.end(flight, &ours, 1);
    assert_eq!(scene.standing().mismatched, 0);
    scene.later();
    drop(scene.send(&theirs));
    assert_eq!((scene.standing().mismatched, scene.standing().held), (1, 0));
}

#[test]
fn blocks_that_are_told_of_after_the_answer_are_still_the_requests() {
    let mut scene = Scene::new();
    let (soon, late) = (text(1, 4_096), text(2, 4_096));
    let flight = scene.send(&soon);
    scene.end(flight, &soon, 1);
    scene.tell(&[stored(&soon, 0)]);
    assert_eq!(scene.standing().held, 16);
    let flight = scene.send(&late);
    scene.end(flight, &late, 1);
    scene.later();
    scene.tell(&[stored(&late, 0)]);
    assert_eq!(scene.standing().held, 16, "it has nothing to do with a request so long ago");
}

#[test]
fn adapters_are_told_apart() {
    let scene = Scene::new();
    let text = text(1, 4_096);
    let flight = scene.send_to(&text, None);
    let Change::Stored { blocks, parent, block_tokens, .. } = stored(&text, 0) else { unreachable!() };
    let of = |adapter| Change::Stored { blocks: blocks.clone(), parent, block_tokens, adapter };
    scene.tell(&[of(Adapter::Named("lora".into())), of(Adapter::Unnamed)]);
    assert_eq!(scene.standing().attributed, 0);
    scene.tell(&[of(Adapter::None)]);
    assert_eq!(scene.standing().attributed, 64);
    drop(flight);
}

#[test]
fn each_rank_has_a_cache_of_its_own() {
    let scene = Scene::new();
    let (one, other) = (text(1, 4_096), text(2, 4_096));
    scene.tell_of(1, &[Change::Lost, Change::Current]);
    scene.serve(&one);
    let flight = scene.send(&other);
    scene.tell_of(1, &[stored(&other, 0)]);
    scene.end(flight, &other, 1);
    scene.tell_of(1, &[Change::Cleared]);
    assert_eq!((scene.believed(&one), scene.believed(&other)), (16, 0));
}

#[test]
fn lost_events_take_the_facts_and_leave_the_beliefs() {
    let scene = Scene::new();
    let text = text(1, 4_096);
    scene.serve(&text);
    scene.tell(&[Change::Lost]);
    assert_eq!((scene.standing().held, scene.believed(&text)), (0, 16));
    scene.tell(&[removed(&names(&text))]);
    assert_eq!(scene.believed(&text), 16, "what it was tied to was forgotten");
}

#[test]
fn belief_that_ended_too_soon_returns_with_the_fact() {
    let scene = Scene::new();
    let text = text(1, 4_096);
    scene.serve(&text);
    let flight = scene.send(&text);
    // Evicted between our dispatch and its admission, and computed anew.
    scene.tell(&[removed(&names(&text))]);
    assert_eq!(scene.believed(&text), 0);
    scene.tell(&[stored(&text, 0)]);
    assert_eq!(scene.believed(&text), 16);
    scene.end(flight, &text, 1);
    assert_eq!(scene.standing().held, 16);
}

#[test]
fn a_refused_request_takes_no_blocks() {
    let scene = Scene::new();
    let (refused, served) = (text(1, 4_096), text(2, 4_096));
    let flight = scene.send(&refused);
    scene.pool.observe(Event::Ended { flight, outcome: Outcome::Status(503) }, scene.now);
    scene.serve(&served);
    scene.tell(&[removed(&names(&served))]);
    assert_eq!(scene.believed(&served), 0);
}

#[test]
fn any_events_in_any_order_leave_facts_that_add_up() {
    let mut random = fastrand_like(11);
    let mut scene = Scene::new();
    let mut flights = Vec::new();
    for _ in 0..4_000 {
        let text = text(random(6), 256 << random(6));
        let names = names(&text);
        let from = random(names.len() as u64) as usize;
        match random(9) {
            0 => flights.push(scene.send(&text)),
            1 => {
                if let Some(flight) = flights.pop() {
                    scene.end(flight, &text, random(300) as usize);
                }
            }
            2 | 3 => scene.tell(&[stored(&text, 0)]),
            4 => scene.tell_of(random(2) as u32, &[stored(&text, from)]),
            5 => scene.tell(&[removed(&names[from..])]),
            6 => {
                let (blocks, parent) = (vec![u64::MAX, 0, names[0]], Some(random(3)));
                let block_tokens = [0, 1, u32::MAX][random(3) as usize];
                scene.tell(&[Change::Stored { blocks, parent, block_tokens, adapter: Adapter::None }]);
            }
            7 if random(20) == 0 => {
                scene.tell(&[[Change::Cleared, Change::Restarted, Change::Lost][random(3) as usize].clone()]);
            }
            _ if random(10) == 0 => scene.later(),
            _ => {}
        }
        flights.truncate(20);
    }
    drop(flights);
    scene.tell_of(1, &[Change::Cleared]);
    scene.tell(&[Change::Cleared]);
    let standing = scene.standing();
    assert_eq!((standing.blocks, standing.held), (0, 0));
    assert!(standing.attributed > 0 && standing.unattributed > 0, "both happened: {standing:?}");
}

fn fastrand_like(seed: u64) -> impl FnMut(u64) -> u64 {
    let mut state = seed;
    move |below| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    }
}
