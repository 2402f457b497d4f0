//! The engine against laws that hold for any queue and any cache, and against closed forms.

use super::*;

/// A stream of requests at `rate` per second that come by chance, each made by `make`; the engine after the last has left,
/// the events, and the integral over time of the requests in the engine.
fn stream(
    mut engine: Engine,
    requests: u32,
    rate: f64,
    mut make: impl FnMut(&mut fastrand::Rng, u32) -> Request,
) -> (Engine, Vec<Event>, f64) {
    let mut random = fastrand::Rng::with_seed(11);
    let (mut at, mut events, mut area, mut counted) = (0.0, Vec::new(), 0.0, Duration::ZERO);
    let count = |engine: &Engine, now: Duration, area: &mut f64, counted: &mut Duration| {
        *area += (engine.running() + engine.waiting()) as f64 * now.saturating_sub(*counted).as_secs_f64();
        *counted = now;
    };
    for index in 0..=requests {
        at += -(1.0 - random.f64()).ln() / rate;
        let now = if index < requests { Duration::from_secs_f64(at) } else { Duration::MAX };
        while let Some(next) = engine.next_time().filter(|next| *next <= now) {
            count(&engine, next, &mut area, &mut counted);
            engine.advance(next, &mut events);
        }
        if index < requests {
            count(&engine, now, &mut area, &mut counted);
            let request = make(&mut random, index);
            engine.submit(request, now).unwrap();
        }
    }
    (engine, events, area)
}

fn mean_wait(events: &[Event]) -> f64 {
    let waits: Vec<f64> = events
        .iter()
        .filter_map(|event| match event.what {
            What::Scheduled { queued, .. } => Some(queued.as_secs_f64()),
            _ => None,
        })
        .collect();
    waits.iter().sum::<f64>() / waits.len() as f64
}

#[test]
fn requests_wait_as_in_md1_up_to_a_load_of_four_fifths() {
    // Prompt = budget and one output token make a queue of one server with a service time of 1 ms.
    for load in [0.3, 0.5, 0.7, 0.8] {
        let mut engine = Engine::new(config(100_000, 1, 16), 0);
        engine.config.prefix_caching = false;
        let (_, events, _) = stream(engine, 400_000, load * 1e3, |_, index| request(index % 8, 16, 1));
        let (mean, theory) = (mean_wait(&events), load * 1e-3 / (2.0 * (1.0 - load)));
        assert!((mean / theory - 1.0).abs() < 0.02, "load {load}: mean wait {mean} s, theory {theory} s");
    }
}

#[test]
fn requests_in_the_engine_are_arrivals_times_stay() {
    for config in [config(400, 8, 128), serial::lane(400, 8)] {
        let engine = Engine::new(config, 0);
        let lengths =
            |random: &mut fastrand::Rng, index: u32| request(index % 50, random.usize(1..400), random.u32(1..40));
        let (engine, _, area) = stream(engine, 5_000, 40.0, lengths);
        let stays = engine.stats().e2e_latency.sum();
        assert!((area / stays - 1.0).abs() < 0.01, "counted {area} request seconds, spent {stays}");
    }
}

#[test]
fn hits_are_those_of_che_for_zipf_popularity() {
    // 400 prompts of 4 blocks and a token; a cache of 100 of them. Each request also takes one block that it cannot share.
    let (items, blocks, cache) = (400_usize, 4, 400);
    let weights: Vec<f64> = (1..=items).map(|k| (k as f64).powf(-0.8)).collect();
    let total: f64 = weights.iter().sum();
    let engine = Engine::new(config(cache, 1, 1_024), 0);
    let draw = |random: &mut fastrand::Rng, _| {
        let mut place = random.f64() * total;
        let item = weights.iter().position(|weight| {
            place -= weight;
            place < 0.0
        });
        request(item.unwrap_or(0) as u32, blocks * 16 + 1, 1)
    };
    let (engine, ..) = stream(engine, 60_000, 100.0, draw);
    let stats = engine.stats();
    let seen = stats.prefix_hits as f64 / stats.prefix_queries as f64;
    // The characteristic time, in requests: how long something stays that nobody asks for.
    let held = |time: f64| -> f64 {
        let kept = weights.iter().map(|weight| 1.0 - (-weight / total * time).exp()).sum::<f64>();
        kept * blocks as f64 + time
    };
    let (mut low, mut high) = (0.0, 1e6);
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        if held(middle) < cache as f64 { low = middle } else { high = middle }
    }
    let found: f64 = weights.iter().map(|weight| weight / total * (1.0 - (-weight / total * low).exp())).sum();
    let expected = found * (blocks * 16) as f64 / (blocks * 16 + 1) as f64;
    assert!((seen - expected).abs() < 0.02, "hit rate {seen}, Che has {expected}");
}
