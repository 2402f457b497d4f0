//! Which prompts share hashes and ring keys.

use std::collections::HashSet;

use super::*;

/// A chat of `(role, content)` messages, fed as the gateway does.
fn chat(messages: &[(Role, &str)]) -> Prompt {
    chat_within(Depths::default(), messages)
}

fn chat_within(depths: Depths, messages: &[(Role, &str)]) -> Prompt {
    let mut hasher = PrefixHasher::new(depths);
    let mut in_head = true;
    for (role, content) in messages {
        if in_head && *role != Role::System {
            hasher.head_ends();
            in_head = false;
        }
        hasher.mark(Mark::Message(*role));
        hasher.mark(Mark::Content);
        hasher.text(content.as_bytes());
        if *role == Role::User {
            hasher.first_user_ends();
        }
    }
    hasher.finish(0, None)
}

fn plain(text: &str) -> Prompt {
    let mut hasher = PrefixHasher::new(Depths::default());
    hasher.text(text.as_bytes());
    hasher.finish(0, None)
}

/// Text of the given length that differs from that of any other seed from its first bytes on.
fn words(seed: usize, bytes: usize) -> String {
    format!("{seed} and so on, ").repeat(bytes / 8).chars().take(bytes).collect()
}

#[test]
fn a_chat_of_short_messages_keeps_one_ring_key_for_all_its_turns() {
    let contents: Vec<String> = (0..20).map(|i| words(i, 50)).collect();
    let messages: Vec<(Role, &str)> = contents
        .iter()
        .enumerate()
        .map(|(i, content)| (if i % 2 == 0 { Role::User } else { Role::Assistant }, content.as_str()))
        .collect();
    let keys: HashSet<_> = (0..10).map(|turn| chat(&messages[..=2 * turn]).ring_key).collect();
    assert_eq!(keys.len(), 1, "ten turns must have one owner, had {}", keys.len());
}

#[test]
fn a_thousand_questions_under_one_long_system_prompt_share_one_ring_key() {
    let system = words(7, 1200);
    let keys: HashSet<_> =
        (0..1000).map(|i| chat(&[(Role::System, &system), (Role::User, &words(i, 300))]).ring_key).collect();
    assert_eq!(keys.len(), 1);
}

#[test]
fn under_a_short_system_prompt_the_first_question_decides() {
    let system = "You are helpful.";
    let key = |user: &str| chat(&[(Role::System, system), (Role::User, user)]).ring_key;
    assert_eq!(key("one"), key("one"));
    assert_ne!(key("one"), key("two"), "a greeting-sized head must not tie all chats together");
}

#[test]
fn past_ring_depth_nothing_changes_the_ring_key() {
    let (first, second) = (words(1, 4096), words(1, 4096));
    let long = chat(&[(Role::User, &(first + "x"))]);
    let other = chat(&[(Role::User, &(second + "yyyy"))]);
    assert_eq!(long.ring_key, other.ring_key);
    let near = chat(&[(Role::User, &(words(1, 4095) + "x"))]);
    assert_ne!(long.ring_key, near.ring_key, "the last byte within ring_depth must count");
}

#[test]
fn a_ring_depth_off_the_block_grid_cuts_where_it_says() {
    let depths = Depths { ring_depth: 1000, ..Depths::default() };
    let key = |user: String| chat_within(depths, &[(Role::User, &user)]).ring_key;
    assert_eq!(key(words(1, 1000) + "a"), key(words(1, 1000) + "b"));
    assert_ne!(key(words(1, 999) + "a"), key(words(1, 999) + "b"));
}

#[test]
fn plain_prompts_from_one_template_meet_at_a_power_of_two() {
    for template in [512, 1024, 2048, 4096] {
        let one = plain(&(words(3, template) + &words(1, 100)));
        let two = plain(&(words(3, template) + &words(2, 100)));
        assert_eq!(one.ring_key, two.ring_key, "template of {template} bytes");
    }
    let one = plain(&(words(3, 511) + "1"));
    let two = plain(&(words(3, 511) + "2"));
    assert_ne!(one.ring_key, two.ring_key);
}

#[test]
fn a_short_plain_prompt_is_keyed_whole() {
    assert_eq!(plain("ping").ring_key, plain("ping").ring_key);
    assert_ne!(plain("ping").ring_key, plain("pong").ring_key);
}

#[test]
fn a_prompt_without_content_has_no_ring_key() {
    assert_eq!(plain("").ring_key, None);
    assert_eq!(chat(&[]).ring_key, None);
    assert_eq!(chat(&[(Role::User, "")]).ring_key, None);
    let depths = Depths { ring_depth: 0, ..Depths::default() };
    assert_eq!(chat_within(depths, &[(Role::User, "hello")]).ring_key, None, "ring_depth 0 switches text keys off");
}

#[test]
fn a_chat_without_a_user_message_is_keyed_to_its_end() {
    let key = |content: &str| chat(&[(Role::Assistant, content)]).ring_key;
    assert!(key("hello").is_some());
    assert_ne!(key("hello"), key("goodbye"));
}

#[test]
fn an_explicit_key_wins_over_the_text_and_an_empty_one_does_not() {
    let finish = |text: &str, key: &[u8]| {
        let mut hasher = PrefixHasher::new(Depths::default());
        hasher.text(text.as_bytes());
        hasher.finish(0, Some(key)).ring_key
    };
    assert_eq!(finish("one", b"session-1"), finish("two", b"session-1"));
    assert_ne!(finish("one", b"session-1"), finish("one", b"session-2"));
    assert_eq!(finish("one", b""), plain("one").ring_key);
    assert!(finish("", b"session-1").is_some(), "a key needs no text");
}

#[test]
fn the_scope_changes_every_hash() {
    let under = |scope: u64| {
        let mut hasher = PrefixHasher::new(Depths::default());
        hasher.text(words(1, 5000).as_bytes());
        hasher.finish(scope, None)
    };
    let scopes = [
        scope("llama", "a", None),
        scope("llama", "b", None),
        scope("llama", "a", Some("salt")),
        scope("llama", "a", Some("")),
        scope("llamaa", "", None),
    ];
    let hashes: HashSet<u64> =
        scopes.iter().flat_map(|scope| under(*scope).blocks.into_iter().chain(under(*scope).ring_key)).collect();
    // The ring key of a plain prompt is one of its block hashes.
    assert_eq!(hashes.len(), scopes.len() * under(0).blocks.len());
}

#[test]
fn an_image_shows_in_the_blocks_though_its_bytes_do_not_count() {
    let about = |image: u64| {
        let mut hasher = PrefixHasher::new(Depths::default());
        hasher.mark(Mark::Message(Role::User));
        hasher.media(image);
        hasher.mark(Mark::Content);
        hasher.text(b"What is this?");
        hasher.first_user_ends();
        hasher.finish(0, None)
    };
    let prompt = about(1);
    assert_eq!((prompt.media, prompt.bytes, prompt.blocks.len()), (1, 13, 1));
    assert_ne!(prompt.blocks, about(2).blocks);
    assert_ne!(prompt.ring_key, about(2).ring_key);
}

#[test]
fn token_ids_form_blocks_of_64_and_are_not_text() {
    let mut hasher = PrefixHasher::new(Depths::default());
    for id in 0..130 {
        hasher.token_id(id);
    }
    let prompt = hasher.finish(0, None);
    assert_eq!((prompt.token_ids, prompt.bytes, prompt.blocks.len()), (130, 0, 2));
    let mut as_text = PrefixHasher::new(Depths::default());
    for id in 0..130_u32 {
        as_text.text(&id.to_le_bytes());
    }
    assert_ne!(prompt.blocks, as_text.finish(0, None).blocks, "text that spells ids is not those ids");
}

#[test]
fn past_max_text_counts_but_is_not_hashed() {
    let depths = Depths { max: 1000, ..Depths::default() };
    let hash = |bytes: usize| {
        let mut hasher = PrefixHasher::new(depths);
        hasher.text(words(1, bytes).as_bytes());
        assert_eq!(hasher.is_full(), bytes >= 1000);
        hasher.skipped(5);
        hasher.finish(0, None)
    };
    let (short, long) = (hash(999), hash(3000));
    assert_eq!((short.bytes, long.bytes), (1004, 3005));
    assert_eq!((short.blocks.len(), long.blocks.len()), (3, 3));
    assert_eq!(short.blocks, long.blocks);
}

#[test]
fn wide_bytes_are_counted_in_runs_of_any_length() {
    for bytes in [0_usize, 1, 7, 8, 9, 2039, 2040, 2041, 5000] {
        let text: Vec<u8> = (0..bytes).map(|i| if i % 3 == 0 { 0xe4 } else { b'a' }).collect();
        assert_eq!(count_wide(&text), bytes.div_ceil(3) as u64, "{bytes} bytes");
        assert_eq!(count_wide(&vec![0xff; bytes]), bytes as u64, "{bytes} bytes, all wide");
    }
}

#[test]
fn the_share_of_a_prompt_grows_with_its_blocks() {
    let prompt = plain(&words(1, 1000));
    assert!(prompt.share(0).abs() < 1e-9);
    assert!((prompt.share(2) - 0.512).abs() < 1e-9);
    assert!((prompt.share(3) - prompt.share(99)).abs() < 1e-9, "there are only three full blocks");
    assert!(Prompt::default().share(5).abs() < 1e-9);
}

/// Gateways of different versions agree on owners only while these stay. A change here is a change of protocol.
#[test]
fn hashes_are_stable_across_builds() {
    let prompt = chat(&[(Role::System, &words(1, 1500)), (Role::User, "hello")]);
    assert_eq!(prompt.ring_key, Some(0x14f0_7783_4ce3_778a), "ring key");
    assert_eq!(prompt.blocks[4], 0x143a_10ce_9f4d_076d, "fifth block");
}
