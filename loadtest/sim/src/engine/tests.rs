use std::collections::HashMap;

use proptest::prelude::*;

use super::*;

mod laws;
mod naive;
mod outlook;
mod pace;
mod serial;
mod slots;

/// Step time 1 ms, so that times in the tests are numbers of steps.
fn config(blocks: usize, max_seqs: usize, budget: usize) -> Config {
    let step = Coefficients { fixed_ms: 1.0, ..Coefficients::default() };
    let mut config = Preset::Fast.config();
    config.speed = Speed::Steps(step);
    config.blocks = blocks + 1;
    config.max_seqs = max_seqs;
    config.max_batched_tokens = budget;
    config
}

fn prompt(first: u32, tokens: usize) -> Vec<u32> {
    (0..tokens as u32).map(|index| first * 1_000_000 + index).collect()
}

fn request(first: u32, tokens: usize, max_tokens: u32) -> Request {
    Request { prompt: prompt(first, tokens), max_tokens, seed: u64::from(first), ..Request::default() }
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Runs to the end and returns all events.
fn drain(engine: &mut Engine) -> Vec<Event> {
    let mut events = Vec::new();
    let mut now = Duration::ZERO;
    for _ in 0..1_000_000 {
        match engine.advance(now, &mut events) {
            Some(next) => now = next,
            None => return events,
        }
    }
    panic!("engine still busy after a million steps: running {}, waiting {}", engine.running(), engine.waiting());
}

/// Runs to the end; returns when each token of a sequence came.
fn token_times(engine: &mut Engine) -> HashMap<SequenceId, Vec<Duration>> {
    let (mut times, mut now) = (HashMap::<_, Vec<_>>::new(), Duration::ZERO);
    loop {
        let mut events = Vec::new();
        let next = engine.advance(now, &mut events);
        for event in events.iter().filter(|event| matches!(event.what, What::Token(_))) {
            times.entry(event.id).or_default().push(now);
        }
        let Some(next) = next else { return times };
        now = next;
    }
}

fn cached(events: &[Event], id: SequenceId) -> u32 {
    events
        .iter()
        .find_map(|event| match event.what {
            What::Scheduled { cached, .. } if event.id == id => Some(cached),
            _ => None,
        })
        .expect("sequence was never scheduled")
}

#[test]
fn a_second_equal_prompt_hits_all_blocks_but_the_one_of_its_last_token() {
    let mut engine = Engine::new(config(64, 8, 512), 0);
    engine.submit(request(1, 64, 2), ms(0)).unwrap();
    drain(&mut engine);
    let second = engine.submit(request(1, 64, 2), ms(100)).unwrap();
    let events = drain(&mut engine);
    assert_eq!(cached(&events, second), 48, "64 tokens are 4 blocks, and the last token must be computed");
}

#[test]
fn an_adapter_or_a_salt_shares_nothing_with_the_base_model() {
    let mut engine = Engine::new(config(64, 8, 512), 0);
    engine.submit(request(1, 64, 1), ms(0)).unwrap();
    drain(&mut engine);
    let salted = Request { salt: 7, ..request(1, 64, 1) };
    let adapted = Request { adapter: Some("a".into()), ..request(1, 64, 1) };
    let salted = engine.submit(salted, ms(100)).unwrap();
    let adapted = engine.submit(adapted, ms(200)).unwrap();
    let events = drain(&mut engine);
    assert_eq!((cached(&events, salted), cached(&events, adapted)), (0, 0));
}

#[test]
fn a_long_prefill_is_cut_to_the_budget_and_decodes_go_on_meanwhile() {
    let mut engine = Engine::new(config(256, 8, 64), 0);
    let short = engine.submit(request(1, 16, 20), ms(0)).unwrap();
    let long = engine.submit(request(2, 630, 1), ms(1)).unwrap();
    let events = drain(&mut engine);
    let end = |id| events.iter().position(|event| event.id == id && matches!(event.what, What::Finished(_))).unwrap();
    let before = events[..end(long)].iter().filter(|e| e.id == short && matches!(e.what, What::Token(_))).count();
    // 630 tokens at 63 a step (one goes to the decode) are ten steps after the first.
    assert_eq!(before, 11, "the short sequence must get a token in each of the long one's steps");
}

#[test]
fn when_blocks_run_out_the_last_admitted_gives_way_and_still_finishes() {
    let mut engine = Engine::new(config(6, 8, 512), 0);
    let first = engine.submit(request(1, 31, 40), ms(0)).unwrap();
    let second = engine.submit(request(2, 31, 40), ms(0)).unwrap();
    let events = drain(&mut engine);
    let tokens = |id| events.iter().filter(|e| e.id == id && matches!(e.what, What::Token(_))).count();
    assert!(engine.stats().preemptions > 0, "two times five blocks do not fit six");
    assert_eq!((tokens(first), tokens(second)), (40, 40));
}

#[test]
fn the_same_arrivals_give_the_same_events_however_late_the_caller_is() {
    let run = |stride: u64| {
        let mut engine = Engine::new(config(32, 4, 64), 3);
        let mut events = Vec::new();
        for index in 0..20_u32 {
            engine.submit(request(index % 5, 40 + index as usize, 10), ms(u64::from(index) * 2)).unwrap();
        }
        let mut now = 0;
        while engine.advance(ms(now), &mut events).is_some() {
            now += stride;
        }
        events
    };
    assert_eq!(run(1), run(37), "a caller that wakes late must not change what happens");
}

#[test]
fn an_adapter_waits_for_its_load_while_the_base_model_runs_on() {
    let mut engine = Engine::new(config(64, 8, 512), 0);
    let adapted = engine.submit(Request { adapter: Some("a".into()), ..request(1, 16, 1) }, ms(0)).unwrap();
    let base = engine.submit(request(2, 16, 1), ms(1)).unwrap();
    let events = drain(&mut engine);
    let ends: Vec<_> = events.iter().filter(|e| matches!(e.what, What::Finished(_))).map(|e| e.id).collect();
    assert_eq!(ends, [base, adapted], "30 ms of load block the adapter's request only");
}

#[test]
fn no_more_adapters_run_at_once_than_there_are_slots() {
    let mut engine = Engine::new(config(64, 8, 512), 0);
    engine.config.lora.slots = 1;
    engine.lora = LoraSlots::new(engine.config.lora.clone());
    for name in ["a", "b", "c"] {
        engine.submit(Request { adapter: Some(name.into()), ..request(1, 16, 5) }, ms(0)).unwrap();
    }
    drain(&mut engine);
    assert_eq!(engine.stats().completed(), 3);
    let two = engine.stats().adapters.iter().find(|series| series.running.contains(','));
    assert_eq!(two, None, "one slot, so never two adapters in a batch");
}

/// What a random run does next.
#[derive(Clone, Debug)]
enum Act {
    Submit { family: u32, tokens: usize, max_tokens: u32, adapter: Option<usize> },
    Abort(usize),
    Advance(u64),
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let submit = (0..4_u32, 1..150_usize, 1..40_u32, proptest::option::of(0..3_usize))
        .prop_map(|(family, tokens, max_tokens, adapter)| Act::Submit { family, tokens, max_tokens, adapter });
    let act = prop_oneof![4 => submit, 1 => (0..50_usize).prop_map(Act::Abort), 4 => (0..8_u64).prop_map(Act::Advance)];
    proptest::collection::vec(act, 1..80)
}

/// Blocks and adapters balance at this instant.
fn assert_balanced(engine: &Engine) {
    let held: usize = engine.sequences.values().map(|sequence| sequence.blocks.len()).sum();
    assert_eq!(engine.blocks.references(), held, "each reference belongs to a live sequence");
    assert_eq!(engine.blocks.free() + engine.blocks.used(), engine.blocks.total());
    let places = engine.running.len() + engine.waiting.len() + engine.arriving.len();
    assert_eq!(places, engine.sequences.len(), "every live sequence is in exactly one place");
    for id in &engine.running {
        let sequence = &engine.sequences[id];
        assert!(sequence.blocks.len() * engine.config.block_size >= sequence.computed, "computed tokens have a block");
    }
}

proptest! {
    #[test]
    fn everything_balances_and_every_sequence_ends(acts in acts(), blocks in 12..40_usize, seqs in 1..6_usize,
                                                   budget in 1..100_usize, is_serial: bool) {
        let mut config = config(blocks, seqs, budget);
        if is_serial {
            let speed = Serial { overhead_ms: 1.0, prefill_us: 20.0, gap_ms: 1.0, crowding: 2.0 };
            config.speed = Speed::Serial(speed);
        }
        let mut engine = Engine::new(config, 5);
        let (mut now, mut events, mut asked) = (0, Vec::new(), HashMap::new());
        let mut gone = Vec::new();
        for act in acts {
            match act {
                Act::Submit { family, tokens, max_tokens, adapter } => {
                    let adapter = adapter.map(|index| Arc::from(["a", "b", "c"][index]));
                    let wanted = Request { adapter, ..request(family, tokens, max_tokens) };
                    if let Ok(id) = engine.submit(wanted, ms(now)) {
                        asked.insert(id, max_tokens);
                    }
                }
                Act::Abort(index) => {
                    let active = engine.active();
                    if let Some(&id) = active.get(index % active.len().max(1)) {
                        prop_assert!(engine.abort(id));
                        prop_assert!(!engine.abort(id), "a second abort finds nothing");
                        gone.push(id);
                    }
                }
                Act::Advance(by) => {
                    now += by;
                    engine.advance(ms(now), &mut events);
                }
            }
            assert_balanced(&engine);
        }
        events.extend(drain(&mut engine));
        assert_balanced(&engine);
        prop_assert_eq!(engine.free_blocks(), blocks, "an idle engine refers to no block");
        for (id, max_tokens) in asked {
            let tokens = events.iter().filter(|e| e.id == id && matches!(e.what, What::Token(_))).count();
            let ends = events.iter().filter(|e| e.id == id && matches!(e.what, What::Finished(_))).count();
            if gone.contains(&id) {
                prop_assert_eq!(ends, 0, "nothing finishes after its abort");
            } else {
                prop_assert_eq!((tokens, ends), (max_tokens as usize, 1), "sequence {}", id);
            }
        }
        prop_assert_eq!(engine.stats().aborted as usize, gone.len());
    }
}
