use super::*;

fn slots(blocks: usize, places: usize) -> Engine {
    Engine::new(Config { slots: true, ..config(blocks, places, 1_000) }, 0)
}

/// Runs requests that come at once; says how many tokens of each were found.
fn found(engine: &mut Engine, requests: impl IntoIterator<Item = Request>) -> Vec<u32> {
    let now = engine.seen;
    for request in requests {
        engine.submit(request, now).unwrap();
    }
    let cached = |event: &Event| match event.what {
        What::Scheduled { cached, .. } => Some(cached),
        _ => None,
    };
    drain(engine).iter().filter_map(cached).collect()
}

/// A prompt of 100 tokens, of which the first `common` are those of prompt `first`.
fn like(first: u32, common: usize) -> Request {
    let mut request = request(first, common, 1);
    request.prompt.extend(prompt(first + 50, 100 - common));
    request
}

#[test]
fn a_slot_is_found_again_by_token() {
    let mut engine = slots(100, 2);
    assert_eq!(found(&mut engine, [request(1, 37, 5)]), [0]);
    assert_eq!(found(&mut engine, [request(1, 37, 5)]), [36], "all but the last, which is always computed");
    assert_eq!(found(&mut engine, [request(1, 40, 5)]), [37], "what follows is another prompt's");
    let salted = Request { salt: 1, ..request(1, 37, 5) };
    assert_eq!(found(&mut engine, [salted]), [0]);
}

#[test]
fn slots_that_run_share_nothing() {
    let mut engine = slots(100, 3);
    assert_eq!(found(&mut engine, [request(1, 64, 5), request(1, 64, 5)]), [0, 0]);
    assert_eq!(found(&mut engine, [request(1, 64, 5), request(1, 64, 5), request(1, 64, 5)]), [63, 63, 0]);
}

#[test]
fn a_prompt_hardly_alike_takes_an_empty_slot_and_without_one_the_oldest() {
    for (common, hit) in [(10, 0), (11, 11), (50, 50)] {
        let mut engine = slots(100, 2);
        found(&mut engine, [request(1, 100, 1)]);
        assert_eq!(found(&mut engine, [like(1, common)]), [hit], "{common} of 100, beside an empty slot");
    }
    let mut engine = slots(100, 2);
    found(&mut engine, [request(1, 100, 1)]);
    found(&mut engine, [request(2, 100, 1)]);
    assert_eq!(found(&mut engine, [like(1, 5)]), [5], "the oldest is the first one's, whose beginning is of use still");
    assert_eq!(found(&mut engine, [request(2, 100, 1)]), [99]);
    assert_eq!(found(&mut engine, [request(1, 100, 1)]), [5], "its slot has gone on to another prompt");
}

#[test]
fn idle_slots_make_room_oldest_first() {
    let mut engine = slots(12, 4);
    found(&mut engine, [request(1, 64, 1)]);
    found(&mut engine, [request(2, 64, 1)]);
    // 7 of 12 blocks, which leaves 80 tokens.
    found(&mut engine, [request(3, 100, 1)]);
    assert_eq!(found(&mut engine, [request(2, 64, 1)]), [63]);
    assert_eq!(found(&mut engine, [request(1, 64, 1)]), [0]);
    assert_eq!((engine.free_blocks(), engine.running()), (12, 0));
}

#[test]
fn an_aborted_sequence_leaves_what_it_has_computed() {
    let mut engine = slots(100, 2);
    let id = engine.submit(request(1, 64, 1_000), Duration::ZERO).unwrap();
    engine.advance(ms(3), &mut Vec::new());
    engine.abort(id);
    assert_eq!(found(&mut engine, [request(1, 64, 1)]), [63]);
}
