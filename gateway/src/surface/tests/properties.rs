//! That what is read of a conversation does not depend on how it is written.

use proptest::prelude::*;

use super::*;
use crate::scan::written::{Json, Style, any_json, any_text, object, text};

fn any_content() -> impl Strategy<Value = Json> {
    let typed = |kind: &str, key: &str, value: Json| object([("type", text(kind)), (key, value)]);
    let part = prop_oneof![
        any_text().prop_map(move |s| typed("text", "text", Json::Text(s))),
        any_text().prop_map(move |s| typed(
            "image_url",
            "image_url",
            object([("url", Json::Text(s)), ("detail", text("low"))])
        )),
        any_text().prop_map(move |s| typed(
            "input_audio",
            "input_audio",
            object([("data", Json::Text(s)), ("format", text("wav"))])
        )),
        any_text().prop_map(move |s| Json::Ordered(Box::new(typed("novel", "x", Json::List(vec![Json::Text(s)]))))),
        (any_text(), any_text()).prop_map(|(id, s)| {
            let inner = object([("type", text("text")), ("text", Json::Text(s))]);
            object([
                ("type", text("tool_result")),
                ("tool_use_id", Json::Text(id)),
                ("content", Json::List(vec![inner])),
            ])
        }),
        any_text().prop_map(|s| {
            let input = Json::Ordered(Box::new(object([("b", Json::Text(s)), ("a", text("x"))])));
            object([("type", text("tool_use")), ("id", text("i")), ("name", text("f")), ("input", input)])
        }),
    ];
    prop_oneof![
        any_text().prop_map(Json::Text),
        Just(Json::Bare("null".to_owned())),
        proptest::collection::vec(part, 0..4).prop_map(Json::List),
    ]
}

fn any_message() -> impl Strategy<Value = Json> {
    let role = prop::sample::select(vec!["system", "developer", "user", "assistant", "tool", "critic"]);
    let call = any_text().prop_map(|arguments| {
        let function = object([("name", text("f")), ("arguments", Json::Text(arguments))]);
        object([("id", text("c")), ("type", text("function")), ("function", function)])
    });
    let calls = proptest::option::of(proptest::collection::vec(call, 0..3));
    (role, any_content(), calls, proptest::option::of(any_text()), proptest::option::of(any_text())).prop_map(
        |(role, content, calls, reasoning, name)| {
            let mut members = vec![("role".to_owned(), text(role)), ("content".to_owned(), content)];
            members.extend(calls.map(|calls| ("tool_calls".to_owned(), Json::List(calls))));
            members.extend(reasoning.map(|reasoning| ("reasoning_content".to_owned(), Json::Text(reasoning))));
            members.extend(name.map(|name| ("name".to_owned(), Json::Text(name))));
            Json::Object(members)
        },
    )
}

fn any_conversation() -> impl Strategy<Value = Json> {
    let schema =
        any_json().prop_map(|schema| Json::Ordered(Box::new(object([("name", text("f")), ("input_schema", schema)]))));
    let tools = proptest::collection::vec(schema, 0..3).prop_map(Json::List);
    (tools, any_content(), proptest::collection::vec(any_message(), 0..5)).prop_map(|(tools, system, messages)| {
        object([
            ("model", text("m")),
            ("tools", tools),
            ("system", system.clone()),
            ("instructions", system),
            ("input", Json::List(messages.clone())),
            ("messages", Json::List(messages)),
            ("temperature", Json::Bare("0.5".to_owned())),
        ])
    })
}

proptest! {
    #[test]
    fn how_a_body_is_written_does_not_change_its_prompt(body in any_conversation(), one: u64, two: u64) {
        let (mut one, mut two) = (Style(one), Style(two));
        let (first, second) = (one.write(&body), two.write(&body));
        let (first_cut, second_cut) = (one.cut(first.as_bytes()), two.cut(second.as_bytes()));
        for surface in [Surface::ChatCompletions, Surface::Messages, Surface::Responses] {
            let prompt = prompt_of_chunks(surface, &first_cut);
            prop_assert_eq!(&prompt, &prompt_of_chunks(surface, &second_cut), "{:?}", surface);
        }
    }

    #[test]
    fn a_longer_conversation_begins_with_the_blocks_of_the_shorter(
        messages in proptest::collection::vec(any_message(), 1..6),
        seed: u64,
    ) {
        let mut style = Style(seed);
        let mut blocks_of = |messages: &[Json]| {
            let body = object([("messages", Json::List(messages.to_vec()))]);
            prompt(Surface::ChatCompletions, &style.write(&body)).blocks
        };
        let shorter = blocks_of(&messages[..messages.len() - 1]);
        prop_assert!(blocks_of(&messages).starts_with(&shorter));
    }

    #[test]
    fn text_is_hashed_as_a_parser_decodes_it(text in any_text(), seed: u64) {
        let body = object([("messages", Json::List(vec![object([("role", self::text("user")), ("content", Json::Text(text.clone()))])]))]);
        let prompt = prompt(Surface::ChatCompletions, &Style(seed).write(&body));
        prop_assert_eq!(prompt.bytes, text.len() as u64);
        prop_assert_eq!(prompt.wide_bytes, text.bytes().filter(|byte| *byte >= 0x80).count() as u64);
    }
}
