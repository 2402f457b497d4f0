//! Recorded pages to exact values, and the pages that have misled other readers.

mod pages;

use std::sync::Arc;

use proptest::prelude::*;

use super::*;

fn fixture(name: &str) -> Vec<u8> {
    let path = format!("{}/fixtures/{name}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn names(list: &[&str]) -> Vec<Arc<str>> {
    list.iter().map(|name| Arc::from(*name)).collect()
}

fn vllm(page: &str) -> Facts {
    Engine::Vllm.facts(&page::parse(page.as_bytes()).unwrap())
}

const VLLM_PAGES: [&str; 4] =
    ["vllm-metrics-idle.txt", "vllm-metrics-after.txt", "vllm-metrics-underload.txt", "vllm-metrics-afterload.txt"];

#[test]
fn a_recorded_page_under_load_reads_to_its_values() {
    let (engine, facts) = read(&fixture("vllm-metrics-underload.txt"), None).unwrap();
    assert_eq!(engine, Engine::Vllm);
    let expected = Facts {
        queued: Some(32.0),
        running: Some(16.0),
        kv_usage: Some(160.0 / 255.0),
        block_size: Some(32),
        blocks: Some(256),
        adapters_running: Some(names(&["lora-a", "lora-b"])),
        adapters_waiting: Some(names(&["lora-a", "lora-b"])),
        max_adapters: Some(2),
        models: None,
        awake: Some(true),
        progress: facts.progress,
    };
    assert_eq!(facts, expected);
}

#[test]
fn recorded_pages_at_rest_read_to_zeros_and_not_to_unknowns() {
    for (name, adapters, max) in [
        ("vllm-metrics-idle.txt", None, None),
        ("vllm-metrics-after.txt", Some(names(&[])), Some(2)),
        ("vllm-metrics-afterload.txt", Some(names(&[])), Some(2)),
    ] {
        let (_, facts) = read(&fixture(name), None).unwrap();
        let expected = Facts {
            queued: Some(0.0),
            running: Some(0.0),
            kv_usage: Some(0.0),
            block_size: Some(32),
            blocks: Some(256),
            adapters_running: adapters.clone(),
            adapters_waiting: adapters,
            max_adapters: max,
            models: None,
            awake: Some(true),
            progress: facts.progress,
        };
        assert_eq!(facts, expected, "{name}");
    }
}

#[test]
fn a_recorded_llama_cpp_page_reads_to_what_it_has() {
    let body = fixture("llamacpp-metrics.txt");
    let (engine, facts) = read(&body, None).unwrap();
    assert_eq!(engine, Engine::LlamaCpp);
    let progress = facts.progress;
    assert_eq!(facts, Facts { queued: Some(0.0), running: Some(0.0), progress, ..Facts::default() });

    let as_string = serde_json::to_vec(&String::from_utf8(body).unwrap()).unwrap();
    assert_eq!(read(&as_string, None), Ok((engine, facts)), "the same page as one JSON string");
}

#[test]
fn an_openmetrics_page_reads_like_the_older_format() {
    let facts = vllm(
        "# TYPE vllm:prompt_tokens counter\n# UNIT vllm:x seconds\n\
         vllm:prompt_tokens_total{model_name=\"m\",engine=\"0\"} 5 # {trace_id=\"a\"} 1 1.7e9\n\
         vllm_num_requests_waiting{engine=\"0\",model_name=\"m\"} 2\n# EOF\n",
    );
    assert_eq!(facts.queued, Some(2.0));
    let plain = vllm("vllm_prompt_tokens_total{engine=\"0\"} 5\n");
    assert_eq!(facts.progress, plain.progress, "the exemplar is no part of the counter");

    for name in VLLM_PAGES {
        let page = String::from_utf8(fixture(name)).unwrap();
        let renamed = page.replace("vllm:", "vllm_").replace('\n', "\r\n");
        assert_eq!(vllm(&renamed), vllm(&page), "{name} with underscores and CRLF");
    }
}

#[test]
fn kv_usage_is_read_under_both_names_once() {
    let old = "vllm:gpu_cache_usage_perc{model_name=\"m\"} 0.9\n";
    let new = "vllm:kv_cache_usage_perc{model_name=\"m\"} 0.9\n";
    for page in [old.to_owned(), new.to_owned(), format!("{old}{new}"), format!("{new}{old}")] {
        assert_eq!(vllm(&page).kv_usage, Some(0.9), "{page}");
    }
    let (stale, fresh) = ("vllm:gpu_cache_usage_perc 0.9\n", "vllm:kv_cache_usage_perc 0.2\n");
    assert_eq!(vllm(&format!("{stale}{fresh}")).kv_usage, Some(0.2), "the new name rules");
}

#[test]
fn engines_of_one_page_are_combined_and_none_wins() {
    let line =
        |name: &str, engine: u32, value: &str| format!("vllm:{name}{{engine=\"{engine}\",model_name=\"m\"}} {value}\n");
    let config = |engine: u32, blocks: &str| {
        format!("vllm:cache_config_info{{block_size=\"16\",engine=\"{engine}\",num_gpu_blocks=\"{blocks}\"}} 1.0\n")
    };
    let sleep = |engine: u32, awake: u32| {
        format!(
            "vllm:engine_sleep_state{{engine=\"{engine}\",sleep_state=\"awake\"}} {awake}.0\nvllm:engine_sleep_state{{engine=\"{engine}\",sleep_state=\"discard_all\"}} {}.0\n",
            1 - awake
        )
    };
    let mut lines = vec![
        line("num_requests_waiting", 0, "0"),
        line("num_requests_waiting", 1, "37"),
        line("num_requests_running", 0, "16"),
        line("num_requests_running", 1, "2"),
        line("kv_cache_usage_perc", 0, "0.1"),
        line("kv_cache_usage_perc", 1, "0.99"),
        config(0, "27841"),
        config(1, "27000"),
        sleep(0, 1),
        sleep(1, 1),
    ];
    for _ in 0..2 {
        let facts = vllm(&lines.concat());
        assert_eq!((facts.queued, facts.running, facts.kv_usage), (Some(37.0), Some(18.0), Some(0.99)));
        assert_eq!((facts.block_size, facts.blocks, facts.awake), (Some(16), Some(54841), Some(true)));
        lines.reverse();
    }
    lines.push(config(2, "None"));
    lines.push(sleep(2, 0));
    for _ in 0..2 {
        let facts = vllm(&lines.concat());
        assert_eq!((facts.blocks, facts.awake), (None, Some(false)), "one engine unknown, one asleep");
        lines.reverse();
    }
}

#[test]
fn the_newest_adapter_series_wins_and_a_missing_one_is_unknown() {
    let plain = vllm("vllm:num_requests_waiting 1\n# TYPE vllm:lora_requests_info gauge\n");
    assert_eq!((plain.queued, plain.adapters_running, plain.max_adapters), (Some(1.0), None, None));

    let series = [
        "vllm:lora_requests_info{max_lora=\"4\",running_lora_adapters=\"a\",waiting_lora_adapters=\"\"} 100\n",
        "vllm:lora_requests_info{max_lora=\"8\",running_lora_adapters=\"c, b\",waiting_lora_adapters=\" d\"} 300\n",
        "vllm:lora_requests_info{max_lora=\"4\",running_lora_adapters=\"\",waiting_lora_adapters=\"\"} 200\n",
        "vllm:lora_requests_info{max_lora=\"9\",running_lora_adapters=\"z\",waiting_lora_adapters=\"\"} NaN\n",
        "vllm:lora_requests_info{max_lora=\"9\"} 900\n",
    ];
    for order in [[0, 1, 2, 3, 4], [4, 3, 2, 1, 0], [1, 4, 0, 3, 2], [2, 0, 1, 4, 3]] {
        let facts = vllm(&order.map(|index| series[index]).concat());
        assert_eq!(facts.adapters_running, Some(names(&["b", "c"])), "{order:?}");
        assert_eq!((facts.adapters_waiting, facts.max_adapters), (Some(names(&["d"])), Some(8)), "{order:?}");
    }
}

#[test]
fn what_has_no_value_is_unknown_and_not_zero() {
    let facts = vllm(
        "vllm:num_requests_waiting{engine=\"0\"} NaN\nvllm:num_requests_running -1\nvllm:kv_cache_usage_perc +Inf\n\
         vllm:cache_config_info{block_size=\"None\",num_gpu_blocks=\"None\"} 1.0\n\
         vllm:num_requests_waiting_by_reason{reason=\"capacity\"} 5\n",
    );
    assert_eq!(facts, Facts::default());
    assert_eq!(vllm("vllm:kv_cache_usage_perc 1.0000001").kv_usage, Some(1.0), "a share is at most all of it");
    assert_eq!(vllm(""), Facts::default(), "a page without families is that of a server that starts");
}

#[test]
fn progress_moves_with_the_engine_and_not_with_the_scrape() {
    let page = String::from_utf8(fixture("vllm-metrics-underload.txt")).unwrap();
    let before = vllm(&page).progress;
    let scraped = page
        .replace("process_cpu_seconds_total 13.42", "process_cpu_seconds_total 13.99")
        .replace("http_requests_total{handler", "http_requests_total{x=\"\",handler")
        .replace("vllm:num_requests_running{engine=\"0\",model_name=\"tiny\"} 16.0", "vllm:num_requests_running 15.0");
    assert_ne!(scraped, page);
    assert_eq!(vllm(&scraped).progress, before, "a stuck engine behind a live frontend must look stuck");
    let worked = page
        .replace("generation_tokens_total{engine=\"0\",model_name=\"tiny\"} 965.0", "generation_tokens_total 966.0");
    assert_ne!(worked, page);
    assert_ne!(vllm(&worked).progress, before, "one token is progress");

    let progress = VLLM_PAGES.map(|name| read(&fixture(name), None).unwrap().1.progress);
    assert!((1..4).all(|index| !progress[..index].contains(&progress[index])), "{progress:?}");
}

#[test]
fn a_page_of_no_known_engine_says_so() {
    assert_eq!(read(b"some:num_queue_reqs 1\n", None), Err(ReadError::UnknownEngine));
    assert_eq!(read(b"vllmish 1\n", None), Err(ReadError::UnknownEngine));
    assert_eq!(read(b"", None), Err(ReadError::UnknownEngine), "empty: cannot tell");
    assert_eq!(read(b"", Some(Engine::Vllm)), Ok((Engine::Vllm, Facts::default())), "empty: known, nothing to say");
    let disabled = br#"{"error":{"code":501,"message":"...","type":"not_supported_error"}}"#;
    assert_eq!(read(disabled, Some(Engine::LlamaCpp)), Err(ReadError::Page(PageError::Json)));
    for engine in ENGINES {
        assert_eq!(Engine::named(engine.as_str()), Some(*engine));
    }
    assert_eq!(Engine::named("auto"), None);
}

#[test]
fn a_page_cut_anywhere_is_survived() {
    for name in VLLM_PAGES.into_iter().chain(["llamacpp-metrics.txt", "vllm-models.json", "llamacpp-models.json"]) {
        let body = fixture(name);
        fuzz(&body[..body.len() / 2]);
        // A cut is felt in its own line only, so each line is cut alone.
        for line in body.split_inclusive(|byte| *byte == b'\n') {
            for cut in 0..=line.len() {
                fuzz(&line[..cut]);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn the_order_of_lines_does_not_matter(which in 0..4_usize, order in prop::collection::vec(any::<u32>(), 700)) {
        let page = String::from_utf8(fixture(VLLM_PAGES[which])).unwrap();
        let second = page.replace("engine=\"0\"", "engine=\"1\"");
        let mut lines: Vec<&str> = page.lines().chain(second.lines().filter(|line| line.contains("engine="))).collect();
        let straight = vllm(&lines.join("\n"));
        let mut keys = order.iter().cycle();
        lines.sort_by_cached_key(|_| keys.next());
        prop_assert_eq!(vllm(&lines.join("\n")), straight);
    }

    #[test]
    fn any_bytes_are_survived(data in prop::collection::vec(any::<u8>(), 0..400)) {
        fuzz(&data);
    }

    #[test]
    fn any_mixture_of_syntax_is_survived(words in prop::collection::vec(prop::sample::select(vec![
        "vllm:", "vllm_", "num_requests_waiting", "sglang:num_queue_reqs", "tp_rank=\"1\"", "dp_rank=\"0\"", "priority=\"\"",
        "nv_trt_llm_request_metrics", "request_type=\"waiting\"", "tgi_queue_size", "lora_requests_info", "cache_config_info", "{", "}", "\"", "\\", "=", ",",
        "engine=\"0\"", "block_size=\"16\"", "num_gpu_blocks=\"", " ", "\n", "\r\n", "#", "1", "NaN", "1e400", "_total", "[", "<",
    ]), 0..60)) {
        fuzz(words.concat().as_bytes());
    }
}
