//! Traces as a whole: equal seeds, equal requests; prompts share what they should; text and tokens are one.

use std::time::Duration;

use proptest::prelude::*;
use spillway_sim::tokenizer::Tokens;

use super::text::{render, text};
use super::trace::{Message, Role, Text};
use super::*;

const MINUTE: Duration = Duration::from_secs(60);

fn workload(yaml: &str) -> Workload {
    let document = serde_yaml::Deserializer::from_str(yaml);
    let workload: Workload = serde_yaml::with::singleton_map_recursive::deserialize(document).unwrap();
    let mut problems = Problems::default();
    workload.check(&mut problems);
    assert_eq!(problems.lines(), Vec::<String>::new());
    workload
}

fn groups() -> Workload {
    workload(
        "classes: [{prompts: {shared: [{pool: 5, zipf: 1.0, tokens: {fixed: 200}}], message: {fixed: 30}},
           output: {exponential: {mean: 20}}}]",
    )
}

fn chat() -> Workload {
    workload(
        "classes: [{prompts: {shared: [{pool: 2, tokens: {fixed: 100}}], message: {fixed: 20},
           turns: {mean: 4, most: 15, think: {exponential: {mean: 10}}}}, output: {fixed: 12}}]",
    )
}

#[test]
fn equal_seeds_give_equal_traces_and_others_do_not() {
    let trace = |seed| generate(&groups(), &Arrivals::Poisson(5.0), MINUTE, seed);
    assert_eq!(trace(1), trace(1));
    assert_ne!(trace(1), trace(2));
}

#[test]
fn a_recording_is_asked_as_it_was_and_equal_ids_begin_alike() {
    let line =
        |timestamp, input_length, hash_ids| replay::Recorded { timestamp, input_length, output_length: 9, hash_ids };
    let recorded = vec![line(0.0, 1_000, vec![1, 2]), line(500.0, 700, vec![1, 3]), line(90_000.0, 5, vec![])];
    let replay = Arrivals::Replay(Replay { file: "x".into(), speed: 1.0, block: 512, recorded });
    let trace = generate(&workload("streaming: 0"), &replay, MINUTE, 1);
    let [one, other] = &trace.requests[..] else { panic!("two are within a minute: {:?}", trace.requests) };
    assert_eq!((&one.start, &other.start), (&Start::At(Duration::ZERO), &Start::At(Duration::from_millis(500))));
    assert_eq!((trace.prompt_tokens(one), trace.prompt_tokens(other), one.output), (1_000, 700, 9));
    assert!(one.messages[0] == other.messages[0] && one.messages[1] != other.messages[1]);
    assert!(!one.streams && !other.streams);
}

#[test]
fn a_change_of_lengths_moves_no_arrival() {
    let mut longer = groups();
    longer.classes[0].output = Amount::Fixed(500.0);
    let starts = |workload: &Workload| {
        let trace = generate(workload, &Arrivals::Poisson(5.0), MINUTE, 1);
        trace.requests.iter().map(|request| request.start).collect::<Vec<_>>()
    };
    assert_eq!(starts(&groups()), starts(&longer));
}

#[test]
fn requests_of_a_group_begin_alike_and_of_two_groups_do_not() {
    let trace = generate(&groups(), &Arrivals::Poisson(5.0), MINUTE, 1);
    let segment = |place: usize| match trace.requests[place].messages[0].text {
        Text::Words { segment, .. } => segment,
        Text::Reply { .. } => unreachable!("the first message is the system's"),
    };
    let tokens = |place: usize| render(&trace, &trace.requests[place], "m").tokens;
    let same = (1..trace.requests.len()).find(|&place| segment(place) == segment(0)).unwrap();
    let other = (1..trace.requests.len()).find(|&place| segment(place) != segment(0)).unwrap();
    let common = |one: usize, two: usize| tokens(one).iter().zip(tokens(two)).take_while(|(a, b)| **a == *b).count();
    assert!((201..204).contains(&common(0, same)), "200 words and two marks: {}", common(0, same));
    assert!(common(0, other) < 10, "{}", common(0, other));
}

#[test]
fn a_later_turn_repeats_all_before_it_with_the_reply() {
    let trace = generate(&chat(), &Arrivals::Poisson(1.0), MINUTE, 1);
    let second = trace.requests.iter().position(|request| matches!(request.start, Start::After { .. })).unwrap();
    let (one, two) = (&trace.requests[second - 1], &trace.requests[second]);
    let (before, after) = (render(&trace, one, "m").tokens, render(&trace, two, "m").tokens);
    assert_eq!(after[..before.len()], before, "the mark of the assistant included");
    let reply: Vec<u32> = (0..one.output)
        .map(|index| {
            let vocabulary = spillway_sim::tokenizer::vocabulary();
            spillway_sim::engine::output_token(one.seed, index, Some(vocabulary))
        })
        .collect();
    assert_eq!(after[before.len()..before.len() + reply.len()], reply[..], "what the engine generates");
}

#[test]
fn conversations_have_the_mean_length_asked_for() {
    let trace = generate(&chat(), &Arrivals::Poisson(20.0), MINUTE * 10, 1);
    let starts = trace.requests.iter().filter(|request| matches!(request.start, Start::At(_))).count();
    let mean = trace.requests.len() as f64 / starts as f64;
    let expected = chat().classes[0].prompts.requests_per_arrival();
    assert!((mean / expected - 1.0).abs() < 0.02, "{mean} turns, expected {expected}");
}

#[test]
fn the_length_of_prompts_is_known_before_the_run() {
    for workload in [groups(), chat()] {
        let trace = generate(&workload, &Arrivals::Poisson(20.0), MINUTE * 10, 1);
        let total: f64 = trace.requests.iter().map(|request| f64::from(trace.prompt_tokens(request))).sum();
        let (mean, expected) = (total / trace.requests.len() as f64, workload.tokens_per_request());
        assert!((mean / expected - 1.0).abs() < 0.1, "{mean} tokens, expected {expected}");
    }
}

#[test]
fn a_closed_loop_sends_one_request_of_a_user_after_the_other() {
    let arrivals = Arrivals::Closed { users: 3, think: Amount::Fixed(2.0), requests: 5 };
    let trace = generate(&groups(), &arrivals, MINUTE, 1);
    assert_eq!(trace.requests.len(), 15);
    let first = trace.requests.iter().filter(|request| matches!(request.start, Start::At(_))).count();
    assert_eq!(first, 3);
    for (place, request) in trace.requests.iter().enumerate() {
        if let Start::After { request: before, pause } = request.start {
            assert_eq!((before, pause), (place - 1, Duration::from_secs(2)));
        }
    }
}

proptest! {
    #[test]
    fn the_text_of_a_prompt_is_the_tokens_of_it(segment: u64, words in 1..300_u32) {
        let message = Message { role: Role::User, text: Text::Words { segment, tokens: words } };
        let trace = generate(&groups(), &Arrivals::Poisson(5.0), MINUTE, 1);
        let request = Request { messages: vec![message], ..trace.requests[0].clone() };
        let mut tokens = Tokens::default();
        tokens.special("<|user|>");
        tokens.text(&text(&trace, message.text));
        tokens.special("<|assistant|>");
        let tokens = tokens.finish();
        prop_assert_eq!(tokens.len(), words as usize + 2);
        prop_assert_eq!(render(&trace, &request, "m").tokens, tokens);
    }
}
