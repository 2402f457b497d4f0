//! What is wrong with a scenario is said, all at once, each with its place.

use super::*;

const RIGHT: &str = "
id: X
title: x
claim: x
fleet: [{count: 2}]
weights: [1]
faults: [{endpoint: 0, at: 1s, kind: slow, factor: 2}]
horizon: 60
warm_up: 0.25
concurrency: 10
requests:
  classes:
    - share: 1
      prompts:
        shared: [{pool: 4, zipf: 1, hot: 0.5, tokens: {fixed: 100}}]
        documents: {pool: 50, zipf: 1, each: 3, tokens: {fixed: 100}}
        message: {fixed: 5}
        turns: {mean: 4, most: 15, think: {fixed: 1}}
      output: {fixed: 6}
  adapters: {pool: 14, zipf: 0}
  tenants: {pool: 20, zipf: 1.2}
  priorities: [20, 60, 30]
  streaming: 0.75
loads:
  main: {arrivals: {poisson: 1}, gateways: 2, scrape: 0.1, horizon: 90, told: {tokens: 0.9, streaming: 0.5, max_tokens: 4, cache: 2}}
short: [main]
bars: [{load: main, figure: ttft_p95, most: 1.5}]
";

fn problems(text: &str) -> Vec<String> {
    Scenario::parse(text).unwrap_or_else(|error| panic!("{error} in {text}")).problems()
}

#[test]
fn a_scenario_outside_its_limits_is_refused_with_the_place() {
    assert_eq!(problems(RIGHT), Vec::<String>::new());
    for (right, wrong, said) in [
        ("id: X", "id: ''", "id: must not be empty"),
        ("horizon: 60", "horizon: 1e300", "horizon: must be 0.001 to 604,800"),
        ("horizon: 60", "horizon: .inf", "horizon: must be"),
        ("horizon: 60", "horizon: .nan", "horizon: must be"),
        ("warm_up: 0.25", "warm_up: 1", "warm_up: must be"),
        ("warm_up: 0.25", "warm_up: .nan", "warm_up: must be"),
        ("concurrency: 10", "concurrency: 0", "concurrency: must be"),
        ("count: 2", "count: 200000", "fleet: 200000 endpoints, at most 100000"),
        ("fleet: [{count: 2}]", "fleet: []", "fleet: there is no endpoint"),
        ("weights: [1]", "weights: [0]", "weights[0]: must be"),
        ("weights: [1]", "weights: [.inf]", "weights[0]: must be"),
        ("weights: [1]", "weights: [1, 1]", "weights: 2 for 1 groups of the fleet"),
        ("endpoint: 0", "endpoint: 2", "faults[0].endpoint:"),
        ("kind: slow, factor: 2", "kind: hang", "faults[0].kind: virtual time plays only faults of speed"),
        ("classes:\n    - share: 1", "classes:\n    - share: .inf", "requests.classes[0].share: must be"),
        ("pool: 4", "pool: 0", "requests.classes[0].prompts.shared[0].pool: must be"),
        ("pool: 4", "pool: 1000000000000", "requests.classes[0].prompts.shared[0].pool: must be"),
        ("zipf: 1, hot", "zipf: -1, hot", "requests.classes[0].prompts.shared[0].zipf: must be"),
        ("hot: 0.5", "hot: 2", "requests.classes[0].prompts.shared[0].hot: must be"),
        ("hot: 0.5", "hot: .nan", "requests.classes[0].prompts.shared[0].hot: must be"),
        ("{pool: 50", "{pool: 0", "requests.classes[0].prompts.documents.pool: must be"),
        ("zipf: 1, each", "zipf: 1e308, each", "requests.classes[0].prompts.documents.zipf: must be"),
        ("each: 3", "each: 0", "requests.classes[0].prompts.documents.each: must be"),
        ("each: 3", "each: 51", "requests.classes[0].prompts.documents.each: 51 of a pool of 50"),
        ("{fixed: 5}", "{fixed: 1e12}", "requests.classes[0].prompts.message.fixed: must be"),
        ("mean: 4", "mean: .inf", "requests.classes[0].prompts.turns.mean: must be"),
        ("most: 15", "most: 4000000000", "requests.classes[0].prompts.turns.most: must be"),
        ("think: {fixed: 1}", "think: {fixed: .nan}", "requests.classes[0].prompts.turns.think.fixed: must be"),
        ("output: {fixed: 6}", "output: {fixed: -1}", "requests.classes[0].output.fixed: must be"),
        ("pool: 14", "pool: 0", "requests.adapters.pool: must be"),
        ("pool: 14", "pool: 10000000", "requests.adapters.pool: must be"),
        ("pool: 20", "pool: 0", "requests.tenants.pool: must be"),
        ("zipf: 1.2", "zipf: .nan", "requests.tenants.zipf: must be"),
        ("[20, 60, 30]", "[20, .inf, 30]", "requests.priorities[1]: must be"),
        ("[20, 60, 30]", "[0, 0, 0]", "requests.priorities: all three are zero"),
        ("streaming: 0.75", "streaming: 2", "requests.streaming: must be"),
        ("streaming: 0.75", "streaming: .nan", "requests.streaming: must be"),
        ("poisson: 1", "poisson: 0", "loads.main.arrivals.poisson: must be"),
        ("poisson: 1", "poisson: 1000000", "loads.main.arrivals: 355189154 requests expected: must be 1 to 20,000,000"),
        ("poisson: 1", "poisson: 0.0001", "loads.main.arrivals: 0 requests expected: must be 1 to"),
        ("{fixed: 5}", "{fixed: 9999999}", "loads.main.arrivals: "),
        ("gateways: 2", "gateways: 0", "loads.main.gateways: must be"),
        ("gateways: 2", "gateways: 1001", "loads.main.gateways: must be"),
        ("scrape: 0.1", "scrape: .nan", "loads.main.scrape: must be 0 for never, or 0.001 to 3600, not NaN"),
        ("scrape: 0.1", "scrape: -1", "loads.main.scrape: must be"),
        ("scrape: 0.1", "scrape: 1e-9", "loads.main.scrape: must be"),
        ("horizon: 90", "horizon: 0", "loads.main.horizon: must be 0.001 to 604,800"),
        ("tokens: 0.9", "tokens: 1.1", "loads.main.told.tokens: must be"),
        ("streaming: 0.5", "streaming: -1", "loads.main.told.streaming: must be"),
        ("max_tokens: 4", "max_tokens: -4", "loads.main.told.max_tokens: must be"),
        ("cache: 2", "cache: 0", "loads.main.told.cache: must be"),
        ("short: [main]", "short: [other]", "short: no load other"),
        ("short: [main]", "short: [main, main]", "short: main is there twice"),
        ("load: main,", "load: other,", "bars[0].load: no load other"),
        ("most: 1.5", "most: .nan", "bars[0].most: must be"),
    ] {
        assert_eq!(RIGHT.matches(right).count(), 1, "{right}");
        let found = problems(&RIGHT.replace(right, wrong));
        assert!(found.iter().any(|problem| problem.starts_with(said)), "{wrong}: {found:?}");
    }
}

#[test]
fn a_load_that_is_there_twice_is_refused() {
    let text = RIGHT.replace("  main: {", "  main: {arrivals: {poisson: 2}}\n  main: {");
    let said = Scenario::parse(&text).unwrap_err().to_string();
    assert!(said.contains("load main is there twice"), "{said}");
}

#[test]
fn a_scenario_without_loads_is_refused() {
    let load = RIGHT.lines().find(|line| line.starts_with("  main:")).unwrap();
    let text = RIGHT.replace(&format!("{load}\n"), "").replace("loads:", "loads: {}");
    let text = text.replace("short: [main]", "short: []");
    assert!(problems(&text).contains(&"loads: there is none".to_owned()), "{:?}", problems(&text));
}

#[test]
fn all_that_is_wrong_is_said_at_once() {
    let text = RIGHT.replace("horizon: 60", "horizon: -1").replace("{fixed: 6}", "{fixed: -1}");
    let found = problems(&text.replace("short: [main]", "short: [other]"));
    assert_eq!(found.len(), 3, "{found:?}");
}

#[test]
fn many_gateways_over_many_endpoints_are_refused() {
    let found = problems(&RIGHT.replace("count: 2", "count: 100000").replace("gateways: 2", "gateways: 100"));
    assert!(found.iter().any(|one| one.starts_with("loads.main.gateways: 100 times 100000 endpoints")), "{found:?}");
}
