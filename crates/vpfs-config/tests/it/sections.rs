//! How `[scheduler]` and `[[app]]` configure each policy.

use std::io;
use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use vpfs_config::{Config, HostSet, Metrics, PeerSecurity};
use vpfs_core::{Backfill, Bytes, Minimum, PolicyKind, Scope, Settings, SharingMode, Target, WindowOrder};

use crate::SITE;

/// `app` are the keys of the only application, `scheduler` those of `[scheduler]`.
fn parse(scheduler: &str, app: &str) -> Result<Config, String> {
    let text = format!("{SITE}[apps]\ndefault = \"a\"\n[[app]]\nname = \"a\"\n{app}\n[scheduler]\n{scheduler}");
    let files = |name: &str| match name {
        "disk.toml" => Ok("[scheduler]\ndepth = 20\nslot_cost = [{ up_to = \"1MiB\", slots = 7 }]\n".to_owned()),
        "wrong.toml" => Ok("[scheduler]\npolicy = \"fifo\"\n".to_owned()),
        _ => Err(io::Error::from(io::ErrorKind::NotFound)),
    };
    Config::parse_with("f", &text, &files).map_err(|problems| problems.to_string())
}

fn settings(scheduler: &str) -> Settings {
    parse(scheduler, "").unwrap().scheduler.policy
}

fn problem(scheduler: &str, app: &str) -> String {
    parse(scheduler, app).unwrap_err()
}

fn depth_and_cost(scheduler: &str) -> (u32, u32) {
    let settings = settings(scheduler);
    let cost = settings.slot_costs.slot_cost(vpfs_core::OpKind::Write, Bytes::mib(1));
    (settings.depth.get(), cost.get())
}

#[test]
fn without_a_word_the_defaults_are_the_cores() {
    let core = settings("");
    assert_eq!(core, Settings::new(PolicyKind::Isolation, core.depth, core.slot_costs.clone()));
}

#[test]
fn every_policy_and_way_of_sharing_has_a_name() {
    let names = PolicyKind::NAMES;
    assert_eq!(names.map(|name| settings(&format!("policy = {name:?}")).kind), PolicyKind::ALL);
    let modes = ["local", "threshold", "layout"].map(|name| settings(&format!("sharing = {name:?}")).sharing.mode);
    assert_eq!(modes, [SharingMode::Local, SharingMode::Threshold, SharingMode::Layout]);
}

#[test]
fn all_parameters_are_taken() {
    let settings = settings(
        "backfill = \"paper\"\nsharing = \"threshold\"\nbroadcast_threshold = \"512KiB\"\nmetadata_threshold = 7\n\
         min_local_share = \"2.5%\"\nmetadata_depth = 3\nreplenish_period = \"100ms\"\ncontrol_window = \"2s\"\n\
         outstanding_max = 50\nwindow = \"250ms\"\nwindow_order = \"paper\"",
    );
    assert_eq!(settings.backfill, Backfill::Paper);
    assert_eq!(settings.sharing.broadcast_threshold, Bytes::kib(512));
    assert_eq!((settings.sharing.metadata_threshold, settings.sharing.min_local_share_ppm), (7, 25_000));
    assert_eq!(settings.metadata_depth.map(|depth| depth.get()), Some(3));
    let two_level = settings.two_level;
    assert_eq!((two_level.replenish_period.as_millis(), two_level.control_window.as_secs()), (100, 2));
    assert_eq!((two_level.outstanding_max, settings.ioco.window.as_millis()), (50, 250));
    assert_eq!(settings.ioco.order, WindowOrder::Paper);
}

#[test]
fn a_least_share_is_a_percentage() {
    for (text, ppm) in [("0%", 0), ("100%", 1_000_000), (" 0.01 % ", 100)] {
        assert_eq!(settings(&format!("min_local_share = {text:?}")).sharing.min_local_share_ppm, ppm);
    }
    for text in ["1", "101%", "-1%", "x%"] {
        let expected = format!("f:12: scheduler.min_local_share: {text:?} is not a share from \"0%\" to \"100%\"");
        assert_eq!(problem(&format!("min_local_share = {text:?}"), ""), expected);
    }
}

#[test]
fn a_profile_supplies_missing_keys() {
    assert_eq!(depth_and_cost("profile = \"disk.toml\""), (20, 7));
    assert_eq!(depth_and_cost("profile = \"disk.toml\"\ndepth = 9"), (9, 7));
    assert_eq!(depth_and_cost("profile = \"disk.toml\"\nslot_cost = [{ up_to = \"1MiB\", slots = 2 }]"), (20, 2));
}

#[test]
fn problems_of_a_profile_are_reported_with_their_place() {
    assert_eq!(
        problem("profile = \"wrong.toml\"", ""),
        "f:12: scheduler.profile: wrong.toml:2: scheduler.policy: unknown key; allowed are depth, small_threshold, slot_cost"
    );
    let missing = problem("profile = \"none.toml\"", "");
    assert!(missing.starts_with("f:12: scheduler.profile: none.toml cannot be read: "), "{missing}");
}

#[test]
fn a_profile_that_changes_shows_in_the_diff() {
    let [with, without] = ["profile = \"disk.toml\"", ""].map(|text| parse(text, "").unwrap());
    let changes: Vec<_> = without.diff(&with).live.into_iter().map(|change| change.key).collect();
    assert_eq!(changes, ["scheduler.depth", "scheduler.profile", "scheduler.slot_cost"]);
}

#[test]
fn a_promise_has_a_rate_and_a_deadline() {
    let app = "target_rate = \"40MB/s\"\ndeadline = \"100ms\"";
    let config = parse("policy = \"two-level\"", app).unwrap();
    let target = Target { rate: Bytes(40_000_000), scope: Scope::Total, deadline: Duration::from_millis(100) };
    assert_eq!(config.apps[0].target, Some(target));
    let server = parse("policy = \"two-level\"", &format!("server_{app}")).unwrap();
    assert_eq!(server.apps[0].target, Some(Target { scope: Scope::Server, ..target }));
    assert_eq!(config.warnings.to_string(), "");
    assert_eq!(
        problem("policy = \"two-level\"", "deadline = \"100ms\""),
        "f:10: app.a.deadline: has no effect without target_rate or server_target_rate; add one or remove this"
    );
    for key in ["target_rate", "server_target_rate"] {
        let text = format!("f:10: app.a.{key}: has no effect without deadline; add it or remove this");
        assert_eq!(problem("policy = \"two-level\"", &format!("{key} = \"1MB/s\"")), text);
    }
    assert_eq!(
        problem("policy = \"two-level\"", &format!("{app}\nserver_target_rate = \"1MB/s\"")),
        "f:12: app.a.server_target_rate: cannot be together with target_rate, which is for the sum over all servers; \
         remove one"
    );
}

#[test]
fn promises_and_policies_that_do_not_meet_are_warned_of() {
    let warning = |scheduler, app| parse(scheduler, app).unwrap().warnings.to_string();
    assert_eq!(
        warning("policy = \"two-level\"", ""),
        "f:11: scheduler.policy: two-level keeps promises to applications, but no [[app]] has target_rate and deadline"
    );
    assert_eq!(
        warning("", "target_rate = \"1MB/s\"\ndeadline = \"1s\""),
        "f:10: app.a.target_rate: has no effect with the policy isolation, only with two-level; remove it\n\
         f:11: app.a.deadline: has no effect with the policy isolation, only with two-level; remove it"
    );
}

#[test]
fn a_minimum_is_for_all_servers_or_for_each() {
    let minimum = |key: &str| {
        let config = parse("", &format!("{key} = \"40MB/s\"")).unwrap();
        assert_eq!(config.warnings.to_string(), "");
        config.apps[0].minimum.unwrap()
    };
    assert_eq!(minimum("min_rate"), Minimum { rate: Bytes(40_000_000), scope: Scope::Total });
    assert_eq!(minimum("server_min_rate"), Minimum { rate: Bytes(40_000_000), scope: Scope::Server });
    assert_eq!(
        problem("", "min_rate = \"1MB/s\"\nserver_min_rate = \"1MB/s\""),
        "f:11: app.a.server_min_rate: cannot be together with min_rate, which is for the sum over all servers; remove one"
    );
    assert_eq!(
        problem("", "cap = \"1MB/s\"\nmin_rate = \"2MB/s\""),
        "f:11: app.a.min_rate: is more than its cap; lower it, or raise the cap"
    );
    let ignored = parse("policy = \"sfq-d\"", "min_rate = \"1MB/s\"").unwrap().warnings.to_string();
    assert_eq!(ignored, "f:10: app.a.min_rate: has no effect with the policy sfq-d, only with isolation; remove it");
}

#[test]
fn rates_of_a_share_are_for_all_servers_or_for_each() {
    let policy = |keys: &str| {
        let config = parse("", &format!("[[share]]\nname = \"p\"\n{keys}")).unwrap();
        assert_eq!(config.warnings.to_string(), "");
        config.shares[0].policy
    };
    let total = policy("cap = \"2MB/s\"\nmin_rate = \"1MB/s\"");
    assert_eq!(total.minimum, Some(Minimum { rate: Bytes(1_000_000), scope: Scope::Total }));
    assert_eq!(total.cap, vpfs_core::Cap::new(2_000_000, Bytes::mib(16)).map(vpfs_core::Cap::over_all_servers));
    let server = policy("server_cap = \"2MB/s\"\nserver_min_rate = \"1MB/s\"");
    assert_eq!(server.minimum, Some(Minimum { rate: Bytes(1_000_000), scope: Scope::Server }));
    assert_eq!(server.cap, vpfs_core::Cap::new(2_000_000, Bytes::mib(16)));
}

/// One server; the application is in p/q.
#[test]
fn minima_in_a_share_are_no_more_than_its_own() {
    let problem_of = |scheduler: &str, app: &str, shares: [&str; 2]| {
        let [p, q] = shares.map(|keys| format!("{keys}\n"));
        let text = format!("share = \"p/q\"\n{app}\n[[share]]\nname = \"p\"\n{p}[[share]]\nname = \"p/q\"\n{q}");
        parse(scheduler, &text).map(drop).map_err(|problems| problems.lines().next().unwrap().to_owned())
    };
    let within = |app, shares| problem_of("", app, shares);
    let less = |place: &str, sum: &str| {
        let message = format!("is less than what has minima in it needs together, {sum}; raise it, or lower those");
        Err(format!("f:{place}: {message}"))
    };
    assert_eq!(within("min_rate = \"4MB/s\"", ["min_rate = \"9MB/s\"", "min_rate = \"5MB/s\""]), Ok(()));
    assert_eq!(
        within("min_rate = \"6MB/s\"", ["min_rate = \"9MB/s\"", "min_rate = \"5MB/s\""]),
        less("17: share.p/q.min_rate", "6MB/s")
    );
    assert_eq!(
        within("min_rate = \"6MB/s\"", ["server_min_rate = \"5MB/s\"", ""]),
        less("14: share.p.server_min_rate", "6MB/s"),
        "one server may have all of it"
    );
    assert_eq!(
        within("server_min_rate = \"6MB/s\"", ["min_rate = \"5MB/s\"", ""]),
        less("14: share.p.min_rate", "6MB/s"),
        "on one server"
    );
    assert_eq!(
        within("", ["cap = \"5MB/s\"", "min_rate = \"6MB/s\""]),
        less("14: share.p.cap", "6MB/s"),
        "it could not be kept"
    );
    let of_all = |p: &str| problem_of("capacity = \"10MB/s\"", "min_rate = \"6MB/s\"", [p, "min_rate = \"8MB/s\""]);
    assert_eq!(of_all("min_rate = \"10MB/s\""), Ok(()), "what is in it is not counted again");
    assert!(of_all("min_rate = \"11MB/s\"").unwrap_err().contains("together is 11MB/s, but all servers have 10MB/s"));
    let own = "f:15: share.p.min_rate: is more than its cap; lower it, or raise the cap";
    assert_eq!(within("", ["cap = \"1MB/s\"\nmin_rate = \"2MB/s\"", ""]), Err(own.to_owned()));
}

#[test]
fn promises_beyond_the_capacity_are_refused() {
    assert_eq!(
        problem("capacity = \"100MB/s\"", "min_rate = \"101MB/s\""),
        "f: app: the min_rate of all applications together is 101MB/s, but all servers have 100MB/s by \
         scheduler.capacity; lower some"
    );
    assert!(parse("capacity = \"100MB/s\"", "server_min_rate = \"100MB/s\"").is_ok());
    assert_eq!(
        problem(
            "policy = \"two-level\"\ncapacity = \"100MB/s\"",
            "server_target_rate = \"101MB/s\"\ndeadline = \"1s\""
        ),
        "f: app: the server_target_rate of all applications together is 101MB/s, but each server has 100MB/s by \
         scheduler.capacity; lower some"
    );
}

#[test]
fn observing_holds_nothing_and_checks_all() {
    let text = "[scheduler]\nmode = \"observe\"\nmetadata_depth = 4\n\
                [[app]]\nname = \"a\"\nclients = \"10.0.1.1\"\ncap = \"1MB/s\"\nlatency = \"5ms\"\n";
    let config = config(&format!("{SITE}{text}"));
    let scheduler = &config.scheduler;
    assert_eq!((scheduler.policy.kind, scheduler.observed), (PolicyKind::Fifo, Some(PolicyKind::Isolation)));
    assert_eq!((scheduler.policy.metadata_depth, config.apps[0].cap), (None, None));
    assert!(config.apps[0].latency.is_some(), "what is late is counted");
    assert!(config.warnings.list.is_empty(), "what will have an effect later is no mistake: {}", config.warnings);
    let wrong = text.replace("1MB/s", "1MB");
    assert!(
        Config::parse("f", &format!("{SITE}{wrong}")).is_err(),
        "so that the mode can be changed without surprises"
    );
}

const SERVERS: &str = "[[server]]\nname = \"s1\"\naddress = \"tcp://10.0.0.1:3334\"\n\
                       [[server]]\nname = \"s2\"\naddress = \"tcp://oss2:3334\"\n[[listener]]\nport = 5334\n";

fn parse_peers(peers: &str) -> Result<Config, String> {
    Config::parse("t", &format!("{SERVERS}{peers}")).map_err(|problems| problems.to_string())
}

#[test]
fn a_port_is_on_the_hosts_of_the_servers() {
    assert_eq!(parse_peers("").unwrap().peers, None);
    let peers = parse_peers("[peers]\nport = 7334\nshared_key = \"peers.key\"\n").unwrap().peers.unwrap();
    assert_eq!(peers.addresses, [("10.0.0.1".into(), 7334), ("oss2".into(), 7334)]);
    assert_eq!(peers.security, PeerSecurity::SharedKey("peers.key".into()));
    assert_eq!((peers.cluster.as_str(), peers.sockets.as_path()), ("vpfs", Path::new("/run/vpfs")));
}

#[test]
fn addresses_are_by_server() {
    let text = "[peers]\naddresses = { s2 = \"[::1]:2\", s1 = \"a.b:1\" }\nsecurity = \"none\"\n";
    let peers = parse_peers(text).unwrap().peers.unwrap();
    assert_eq!(peers.addresses, [("a.b".into(), 1), ("::1".into(), 2)]);
    assert_eq!(peers.security, PeerSecurity::None);
}

#[test]
fn problems_say_what_to_write() {
    let problems = [
        ("port = 7334\n", "peers.security: needs shared_key"),
        ("shared_key = \"k\"\n", "peers.addresses: is missing"),
        ("security = \"none\"\nport = 7\nshared_key = \"k\"\n", "peers.shared_key: has no effect"),
        ("security = \"certificates\"\nport = 7\nauthority = \"k\"\n", "needs certificate, private_key"),
        ("security = \"tls\"\nport = 7\n", "unknown value"),
        ("security = \"none\"\naddresses = { s1 = \"a:1\" }\n", "has no address for s2"),
        ("security = \"none\"\naddresses = { s1 = \"a:1\", s2 = \"a:1\", s3 = \"a:1\" }\n", "unknown server"),
        ("security = \"none\"\naddresses = { s1 = \"a:0\", s2 = \"tcp://a:1\" }\n", "is not an address"),
        ("security = \"none\"\naddresses = 5\n", "peers.addresses: found a number"),
        ("security = \"none\"\nport = 7\ncluster = \"\"\n", "is not a name"),
        ("security = \"none\"\nport = 7\nbind = \"x\"\n", "is not an IP address"),
    ];
    for (text, expected) in problems {
        let found = parse_peers(&format!("[peers]\n{text}")).unwrap_err();
        assert!(found.contains(expected), "{text}: {found}");
    }
}

#[test]
fn paths_are_relative_to_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("vpfs.toml");
    let text = "[peers]\nport = 1\nshared_key = \"k\"\nsockets = \"/run/x\"\n";
    std::fs::write(&file, format!("{SERVERS}{text}")).unwrap();
    let peers = Config::load(&file).unwrap().peers.unwrap();
    assert_eq!(peers.security, PeerSecurity::SharedKey(folder.path().join("k")));
    assert_eq!(peers.sockets, Path::new("/run/x"));
}

fn metrics(text: &str) -> Option<Metrics> {
    config(&format!("{SITE}{text}")).metrics
}

fn problem_metrics(text: &str) -> String {
    Config::parse("f", &format!("{SITE}[metrics]\n{text}")).expect_err(text).to_string()
}

#[test]
fn metrics_are_off_by_default() {
    assert_eq!(metrics(""), None);
    assert_eq!(metrics("[metrics]\n"), None);
    let listen = metrics("[metrics]\nlisten = \"[::1]:9334\"\n").map(|metrics| metrics.listen.to_string());
    assert_eq!(listen.as_deref(), Some("[::1]:9334"));
}

#[test]
fn other_hosts_need_a_token() {
    for address in ["0.0.0.0:9334", "10.0.0.1:9334", "[::]:9334", "[::ffff:10.0.0.1]:9334"] {
        let text = format!("listen = {address:?}\n");
        let problem = problem_metrics(&text);
        let expected = format!("f:7: metrics.listen: \"{address}\" can be reached from other hosts");
        assert!(problem.starts_with(&expected) && problem.contains("add token ="), "{problem}");
        let found = metrics(&format!("[metrics]\n{text}token = \"a.token\"\n")).and_then(|metrics| metrics.token);
        assert_eq!(found.as_deref(), Some(Path::new("a.token")));
    }
}

#[test]
fn nonsense_is_refused_with_place_and_fix() {
    for text in ["listen = \"localhost:9334\"\n", "listen = \"127.0.0.1:0\"\n", "listen = \"127.0.0.1\"\n"] {
        assert!(problem_metrics(text).contains("write for example \"127.0.0.1:9334\""), "{}", problem_metrics(text));
    }
    assert!(problem_metrics("token = \"a\"\n").contains("has no effect without listen"));
}

/// The page shows more than metrics, and a browser sends no token: it needs its key everywhere.
#[test]
fn the_page_is_off_by_default_and_needs_a_key() {
    let web = |text: &str| Config::parse("f", &format!("{SITE}[web]\n{text}")).map(|config| config.web);
    assert_eq!(web("").ok(), Some(None));
    let found = web("listen = \"127.0.0.1:9335\"\nkey = \"web.key\"\n").ok().flatten().map(|web| web.key);
    assert_eq!(found.as_deref(), Some(Path::new("web.key")));
    for (text, fix) in [
        ("listen = \"127.0.0.1:9335\"\n", "openssl rand"),
        ("key = \"web.key\"\n", "add listen ="),
        ("listen = \"9335\"\nkey = \"k\"\n", "write for example"),
    ] {
        let problem = web(text).expect_err(text).to_string();
        assert!(problem.starts_with("f:7: web.") && problem.contains(fix), "{problem}");
    }
}

fn config(text: &str) -> Config {
    Config::parse("f", text).unwrap_or_else(|problems| panic!("{problems}"))
}

/// Host `oss<n>` has two addresses; other hosts have none.
fn known(name: &str) -> Vec<IpAddr> {
    match name.strip_prefix("oss").and_then(|number| number.parse().ok()) {
        Some(number) => vec![[10, 0, 0, number].into(), [192, 168, 0, number].into()],
        None => Vec::new(),
    }
}

fn servers(text: &str) -> HostSet {
    config(text).resolve_servers(&known)
}

/// Which of these addresses are believed.
fn believed<const N: usize>(hosts: &HostSet, ips: [&str; N]) -> [bool; N] {
    ips.map(|ip| hosts.contains(ip.parse().unwrap_or_else(|_| panic!("{ip} is no address"))))
}

#[test]
fn the_servers_own_addresses_are_believed() {
    let hosts = servers(SERVERS);
    let ips = ["10.0.0.1", "::ffff:10.0.0.1", "10.0.0.2", "192.168.0.2", "10.0.0.3", "127.0.0.1"];
    assert_eq!(believed(&hosts, ips), [true, true, true, true, false, false]);
}

/// All programs of a machine share its loopback addresses.
#[test]
fn loopback_is_believed_only_if_listed() {
    let local = "[[server]]\nname = \"s1\"\naddress = \"tcp://127.0.0.1:3334\"\n[[listener]]\nport = 5334\n";
    let ips = ["127.0.0.1", "::1"];
    assert_eq!(believed(&servers(local), ips), [false, false]);
    let listed = servers(&format!("{local}[trust]\nservers = \"127.0.0.1\"\n"));
    assert_eq!(believed(&listed, ips), [true, false]);
}

#[test]
fn a_list_replaces_the_servers_addresses() {
    let list = |list: &str| servers(&format!("{SERVERS}[trust]\nservers = {list}\n"));
    let ips = ["10.0.0.1", "10.1.2.3", "192.168.0.7", "10.0.0.2"];
    assert_eq!(believed(&list("[\"10.1.0.0/16\", \"oss[7-8]\"]"), ips), [false, true, true, false]);
    assert_eq!(believed(&list("[]"), ips), [false; 4]);
}

/// A name that has no address now must not keep the proxies from starting.
#[test]
fn a_host_without_address_is_not_believed() {
    let hosts = servers(&SERVERS.replace("oss2", "mds"));
    assert_eq!(believed(&hosts, ["10.0.0.1", "10.0.0.2"]), [true, false]);
    let list = format!("{SERVERS}[trust]\nservers = [\"oss1\", \"mds\"]\n");
    assert_eq!(believed(&servers(&list), ["10.0.0.1", "10.0.0.2"]), [true, false]);
    assert_eq!(config(&list).unresolved().collect::<Vec<_>>(), [("mds", 10), ("oss1", 10)]);
}

#[test]
fn a_change_needs_no_restart() {
    let diff = config(SERVERS).diff(&config(&format!("{SERVERS}[trust]\nservers = \"oss1\"\n")));
    assert_eq!(diff.to_string(), "trust.servers: not set -> oss1");
}
