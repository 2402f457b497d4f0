//! Prefix hashing under any text, any cuts, any order of marks.

use proptest::prelude::*;
use spillway_picker::prefix::{Depths, Mark, PrefixHasher, Prompt, Role, block_end};

#[derive(Clone, Debug, PartialEq)]
enum Piece {
    Text(Vec<u8>),
    Mark(Mark),
    Media(u64),
    TokenId(u64),
}

fn feed(hasher: &mut PrefixHasher, pieces: &[Piece]) {
    for piece in pieces {
        match piece {
            Piece::Text(text) => hasher.text(text),
            Piece::Mark(mark) => hasher.mark(*mark),
            Piece::Media(payload) => hasher.media(*payload),
            Piece::TokenId(id) => hasher.token_id(*id),
        }
    }
}

/// The prompt whose ring key covers every piece.
fn hash(pieces: &[Piece]) -> Prompt {
    let mut hasher = PrefixHasher::new(Depths { ring_depth: 1 << 20, max: 1 << 20 });
    feed(&mut hasher, pieces);
    hasher.first_user_ends();
    hasher.finish(1, None)
}

/// What must be told apart: adjacent texts are one, empty ones are none.
fn canonical(pieces: &[Piece]) -> Vec<Piece> {
    let mut canonical: Vec<Piece> = Vec::new();
    for piece in pieces {
        match (canonical.last_mut(), piece) {
            (_, Piece::Text(text)) if text.is_empty() => {}
            (Some(Piece::Text(before)), Piece::Text(text)) => before.extend_from_slice(text),
            _ => canonical.push(piece.clone()),
        }
    }
    canonical
}

fn marks() -> impl Strategy<Value = Mark> {
    prop_oneof![
        Just(Mark::Tools),
        Just(Mark::System),
        Just(Mark::Content),
        Just(Mark::Message(Role::User)),
        Just(Mark::Message(Role::Assistant)),
    ]
}

/// Few distinct values, so that two draws are often almost equal; codes of marks among the bytes.
fn near_pieces() -> impl Strategy<Value = Vec<Piece>> {
    let text = prop::collection::vec(prop::sample::select(vec![0_u8, 1, 2, 3, 0xff]), 0..4);
    prop::collection::vec(
        prop_oneof![
            3 => text.prop_map(Piece::Text),
            2 => marks().prop_map(Piece::Mark),
            1 => (0_u64..3).prop_map(Piece::Media),
            1 => prop::sample::select(vec![0, 1, 0x0201, 1 << 32, 1 << 40]).prop_map(Piece::TokenId),
        ],
        0..6,
    )
}

fn long_pieces() -> impl Strategy<Value = Vec<Piece>> {
    prop::collection::vec(
        prop_oneof![
            4 => (any::<u8>(), 0_usize..9000).prop_map(|(first, len)| Piece::Text(stretch(first, len))),
            2 => marks().prop_map(Piece::Mark),
            1 => any::<u64>().prop_map(Piece::Media),
            1 => any::<u64>().prop_map(Piece::TokenId),
        ],
        0..12,
    )
}

/// Bytes without a short period.
fn stretch(first: u8, len: usize) -> Vec<u8> {
    (0..len).map(|i| first.wrapping_add((i * i / 7) as u8)).collect()
}

proptest! {
    #[test]
    fn cuts_between_chunks_change_nothing(
        pieces in long_pieces(),
        cut_lengths in prop::collection::vec(1_usize..3000, 1..8),
        ring_depth in prop::sample::select(vec![1_usize, 255, 256, 1000, 4096, 20_000]),
        max in prop::sample::select(vec![1000_usize, 4096, 30_000, 1 << 20]),
    ) {
        let depths = Depths { ring_depth, max };
        let mut whole = PrefixHasher::new(depths);
        let mut cut = PrefixHasher::new(depths);
        let mut lengths = cut_lengths.iter().cycle();
        for piece in &pieces {
            feed(&mut whole, std::slice::from_ref(piece));
            let Piece::Text(mut rest) = piece.clone() else {
                feed(&mut cut, std::slice::from_ref(piece));
                continue;
            };
            while !rest.is_empty() {
                let length = *lengths.next().expect("a cycle has no end");
                let tail = rest.split_off(length.min(rest.len()));
                cut.text(&rest);
                cut.text(b"");
                rest = tail;
            }
        }
        whole.first_user_ends();
        cut.first_user_ends();
        prop_assert_eq!(whole.finish(3, None), cut.finish(3, None));
    }

    #[test]
    fn prompts_that_differ_anywhere_differ_in_their_key(one in near_pieces(), two in near_pieces()) {
        let (one, two) = (canonical(&one), canonical(&two));
        let has_length = |pieces: &[Piece]| pieces.iter().any(|piece| !matches!(piece, Piece::Mark(_)));
        prop_assume!(has_length(&one) && has_length(&two));
        prop_assert_eq!(one == two, hash(&one).ring_key == hash(&two).ring_key, "{:?} and {:?}", one, two);
    }

    #[test]
    fn a_mark_is_known_by_its_place(text in prop::collection::vec(0_u8..3, 2..600), mark in marks(), at: [prop::sample::Index; 2]) {
        let place = |index: &prop::sample::Index| {
            let (before, after) = text.split_at(index.index(text.len() + 1));
            hash(&[Piece::Text(before.to_vec()), Piece::Mark(mark), Piece::Text(after.to_vec())])
        };
        let same = at[0].index(text.len() + 1) == at[1].index(text.len() + 1);
        prop_assert_eq!(same, place(&at[0]).ring_key == place(&at[1]).ring_key, "(ab, c) must not be (a, bc)");
    }

    #[test]
    fn shared_blocks_are_those_before_the_first_difference(
        length in 300_usize..40_000, first: u8, at: prop::sample::Index,
    ) {
        let one = stretch(first, length);
        let mut two = one.clone();
        let changed = at.index(length);
        two[changed] ^= 1;
        let (one, two) = (hash(&[Piece::Text(one)]), hash(&[Piece::Text(two)]));
        let shared = one.blocks.iter().zip(&two.blocks).take_while(|(a, b)| a == b).count();
        let expected = (0..one.blocks.len()).take_while(|block| block_end(*block) <= changed as u64).count();
        prop_assert_eq!(shared, expected, "byte {} differs", changed);
        prop_assert!(one.blocks[shared..].iter().all(|hash| !two.blocks.contains(hash)), "a chain never joins again");
    }
}
