//! Which batches are applied in which order, whatever is lost on the way.

use bytes::Bytes;

use crate::kv_events::sequence::{Message, Replayed, Sequence, Step};

fn message(seq: u64, payload: &'static str) -> Message {
    Message { seq, payload: Bytes::from_static(payload.as_bytes()) }
}

/// A sequence and what it asks for, in short.
struct Scene {
    sequence: Sequence,
    steps: Vec<Step>,
}

impl Scene {
    fn new(can_replay: bool) -> Self {
        let mut this = Self { sequence: Sequence::new(can_replay), steps: Vec::new() };
        this.sequence.connected(&mut this.steps);
        if can_replay {
            assert_eq!(this.said(), "replay 0");
            this.sequence.replay_ended(&mut this.steps);
            assert_eq!(this.said(), "");
        }
        this
    }

    fn live(&mut self, seq: u64, payload: &'static str) -> String {
        self.sequence.live(message(seq, payload), &mut self.steps);
        self.said()
    }

    fn replayed(&mut self, seq: u64, payload: &'static str) -> String {
        self.sequence.replayed(message(seq, payload), &mut self.steps);
        self.said()
    }

    fn ended(&mut self) -> String {
        self.sequence.replay_ended(&mut self.steps);
        self.said()
    }

    fn failed(&mut self) -> String {
        self.sequence.replay_failed(&mut self.steps);
        self.said()
    }

    fn reconnected(&mut self) -> String {
        self.sequence.connected(&mut self.steps);
        self.said()
    }

    fn said(&mut self) -> String {
        let words: Vec<String> = self
            .steps
            .drain(..)
            .map(|step| match step {
                Step::Apply(payload) => String::from_utf8(payload.to_vec()).unwrap(),
                Step::Replay(from) => format!("replay {from}"),
                Step::Restarted => "restarted".into(),
                Step::Gap => "gap".into(),
                Step::Lost => "lost".into(),
            })
            .collect();
        words.join(", ")
    }
}

#[test]
fn batches_in_order_are_applied_as_they_come() {
    let mut scene = Scene::new(true);
    assert_eq!([scene.live(0, "a"), scene.live(1, "b"), scene.live(2, "c")].join(" "), "a b c");
}

#[test]
fn a_gap_is_filled_before_what_comes_after_it_is_applied() {
    let mut scene = Scene::new(true);
    assert_eq!(scene.live(0, "store a"), "store a");
    // 1 stores b and is lost; 2 removes it.
    assert_eq!(scene.live(2, "remove b"), "gap, replay 1");
    assert_eq!(scene.live(3, "store c"), "");
    assert_eq!(scene.replayed(1, "store b"), "store b");
    assert_eq!(scene.replayed(2, "remove b"), "remove b");
    assert_eq!(scene.ended(), "store c");
    assert_eq!(scene.live(4, "d"), "d");
}

#[test]
fn a_replay_that_never_comes_leaves_nothing_that_is_not_so() {
    let mut scene = Scene::new(true);
    scene.live(0, "store a");
    assert_eq!(scene.live(2, "remove b"), "gap, replay 1");
    assert_eq!(scene.failed(), "lost, remove b");
    assert_eq!(scene.replayed(1, "store b"), "", "too late: b would come back");
    assert_eq!(scene.live(3, "c"), "c");
}

#[test]
fn a_replay_that_does_not_go_back_far_enough_says_so_and_goes_on() {
    let mut scene = Scene::new(true);
    scene.live(0, "a");
    assert_eq!(scene.live(9, "j"), "gap, replay 1");
    assert_eq!(scene.replayed(5, "f"), "lost, f");
    assert_eq!(scene.replayed(7, "h"), "lost, h", "a hole in it");
    assert_eq!(scene.ended(), "lost, j");
}

#[test]
fn without_a_replay_a_gap_is_a_loss() {
    let mut scene = Scene::new(false);
    assert_eq!(scene.live(0, "a"), "a");
    assert_eq!(scene.live(2, "c"), "gap, lost, c");
    assert_eq!(scene.live(3, "d"), "d");
}

#[test]
fn a_smaller_number_is_another_process() {
    for can_replay in [true, false] {
        let mut scene = Scene::new(can_replay);
        for (seq, payload) in ["a", "b", "c", "d", "e", "f"].into_iter().enumerate() {
            scene.live(seq as u64, payload);
        }
        assert_eq!(scene.live(0, "x"), "restarted, x");
        assert_eq!(scene.live(0, "y"), "restarted, y", "again at its first batch");
        scene.live(1, "z");
        assert_eq!(scene.live(1, "z"), "", "the same batch once more says nothing");
    }
}

#[test]
fn a_restart_whose_first_batches_were_missed_is_replayed_from_its_start() {
    let mut scene = Scene::new(true);
    scene.live(0, "a");
    scene.live(1, "b");
    scene.live(2, "c");
    assert_eq!(scene.live(1, "y"), "restarted, replay 0");
    assert_eq!(scene.replayed(0, "x"), "x");
    assert_eq!(scene.replayed(1, "y"), "y");
    assert_eq!(scene.ended(), "");
}

#[test]
fn who_joins_late_hears_of_what_was_before() {
    let mut scene = Scene { sequence: Sequence::new(true), steps: Vec::new() };
    assert_eq!(scene.reconnected(), "replay 0");
    assert_eq!(scene.live(6, "g"), "");
    assert_eq!(scene.replayed(4, "e"), "lost, e", "it remembers only so much");
    assert_eq!([scene.replayed(5, "f"), scene.replayed(6, "g")].join(" "), "f g");
    assert_eq!(scene.ended(), "");
    let mut scene = Scene::new(false);
    assert_eq!(scene.live(6, "g"), "lost, g");
}

#[test]
fn a_connection_that_breaks_changes_nothing_if_it_is_the_same_process() {
    let mut scene = Scene::new(true);
    scene.live(0, "a");
    scene.live(1, "b");
    assert_eq!(scene.reconnected(), "replay 1");
    assert_eq!(scene.live(3, "d"), "");
    assert_eq!([scene.replayed(1, "b"), scene.replayed(2, "c"), scene.replayed(3, "d")].join(" "), " c d");
    assert_eq!(scene.ended(), "");
}

#[test]
fn a_process_that_took_its_place_meanwhile_is_seen_though_its_numbers_go_on() {
    let mut scene = Scene::new(true);
    scene.live(0, "a");
    scene.live(1, "b");
    assert_eq!(scene.reconnected(), "replay 1");
    assert_eq!(scene.replayed(1, "other"), "restarted, replay 0");
    assert_eq!([scene.replayed(0, "new"), scene.replayed(1, "other")].join(" "), "new other");
    // Or it has not come so far yet.
    assert_eq!(scene.reconnected(), "replay 1");
    assert_eq!(scene.ended(), "restarted, replay 0");
    assert_eq!([scene.replayed(0, "third"), scene.ended()].join(" "), "third ");
    // Without anybody to ask, what is known is worth nothing.
    let mut scene = Scene::new(false);
    scene.live(0, "a");
    assert_eq!(scene.reconnected(), "lost");
    assert_eq!(scene.live(0, "x"), "restarted, x");
}

#[test]
fn what_is_held_back_is_bounded() {
    let mut scene = Scene::new(true);
    scene.live(0, "a");
    scene.live(2, "c");
    let mut said = String::new();
    for seq in 3..20_000 {
        said = scene.live(seq, "x");
        if !said.is_empty() {
            break;
        }
    }
    assert!(said.starts_with("lost, c, x, x") && said.len() < 40_000, "{} bytes", said.len());
    assert!(!scene.sequence.is_waiting());
}

#[test]
fn messages_of_both_forms_are_read_and_others_refused() {
    let part = |bytes: &[u8]| Bytes::copy_from_slice(bytes);
    let (seq, payload) = (part(&7_u64.to_be_bytes()), part(b"p"));
    let seven = Message { seq: 7, payload: payload.clone() };
    assert_eq!(Message::live(&[part(b"kv@m"), seq.clone(), payload.clone()]), Ok(seven.clone()));
    let old = [part(b""), seq.clone(), payload.clone()];
    let new = [part(b""), part(b"kv@m"), seq.clone(), payload.clone()];
    for parts in [&old[..], &new] {
        assert_eq!(Message::replayed(parts), Ok(Replayed::Batch(seven.clone())));
    }
    let end = part(&[0xff; 8]);
    for parts in [&[part(b""), end.clone(), part(b"")][..], &[part(b""), part(b""), end, part(b"")]] {
        assert_eq!(Message::replayed(parts), Ok(Replayed::End));
    }
    assert!(Message::live(&[seq.clone(), payload.clone()]).is_err());
    assert!(Message::live(&[part(b""), part(b"short"), payload]).is_err());
    assert!(Message::replayed(&[seq]).is_err());
}
