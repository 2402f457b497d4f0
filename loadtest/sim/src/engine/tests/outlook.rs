//! What the engine foretells, against what then happens.

use super::*;

/// The foretold and the real time to first token of `asked`, which comes at `now` after what was submitted before.
fn foretold_and_real(engine: &mut Engine, asked: &Request, now: Duration) -> (Duration, Duration) {
    let mut events = Vec::new();
    engine.advance(now, &mut events);
    let foretold = engine.expected_first_token(asked, 0, now);
    let id = engine.submit(asked.clone(), now).unwrap();
    let mut at = now;
    loop {
        events.clear();
        let next = engine.advance(at, &mut events);
        if events.iter().any(|event| event.id == id && matches!(event.what, What::Token(_))) {
            return (foretold, at.saturating_sub(now));
        }
        at = next.expect("it is not idle before it has answered");
    }
}

fn close(pair: (Duration, Duration), tolerance: Duration) -> bool {
    pair.0.abs_diff(pair.1) <= tolerance
}

#[test]
fn an_idle_engine_foretells_what_it_does_in_both_time_models() {
    let speed = Serial { overhead_ms: 30.0, prefill_us: 50.0, gap_ms: 10.0, crowding: 2.0 };
    let serial = Config { speed: Speed::Serial(speed), ..config(200, 8, 512) };
    for config in [serial, Preset::Llama8bH100.config()] {
        let exact = Config { speed: without_noise(config.speed), ..config };
        let pair = foretold_and_real(&mut Engine::new(exact, 0), &request(1, 640, 4), ms(5));
        assert!(close(pair, Duration::from_micros(300)), "{pair:?}");
    }
}

#[test]
fn what_waits_ahead_and_what_is_cached_are_both_known() {
    let speed = Serial { overhead_ms: 30.0, prefill_us: 100.0, gap_ms: 10.0, crowding: 1.0 };
    let mut engine = Engine::new(Config { speed: Speed::Serial(speed), ..config(400, 8, 512) }, 0);
    engine.submit(request(1, 640, 1), ms(0)).unwrap();
    engine.submit(request(2, 1_000, 1), ms(1)).unwrap();
    let again = request(1, 640, 1);
    assert_eq!(engine.cached_prefix(&again.prompt, None, 0), 0, "nothing is cached before it is admitted");
    let pair = foretold_and_real(&mut engine, &again, ms(2));
    assert_eq!(engine.cached_prefix(&again.prompt, None, 0), 624, "39 whole blocks, less the one of the last token");
    assert!(close(pair, ms(1)), "{pair:?}");
}

#[test]
fn a_slow_engine_foretells_that_it_is_slow() {
    let speed = Serial { overhead_ms: 30.0, prefill_us: 50.0, gap_ms: 10.0, crowding: 2.0 };
    let mut engine = Engine::new(Config { speed: Speed::Serial(speed), ..config(200, 8, 512) }, 0);
    let slowness = Slowness::Slow { factor: 3.0 };
    engine.set_pace(Pace::new([SpeedFault { from: ms(0), until: None, slowness }]));
    let pair = foretold_and_real(&mut engine, &request(1, 640, 4), ms(5));
    assert!(close(pair, Duration::from_micros(300)) && pair.0 > ms(180), "{pair:?}");
}

fn without_noise(speed: Speed) -> Speed {
    match speed {
        Speed::Steps(step) => Speed::Steps(Coefficients { sigma: 0.0, tail_chance: 0.0, ..step }),
        serial @ Speed::Serial(_) => serial,
    }
}
