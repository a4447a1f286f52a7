//! The built command without servers: simulations, profiles and figures.

use std::path::Path;
use std::process::Output;

use serde_json::Value;
use vpfs_e2e::{command, output, proxy_config, run};

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A user's mistake ends with code 2.
fn refused(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    text(&output.stderr)
}

fn file(dir: &Path, name: &str) -> String {
    std::fs::read_to_string(dir.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

const SCENARIO: &str = r#"
duration = "5s"
[[servers]]
count = 2
[[policy]]
name = "today"
scheduler = { policy = "fifo" }
[[policy]]
name = "shares"
scheduler = { policy = "sfq-d", depth = 4 }
[[app]]
name = "heavy"
weight = 3
phases = ["write"]
ior = { processes = 8, transfer = "1MiB", block = "64MiB", file = "per-process", time_limit = "5s" }
[[app]]
name = "light"
phases = ["write"]
ior = { processes = 8, transfer = "1MiB", block = "64MiB", file = "per-process", time_limit = "5s" }
"#;

const CLASSES: &str = r#"
network = "117MB/s"
[[class]]
name = "disk"
servers = 2
read = { startup_min = "1ms", startup_max = "14ms", rate = "180MB/s" }
write = { startup_min = "1ms", startup_max = "14ms", rate = "160MB/s" }
[[class]]
name = "flash"
servers = 1
read = { startup_min = "80us", startup_max = "200us", rate = "2GB/s" }
write = { startup_min = "90us", startup_max = "600us", rate = "1GB/s" }
"#;

#[test]
fn a_simulation_writes_a_log_that_is_advised_on() {
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::write(dir.path().join("my.toml"), SCENARIO).expect("a file");
    std::fs::write(dir.path().join("classes.toml"), CLASSES).expect("a file");
    let both = refused(&output(&mut command(dir.path(), &["sim", "my.toml", "-q", "--trace", "run.csv"])));
    assert!(both.contains("--trace: a log is of one run; choose one with --policy of today, shares"), "{both}");
    run(&mut command(dir.path(), &["sim", "my.toml", "-q", "--policy", "today", "--trace", "run.csv"]));
    let log = file(dir.path(), "run.csv");
    let advise = ["layout", "advise", "run.csv", "--servers", "classes.toml", "--json", "-"];
    let advice: Value = serde_json::from_str(&run(&mut command(dir.path(), &advise))).expect("valid JSON");
    let files = advice.as_array().expect("a list");
    let has = |name: &str| files.iter().any(|file| file["file"] == name);
    assert!(files.len() == 16 && has("/heavy/file.0") && has("/light/file.7"), "each file has its own answer");
    let requests: u64 = files
        .iter()
        .flat_map(|file| file["regions"].as_array().expect("a list"))
        .map(|region| region["requests"].as_u64().expect("a number"))
        .sum();
    assert_eq!((requests > 100, requests), (true, log.lines().count() as u64 - 1));
}

#[test]
fn a_simulation_prints_draws_and_repeats() {
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::write(dir.path().join("my.toml"), SCENARIO).expect("a file");
    let args = ["sim", "my.toml", "-q", "--alone", "--compare", "today,shares", "--json", "a.json", "--html", "a.html"];
    let table = run(&mut command(dir.path(), &args));
    for expected in ["heavy", "light", "Relative to each application alone", "Relative to today"] {
        assert!(table.contains(expected), "no {expected} in\n{table}");
    }
    assert!(file(dir.path(), "a.html").starts_with("<!DOCTYPE html>"));
    run(&mut command(dir.path(), &["sim", "my.toml", "-q", "--alone", "--json", "b.json"]));
    assert_eq!(file(dir.path(), "a.json"), file(dir.path(), "b.json"), "equal seeds give equal results");
    let json: Value = serde_json::from_str(&file(dir.path(), "a.json")).expect("valid JSON");
    let bytes = |app: usize| json["results"][1]["apps"][app]["written_bytes"].as_f64().expect("a number");
    let ratio = bytes(0) / bytes(1);
    assert!((2.7..3.3).contains(&ratio), "weights 3:1 gave {ratio}");
}

#[test]
fn a_wrong_scenario_is_refused_with_place_and_fix() {
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::write(dir.path().join("my.toml"), SCENARIO.replace("count", "cuont")).expect("a file");
    let message = refused(&output(&mut command(dir.path(), &["sim", "my.toml"])));
    assert!(message.contains("my.toml:4:") && message.contains("did you mean \"count\""), "{message}");
    let message = refused(&output(&mut command(dir.path(), &["sim", "/dev/zero"])));
    assert!(message.contains("/dev/zero cannot be read") && message.contains("limit of 1MiB"), "{message}");
    let message = refused(&output(&mut command(dir.path(), &["sim", "--policy", "sfq"])));
    assert!(message.contains("sfq-d-plus"), "{message}");
}

/// What `vpfs profile` writes is what the proxy reads.
#[test]
fn a_profile_becomes_part_of_a_configuration() {
    let dir = tempfile::tempdir().expect("a directory");
    run(&mut command(dir.path(), &["profile", "-q", "--model", "hdd", "--html", "p.html"]));
    assert!(file(dir.path(), "p.html").starts_with("<!DOCTYPE html>"));
    let settings = "[scheduler]\nprofile = \"profile.toml\"\n";
    std::fs::write(dir.path().join("vpfs.toml"), proxy_config(1, 3334, 5334, settings)).expect("a file");
    let told = run(&mut command(dir.path(), &["proxy", "--config", "vpfs.toml", "--check"]));
    let depth =
        file(dir.path(), "profile.toml").lines().find_map(|line| line.strip_prefix("depth = ").map(String::from));
    let depth = depth.expect("a depth");
    assert!(told.lines().any(|line| line.contains("depth") && line.contains(&depth)), "{told}");
    std::fs::remove_file(dir.path().join("profile.toml")).expect("it was there");
    let message = refused(&output(&mut command(dir.path(), &["proxy", "--config", "vpfs.toml", "--check"])));
    assert!(message.contains("vpfs profile"), "{message}");
}

#[test]
fn a_figure_is_reproduced_with_verdicts_data_and_pictures() {
    let dir = tempfile::tempdir().expect("a directory");
    let list = run(&mut command(dir.path(), &["reproduce", "--list"]));
    assert!(list.lines().any(|line| line.starts_with("vpfs-plus-2 ")), "{list}");
    let table = run(&mut command(dir.path(), &["reproduce", "vpfs-plus-2", "-q", "--out", "out"]));
    assert!(table.contains("rows with a paper's value agree") && table.contains("out/report.html"), "{table}");
    let out = dir.path().join("out");
    assert!(file(&out, "report.html").contains("<svg"));
    assert!(file(&out, "report.txt").contains("rows with a paper's value agree"));
    assert!(file(&out, "vpfs-plus-2-1.svg").contains("<svg") && !file(&out, "vpfs-plus-2-1.csv").is_empty());
    let json: Value = serde_json::from_str(&file(&out, "vpfs-plus-2.json")).expect("valid JSON");
    assert!(json["checks"][0]["verdict"].is_string(), "{json}");
    let message = refused(&output(&mut command(dir.path(), &["reproduce", "vpfs-99"])));
    assert!(message.contains("vpfs-plus-2"), "{message}");
}
