//! How a change is noticed.

use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::time::{Duration, Instant};

use http::Method;

use super::{reloaded, reloads};
use crate::harness::{Gateway, config_for, eventually, sims};

async fn policy(gateway: &Gateway) -> String {
    let pools = gateway.admin(Method::GET, "/pools", "").await.expect(200).json();
    pools["main"]["policy"].as_str().unwrap().to_owned()
}

async fn becomes(gateway: &Gateway, wanted: &str) {
    let what = format!("the policy is {wanted}");
    eventually(&what, async || (policy(gateway).await == wanted).then_some(())).await;
}

#[tokio::test]
async fn the_symlink_swap_of_a_config_map_is_followed() {
    let sims = sims(1).await;
    let gateway = Gateway::start(&config_for(&sims).with("policy: round_robin")).await;
    let (file, text) = (gateway.config_file(), std::fs::read_to_string(gateway.config_file()).unwrap());
    let at = |name: &str| file.with_file_name(name);
    // As the kubelet lays it out: the file is a link through `..data`, a link to a directory per version.
    for (version, policy) in [("..2026_01", "round_robin"), ("..2026_02", "ring"), ("..2026_03", "random")] {
        std::fs::create_dir(at(version)).unwrap();
        std::fs::write(at(version).join("spillway.yaml"), text.replace("round_robin", policy)).unwrap();
    }
    symlink("..2026_01", at("..data")).unwrap();
    symlink("..data/spillway.yaml", at("link")).unwrap();
    std::fs::rename(at("link"), &file).unwrap();
    for (old, new, policy) in [("..2026_01", "..2026_02", "ring"), ("..2026_02", "..2026_03", "random")] {
        symlink(new, at("..data_tmp")).unwrap();
        std::fs::rename(at("..data_tmp"), at("..data")).unwrap();
        std::fs::remove_dir_all(at(old)).unwrap();
        becomes(&gateway, policy).await;
    }
    eventually("both are counted", async || (reloads(&gateway, "applied").await == 2.0).then_some(())).await;
    assert_eq!(reloads(&gateway, "rejected").await, 0.0);
}

#[tokio::test]
async fn a_file_renamed_over_the_old_one_is_followed() {
    let sims = sims(1).await;
    let gateway = Gateway::start(&config_for(&sims).with("policy: round_robin")).await;
    let file = gateway.config_file();
    let text = std::fs::read_to_string(&file).unwrap().replace("round_robin", "ring");
    std::fs::write(file.with_extension("new"), text).unwrap();
    std::fs::rename(file.with_extension("new"), &file).unwrap();
    becomes(&gateway, "ring").await;
}

#[tokio::test]
async fn sighup_reloads() {
    let sims = sims(1).await;
    let gateway = Gateway::start(&config_for(&sims).with("policy: round_robin")).await;
    // Watching the file never finds it unchanged; only being told to look does.
    gateway.signal("HUP");
    reloaded(&gateway, "unchanged").await;
    gateway.rewrite(&config_for(&sims).with("policy: ring"));
    gateway.signal("HUP");
    becomes(&gateway, "ring").await;
}

#[tokio::test]
async fn a_file_still_being_written_is_left_alone() {
    /// Longer than several looks at the file.
    const WRITING: Duration = Duration::from_millis(1_500);
    /// With pauses below it, no two looks in a row find the same bytes.
    const PAUSE: Duration = Duration::from_millis(200);
    let sims = sims(1).await;
    let mut gateway = Gateway::start(&config_for(&sims).with("policy: round_robin")).await;
    for try_number in 1..=5 {
        let text = std::fs::read_to_string(gateway.config_file()).unwrap().replace("round_robin", "ring");
        let mut file = std::fs::File::create(gateway.config_file()).unwrap();
        // All but its last lines is a good file already.
        file.write_all(text.as_bytes()).unwrap();
        let began = Instant::now();
        let (mut last, mut longest) = (began, Duration::ZERO);
        let mut seen = Vec::new();
        while began.elapsed() < WRITING {
            let in_force = policy(&gateway).await;
            longest = longest.max(last.elapsed());
            last = Instant::now();
            seen.push(in_force);
            file.write_all(b"# and so on\n").unwrap();
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        if longest < PAUSE {
            assert!(seen.iter().all(|policy| policy == "round_robin"), "half a file was applied: {seen:?}");
            reloaded(&gateway, "applied").await;
            assert_eq!(policy(&gateway).await, "ring");
            assert_eq!(reloads(&gateway, "applied").await, 1.0, "applied in pieces");
            return;
        }
        println!("try {try_number}: the machine paused for {longest:?}");
        gateway = Gateway::start(&config_for(&sims).with("policy: round_robin")).await;
    }
    panic!("the machine is too busy to write a file without pauses");
}
