//! What a person who writes a file sees: its defaults, its problems, its reference.

mod damage;
mod events;
mod peers;
mod reference;

use super::*;

/// The least that works.
const ONE_POOL: &str = "pools: {main: {endpoints: ['http://a:1']}}\n";

fn known() -> Known {
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    Known {
        policies: names(&["adaptive", "hyperpod", "least_request", "power_of_two", "random", "ring", "round_robin"]),
        scorers: names(&["expected_ttft", "in_flight", "kv_cache", "prefix", "queue", "running", "session"]),
        filters: names(&["in_service", "serves"]),
    }
}

fn good(text: &str) -> Config {
    load(text.as_bytes(), &known()).unwrap_or_else(|problems| panic!("{}", problems.in_file("test.yaml")))
}

/// The problems of a text as lines.
fn bad(text: &str) -> Vec<String> {
    match load(text.as_bytes(), &known()) {
        Ok(_) => Vec::new(),
        Err(problems) => problems.to_string().lines().map(str::to_owned).collect(),
    }
}

#[track_caller]
fn assert_problems(text: &str, expected: &[&str]) {
    assert_eq!(bad(text), expected, "problems of:\n{text}");
}

#[test]
fn three_different_mistakes_give_three_messages_each_in_its_place() {
    let text = "\
models:
  - {name: chat, pool: lama}
pools:
  llama:
    polcy: adaptive
    endpoints: [http://10.0.0.11:8000]
    hold_head: maybe
";
    assert_problems(
        text,
        &[
            "2:24: models[0].pool: there is no pool \"lama\"; did you mean llama?",
            "5:5: pools.llama.polcy: unknown key; did you mean policy?",
            "7:16: pools.llama.hold_head: expected true or false, found the text \"maybe\"",
        ],
    );
}

#[test]
fn a_problem_names_the_file_as_compilers_do() {
    let problems = load(b"pools: {}\n", &known()).unwrap_err();
    assert_eq!(problems.in_file("conf.yaml").to_string(), "conf.yaml:1:1: pools: must not be empty");
}

#[test]
fn a_file_without_a_configuration_says_so() {
    for text in ["", "\n", "# nothing\n", "---\n", "~\n", "\u{feff}"] {
        let problems = bad(text);
        assert_eq!(problems.len(), 1, "{text:?}: {problems:?}");
        assert!(problems[0].starts_with("1:1: the file is empty; one pool is enough: pools:"), "{problems:?}");
    }
    assert_problems("{}", &["1:1: pools: is missing; it is a mapping"]);
    assert_problems("[]", &["1:1: expected a mapping, found a list"]);
    assert_eq!(
        bad("pools:\n  main:\n"),
        ["2:3: pools.main.endpoints: is missing; it is a list; or give dns, a name that leads to them"]
    );
}

#[test]
fn what_is_not_yaml_is_reported_where_it_is() {
    let first = |text: &str| bad(text).swap_remove(0);
    assert!(first("pools:\n  a: [1, 2\n").starts_with("3:1: "), "{}", first("pools:\n  a: [1, 2\n"));
    assert!(first("a: b: c\n").starts_with("1:5: "), "{}", first("a: b: c\n"));
    let second = "---\na: 1\n---\nb: 2\n";
    assert!(first(second).contains("3:1: a second document begins here"), "{}", first(second));
    let latin = load(b"a: 1\nb: \xe4", &known()).unwrap_err();
    assert_eq!(latin.to_string(), "2:4: is not UTF-8");
    let alias = "a: &x [*x]\n";
    assert!(first(alias).starts_with("1:8: a[0]: an alias stands inside"), "{}", first(alias));
}

#[test]
fn duplicate_keys_merge_keys_and_tags_are_refused_where_they_stand() {
    let text = "pools:\n  a: {endpoints: ['http://a']}\n  a: {endpoints: ['http://b']}\n";
    assert_problems(text, &["3:3: pools.a: duplicate key; the first is on line 2"]);
    let text = "pools:\n  a: &a {endpoints: ['http://a']}\n  b: {<<: *a}\n";
    let problems = bad(text);
    assert!(problems[0].starts_with("3:3: pools.b.endpoints: is missing"), "{problems:?}");
    assert!(problems[1].starts_with("3:7: pools.b.\"<<\": merge keys are not supported"), "{problems:?}");
    let problems = bad("pools:\n  a: {endpoints: !!str ['http://a']}\n");
    assert!(problems[0].contains("pools.a.endpoints: tags (!) are not supported"), "{problems:?}");
}

#[test]
fn an_anchor_gives_the_same_value_twice() {
    let config = good("pools:\n  a: &a {endpoints: ['http://a']}\n  b: *a\n");
    assert_eq!(config.pools["a"], config.pools["b"]);
}

#[test]
fn aliases_that_multiply_and_nesting_without_end_are_stopped() {
    let level = |level: usize| format!("a{level}: &a{level} [{}]", format!("*a{}, ", level - 1).repeat(10));
    let text = format!("a: &a0 [x]\n{}", (1..30).map(level).collect::<Vec<_>>().join("\n"));
    assert!(bad(&text)[0].contains("the file has more than"), "{:?}", bad(&text));
    assert!(bad(&"- ".repeat(5_000))[0].contains("levels deep"), "{:?}", bad(&"- ".repeat(5_000)));
}

#[test]
fn no_name_or_alias_and_no_endpoint_appears_twice() {
    let text = "\
models:
  - {name: a, aliases: [b], pool: main}
  - {name: b, pool: main}
pools:
  main:
    endpoints:
      - http://a:80
      - {url: 'http://A/'}
";
    assert_problems(
        text,
        &[
            "3:12: models[1].name: \"b\" is taken by models[0].aliases[0] on line 2",
            "8:15: pools.main.endpoints[1].url: http://a:80 is already pools.main.endpoints[0] on line 7",
        ],
    );
}

#[test]
fn a_pool_has_a_list_or_a_name_and_the_name_what_its_records_lack() {
    let text = "\
pools:
  a: {endpoints: ['http://a'], dns: {name: a, port: 1}}
  b: {dns: {name: b}}
  c: {dns: {name: c, type: srv, port: 1}}
  d: {dns: {name: 10.0.0.1, port: 0}}
  e: {dns: {name: 'http://e', port: 1, servers: [10.0.0.1], intervall: 1s}}
  f: {dns: {name: f, port: 1, type: txt}}
  g: {dns: {port: 1}}
";
    assert_problems(
        text,
        &[
            "2:32: pools.a.dns: cannot stand beside endpoints; give one of them",
            "3:7: pools.b.dns.port: is missing; it is a whole number",
            "4:33: pools.c.dns.port: has no meaning with SRV, whose records have their own",
            "5:19: pools.d.dns.name: \"10.0.0.1\" is an address and needs no DNS; list it under endpoints",
            "5:35: pools.d.dns.port: must be between 1 and 65535",
            "6:19: pools.e.dns.name: \"http://e\" is not a name such as vllm.default.svc",
            "6:50: pools.e.dns.servers[0]: \"10.0.0.1\" is not an IP address and port such as 0.0.0.0:8080",
            "6:61: pools.e.dns.intervall: unknown key; did you mean interval?",
            "7:37: pools.f.dns.type: expected addresses or srv, found the text \"txt\"",
            "8:7: pools.g.dns.name: is missing; it is a name such as vllm.default.svc",
        ],
    );
}

#[test]
fn a_name_needs_a_port_and_nothing_else() {
    let config = good("pools: {a: {dns: {name: vllm.default.svc, port: 8000}}}");
    let dns = config.pools["a"].dns.as_ref().unwrap();
    assert_eq!(
        (dns.records, dns.scheme, dns.interval.as_secs(), dns.servers.len()),
        (Records::Addresses, Scheme::Http, 5, 0)
    );
    assert_eq!(config.pools["a"].endpoints, []);
}

#[test]
fn no_two_pools_list_the_same_adapter() {
    let text = "\
pools:
  a: {endpoints: ['http://a'], adapters: [x, y]}
  b: {endpoints: ['http://b'], adapters: [y]}
";
    assert_problems(text, &["3:43: pools.b.adapters[0]: adapter \"y\" is already pools.a.adapters[1] on line 2"]);
}

#[test]
fn the_admin_port_is_not_opened_without_a_token() {
    let with = |admin: &str| format!("server: {{admin: {{{admin}}}}}\n{ONE_POOL}");
    let problems = bad(&with("address: '0.0.0.0:9090'"));
    assert!(problems[0].starts_with("1:27: server.admin.address: opens the admin port"), "{problems:?}");
    good(&with("address: '0.0.0.0:9090', token_file: /etc/token"));
    good(&with("address: '[::1]:9090'"));
}

#[test]
fn two_listeners_do_not_share_a_port() {
    let with = |server: &str| bad(&format!("server: {{{server}}}\n{ONE_POOL}"));
    let problems = with("listen: [{address: '0.0.0.0:9091'}]");
    assert!(
        problems[0].contains("takes the port of server.metrics.address (its default), 0.0.0.0:9091"),
        "{problems:?}"
    );
    let problems = with("listen: [{address: '10.0.0.1:80'}, {address: '0.0.0.0:80'}]");
    assert!(problems[0].contains("listen[1].address: takes the port of server.listen[0].address"), "{problems:?}");
    assert_eq!(with("listen: [{address: '127.0.0.1:0'}], metrics: {address: '127.0.0.1:0'}"), [""; 0], "0 is any");
    assert_eq!(with("listen: [{address: '10.0.0.1:80'}, {address: '10.0.0.2:80'}]"), [""; 0]);
}

#[test]
fn values_out_of_range_are_refused_with_the_range() {
    let pool = |keys: &str| bad(&format!("pools: {{main: {{endpoints: ['http://a'], {keys}}}}}\n"));
    for (keys, message) in [
        ("endpoints2: 1", "unknown key; did you mean endpoints?"),
        ("load_factor: 2", "unknown key; did you mean affinity.load_factor?"),
        ("affinity: {load_factor: 0.5}", "affinity.load_factor: must be between 1 and 100"),
        ("affinity: {ring_depth: 2MiB}", "affinity.ring_depth: must be at most max, which is 1MiB"),
        ("affinity: {max: 4KiB, ring_depth: 512}", ""),
        ("affinity: {max: 4095}", "affinity.max: must be between 4KiB and 16MiB"),
        ("affinity: {session_header: 'a b'}", "\"a b\" is not the name of a header"),
        ("timeouts: {connect: 0s}", "timeouts.connect: \"0s\" must be longer than 0"),
        ("timeouts: {total: 30}", "found the number 30; did you mean 30s?"),
        ("timeouts: {ttft: 5x}", "\"5x\" has an unknown unit; ms, s, m and h are known, nor the word off"),
        ("health: {path: health}", "\"health\" is not a path; did you mean /health?"),
        ("policy: ringg", "there is no policy \"ringg\"; did you mean ring?"),
        ("policy: {custom: {scorers: {queue: 0}}}", "scorers.queue: a weight must be above 0"),
        ("policy: {custom: {scorers: {quue: 1}}}", "there is no scorer \"quue\"; did you mean queue?"),
        ("policy: {custom: {scorers: {}}}", "scorers: must not be empty"),
        ("policy: {cutsom: {scorers: {queue: 1}}}", "policy.cutsom: unknown key; did you mean custom?"),
        ("policy: 5", "policy: expected a mapping or text, found the number 5"),
        ("policy: {try: ring, control: random, share: 10%}", ""),
        ("policy: {try: {custom: {scorers: {queue: 1}}}, control: random, share: 0.5%}", ""),
        ("policy: {try: ring, share: 10%}", "policy.control: is missing; it is a mapping or text"),
        ("policy: {try: ring, control: random}", "policy.share: is missing; it is a share such as 10%"),
        ("policy: {try: ring, control: random, share: 10}", "found the number 10; did you mean 10%?"),
        ("policy: {try: ring, control: random, share: 101%}", "policy.share: \"101%\" is more than 100%"),
        (
            "policy: {try: ringg, control: random, share: 1%}",
            "policy.try: there is no policy \"ringg\"; did you mean ring?",
        ),
        ("policy: {try: ring, control: {custom: {scorers: {quue: 1}}}, share: 1%}", "there is no scorer \"quue\""),
        (
            "policy: {try: {try: ring, control: ring, share: 1%}, control: ring, share: 1%}",
            "policy.try.try: unknown key",
        ),
        ("engine: ollama", "llamacpp or lmdeploy, found the text \"ollama\""),
        ("engine:", "engine: has no value; expected auto, vllm, sglang, trtllm, triton, tgi, llamacpp or lmdeploy"),
        ("adapters: x", "expected auto or a list, found the text \"x\"; did you mean [x]?"),
        ("hold_head: yes", "found the text \"yes\"; did you mean true?"),
        ("retries: {attempts: 1.5}", "expected a whole number, found the number 1.5"),
        ("retries: {attempts: .nan}", "expected a whole number, found the text \".nan\""),
    ] {
        let problems = pool(keys).join("\n");
        assert!(problems.contains(message) && problems.is_empty() == message.is_empty(), "{keys}: {problems:?}");
    }
}

#[test]
fn an_endpoint_list_is_checked_entry_by_entry() {
    let text = "\
pools:
  main:
    endpoints:
      - 10.0.0.1:80
      - {url: http://b, weight: 0}
      - {weight: 1}
      - {url: http://c, labels: {version: 1.5}}
      -
";
    let problems = bad(text);
    for (problem, start) in problems.iter().zip(["4:9: ", "5:33: ", "6:9: ", "7:43: ", "8:8: "]) {
        assert!(problem.starts_with(start), "expected a problem at {start}: {problems:#?}");
    }
    assert_eq!(problems.len(), 5, "{problems:#?}");
}

#[test]
fn an_empty_section_is_the_default_and_an_empty_value_is_not() {
    let config = good(&format!("models:\nserver:\nlimits:\n{ONE_POOL}"));
    assert_eq!(config, good(ONE_POOL));
    let problems = bad(&format!("default_model:\n{ONE_POOL}"));
    assert_eq!(problems, ["1:1: default_model: has no value; expected text"], "a template may have filled in nothing");
}

#[test]
fn off_is_a_word_and_false_is_the_same_word() {
    for word in ["off", "false", "'off'"] {
        let config = good(&format!(
            "pools: {{main: {{endpoints: ['http://a'], affinity: {word}, timeouts: {{ttft: {word}}}}}}}\n"
        ));
        let pool = &config.pools["main"];
        assert_eq!((&pool.affinity, pool.timeouts.ttft), (&None, None), "{word}");
    }
}

#[test]
fn a_default_model_must_be_listed_once_anything_is() {
    assert_eq!(good(&format!("default_model: x\n{ONE_POOL}")).default_model.as_deref(), Some("x"));
    let text = format!("default_model: chta\nmodels: [{{name: chat, pool: main}}]\n{ONE_POOL}");
    assert_problems(&text, &["1:16: default_model: no entry of models is called \"chta\"; did you mean chat?"]);
}

#[test]
fn a_fingerprint_follows_the_meaning_not_the_text() {
    let plain = good(ONE_POOL);
    let same = good("pools:\n  main:\n    retries: {attempts: 3}\n    endpoints: [http://A:1/]\n");
    assert_eq!(plain.fingerprint(), same.fingerprint());
    let other = good("pools: {main: {endpoints: ['http://a:1'], retries: {attempts: 2}}}\n");
    assert_ne!(plain.fingerprint(), other.fingerprint());
    assert!(plain.fingerprint() < 1 << 48, "a gauge must hold it exactly");
}

#[test]
fn only_changes_under_server_wait_for_a_restart() {
    let old = good(ONE_POOL);
    let new = good(
        "server: {drain: 5s, listen: [{address: '0.0.0.0:80'}], admin: {token_file: /t}}\nlimits: {body: 1MiB}\n\
         pools: {main: {endpoints: ['http://b:1']}}\n",
    );
    assert_eq!(restart_only_changes(&old, &new), ["server.admin.token_file", "server.drain", "server.listen"]);
    assert_eq!(restart_only_changes(&old, &old), [""; 0]);
}

#[test]
fn one_pool_without_models_is_the_sole_one() {
    assert!(good(ONE_POOL).sole_pool().is_some());
    assert!(good(&format!("models: [{{name: a, pool: main}}]\n{ONE_POOL}")).sole_pool().is_none());
}
