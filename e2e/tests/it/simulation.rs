//! The built command without servers: simulations, profiles and figures.

use std::path::Path;
use std::process::Output;

use serde_json::Value;
use vpfs_e2e::{Daemon, command, output, proxy_config, run};

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
    assert!(table.contains("in the scheduler") && table.contains("write × "), "{table}");
    assert!(!file(dir.path(), "a.html").contains("Run time"), "nothing finishes, so there are no bars");
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

/// A run of any length: its last application never ends.
const ENDLESS: &str =
    "[[app]]\nname = \"for-ever\"\nbackground = \"on\"\nphases = [\"write\"]\nior = { block = \"1GiB\" }\n";

/// Alone it would write for hours, but what it does while others are there ends with them.
#[test]
fn alone_an_application_runs_no_longer_than_beside_others() {
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::write(dir.path().join("my.toml"), SCENARIO.to_owned() + ENDLESS).expect("a file");
    run(&mut command(dir.path(), &["sim", "my.toml", "-q", "--alone", "--json", "a.json"]));
    let json: Value = serde_json::from_str(&file(dir.path(), "a.json")).expect("valid JSON");
    assert_eq!(json["alone"].as_array().map(|runs| runs.iter().all(|run| run["elapsed_seconds"] == 5.0)), Some(true));
}

#[test]
fn an_interrupted_simulation_keeps_its_results() {
    let dir = tempfile::tempdir().expect("a directory");
    let scenario = SCENARIO.replace("duration = \"5s\"", "duration = \"10d\"\ninterval = \"1h\"") + ENDLESS;
    std::fs::write(dir.path().join("my.toml"), scenario).expect("a file");
    let mut sim = Daemon::start(dir.path(), "sim", &mut command(dir.path(), &["sim", "my.toml", "--json", "a.json"]));
    sim.await_log(" simulated, ");
    sim.signal("INT");
    assert_eq!(sim.wait().code(), Some(1));
    assert!(sim.log().contains("(until ") && sim.log().contains("interrupted; what was complete"), "{}", sim.log());
    let json: Value = serde_json::from_str(&file(dir.path(), "a.json")).expect("valid JSON");
    assert!(json["results"][0]["apps"][2]["written_bytes"].as_u64() > Some(0), "{json}");
}

#[test]
fn a_simulation_fails_before_it_runs() {
    let dir = tempfile::tempdir().expect("a directory");
    let endless = SCENARIO.replace("duration = \"5s\"", "duration = \"365d\"\ninterval = \"1d\"") + ENDLESS;
    std::fs::write(dir.path().join("my.toml"), endless).expect("a file");
    for option in ["--json", "--html", "--trace"] {
        let args = ["sim", "my.toml", "-q", "--policy", "today", option, "none/there"];
        let failed = output(&mut command(dir.path(), &args));
        let message = text(&failed.stderr);
        assert!(failed.status.code() == Some(1) && message.contains("cannot write none/there: "), "{message}");
    }
    std::fs::write(dir.path().join("my.toml"), SCENARIO.to_owned() + "servers = \"7\"\n").expect("a file");
    let message = refused(&output(&mut command(dir.path(), &["sim", "my.toml"])));
    assert!(message.contains("my.toml:20: app.servers: there is no server 7 that holds data"), "{message}");
}

/// What one run did is the load of another, whatever recorded it.
#[test]
fn logs_are_applications() {
    let dir = tempfile::tempdir().expect("a directory");
    let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).expect("a file");
    write("my.toml", SCENARIO);
    run(&mut command(dir.path(), &["sim", "my.toml", "-q", "--policy", "today", "--trace", "own.csv"]));
    write("fio.log", "fio version 3 iolog\n0 /a add\n0 /a open\n10 /a write 0 1048576\n900000 /a read 0 4096\n");
    write(
        "dxt.txt",
        "# DXT, file_id: 1, file_name: /a\n X_POSIX 0 write 0 0 1048576 0.1 0.2\n X_POSIX 1 read 0 0 4096 0.3 0.4\n",
    );
    let (head, _) = SCENARIO.split_once("[[app]]").expect("applications");
    let app = |name: &str| format!("[[app]]\nname = \"{name}\"\nreplay = {{ log = \"{name}\" }}\n");
    write("logs.toml", &(head.replace("5s", "1h") + &["own.csv", "fio.log", "dxt.txt"].map(app).concat()));
    run(&mut command(dir.path(), &["sim", "logs.toml", "-q", "--policy", "shares", "--json", "a.json"]));
    let json: Value = serde_json::from_str(&file(dir.path(), "a.json")).expect("valid JSON");
    let bytes = |app: usize, key: &str| json["results"][0]["apps"][app][key].as_u64().expect("a number");
    let own = file(dir.path(), "own.csv")
        .lines()
        .skip(1)
        .filter_map(|line| line.split(',').nth(3)?.parse::<u64>().ok())
        .sum::<u64>();
    assert_eq!(bytes(0, "written_bytes"), own);
    for app in [1, 2] {
        assert_eq!([bytes(app, "written_bytes"), bytes(app, "read_bytes")], [1 << 20, 4096]);
    }
    write("logs.toml", &(head.to_owned() + &app("none.csv")));
    let message = refused(&output(&mut command(dir.path(), &["sim", "logs.toml"])));
    assert!(message.contains("logs.toml:13: app.replay.log: none.csv: No such file"), "{message}");
}

/// What `vpfs profile` writes is what the proxy reads.
#[test]
fn a_profile_becomes_part_of_a_configuration() {
    let dir = tempfile::tempdir().expect("a directory");
    run(&mut command(dir.path(), &["profile", "-q", "--model", "hdd", "--html", "p.html"]));
    assert!(file(dir.path(), "p.html").starts_with("<!DOCTYPE html>"));
    let settings = "[scheduler]\nprofile = \"profile.toml\"\n";
    std::fs::write(dir.path().join("vpfs.toml"), proxy_config(1, 3334, 5334, settings)).expect("a file");
    let told = run(&mut command(dir.path(), &["proxy", "--config", "vpfs.toml", "--check", "--print"]));
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
    let arguments = ["reproduce", "vpfs-plus-2", "-q", "--out", "out", "--json", "out/all.json"];
    let table = run(&mut command(dir.path(), &arguments));
    assert!(table.contains("conclusions hold (simulated)") && table.contains("out/report.html"), "{table}");
    let out = dir.path().join("out");
    assert!(file(&out, "report.html").contains("vpfs-plus.html") && file(&out, "vpfs-plus.html").contains("<svg"));
    assert!(file(&out, "report.txt").contains("conclusions hold (simulated)"));
    assert!(file(&out, "vpfs-plus-2-1.svg").contains("<svg") && !file(&out, "vpfs-plus-2-1.csv").is_empty());
    let json: Value = serde_json::from_str(&file(&out, "vpfs-plus-2.json")).expect("valid JSON");
    assert!(json["checks"][0]["verdict"].is_string() && json["conclusions"][0]["verdict"].is_string(), "{json}");
    assert!(json["made"]["processor"].is_string() && json["made"]["seconds"].is_number(), "{json}");
    let all: Value = serde_json::from_str(&file(&out, "all.json")).expect("valid JSON");
    assert_eq!(all[0], json);
    let message = refused(&output(&mut command(dir.path(), &["reproduce", "vpfs-99"])));
    assert!(message.contains("vpfs-plus-2"), "{message}");
}
