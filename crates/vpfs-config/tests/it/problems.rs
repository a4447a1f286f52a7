//! The messages that users read about an invalid file: file, line, key and remedy.

use vpfs_config::Config;

/// The problems of `text`, which follows two servers and a listener (lines 1 to 8).
fn problems_of(text: &str) -> Vec<String> {
    let valid = "[[server]]\nname = \"s1\"\naddress = \"tcp://n1:3334\"\n[[server]]\nname = \"s2\"\n\
                 address = \"tcp://n2:3334\"\n[[listener]]\nport = 5334\n";
    complaints(&format!("{valid}{text}"))
}

fn complaints(text: &str) -> Vec<String> {
    Config::parse("f", text)
        .err()
        .map(|problems| problems.to_string().lines().map(String::from).collect())
        .unwrap_or_default()
}

fn assert_problem(text: &str, expected: &str) {
    assert_eq!(problems_of(text), [expected], "of {text}");
}

#[test]
fn unknown_keys_suggest_the_near_one_or_list_all() {
    assert_problem("[scheduler]\npolcy = 1", "f:10: scheduler.polcy: unknown key; did you mean \"policy\"?");
    assert_problem("[log]\nfile = 1", "f:10: log.file: unknown key; allowed are level, format");
    assert_problem("[sheduler]", "f:9: sheduler: unknown key; did you mean [scheduler]?");
    assert_problem(
        "[[app]]\nname = \"a\"\n\"k\\n\" = 1\nuids = 1",
        "f:11: app.a.k\\n: unknown key; allowed are name, share, weight, cap, server_cap, target_rate, server_target_rate, deadline, min_rate, server_min_rate, latency, burst, exempt, clients, uids, users and 8 more",
    );
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
        ("[scheduler]\nadaptive = true", "scheduler.adaptive: found true; write \"on\""),
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
fn numbers_have_units_and_ranges() {
    let scheduler = |text| problems_of(&format!("[scheduler]\n{text}"));
    assert_eq!(scheduler("depth = 0"), ["f:10: scheduler.depth: 0 is out of range; allowed are 1 to 65536"]);
    assert_eq!(scheduler("depth = -1"), ["f:10: scheduler.depth: -1 is out of range; allowed are 1 to 65536"]);
    assert_eq!(scheduler("depth = \"14\""), ["f:10: scheduler.depth: is text; write 14 without quotes"]);
    assert_eq!(scheduler("depth = 1.5"), ["f:10: scheduler.depth: found a number; write a whole number"]);
    assert_eq!(scheduler("depth = []"), ["f:10: scheduler.depth: found a list; write a whole number"]);
    assert!(scheduler("depth = 0x1_0").is_empty());
    assert_eq!(
        scheduler("small_threshold = 131072"),
        ["f:10: scheduler.small_threshold: \"131072\" has no unit; write for example \"128KiB\""]
    );
    assert_eq!(
        scheduler("capacity = \"400MB\""),
        ["f:10: scheduler.capacity: \"400MB\" has an unknown unit; did you mean \"MB/s\"?"]
    );
    assert_problem(
        "[limits]\nreply_timeout = \"2d\"",
        "f:10: limits.reply_timeout: 2d is out of range; allowed are 1s to 1d",
    );
    assert_problem(
        "[limits]\nmemory = \"1MiB\"",
        "f:10: limits.memory: 1MiB is out of range; allowed are 16MiB to 1TiB",
    );
    assert_problem(
        "[limits]\nmemory = \"1GiB\"\nhost_memory = \"2GiB\"",
        "f:11: limits.host_memory: 2GiB is more than limits.memory, 1GiB",
    );
    assert_problem(
        "[limits]\nconnections = 5\nconnections_per_host = 6",
        "f:11: limits.connections_per_host: 6 is more than limits.connections, 5",
    );
}

#[test]
fn requests_are_held_for_a_bit_less_than_clients_wait() {
    assert_problem(
        "[limits]\nmax_hold = \"5min\"",
        "f:10: limits.max_hold: 300s is not from 150s to less than 300s, which clients wait for an answer (by default, as \
         there is no client_timeout)",
    );
    assert_problem(
        "[limits]\nclient_timeout = \"30s\"\nmax_hold = \"10s\"",
        "f:11: limits.max_hold: 10s is not from 15s to less than 30s, which clients wait for an answer \
         (limits.client_timeout)",
    );
}

#[test]
fn words_are_checked() {
    assert_problem(
        "[scheduler]\npolicy = \"sfqd\"",
        "f:10: scheduler.policy: unknown value \"sfqd\"; did you mean \"sfq-d\"?",
    );
    assert_problem("[log]\nformat = \"xml\"", "f:10: log.format: unknown value \"xml\"; allowed are text, json");
    assert_problem(
        "[log]\nlevel = 3",
        "f:10: log.level: found a number; write \"error\", \"warn\", \"info\", \"debug\", \"trace\"",
    );
}

#[test]
fn what_may_be_unstored_is_a_size_or_a_word_and_data_is_a_directory_of_a_server() {
    let limit = |value: &str| problems_of(&format!("[limits]\nwrite_back = \"{value}\"")).join("\n");
    let expected = "f:10: limits.write_back: \"much\" is neither \"auto\", \"off\" nor a size such as \"64MiB\"";
    assert_eq!(limit("much"), expected);
    assert_eq!(limit("1KiB"), "f:10: limits.write_back: 1KiB is less than 256KiB; write \"auto\", or more");
    assert_eq!(["auto", "off", "256KiB"].map(limit), [""; 3]);
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
fn servers_differ_in_name_and_address() {
    assert_problem(
        "[[server]]\nname = \"s1\"\naddress = \"tcp://n3:3334\"",
        "f:10: server.3.name: line 2 already has [[server]] \"s1\"; choose another name",
    );
    assert_problem(
        "[[server]]\nname = \"s3\"\naddress = \"tcp://N1:3334\"",
        "f:11: server.3.address: tcp://N1:3334 is already used by server \"s1\" (line 3); \
         each server needs its own address",
    );
    assert_problem(
        "[[server]]\nname = \"s3\"",
        "f:9: server.3.address: is missing; add an address such as \"tcp://10.0.0.1:3334\"",
    );
    let address = |text| problems_of(&format!("[[server]]\nname = \"s3\"\naddress = \"{text}\"")).join("\n");
    assert!(address("ib://n3:3334").contains("starts neither with \"tcp://\", for OrangeFS, nor with \"nfs://\""));
    assert!(address("tcp://n3:3334/fs").contains("has a path after its port"));
    assert!(address("tcp://[::1]:3334").contains("is an IPv6 address"));
    assert!(address("tcp://n3").contains("has no port"));
    assert!(address("tcp://n3:0").contains("has no port between 1 and 65535"));
    assert!(address("tcp://n 3:1").contains("has no valid host"));
}

#[test]
fn listeners_name_every_server_and_nobody_elses_address() {
    let listener = |text: &str| problems_of(&format!("[[listener]]\n{text}"));
    assert_eq!(
        listener("addresses = { s1 = \"tcp://n1:6\" }"),
        ["f:10: listener.2.addresses: has no address for s2; a listener needs one for every server"]
    );
    assert_eq!(
        listener("addresses = { s1 = \"tcp://n1:6\", s2 = \"tcp://n2:6\", s2x = \"\" }"),
        ["f:10: listener.2.addresses.s2x: unknown server; did you mean \"s2\"?"]
    );
    assert_eq!(
        listener("addresses = { s1 = \"tcp://n1:6\", s2 = \"nfs://n2:6\" }"),
        [
            "f:10: listener.2.addresses.s2: nfs://n2:6 does not start with \"tcp://\", as the address of server \"s2\" does"
        ]
    );
    assert_eq!(
        listener("addresses = { s1 = \"tcp://n1:6\", s2 = \"tcp://n2:3334\" }"),
        ["f:10: listener.2.addresses.s2: tcp://n2:3334 is already used by server \"s2\" (line 6); choose another port"]
    );
    assert_eq!(
        listener("addresses = { s1 = \"tcp://n1:6\", s2 = \"tcp://n2:5334\" }"),
        [
            "f:10: listener.2.addresses.s2: tcp://n2:5334 is already used by listener 1 for server \"s2\" (line 8); choose another port"
        ]
    );
    assert_eq!(
        listener("port = 3334")[1],
        "f:10: listener.2.port: tcp://n2:3334 is already used by server \"s2\" (line 6); choose another port, \
         or write addresses if servers share a host"
    );
    let many: String = (1..=64).map(|port| format!("port = {port}\n[[listener]]\n")).collect();
    assert_eq!(listener(&format!("{many}port = 65\n")), ["f:135: listener: there are 66 of them; the limit is 64"]);
    assert_eq!(
        listener("port = 6\naddresses = {}"),
        ["f:10: listener.2.port: cannot be combined with addresses; remove one of the two"]
    );
    assert!(listener("bind = \"0.0.0.0\"")[0].starts_with("f:9: listener.2.addresses: is missing; add port = 5334"));
    assert_eq!(
        listener("port = 6\nbind = \"n1\""),
        ["f:11: listener.2.bind: \"n1\" is not an IP address; write for example \"0.0.0.0\""]
    );
    assert_eq!(
        listener("port = 6\napp = \"climate\""),
        ["f:11: listener.2.app: there is no [[app]] named \"climate\"; allowed are other"]
    );
}

#[test]
fn slot_costs_do_not_overlap() {
    let rows = |text: &str| problems_of(&format!("[scheduler]\nslot_cost = [\n{text}\n]"));
    let row = "{ up_to = \"1MiB\", slots = 3 }";
    assert!(rows(row).is_empty());
    assert_eq!(
        rows(&format!("{row},\n{{ op = \"read\", up_to = \"1MiB\", slots = 4 }}")),
        ["f:12: scheduler.slot_cost.up_to: line 11 also has a row for reads up to 1MiB; remove one of them"]
    );
    assert_eq!(
        rows("{ up_to = \"64KiB\", slots = 2 }"),
        [
            "f:11: scheduler.slot_cost.up_to: is not above small_threshold (128KiB); requests up to that size take 1 slot"
        ]
    );
    assert_eq!(
        rows("{ op = \"write\", up_to = \"1MiB\", slots = 2 }"),
        ["f:10: scheduler.slot_cost: has no row for reads; add one, or omit op in a row"]
    );
    assert_eq!(rows("{ up_to = \"1MiB\" }"), ["f:11: scheduler.slot_cost.slots: is missing; add a whole number"]);
    let many: String = (1..=33).map(|mib| format!("{{ up_to = \"{mib}MiB\", slots = 3 }},")).collect();
    assert_eq!(rows(&many), ["f:10: scheduler.slot_cost: 33 size classes for one operation, at most 32 are allowed"]);
    assert_eq!(rows("7"), ["f:11: scheduler.slot_cost: found a number; write it as a table, [[scheduler.slot_cost]]"]);
}

#[test]
fn applications_are_checked() {
    let app = |text| problems_of(&format!("[[app]]\nname = \"a\"\nuids = 1\n{text}"));
    assert_eq!(app("weight = 0"), ["f:12: app.a.weight: 0 is out of range; allowed are 1 to 1000000"]);
    assert_eq!(
        app("burst = \"1MiB\""),
        ["f:12: app.a.burst: has no effect without cap or server_cap; add one or remove it"]
    );
    assert_eq!(
        app("cap = \"1MB/s\"\nburst = \"0B\""),
        ["f:13: app.a.burst: 0B is out of range; allowed are 1B to 1TiB"]
    );
    assert_eq!(
        app("cap = \"0B/s\""),
        ["f:12: app.a.cap: a cap of 0 would block all requests; remove the cap or raise it"]
    );
    assert_eq!(
        app("cap = \"25%\""),
        ["f:12: app.a.cap: a percentage needs the capacity; set capacity in [scheduler], or write a rate"]
    );
    assert_eq!(
        app("cap = \"1MB/s\"\nserver_cap = \"1MB/s\""),
        ["f:13: app.a.server_cap: cannot be together with cap, which is for the sum over all servers; remove one"]
    );
    assert_eq!(app("server_cap = \"101%\""), ["f:12: app.a.server_cap: \"101%\" is more than 100%"]);
    assert_eq!(app("cap = \"101%\""), ["f:12: app.a.cap: \"101%\" is more than 100%"]);
    assert_eq!(app("gids = []"), ["f:12: app.a.gids: is empty and would match no client; remove it to match all"]);
    assert_eq!(
        app("gids = [\"5-3\"]"),
        ["f:12: app.a.gids: expects numbers from 0 to 4294967295 and ranges such as \"1000-1999\""]
    );
    assert_eq!(
        app("[[app]]\nname = \"a\""),
        ["f:13: app.a.name: line 10 already has [[app]] \"a\"; choose another name"]
    );
    assert_eq!(app("[apps]\ndefault = \"b\""), ["f:13: apps.default: there is no [[app]] named \"b\"; allowed are a"]);
}

#[test]
fn clients_are_checked() {
    let client = |text| problems_of(&format!("[[app]]\nname = \"a\"\nclients = [\n{text}]"));
    assert_eq!(
        client("\"10.1.2.3/16\""),
        ["f:12: app.a.clients: 10.1.2.3/16 has bits set beyond its prefix; write \"10.1.0.0/16\""]
    );
    assert_eq!(
        client("\"10.1.0.0/33\""),
        ["f:12: app.a.clients: \"10.1.0.0/33\" has more bits than an IPv4 address, which has 32"]
    );
    assert_eq!(
        client("\"10.1.2.300\""),
        ["f:12: app.a.clients: \"10.1.2.300\" is not an address: 300 is more than 255; write for example \"10.1.2.3\""]
    );
    assert_eq!(client("\"c[1-\""), ["f:12: app.a.clients: \"c[1-\" has a \"[\" without \"]\""]);
    assert_eq!(
        client("\"c[1-65536]\",\n\"d1\""),
        ["f:13: app.a.clients: \"d1\" names too many hosts; 0 more are allowed"]
    );
    assert!(client("\"::1\", \"fd00::/8\", \"c[1-3]-ib\", \"10.0.0.[1-9]\"").is_empty());
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
    let exempt = |more: &str| problems_of(&format!("[[app]]\nname = \"backup\"\nuids = [0]\nexempt = \"on\"\n{more}"));
    assert_eq!(exempt(""), [""; 0]);
    for setting in ["weight = 2", "cap = \"1MB/s\"", "latency = \"5ms\""] {
        let problems = exempt(setting).join("\n");
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
    assert_eq!(problems_of("[[app]]\nname = \"a\"\nusers = \"alice\"\ngroups = [\"x@site.org\"]\n"), [""; 0]);
}

#[test]
fn shares_have_paths_and_each_is_there_once() {
    let share = |rest: &str| format!("[[share]]\n{rest}\n");
    let rule = "use 1 to 64 letters, digits, \"-\", \"_\" and \".\", and \"/\" between names";
    assert_problem(
        &share("name = \"physics//alice\""),
        &format!("f:10: share.physics//alice.name: \"physics//alice\" is not a path of shares; {rule}"),
    );
    assert_problem(
        &share("name = \"1/2/3/4/5/6/7/8/9\""),
        "f:10: share.1/2/3/4/5/6/7/8/9.name: \"1/2/3/4/5/6/7/8/9\" has 9 levels; at most 8 are possible",
    );
    assert_problem(
        &share("name = \"auto\"\nweight = 2"),
        "f:10: share.auto.name: \"auto\" is the share of automatic applications, see auto_weight; choose another name",
    );
    assert_problem(
        &(share("name = \"a\"") + &share("name = \"a\"")),
        "f:12: share.a.name: line 9 already has [[share]] \"a\"; put both together",
    );
    assert_problem(
        &share("name = \"a\"\nburst = \"1MiB\""),
        "f:11: share.a.burst: has no effect without cap or server_cap; add one or remove it",
    );
}

#[test]
fn who_looks_for_exports_is_told_how_to_tell_them_apart() {
    let problems = Config::parse("f", "[[app]]\nname = \"a\"\nexport = \"/home\"\n").unwrap_err().to_string();
    let problem = problems.lines().find(|problem| problem.contains("app.a.export")).unwrap();
    assert!(problem.starts_with("f:3: app.a.export: unknown key; see files: "), "{problem}");
    assert!(problem.ends_with("Give an export a port of its own, and write `listeners`."), "{problem}");
}
