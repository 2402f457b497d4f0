//! Routing with sight of the engines themselves. No gateway can have it; it is there to compare with.

use std::time::Duration;

use spillway_sim::engine;

use super::fleet::Server;

/// The engine that would give the first token soonest, of those that have joined, as far as its own state tells; `on_the_way` are the prompt tokens
/// sent to each that it has not seen yet.
pub(super) fn choose(
    servers: &mut [Server],
    joined: impl Fn(usize) -> bool,
    on_the_way: &[usize],
    asked: &engine::Request,
    now: Duration,
    turn: usize,
) -> usize {
    let count = servers.len();
    let mut best = (0, Duration::MAX);
    for step in 0..count {
        // Equal ones take turns.
        let number = (turn + step) % count;
        if !joined(number) {
            continue;
        }
        let expected = servers[number].engine.expected_first_token(asked, on_the_way[number], now);
        if expected < best.1 {
            best = (number, expected);
        }
    }
    best.0
}
