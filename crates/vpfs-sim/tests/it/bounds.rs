//! A number that is too large in a scenario is an error; it does not cause an endless run or exhaust memory.

use std::io;
use std::time::Duration;

use vpfs_sim::{Files, Results, Scenario, Simulation};

/// A small run, with additions before its tables, to its servers, and to its application.
fn scenario(root: &str, servers: &str, app: &str) -> String {
    format!(
        "{root}\n[[servers]]\n{servers}\n[[policy]]\nname = \"shared\"\n\
         scheduler = {{ policy = \"sfq-d\", sharing = \"threshold\" }}\n\
         [[app]]\nname = \"a\"\n{app}\n"
    )
}

fn run(text: &str) -> Result<Results, String> {
    let scenario = Scenario::parse("my.toml", text).map_err(|problems| problems.to_string())?;
    let run = Simulation::new(&scenario, &scenario.policies[0]).and_then(Simulation::run);
    run.map_err(|error| error.to_string())
}

fn refusal(root: &str, servers: &str, app: &str) -> String {
    run(&scenario(root, servers, app)).expect_err("it is too large")
}

const SMALL: &str = "ior = { processes = 2, block = \"1MiB\" }";

#[test]
fn a_run_that_needs_too_much_memory_is_refused() {
    let cases = [
        ("", "count = 100000", "copies = 50\nior = {}", "times peers of each"),
        ("", "count = 2000", "copies = 10000\nior = {}", "applications times servers"),
        ("", "", "copies = 10000\nior = { processes = 65536 }", "processes; the limit of a simulation is 1000000"),
        ("interval = \"1ms\"\nduration = \"365d\"", "", SMALL, "time series have 31536000000 intervals"),
    ];
    for (root, servers, app, expected) in cases {
        let refusal = refusal(root, servers, app);
        assert!(refusal.contains(expected), "{refusal}");
    }
    let three = scenario("", "", "copies = 9000\nior = {}") + "[[app]]\nname = \"b\"\ncopies = 9000\nior = {}\n";
    let problems = Scenario::parse("my.toml", &three).unwrap_err().to_string();
    assert!(problems.contains("app.copies: makes more than 10000 applications"), "{problems}");
}

#[test]
fn a_run_whose_series_grow_without_end_is_stopped() {
    let idle = "btio = { class = \"a\", processes = 1, iterations = 40, total = \"16KB\", think_write = \"1d\" }";
    let refusal = refusal("interval = \"1ms\"\nby_server = \"on\"", "count = 90", idle);
    assert!(refusal.contains("time series") && refusal.contains("make interval longer"), "{refusal}");
}

#[test]
fn a_run_that_nothing_ends_is_refused() {
    let background = format!("background = \"on\"\n{SMALL}");
    assert!(refusal("", "", &background).contains("add duration"));
    assert!(run(&scenario("duration = \"1s\"", "", &background)).is_ok());

    let endless = "interactive = { processes = 2, file = \"1MiB\" }";
    let problem = refusal("", "", endless);
    assert!(problem.contains("my.toml:9: app.interactive: continues until the run ends"), "{problem}");
    let files = Files { text: &|_| Err(io::Error::other("none")), log: &|_| Err("none".into()) };
    let ending = |scenario| Scenario { duration: Some(Duration::from_secs(1)), ..scenario };
    assert!(Scenario::parse_with("my.toml", &scenario("", "", endless), &files, ending).is_ok(), "the caller ends it");
    let beside = format!("background = \"on\"\n{endless}\n[[app]]\nname = \"b\"\n{SMALL}");
    for (root, app) in [("duration = \"1s\"", endless), ("", &format!("end = \"1s\"\n{endless}")), ("", &beside)] {
        assert!(run(&scenario(root, "", app)).is_ok());
    }
}

/// Data reserved on a link after the end of the run does not count as use.
#[test]
fn nothing_is_in_use_for_longer_than_the_run() {
    let load = "nodes = 4\nior = { processes = 64, transfer = \"8MiB\", block = \"64MiB\", read = \"on\" }";
    for root in ["duration = \"1s\"", "duration = \"1s\"\nnode_link = {}"] {
        let text = scenario(root, "count = 2\ndevice = \"none\"", load)
            .replace("policy = \"sfq-d\", sharing = \"threshold\"", "policy = \"fifo\"");
        let results = run(&text).unwrap();
        for server in &results.servers {
            let links = [server.inward_utilisation, server.outward_utilisation];
            assert!(
                links.iter().chain([&server.device_utilisation]).all(|used| (0.0..=1.0).contains(used)),
                "{server:?}"
            );
            assert!(links[0] > 0.9 || root.contains("node_link"), "{links:?}");
        }
    }
}

/// Once, a server's link waited for data that a client's link would send much later, and blocked everything behind it.
#[test]
fn a_client_with_a_full_link_does_not_keep_others_from_servers() {
    let app = "nodes = 1\nphases = [\"write\"]\nior = { processes = 64, transfer = \"8MiB\", block = \"1GiB\" }\n\
               [[app]]\nname = \"others\"\nnodes = 7\nphases = [\"write\"]\n\
               ior = { processes = 56, transfer = \"1MiB\", block = \"1GiB\" }";
    let text = scenario("duration = \"20s\"\nnode_link = {}", "count = 8\ndevice = \"none\"", app);
    let results = run(&text.replace("policy = \"sfq-d\", sharing = \"threshold\"", "policy = \"fifo\"")).unwrap();
    // Eight nodes, and eight servers, with 117 MB/s each.
    assert!(results.throughput() > 0.9 * 8.0 * 117e6, "{}", results.throughput());
    assert!(results.apps[0].bytes() < 20 * 117_000_000, "the single node gets no more than its link");
}

#[test]
fn contradicting_devices_are_refused() {
    let problems = |servers: &str| Scenario::parse("my.toml", &scenario("", servers, SMALL)).unwrap_err().to_string();
    let both = problems("device = \"ssd\"\nhdd = { rate = \"10MB/s\" }");
    assert!(both.contains("servers.hdd: does not match device = \"ssd\""), "{both}");
    let both = problems("volume = {}\nssd = {}");
    assert!(both.contains("servers.volume: there is also [servers.ssd]"), "{both}");
    let cache = problems("cache = { limit = \"1GiB\", background = \"2GiB\" }");
    assert!(cache.contains("servers.cache.background: exceeds limit"), "{cache}");
}
