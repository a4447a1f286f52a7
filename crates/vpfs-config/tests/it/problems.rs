//! The messages that users read about an invalid file: file, line, key and remedy.

use proptest::prelude::*;
use vpfs_config::{AppIndex, Client, Config, Identity};
use vpfs_core::OpKind;

use crate::{SITE, pairs};

/// The problems of `text`, which follows two servers and a listener (lines 1 to 8).
fn problems_of(text: &str) -> Vec<String> {
    let valid = "[[server]]\nname = \"s1\"\naddress = \"tcp://n1:3334\"\n[[server]]\nname = \"s2\"\n\
                 address = \"tcp://n2:3334\"\n[[listener]]\nport = 5334\n";
    complaints(&format!("{valid}{text}"))
}

fn complaint(text: &str) -> String {
    Config::parse("f", text).err().map(|problems| problems.to_string()).unwrap_or_default()
}

fn complaints(text: &str) -> Vec<String> {
    complaint(text).lines().map(String::from).collect()
}

/// Texts, each with its only problem.
fn assert_problems(texts: &str) {
    for (text, problem) in pairs(texts) {
        assert_eq!(problems_of(&text), [problem], "of {text}");
    }
}

#[test]
fn a_problem_has_its_place_and_remedy() {
    assert_problems(
        r#"
        [scheduler]\npolcy = 1
            f:10: scheduler.polcy: unknown key; did you mean "policy"?
        [log]\nfile = 1
            f:10: log.file: unknown key; allowed are level, format
        [sheduler]
            f:9: sheduler: unknown key; did you mean [scheduler]?

        [scheduler]\npolicy = "sfqd"
            f:10: scheduler.policy: unknown value "sfqd"; did you mean "sfq-d"?
        [log]\nformat = "xml"
            f:10: log.format: unknown value "xml"; allowed are text, json
        [log]\nlevel = 3
            f:10: log.level: found a number; write "error", "warn", "info", "debug", "trace"

        [scheduler]\ndepth = 0
            f:10: scheduler.depth: 0 is out of range; allowed are 1 to 65536
        [scheduler]\ndepth = -1
            f:10: scheduler.depth: -1 is out of range; allowed are 1 to 65536
        [scheduler]\ndepth = "14"
            f:10: scheduler.depth: is text; write 14 without quotes
        [scheduler]\ndepth = 1.5
            f:10: scheduler.depth: found a number; write a whole number
        [scheduler]\ndepth = []
            f:10: scheduler.depth: found a list; write a whole number
        [scheduler]\nsmall_threshold = 131072
            f:10: scheduler.small_threshold: "131072" has no unit; write for example "128KiB"
        [scheduler]\ncapacity = "400MB"
            f:10: scheduler.capacity: "400MB" has an unknown unit; did you mean "MB/s"?
        [limits]\nreply_timeout = "2d"
            f:10: limits.reply_timeout: 2d is out of range; allowed are 1s to 1d
        [limits]\nmemory = "1MiB"
            f:10: limits.memory: 1MiB is out of range; allowed are 16MiB to 1TiB
        [limits]\nmemory = "1GiB"\nhost_memory = "2GiB"
            f:11: limits.host_memory: 2GiB is more than limits.memory, 1GiB
        [limits]\nconnections = 5\nconnections_per_host = 6
            f:11: limits.connections_per_host: 6 is more than limits.connections, 5
        [limits]\nmax_hold = "5min"
            f:10: limits.max_hold: 300s is not from 150s to less than 300s, which clients wait for an answer (by default, as there is no client_timeout)
        [limits]\nclient_timeout = "30s"\nmax_hold = "10s"
            f:11: limits.max_hold: 10s is not from 15s to less than 30s, which clients wait for an answer (limits.client_timeout)
        [limits]\nwrite_back = "much"
            f:10: limits.write_back: "much" is neither "auto", "off" nor a size such as "64MiB"
        [limits]\nwrite_back = "1KiB"
            f:10: limits.write_back: 1KiB is less than 256KiB; write "auto", or more

        [scheduler]\nslot_cost = [\n{ up_to = "1MiB", slots = 3 },\n{ op = "read", up_to = "1MiB", slots = 4 }]
            f:12: scheduler.slot_cost.up_to: line 11 also has a row for reads up to 1MiB; remove one of them
        [scheduler]\nslot_cost = [\n{ up_to = "64KiB", slots = 2 }]
            f:11: scheduler.slot_cost.up_to: is not above small_threshold (128KiB); requests up to that size take 1 slot
        [scheduler]\nslot_cost = [\n{ op = "write", up_to = "1MiB", slots = 2 }]
            f:10: scheduler.slot_cost: has no row for reads; add one, or omit op in a row
        [scheduler]\nslot_cost = [\n{ up_to = "1MiB" }]
            f:11: scheduler.slot_cost.slots: is missing; add a whole number
        [scheduler]\nslot_cost = [\n7]
            f:11: scheduler.slot_cost: found a number; write it as a table, [[scheduler.slot_cost]]

        [[server]]\nname = "s1"\naddress = "tcp://n3:3334"
            f:10: server.3.name: line 2 already has [[server]] "s1"; choose another name
        [[server]]\nname = "s3"\naddress = "tcp://N1:3334"
            f:11: server.3.address: tcp://N1:3334 is already used by server "s1" (line 3); each server needs its own address
        [[server]]\nname = "s3"
            f:9: server.3.address: is missing; add an address such as "tcp://10.0.0.1:3334"

        [[listener]]\naddresses = { s1 = "tcp://n1:6" }
            f:10: listener.2.addresses: has no address for s2; a listener needs one for every server
        [[listener]]\naddresses = { s1 = "tcp://n1:6", s2 = "tcp://n2:6", s2x = "" }
            f:10: listener.2.addresses.s2x: unknown server; did you mean "s2"?
        [[listener]]\naddresses = { s1 = "tcp://n1:6", s2 = "nfs://n2:6" }
            f:10: listener.2.addresses.s2: nfs://n2:6 does not start with "tcp://", as the address of server "s2" does
        [[listener]]\naddresses = { s1 = "tcp://n1:6", s2 = "tcp://n2:3334" }
            f:10: listener.2.addresses.s2: tcp://n2:3334 is already used by server "s2" (line 6); choose another port
        [[listener]]\naddresses = { s1 = "tcp://n1:6", s2 = "tcp://n2:5334" }
            f:10: listener.2.addresses.s2: tcp://n2:5334 is already used by listener 1 for server "s2" (line 8); choose another port
        [[listener]]\nport = 6\naddresses = {}
            f:10: listener.2.port: cannot be combined with addresses; remove one of the two
        [[listener]]\nport = 6\nbind = "n1"
            f:11: listener.2.bind: "n1" is not an IP address; write for example "0.0.0.0"
        [[listener]]\nport = 6\napp = "climate"
            f:11: listener.2.app: there is no [[app]] named "climate"; allowed are other

        [[app]]\nname = "a"\nuids = 1\nweight = 0
            f:12: app.a.weight: 0 is out of range; allowed are 1 to 1000000
        [[app]]\nname = "a"\nuids = 1\nburst = "1MiB"
            f:12: app.a.burst: has no effect without cap or server_cap; add one or remove it
        [[app]]\nname = "a"\nuids = 1\ncap = "1MB/s"\nburst = "0B"
            f:13: app.a.burst: 0B is out of range; allowed are 1B to 1TiB
        [[app]]\nname = "a"\nuids = 1\ncap = "0B/s"
            f:12: app.a.cap: a cap of 0 would block all requests; remove the cap or raise it
        [[app]]\nname = "a"\nuids = 1\ncap = "25%"
            f:12: app.a.cap: a percentage needs the capacity; set capacity in [scheduler], or write a rate
        [[app]]\nname = "a"\nuids = 1\ncap = "1MB/s"\nserver_cap = "1MB/s"
            f:13: app.a.server_cap: cannot be together with cap, which is for the sum over all servers; remove one
        [[app]]\nname = "a"\nuids = 1\nserver_cap = "101%"
            f:12: app.a.server_cap: "101%" is more than 100%
        [[app]]\nname = "a"\nuids = 1\ncap = "101%"
            f:12: app.a.cap: "101%" is more than 100%
        [[app]]\nname = "a"\nuids = 1\ngids = []
            f:12: app.a.gids: is empty and would match no client; remove it to match all
        [[app]]\nname = "a"\nuids = 1\ngids = ["5-3"]
            f:12: app.a.gids: expects numbers from 0 to 4294967295 and ranges such as "1000-1999"
        [[app]]\nname = "a"\nuids = 1\n[[app]]\nname = "a"
            f:13: app.a.name: line 10 already has [[app]] "a"; choose another name
        [[app]]\nname = "a"\nuids = 1\n[apps]\ndefault = "b"
            f:13: apps.default: there is no [[app]] named "b"; allowed are a

        [[app]]\nname = "a"\nclients = [\n"10.1.2.3/16"]
            f:12: app.a.clients: 10.1.2.3/16 has bits set beyond its prefix; write "10.1.0.0/16"
        [[app]]\nname = "a"\nclients = [\n"c[1-"]
            f:12: app.a.clients: "c[1-" has a "[" without "]"
        [[app]]\nname = "a"\nclients = [\n"c[1-65536]",\n"d1"]
            f:13: app.a.clients: "d1" names too many hosts; 0 more are allowed

        [[share]]\nname = "physics//alice"
            f:10: share.physics//alice.name: "physics//alice" is not a path of shares; use 1 to 64 letters, digits, "-", "_" and ".", and "/" between names
        [[share]]\nname = "1/2/3/4/5/6/7/8/9"
            f:10: share.1/2/3/4/5/6/7/8/9.name: "1/2/3/4/5/6/7/8/9" has 9 levels; at most 8 are possible
        [[share]]\nname = "auto"\nweight = 2
            f:10: share.auto.name: "auto" is the share of automatic applications, see auto_weight; choose another name
        [[share]]\nname = "a"\n[[share]]\nname = "a"
            f:12: share.a.name: line 9 already has [[share]] "a"; put both together
        [[share]]\nname = "a"\nburst = "1MiB"
            f:11: share.a.burst: has no effect without cap or server_cap; add one or remove it
        "#,
    );
}

#[test]
fn a_long_list_of_keys_is_cut() {
    assert_eq!(
        problems_of("[[app]]\nname = \"a\"\n\"k\\n\" = 1\nuids = 1"),
        [
            "f:11: app.a.k\\n: unknown key; allowed are name, share, weight, cap, server_cap, target_rate, server_target_rate, deadline, min_rate, server_min_rate, latency, burst, exempt, clients, uids, users and 8 more"
        ]
    );
}

#[test]
fn what_is_right_is_no_problem() {
    for text in [
        "[scheduler]\ndepth = 0x1_0",
        "[limits]\nwrite_back = \"auto\"",
        "[limits]\nwrite_back = \"off\"",
        "[limits]\nwrite_back = \"256KiB\"",
        "[scheduler]\nslot_cost = [{ up_to = \"1MiB\", slots = 3 }]",
        "[[app]]\nname = \"a\"\nclients = [\"::1\", \"fd00::/8\", \"c[1-3]-ib\", \"10.0.0.[1-9]\"]",
        "[[app]]\nname = \"backup\"\nuids = [0]\nexempt = \"on\"\n",
        "[[app]]\nname = \"a\"\nusers = \"alice\"\ngroups = [\"x@site.org\"]\n",
    ] {
        assert_eq!(problems_of(text), [""; 0], "of {text}");
    }
}

/// Symptom: `sharing = "global"` suggested "local", which is the opposite; `[[apps]]` and `uids = ["alice"]` were
/// refused without a word on `[[app]]` and `users`; `latency = "10"` suggested ten seconds.
#[test]
fn what_is_meant_is_said() {
    for (text, said) in [
        ("[[apps]]\nname = \"a\"", "f:9: apps: found a list; did you mean [[app]]? There is also [apps]: "),
        ("[[servers]]", "servers: unknown key; did you mean [[server]]?"),
        ("[[shedulers]]", "shedulers: unknown key; did you mean [scheduler]?"),
        ("[[scheduler]]\ndepth = 1", "f:9: scheduler: found a list; write it as a table, [scheduler]"),
        ("[app]\nname = \"a\"", "f:9: app: found one table; there may be several, so write [[app]]"),
        ("[app]\nauto = \"uid\"", "auto: unknown key; it belongs to [apps]"),
        ("[scheduler]\nsharing = \"global\"", "allowed are local, threshold, layout. Shares per server (`local`), or"),
        ("[scheduler]\nmode = \"enforce\"", "allowed are manage, observe. `observe` holds nothing"),
        ("[scheduler]\nmode = \"observ\"", "unknown value \"observ\"; did you mean \"observe\"?"),
        ("[[app]]\nname = \"a\"\nexempt = true", "app.a.exempt: found true; write \"on\""),
        ("[scheduler]\nwindow = \"10\"", "\"10\" has no unit; write for example \"10s\""),
        ("[limits]\nmemory = 64", "\"64\" has no unit; write for example \"64MiB\""),
        ("[limits]\nreply_timeout = \"300\"", "\"300\" has no unit; write for example \"300s\""),
        ("[[app]]\nname = \"a\"\nlatency = \"10\"", "\"10\" has no unit; write for example \"10ms\""),
        ("[[app]]\nname = \"a\"\nlatency = \"low\"", "is not a number with a unit; write for example \"10ms\""),
        ("[[app]]\nname = \"a\"\nuids = [\"alice\"]", "app.a.uids: \"alice\" is a name; write users = [\"alice\"]"),
        ("[[app]]\nname = \"a\"\ngids = \"staff\"", "\"staff\" is a name; write groups = [\"staff\"]"),
        ("[[app]]\nname = \"a\"\nuids = [-1]", "expects numbers from 0 to 4294967295"),
    ] {
        let problems = problems_of(text).join("\n");
        assert!(problems.contains(said), "{text}: {problems}");
    }
}

#[test]
fn what_requests_do_not_tell_is_explained() {
    let app = |rule: &str| problems_of(&format!("[[app]]\nname = \"a\"\n{rule}")).join("\n");
    for (rule, said) in [
        (
            "files = \"home/**\"",
            "f:11: app.a.files: is known of programs that use a mount only: requests of OrangeFS and NFS carry handles",
        ),
        ("programs = \"/bin/x\"", "requests tell a host, a user and groups"),
        ("operations = [\"read\", \"open\"]", "f:11: app.a.operations: expects \"read\", \"write\" or \"metadata\""),
        ("listeners = [5334, 5335]", "f:11: app.a.listeners: no [[listener]] has port 5335; their ports are 5334"),
        ("listeners = \"5334\"", "expects the ports of listeners"),
        ("users = \"svc-*\"", "write a group"),
        ("[[match]]\napp = \"a\"", "f:12: match.1.app: has nothing to match here"),
        ("[[match]]\napp = \"b\"\nuids = 1", "f:12: match.1.app: there is no [[app]] named \"b\"; allowed are a"),
        ("[[match]]\nuids = 1", "f:11: match.1.app: is missing"),
        ("[[match]]\napp = \"a\"\nweight = 2\nuids = 1", "f:13: match.1.weight: unknown key; it belongs to"),
    ] {
        assert!(app(rule).contains(said), "{rule}: {}", app(rule));
    }
}

#[test]
fn data_is_a_directory_of_a_server() {
    let server = |address: &str, data: &str, rest: &str| {
        complaints(&format!("[[server]]\nname = \"s\"\naddress = \"{address}\"\ndata = \"{data}\"\n{rest}")).join("\n")
    };
    let listener = "[[listener]]\nport = 5334\n";
    let expected = "f:4: server.1.data: \"srv\" is not absolute; write for example \"/srv/export\"";
    assert_eq!(server("tcp://n:3334", "srv", listener), expected);
    assert_eq!(server("tcp://n:3334", "/srv", listener), "");
    let expected = "f:4: server.1.data: has no effect for a mount, whose source `vpfs mount` names; remove it";
    assert_eq!(server("mount://n", "/srv", ""), expected);
}

#[test]
fn a_file_needs_servers_and_listeners() {
    let complaints = complaints("");
    assert!(complaints[0].starts_with("f: listener: is missing; add a [[listener]]"), "{complaints:?}");
    assert!(complaints[1].starts_with("f: server: is missing; add one [[server]]"), "{complaints:?}");
}

#[test]
fn addresses_of_servers_are_checked() {
    for (address, said) in [
        ("ib://n3:3334", "starts neither with \"tcp://\", for OrangeFS, nor with \"nfs://\""),
        ("tcp://n3:3334/fs", "has a path after its port"),
        ("tcp://[::1]:3334", "is an IPv6 address"),
        ("tcp://n3", "has no port"),
        ("tcp://n3:0", "has no port between 1 and 65535"),
        ("tcp://n 3:1", "has no valid host"),
    ] {
        let problems = problems_of(&format!("[[server]]\nname = \"s3\"\naddress = \"{address}\"")).join("\n");
        assert!(problems.contains(said), "{problems}");
    }
}

#[test]
fn listeners_and_slot_costs_are_bounded() {
    let listener = |text: &str| problems_of(&format!("[[listener]]\n{text}"));
    assert_eq!(
        listener("port = 3334")[1],
        "f:10: listener.2.port: tcp://n2:3334 is already used by server \"s2\" (line 6); choose another port, \
         or write addresses if servers share a host"
    );
    let many: String = (1..=64).map(|port| format!("port = {port}\n[[listener]]\n")).collect();
    assert_eq!(listener(&format!("{many}port = 65\n")), ["f:135: listener: there are 66 of them; the limit is 64"]);
    assert!(listener("bind = \"0.0.0.0\"")[0].starts_with("f:9: listener.2.addresses: is missing; add port = 5334"));
    let many: String = (1..=33).map(|mib| format!("{{ up_to = \"{mib}MiB\", slots = 3 }},")).collect();
    assert_eq!(
        problems_of(&format!("[scheduler]\nslot_cost = [{many}]")),
        ["f:10: scheduler.slot_cost: 33 size classes for one operation, at most 32 are allowed"]
    );
}

#[test]
fn all_problems_are_reported_in_the_order_of_lines() {
    let text = "[scheduler]\ndepth = 0\npolicy = \"x\"\n[log]\nlevle = 1\n";
    let lines: Vec<_> = problems_of(text).iter().map(|problem| problem[..4].to_owned()).collect();
    assert_eq!(lines, ["f:10", "f:11", "f:13"]);
}

#[test]
fn a_flood_of_problems_is_cut() {
    let text: String = (0..1000).map(|n| format!("key{n} = 1\n")).collect();
    let complaints = complaints(&text);
    assert_eq!(complaints.len(), 51);
    assert_eq!(complaints[50], "f: and 952 more problems");
}

#[test]
fn large_files_are_refused() {
    let text = "#".repeat((1 << 20) + 1);
    assert_eq!(complaints(&text), ["f: is larger than 1MiB; is it the right file?"]);
    assert!(
        Config::load("/nowhere/vpfs.toml".as_ref())
            .unwrap_err()
            .to_string()
            .starts_with("/nowhere/vpfs.toml: cannot be read")
    );
}

/// Symptom: `vpfs sim /dev/zero` took all memory. Cause: only configurations had a limit.
#[test]
fn no_more_of_a_file_is_read_than_the_limit() {
    let endless = vpfs_config::read_text("/dev/zero".as_ref()).unwrap_err().to_string();
    assert_eq!(endless, "its 1048577 bytes are more than the limit of 1MiB; is it the right file?");
    let problems = Config::load("/dev/zero".as_ref()).unwrap_err().to_string();
    assert_eq!(problems, format!("/dev/zero: cannot be read: {endless}"));
    let folder = tempfile::tempdir().unwrap();
    let (config, profile) = (folder.path().join("vpfs.toml"), folder.path().join("p.toml"));
    std::fs::write(&config, "[scheduler]\nprofile = \"p.toml\"\n").unwrap();
    std::fs::write(&profile, "#".repeat(2 << 20)).unwrap();
    let problems = Config::load(&config).unwrap_err().to_string();
    assert!(problems.contains("p.toml") && problems.contains("2097152 bytes are more than the limit"), "{problems}");
}

/// Symptom: the name of an application could clear the terminal of the administrator who checks a file.
#[test]
fn control_characters_of_a_file_do_not_reach_the_terminal() {
    for (text, shown) in [
        ("[[app]]\nname = \"\\u001b[2J\"\nweight = 0\n", "app.\\u{1b}[2J.weight"),
        ("[\"\\u001b[2J\"]\n", "\\u{1b}[2J: unknown key"),
        ("[apps]\ndefault = \"\\u009b31m\\u202e\"\n", "\\u{9b}31m\\u{202e}"),
        ("[scheduler]\npolicy = \"a\\rb\"\n", "\\r"),
        ("x = \u{1b}[2J\n", "f:9"),
    ] {
        let problems = problems_of(text).join("\n");
        assert!(problems.contains(shown), "{problems:?}");
        assert!(!problems.chars().any(|c| c != '\n' && c.is_control() || c == '\u{202e}'), "{problems:?}");
    }
    let file = Config::load("/nowhere/\u{1b}[2J".as_ref()).unwrap_err().to_string();
    assert!(file.starts_with("/nowhere/\\u{1b}[2J: cannot be read"), "{file:?}");
}

#[test]
fn an_exempt_application_has_no_share_and_no_limit() {
    for setting in ["weight = 2", "cap = \"1MB/s\"", "latency = \"5ms\""] {
        let text = format!("[[app]]\nname = \"backup\"\nuids = [0]\nexempt = \"on\"\n{setting}");
        let problems = problems_of(&text).join("\n");
        assert!(problems.contains("has no effect with exempt = \"on\"; remove one of them"), "{problems}");
    }
}

#[test]
fn names_of_users_are_no_numbers() {
    for (key, wrong) in [("users", "[3001]"), ("users", "\"3001\""), ("groups", "[\"a:b\"]"), ("users", "[\" alice\"]")]
    {
        let problems = problems_of(&format!("[[app]]\nname = \"a\"\n{key} = {wrong}\n")).join("\n");
        assert!(problems.contains("expects names as getent shows them"), "{key} = {wrong}: {problems}");
    }
}

#[test]
fn who_looks_for_exports_is_told_how_to_tell_them_apart() {
    let problems = Config::parse("f", "[[app]]\nname = \"a\"\nexport = \"/home\"\n").unwrap_err().to_string();
    let problem = problems.lines().find(|problem| problem.contains("app.a.export")).unwrap();
    assert!(problem.starts_with("f:3: app.a.export: unknown key; see files: "), "{problem}");
    assert!(problem.ends_with("Give an export a port of its own, and write `listeners`."), "{problem}");
}

const SERVER: &str = "[[server]]\nname = \"s1\"\naddress = \"tcp://n1:3334\"\n";

/// The warnings of `text`, which follows one server and one listener (lines 1 to 5).
fn warnings(text: &str) -> Vec<String> {
    warnings_of(&format!("{SITE}{text}"))
}

fn warnings_of(text: &str) -> Vec<String> {
    let config = Config::parse("f", text).unwrap_or_else(|problems| panic!("{problems}"));
    config.warnings.to_string().lines().map(String::from).collect()
}

/// Applications `a`, `b`, ... with these rules, each in three lines: from line 6, 9, ...
fn apps(rules: &[&str]) -> String {
    let app = |(name, rule): (char, &&str)| format!("[[app]]\nname = \"{name}\"\n{rule}\n");
    ('a'..).zip(rules).map(app).collect()
}

#[test]
fn keys_that_the_policy_ignores_are_named() {
    for (scheduler, expected) in [
        (
            "depth = 9",
            "f:7: scheduler.depth: has no effect with the policy isolation, only with sfq-d, sfq-d-plus, two-level, ioco; remove it",
        ),
        (
            "policy = \"two-level\"\nsharing = \"layout\"",
            "f:8: scheduler.sharing: has no effect with the policy two-level, only with sfq-d, sfq-d-plus, isolation; remove it",
        ),
        (
            "policy = \"sfq-d\"\nbackfill = \"paper\"",
            "f:8: scheduler.backfill: has no effect with the policy sfq-d, only with sfq-d-plus; remove it",
        ),
        (
            "policy = \"fifo\"\nwindow = \"2s\"",
            "f:8: scheduler.window: has no effect with the policy fifo, only with ioco; remove it",
        ),
        (
            "broadcast_threshold = \"1MiB\"",
            "f:7: scheduler.broadcast_threshold: has no effect with sharing = \"local\"; remove it, or choose another sharing",
        ),
        ("policy = \"sfq-d\"\ndepth = 9\nsharing = \"threshold\"\nbroadcast_threshold = \"1MiB\"", ""),
        ("metadata_depth = 3\nmetadata_cost = \"1KiB\"", ""),
    ] {
        let found = warnings(&format!("[scheduler]\n{scheduler}\n")).join("\n");
        assert!(
            found.lines().all(|line| line.contains("keeps promises")) && expected.is_empty()
                || found.contains(expected),
            "{found}"
        );
    }
    assert_eq!(
        warnings(&format!(
            "{}[scheduler]\npolicy = \"sfq-d-plus\"\n",
            apps(&["uids = 1\nlatency = \"1ms\"", "uids = 2\nlatency = \"1ms\""])
        )),
        [
            "f:9: app.a.latency: has no effect with the policy sfq-d-plus, only with isolation; remove it (so do 1 more [[app]])"
        ]
    );
    assert_eq!(
        warnings("[apps]\nauto = \"off\"\nauto_limit = 5\n"),
        ["f:8: apps.auto_limit: has no effect with auto = \"off\"; remove it"]
    );
}

#[test]
fn slot_costs_beyond_the_depth_are_cut() {
    assert_eq!(
        warnings("[scheduler]\npolicy = \"sfq-d-plus\"\nslot_cost = [{ up_to = \"1MiB\", slots = 20 }]"),
        ["f:8: scheduler.slot_cost.slots: 20 exceeds depth; 14 is used"]
    );
}

#[test]
fn applications_without_clients_are_named() {
    assert_eq!(
        warnings("[[app]]\nname = \"a\"\n"),
        ["f:7: app.a: no client can belong to this application; give it clients, uids, gids or a listener"]
    );
    let both = format!("{SERVER}[[listener]]\nport = 5334\napp = \"a\"\n{}", apps(&["", "clients = \"127.0.0.1\""]));
    assert_eq!(
        warnings_of(&both),
        [
            "f:11: app.b: no client can belong to this application: each listener has an app, which goes before clients, \
          uids and gids; give this one a listener, or remove app from one"
        ]
    );
    assert_eq!(warnings_of(&format!("{both}[[listener]]\nport = 5335\n")), [""; 0]);
}

#[test]
fn rules_that_others_hide_are_named() {
    let hidden = |line: usize, app: &str, by: &str| {
        vec![format!(
            "f:{line}: app.{app}: no client can belong to it: {by} comes first and has all of them; put the narrower one first"
        )]
    };
    let together = |line: usize, app: &str, by: &str| {
        vec![format!("f:{line}: app.{app}: no client can belong to it: {by} come first and together have all of them")]
    };
    let shared = |line: usize, app: &str, common: &str, by: &str| {
        vec![format!(
            "f:{line}: app.{app}: {common} is also in {by}, which comes first and gets it; remove it from one of them"
        )]
    };
    let a = "\"a\" (line 7)";
    for (rules, expected) in [
        (vec!["clients = \"0.0.0.0/0\"", "clients = \"10.1.0.0/16\""], hidden(10, "b", a)),
        (vec!["clients = \"0.0.0.0/0\"", "clients = \"c[1-2]\""], hidden(10, "b", a)),
        (vec!["clients = \"0.0.0.0/0\"", "uids = 5"], hidden(10, "b", a)),
        (vec!["clients = \"10.0.0.0/8\"", "clients = [\"10.1.0.0/16\", \"10.2.0.7\"]"], hidden(10, "b", a)),
        (vec!["clients = \"10.0.0.0/8\"", "clients = \"10.1.0.0/16\"\nuids = 5"], hidden(10, "b", a)),
        (vec!["clients = \"127.0.0.1\"", "clients = \"127.0.0.1\""], hidden(10, "b", a)),
        (vec!["clients = \"c[1-9]\"", "clients = \"c[3-4]\""], hidden(10, "b", a)),
        (vec!["uids = \"0-4294967295\"", "uids = 7"], hidden(10, "b", a)),
        (vec!["uids = \"1000-1999\"", "uids = [1000, 1001]"], hidden(10, "b", a)),
        (vec!["gids = [5, 6]", "gids = 6\nuids = 1"], hidden(10, "b", a)),
        (
            vec!["clients = \"10.0.0.0/9\"", "clients = \"10.128.0.0/9\"", "clients = \"10.0.0.0/8\""],
            together(13, "c", "\"a\" (line 7), \"b\" (line 10)"),
        ),
        (
            vec!["uids = \"0-4\"", "uids = \"5-9\"", "uids = \"3-7\"\ngids = 1"],
            together(13, "c", "\"a\" (line 7), \"b\" (line 10)"),
        ),
        (
            vec!["clients = [\"10.1.0.0/16\", \"10.2.0.0/16\"]", "clients = [\"10.2.3.0/24\", \"10.3.0.0/16\"]"],
            shared(10, "b", "10.2.3.0-10.2.3.255", a),
        ),
        (vec!["clients = \"c[1-4]\"", "clients = \"c[4-9]\""], shared(10, "b", "c4", a)),
        (vec!["uids = \"1-4\"", "uids = \"4-9\""], shared(10, "b", "4", a)),
        (
            vec!["uids = \"1-4\"\nclients = \"10.0.0.0/8\"", "uids = \"4-9\"\nclients = \"10.1.0.0/16\""],
            shared(11, "b", "10.1.0.0-10.1.255.255", a),
        ),
        // Exceptions before the rule, and rules of different kinds.
        (vec!["clients = \"10.1.0.7\"", "clients = \"10.1.0.0/16\""], vec![]),
        (vec!["clients = \"10.1.0.0/16\"", "clients = \"0.0.0.0/0\""], vec![]),
        (vec!["uids = 0", "clients = \"10.1.0.0/16\"", "gids = 7"], vec![]),
        (vec!["uids = \"0-4\"", "uids = \"5-9\"", "uids = \"0-10\""], vec![]),
        (vec!["clients = \"10.1.0.0/16\"\nuids = 1", "clients = \"10.1.0.0/16\"\nuids = 2"], vec![]),
    ] {
        assert_eq!(warnings(&apps(&rules)), expected, "of {rules:?}");
    }
}

#[test]
fn many_rules_are_compared_in_time() {
    let many: String =
        (0..9000).map(|n| format!("[[app]]\nname = \"a{n}\"\nclients = \"10.0.{}.{}\"\n", n / 250, n % 250)).collect();
    assert_eq!(warnings(&many), [""; 0]);
}

/// Networks and users of a few, so that they overlap often.
fn rule() -> impl Strategy<Value = String> {
    let nets = prop::collection::vec((0_u8..4, 29_u8..=32), 1..3);
    let nets = nets.prop_map(|nets| {
        let net = |(last, bits): (u8, u8)| format!("\"10.0.0.{}/{bits}\"", last & !((1 << (32 - bits)) - 1));
        format!("clients = [{}]\n", nets.into_iter().map(net).collect::<Vec<_>>().join(", "))
    });
    let ids = |key: &'static str| {
        (0_u32..4, 0_u32..3).prop_map(move |(low, more)| format!("{key} = \"{low}-{}\"\n", low + more))
    };
    let parts = (prop::option::of(nets), prop::option::of(ids("uids")), prop::option::of(ids("gids")));
    parts.prop_map(|(nets, uids, gids)| [nets, uids, gids].into_iter().flatten().collect::<String>())
}

proptest! {
    /// An application that is said to have no client has none, and one that is not hidden by a single other one has.
    #[test]
    fn what_is_said_of_rules_is_true(rules in prop::collection::vec(rule(), 1..4)) {
        let rules: Vec<&str> = rules.iter().map(String::as_str).filter(|rule| !rule.is_empty()).collect();
        let text = format!("{SITE}{}", apps(&rules));
        let config = Config::parse("f", &text).unwrap();
        let who = config.resolve(&|_| vec![]);
        let mut reached = vec![false; rules.len()];
        for ip in 0..10_u8 {
            for uid in 0..8 {
                for gid in 0..8 {
                    if let Identity::App(AppIndex(app)) = who.identify(&Client { listener: 0, ip: [10, 0, 0, ip].into(), uid: Some(uid), gids: &[gid], machine: "", op: OpKind::Read })
                        && let Some(reached) = reached.get_mut(app)
                    {
                        *reached = true;
                    }
                }
            }
        }
        let warnings = config.warnings.to_string();
        for (name, reached) in ('a'..).zip(reached) {
            let hidden = warnings.contains(&format!("app.{name}: no client can belong"));
            prop_assert!(!(hidden && reached), "{}: {}", text, warnings);
            // Sets in several parts need not be recognised.
            prop_assert!(hidden || reached || rules.len() > 2, "{}: {}", text, warnings);
        }
    }
}

#[test]
fn each_fault_has_one_message_at_its_place() {
    for (text, expected) in [
        // Brackets.
        (
            "[scheduler]\nslot_cost = [\n    { up_to = \"512KiB\", slots = 2 },\n\n[apps]\nauto = \"uid\"\n[[app]]\nname = \"a\"",
            "f:2: the \"[\" here is not closed; add \"]\"",
        ),
        (
            "[[app]]\nname = \"a\"\nclients = [\"c1\", \"c2\"\nweight = 4\nuids = [1]\n",
            "f:3: the \"[\" here is not closed; add \"]\"",
        ),
        (
            "[[listener]]\naddresses = { s1 = \"tcp://n1:1\"\n[scheduler]\ndepth = 1\n",
            "f:2: the \"{\" here is not closed; add \"}\"",
        ),
        ("[[app]]\nclients = [\"c1\"\n", "f:2: unclosed array, expected `]`: \"clients = [\\\"c1\\\"\""),
        (
            "[[app]]\nname = \"a [\" # [\nclients = [\"c1\" \"c2\"]\n",
            "f:3: missing comma between array elements, expected `,`: \"clients = [\\\"c1\\\" \\\"c2\\\"]\"",
        ),
        // Headers.
        (
            "[app]\nname = \"a\"\n[app]\nname = \"b\"\n[app]\nname = \"c\"\n",
            "f:3: line 1 has [app], too; write [[app]] for each",
        ),
        ("[[app]]\nname = \"a\"\n[app] # b\nname = \"b\"\n", "f:3: line 1 has [[app]], too; write [[app]] for each"),
        ("[log]\nlevel = \"warn\"\n[scheduler]\n[log]\n", "f:4: line 1 has [log], too; put all its keys there"),
        // What the parser says.
        ("[[app]]\ncap = 100MB/s\n", "f:2: string values must be quoted, expected literal string: \"cap = 100MB/s\""),
        ("[scheduler]\ndepth = 14\ndepth = 15\n", "f:3: duplicate key: \"depth = 15\""),
    ] {
        assert_eq!(complaint(text), expected, "of {text}");
        let windows = text.replace('\n', "\r\n");
        assert_eq!(complaint(&windows), expected, "of {windows:?}");
        let later = format!("\u{feff}# ünï\n{text}");
        let line = |text: &str| text[2..].split(':').next().and_then(|line| line.parse::<usize>().ok());
        assert_eq!(line(&complaint(&later)), line(expected).map(|line| line + 1), "of {later}");
    }
}

#[test]
fn tabs_windows_line_ends_and_a_byte_order_mark_are_no_faults() {
    let text = format!("\u{feff}{SITE}\t[[app]]\n\tname\t=\t\"a\"\t# x\n\tuids = [\n\t\t1,\t2,\n\t]\n");
    assert_eq!(complaint(&text), "");
    assert_eq!(complaint(&text.replace('\n', "\r\n")), "");
}

#[test]
fn keys_at_the_wrong_place_are_sent_to_the_right_one() {
    let after = |text: &str| complaint(&format!("{SITE}{text}"));
    assert_eq!(complaint(&format!("depth = 14\n{SITE}")), "f:1: depth: unknown key; it belongs to [scheduler]");
    assert_eq!(
        complaint(&format!("port = 14\n{SITE}")),
        "f:1: port: unknown key; it belongs to [[listener]] or [peers]"
    );
    assert_eq!(after("[log]\nweight = 1\n"), "f:7: log.weight: unknown key; it belongs to [[share]] or [[app]]");
    assert_eq!(after("[[scheduler]]\ndepth = 1\n"), "f:6: scheduler: found a list; write it as a table, [scheduler]");
    assert_eq!(after("[scheduler.depth]\n"), "f:6: scheduler.depth: found a table; write a whole number");
}

#[test]
fn other_encodings_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("vpfs.toml");
    let complaint = |bytes: &[u8]| {
        std::fs::write(&file, bytes).unwrap();
        Config::load(&file).unwrap_err().list[0].message.clone()
    };
    let utf16: Vec<u8> = "\u{feff}[log]\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
    assert_eq!(
        complaint(&utf16),
        "cannot be read: it is UTF-16 text; convert it, for example with `iconv -f UTF-16 -t UTF-8`"
    );
    assert_eq!(complaint(b"[log]\n# B\xfcro\n"), "cannot be read: it is not UTF-8 text: line 2 has the byte 0xfc");
}

/// A good file that loses or gains one character.
fn damaged() -> impl Strategy<Value = String> {
    let good = include_str!("../../../../examples/caps.toml");
    let places: Vec<usize> = good.char_indices().map(|(at, _)| at).collect();
    let more = prop::sample::select(vec!["", "[", "]", "{", "}", "\"", "=", ",", "#", "\n", "x", "\\", "\r"]);
    (prop::sample::select(places), any::<bool>(), more).prop_map(move |(at, removed, more)| {
        let after = if removed { good[at..].chars().next().map_or(at, |c| at + c.len_utf8()) } else { at };
        format!("{}{more}{}", &good[..at], &good[after..])
    })
}

proptest! {
    /// Not more than one message, except for problems of values.
    #[test]
    fn one_character_more_or_less_gives_one_message(text in damaged()) {
        let found = complaint(&text);
        let is_syntax = toml::de::DeTable::parse(&text).is_err();
        prop_assert!(!is_syntax || found.lines().count() == 1, "{}", found);
    }
}
