//! The built command without servers: simulations, profiles and figures.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Output;

use serde_json::Value;
use vpfs_e2e::{Daemon, command, free_ports, output, proxy_config, run, stderr, write_file};

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
    write_file(dir.path().join("my.toml"), SCENARIO);
    write_file(dir.path().join("classes.toml"), CLASSES);
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
    write_file(dir.path().join("my.toml"), SCENARIO);
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
    write_file(dir.path().join("my.toml"), SCENARIO.replace("count", "cuont"));
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
    write_file(dir.path().join("my.toml"), SCENARIO.to_owned() + ENDLESS);
    run(&mut command(dir.path(), &["sim", "my.toml", "-q", "--alone", "--json", "a.json"]));
    let json: Value = serde_json::from_str(&file(dir.path(), "a.json")).expect("valid JSON");
    assert_eq!(json["alone"].as_array().map(|runs| runs.iter().all(|run| run["elapsed_seconds"] == 5.0)), Some(true));
}

#[test]
fn an_interrupted_simulation_keeps_its_results() {
    let dir = tempfile::tempdir().expect("a directory");
    let scenario = SCENARIO.replace("duration = \"5s\"", "duration = \"10d\"\ninterval = \"1h\"") + ENDLESS;
    write_file(dir.path().join("my.toml"), scenario);
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
    write_file(dir.path().join("my.toml"), endless);
    for option in ["--json", "--html", "--trace"] {
        let args = ["sim", "my.toml", "-q", "--policy", "today", option, "none/there"];
        let failed = output(&mut command(dir.path(), &args));
        let message = text(&failed.stderr);
        assert!(failed.status.code() == Some(1) && message.contains("cannot write none/there: "), "{message}");
    }
    write_file(dir.path().join("my.toml"), SCENARIO.to_owned() + "servers = \"7\"\n");
    let message = refused(&output(&mut command(dir.path(), &["sim", "my.toml"])));
    assert!(message.contains("my.toml:20: app.servers: there is no server 7 that holds data"), "{message}");
}

/// What one run did is the load of another, whatever recorded it.
#[test]
fn logs_are_applications() {
    let dir = tempfile::tempdir().expect("a directory");
    let write = |name: &str, text: &str| write_file(dir.path().join(name), text);
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
    write_file(dir.path().join("vpfs.toml"), proxy_config(1, 3334, 5334, settings));
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

fn write(dir: &Path, name: &str, text: &str) {
    write_file(dir.join(name), text);
}

/// The log of the paper's experiment, shorter: 16 processes, requests of `kib` KiB at random places.
fn log(op: char, kib: u64) -> String {
    let mut log = String::from("rank,op,offset,size,time,end,file\n");
    let size = kib << 10;
    for number in 0..64_u64 {
        let (rank, offset) = (number % 16, number * 37 % 64 * size);
        writeln!(log, "{rank},{op},{offset},{size},{number},{number}.5,/pfs/shared").expect("text");
    }
    log
}

/// Six disks and two flash servers that are measured, as models, have the stripes that the paper found on real ones
/// [HARL §IV-B]. They depend on times by server class to a few percent.
#[test]
fn measured_classes_get_the_papers_stripes() {
    let dir = tempfile::tempdir().expect("a directory");
    let dir = dir.path();
    let profile = |args: &[&str]| run(&mut command(dir, &[&["profile", "class"], args].concat()));
    profile(&["disk", "--model", "harl-disk", "--servers", "6", "--network", "112.36MB/s"]);
    profile(&["flash", "--model", "harl-flash", "--addresses", "tcp://oss7:3334,tcp://oss8:3334"]);
    let advise = ["layout", "advise", "run.csv", "--servers", "disk.toml", "--servers", "flash.toml"];
    for (op, disk, flash) in [('r', 32, 160), ('w', 36, 148)] {
        write(dir, "run.csv", &log(op, 512));
        let advised = run(&mut command(dir, &[&advise[..], &["--model", "paper", "--json", "-"]].concat()));
        let json: Value = serde_json::from_str(&advised).expect("valid JSON");
        let region = &json[0]["regions"][0];
        assert_eq!(region["stripes"]["disk"], disk << 10, "{json}");
        assert_eq!(region["stripes"]["flash"], flash << 10, "{json}");
    }
    write(dir, "run.csv", &log('r', 512));
    let refused = output(&mut command(dir, &[&advise[..], &["--for", "orangefs"]].concat()));
    let message = stderr(&refused);
    assert!(refused.status.code() == Some(2) && message.contains("class \"disk\" has no addresses"), "{message}");
    write(dir, "run.csv", &log('r', 128));
    let template = ["--model", "paper", "--for", "lustre-yaml", "--script", "a.lyl"];
    run(&mut command(dir, &[&advise[..], &template[..]].concat()));
    let written = std::fs::read_to_string(dir.join("a.lyl")).expect("a template");
    assert!(written.contains("\nlmm_stripe_count: 2\nlmm_stripe_size: 65536\nlmm_pool: flash\n"), "{written}");
    let again = output(&mut command(dir, &[&advise[..], &template[..]].concat()));
    let message = stderr(&again);
    assert!(again.status.code() == Some(2) && message.contains("a.lyl exists; choose another name"), "{message}");
}

#[test]
fn the_network_is_measured_between_two_commands() {
    let dir = tempfile::tempdir().expect("a directory");
    let dir = dir.path();
    let port = free_ports(1);
    let address = format!("127.0.0.1:{port}");
    let mut listening = Daemon::start(dir, "network", &mut command(dir, &["profile", "network", "--listen", &address]));
    listening.await_log("listening on");
    let told = run(&mut command(dir, &["profile", "network", &address, "--time", "200ms"]));
    assert!(told.starts_with("network: ") && told.contains("written to network.toml"), "{told}");
    run(&mut command(dir, &["profile", "class", "flash", "--model", "harl-flash", "--servers", "2"]));
    write(dir, "run.csv", &log('w', 512));
    let advise = ["layout", "advise", "run.csv", "--servers", "network.toml", "--servers", "flash.toml"];
    assert!(run(&mut command(dir, &advise)).contains("/pfs/shared"));
    let again = output(&mut command(dir, &["profile", "network", &address]));
    assert!(again.status.code() == Some(2) && stderr(&again).contains("--overwrite"));
    let without = output(&mut command(dir, &["layout", "advise", "run.csv", "--servers", "flash.toml"]));
    assert!(stderr(&without).contains("flash.toml: network is missing"), "{without:?}");
}

/// From a run's log to the same file in the advised stripes, without a mounted client; the workload finds its data.
#[test]
fn an_advised_file_is_copied_and_read_again() {
    let dir = tempfile::tempdir().expect("a directory");
    let dir = dir.path();
    let port = free_ports(4);
    let _servers = Daemon::serve(dir, port..port + 4, &[]);
    let addresses = |first: u16| format!("tcp://127.0.0.1:{},tcp://127.0.0.1:{}", port + first, port + first + 1);
    let profile = |class: &str, model: &str, first: u16| {
        let addresses = addresses(first);
        let args = ["profile", "class", class, "--model", model, "--addresses", &addresses];
        run(command(dir, &args).args(["--network", "112.36MB/s"]));
    };
    profile("disk", "harl-disk", 0);
    profile("flash", "harl-flash", 2);
    let url = format!("tcp://127.0.0.1:{port}/pfs");
    let ior = ["workload", "ior", "-q", "--url", &url, "-n", "4", "-t", "256KiB", "-b", "1MiB", "--keep"];
    run(command(dir, &ior).args(["--write", "--trace", "run.csv"]));
    let advise = ["layout", "advise", "run.csv", "--servers", "disk.toml", "--servers", "flash.toml"];
    run(command(dir, &advise).args(["--for", "orangefs", "--script", "hints.sh"]));
    let hints = std::fs::read_to_string(dir.join("hints.sh")).expect("it was written");
    let strips = hints.split_once("--strip '").and_then(|(_, rest)| rest.split_once('\'')).expect("strips").0;
    assert!(strips.contains(&format!("tcp://127.0.0.1:{}=", port + 3)), "{hints}");
    let copy = ["layout", "copy", "-q", "/ior/file.0", "/ior/file.0", "--url", &url, "--strip", strips];
    let exists = output(&mut command(dir, &copy));
    let message = stderr(&exists);
    assert!(exists.status.code() == Some(1) && message.contains("/ior/file.0 exists; name a new file"), "{message}");
    let told = run(command(dir, &copy).arg("--replace"));
    assert!(told.starts_with("/ior/file.0: 4194304 bytes, verified, sha256 "), "{told}");
    run(command(dir, &ior).arg("--read"));
    let wrong = output(command(dir, &copy[..copy.len() - 1]).args(["tcp://oss9:1=4KiB", "--replace"]));
    assert!(wrong.status.code() == Some(2) && stderr(&wrong).contains("no server tcp://oss9:1"));
}
