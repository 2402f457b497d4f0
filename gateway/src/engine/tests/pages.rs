//! One page per engine, version and way to run it, and what each says: `fixtures/pages`.
//!
//! The pages are written by hand after real ones, except where a case says that it is recorded. Their values are made up.

use super::*;

/// A page and what is read from it. `None` for the facts is a page of no known engine, or none at all.
struct Case {
    page: &'static str,
    engine: Result<Engine, ReadError>,
    facts: Facts,
    /// Whether something on it moves while the engine works.
    moves: bool,
}

fn case(page: &'static str, engine: Engine, facts: Facts) -> Case {
    Case { page, engine: Ok(engine), facts, moves: true }
}

/// The same for a page on which nothing is known to move.
fn still(page: &'static str, engine: Engine, facts: Facts) -> Case {
    Case { moves: false, ..case(page, engine, facts) }
}

fn refused(page: &'static str, error: ReadError) -> Case {
    Case { page, engine: Err(error), facts: Facts::default(), moves: false }
}

/// Queued and running requests, and the use of the cache.
fn load(queued: f64, running: f64, kv_usage: f64) -> Facts {
    Facts { queued: Some(queued), running: Some(running), kv_usage: Some(kv_usage), ..Facts::default() }
}

impl Case {
    fn cache(self, block_size: u32, blocks: u32) -> Self {
        let facts = Facts { block_size: Some(block_size), blocks: Some(blocks), ..self.facts };
        Self { facts, ..self }
    }

    fn adapters(self, running: &[&str], waiting: &[&str], max: u32) -> Self {
        let (adapters_running, adapters_waiting) = (Some(names(running)), Some(names(waiting)));
        let facts = Facts { adapters_running, adapters_waiting, max_adapters: Some(max), ..self.facts };
        Self { facts, ..self }
    }

    fn awake(self, awake: bool) -> Self {
        Self { facts: Facts { awake: Some(awake), ..self.facts }, ..self }
    }
}

fn vllm_cases() -> Vec<Case> {
    let is = |page, facts| case(page, Engine::Vllm, facts);
    vec![
        // Swapped requests wait as well.
        is("vllm-0.6-v0", load(5.0, 12.0, 0.8125)).cache(16, 27841).adapters(&[], &[], 1),
        is("vllm-0.9.1", load(1.0, 7.0, 0.375)).cache(16, 27841),
        is("vllm-0.10", load(1.0, 7.0, 0.375)).cache(16, 27841),
        is("vllm-0.12-asleep", load(0.0, 0.0, 0.0)).cache(16, 27841).awake(false),
        is("vllm-0.33-dp2", load(7.0, 18.0, 0.4375))
            .cache(16, 55682)
            .adapters(&["sql-a", "sql-b"], &["sql-c"], 4)
            .awake(true),
        // The times of the adapter series are sums over four API servers.
        is("vllm-0.33-api-servers", load(7.0, 18.0, 0.4375))
            .cache(16, 55682)
            .adapters(&["sql-a", "sql-b"], &["sql-a", "sql-c"], 4)
            .awake(true),
        // The cache has no size yet, and the adapters' family no sample.
        is("vllm-0.33-starting", Facts { block_size: Some(16), ..load(0.0, 0.0, 0.0) }),
        is("vllm-rust-frontend", load(2.0, 5.0, 0.4)).cache(16, 27841).adapters(&["lora-a"], &[], 2),
        is("vllm-openmetrics-colon", load(2.0, 5.0, 0.4)).cache(16, 27841).adapters(&["lora-a"], &[], 2),
        // A form that has to be asked for, which we do not: nothing is read, and nothing wrong.
        is("vllm-escaping-dots", Facts::default()),
        is("vllm-odd-syntax", load(7.0, 8.0, 0.5)).cache(880, 512),
        is("sample-vllm", load(7.0, 18.0, 0.4375)).cache(16, 27841).adapters(&["sql-a", "sql-b"], &["sql-c"], 4),
    ]
}

fn sglang_cases() -> Vec<Case> {
    let is = |page, facts| case(page, Engine::Sglang, facts);
    vec![
        // One waits for its grammar. Three were put back into the queue, where they are counted.
        is("sglang-0.5.23", Facts { max_adapters: Some(8), ..load(3.0, 7.0, 0.28) }).cache(64, 4096),
        is("sglang-2025", load(6.0, 4.0, 0.5)).cache(64, 11147),
        is("sglang-tp4-all-schedulers", load(3.0, 7.0, 0.29)).cache(64, 4096),
        is("sglang-dp2-tp2", load(5.0, 8.0, 0.81)).cache(1, 130_536),
        is("sglang-priorities", load(5.0, 9.0, 0.62)),
        is("sglang-priorities-without-total", load(5.0, 9.0, 0.62)),
        is("sglang-prefill", load(9.0, 1.0, 0.33)).cache(64, 4096),
        is("sglang-decode", load(11.0, 31.0, 0.94)).cache(64, 4096),
        still("sglang-loads", Engine::Sglang, load(2.0, 7.0, 0.25)),
        is("sample-sglang", load(2.0, 7.0, 0.28)).cache(64, 4096),
    ]
}

fn tensorrt_cases() -> Vec<Case> {
    let is = |page, facts| case(page, Engine::TrtLlm, facts);
    let triton = |page, facts| case(page, Engine::Triton, facts);
    vec![
        is("trtllm-1.1.0rc", Facts::default()),
        is("trtllm-1.3", load(3.0, 12.0, 0.31)).cache(32, 8192),
        is("trtllm-dynamo", load(3.0, 12.0, 0.31)).cache(32, 8192),
        refused("trtllm-json", ReadError::Page(PageError::Json)),
        refused("trtllm-json-empty", ReadError::Page(PageError::Json)),
        still("sample-trtllm", Engine::TrtLlm, Facts { queued: Some(0.0), kv_usage: Some(0.31), ..Facts::default() }),
        triton("triton-ensemble", load(1.0, 4.0, 0.4875)).cache(64, 4096),
        // The requests of the script that drives the engine are the engine's own.
        triton("triton-bls", load(1.0, 4.0, 0.4875)).cache(64, 4096),
        // Two versions of a model with a name of the operator's.
        triton("triton-own-names", load(3.0, 12.0, 0.5)).cache(64, 8192),
        still("sample-triton", Engine::Triton, Facts { block_size: Some(64), ..load(1.0, 4.0, 0.4875) }),
    ]
}

fn other_cases() -> Vec<Case> {
    let counts = |queued, running| Facts { queued: Some(queued), running: Some(running), ..Facts::default() };
    vec![
        still("tgi-fresh", Engine::Tgi, counts(0.0, 0.0)),
        case("tgi-busy", Engine::Tgi, counts(4.0, 12.0)),
        case("sample-tgi", Engine::Tgi, counts(4.0, 12.0)),
        case("llamacpp-2024", Engine::LlamaCpp, load(5.0, 2.0, 0.75)),
        case("llamacpp-b7010", Engine::LlamaCpp, counts(5.0, 2.0)),
        refused("llamacpp-501", ReadError::Page(PageError::Json)),
        still("sample-llamacpp", Engine::LlamaCpp, counts(0.0, 1.0)),
        // Three wait to be handed to the engine, two within it.
        case("lmdeploy-pytorch", Engine::LmDeploy, load(5.0, 6.0, 0.12)).cache(64, 1911),
        case("lmdeploy-turbomind", Engine::LmDeploy, Facts { block_size: Some(64), ..load(5.0, 6.0, 0.12) }),
        still(
            "sample-lmdeploy",
            Engine::LmDeploy,
            Facts { queued: Some(0.0), kv_usage: Some(0.12), ..Facts::default() },
        ),
        refused("sgl-gateway", ReadError::UnknownEngine),
        refused("process-only", ReadError::UnknownEngine),
        refused("html", ReadError::Page(PageError::Html)),
        still("two-engines", Engine::Sglang, counts(2.0, 7.0)),
    ]
}

fn cases() -> Vec<Case> {
    [vllm_cases(), sglang_cases(), tensorrt_cases(), other_cases()].into_iter().flatten().collect()
}

fn assert_reads(body: &[u8], case: &Case, what: &str) {
    let Case { page, engine, facts, moves } = case;
    let read = read(body, None);
    assert_eq!(read.as_ref().map(|(engine, _)| *engine), engine.as_ref().copied(), "{page}{what}");
    if let Ok((engine, seen)) = read {
        assert_eq!(Facts { progress: None, ..seen.clone() }, *facts, "{page}{what}");
        assert_eq!(seen.progress.is_some(), *moves, "{page}{what}: counters");
        assert_eq!(super::read(body, Some(engine)), Ok((engine, seen)), "{page}{what}: by its engine's name");
    }
}

#[test]
fn every_page_reads_to_what_it_says() {
    for case in cases() {
        assert_reads(&fixture(&format!("pages/{}.txt", case.page)), &case, "");
    }
}

#[test]
fn every_page_reads_the_same_in_other_dress() {
    for case in cases().iter().filter(|case| case.engine.is_ok() && case.page != "llamacpp-b7010") {
        let page = String::from_utf8(fixture(&format!("pages/{}.txt", case.page))).unwrap();
        let lines = || page.lines();
        let reversed: Vec<_> = lines().rev().collect();
        assert_reads(reversed.join("\n").as_bytes(), case, ", from the end");
        let bare: Vec<_> = lines().filter(|line| !line.trim_start().starts_with('#')).collect();
        assert_reads(bare.join("\n").as_bytes(), case, ", without comments");
        assert_reads(bare.join(" \r\n").as_bytes(), case, ", with carriage returns");
        for engine in ENGINES.iter().map(|engine| engine.as_str()) {
            let renamed = page.replace(&format!("\n{engine}:"), &format!("\n{engine}_"));
            assert_reads(renamed.as_bytes(), case, ", with underscores");
        }
        let string = serde_json::to_string(&page).unwrap();
        assert_reads(string.as_bytes(), case, ", as a string of JSON");
    }
}

#[test]
fn every_page_has_a_case() {
    let folder = format!("{}/fixtures/pages", env!("CARGO_MANIFEST_DIR"));
    let mut pages: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .map(|name| name.strip_suffix(".txt").unwrap_or(&name).to_owned())
        .collect();
    let mut cases: Vec<_> = cases().iter().map(|case| case.page.to_owned()).collect();
    pages.sort();
    cases.sort();
    assert_eq!(pages, cases);
}

#[test]
fn every_engine_has_a_page() {
    for engine in ENGINES {
        assert!(cases().iter().any(|case| case.engine == Ok(*engine) && case.facts.running.is_some()), "{engine:?}");
    }
}

#[test]
fn what_is_absent_is_zero_on_a_page_of_tgi_only() {
    for engine in ENGINES {
        let expected = (*engine == Engine::Tgi).then_some(0.0);
        let facts = engine.facts(&page::parse(b"").unwrap());
        assert_eq!((facts.queued, facts.running, facts.kv_usage), (expected, expected, None), "{engine:?}");
    }
    let tgi = |page: &str| Engine::Tgi.facts(&page::parse(page.as_bytes()).unwrap());
    assert_eq!(tgi("tgi_queue_size NaN\n").queued, None, "there, and not a number");
    assert_eq!(tgi("tgi_queue_size NaN\n").running, Some(0.0));
    assert_eq!(tgi("vllm:num_requests_waiting 9\n"), Facts::default(), "another engine's page");
}

#[test]
fn the_order_of_lines_does_not_decide_whose_page_it_is() {
    let detect = |lines: &[&str]| Engine::detect(&page::parse(lines.concat().as_bytes()).unwrap());
    let (waiting, queue) = ("vllm:num_requests_waiting 1\n", "sglang:num_queue_reqs 2\n");
    let (other, deferred) = ("vllm:other_total 3\n", "llamacpp:requests_deferred 4\n");
    for (lines, expected) in [
        ([waiting, queue], Engine::Vllm),
        ([other, queue], Engine::Sglang),
        ([other, deferred], Engine::LlamaCpp),
        ([other, "tgi_other 1\n"], Engine::Vllm),
    ] {
        assert_eq!(detect(&lines), Some(expected), "{lines:?}");
        assert_eq!(detect(&[lines[1], lines[0]]), Some(expected), "{lines:?} the other way round");
    }
    assert_eq!(detect(&["nv_inference_count 1\n"]), None, "Triton without TensorRT-LLM");
    assert_eq!(detect(&["# TYPE vllm:num_requests_waiting gauge\n"]), None, "no sample");
}

#[test]
fn an_iteration_is_progress_where_counters_wait_for_a_request_to_end() {
    for (name, before, after) in [
        (
            "trtllm-1.3",
            "iteration_latency_seconds{engine_type=\"undefined\",model_name=\"undefined\"} 0.0213",
            "0.0214",
        ),
        ("triton-ensemble", "{general_type=\"iteration_counter\",model=\"tensorrt_llm\",version=\"1\"} 4211", "4212"),
    ] {
        let page = String::from_utf8(fixture(&format!("pages/{name}.txt"))).unwrap();
        let (key, _) = before.rsplit_once(' ').unwrap();
        let moved = page.replace(before, &format!("{key} {after}"));
        assert_ne!(moved, page, "{name} has no {before}");
        let progress = |page: &str| read(page.as_bytes(), None).unwrap().1.progress;
        assert_ne!(progress(&moved), progress(&page), "{name}");
        let stamped = page.replace("1795996876", "1795996999");
        assert_eq!(progress(&stamped), progress(&page), "{name}: a clock moves without the engine");
    }
}
