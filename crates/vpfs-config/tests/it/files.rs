//! The files of this repository that this crate reads or writes.

use std::io;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use vpfs_config::tunables::{Absent, Kind, Section, Tunable};
use vpfs_config::{AppIndex, Client, Config, Identity, Protocol, SECTIONS, config_manual};
use vpfs_core::{Bytes, OpKind, SlotCostTable};

use crate::{SITE, for_each_file, fuzz};

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn example(name: &str) -> Config {
    Config::load(&repository().join("examples").join(name)).unwrap_or_else(|problems| panic!("{problems}"))
}

#[test]
fn every_example_is_valid_raises_no_warning_and_reads_back() {
    let mut seen = 0;
    for entry in std::fs::read_dir(repository().join("examples")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "toml") {
            let config = Config::load(&path).unwrap_or_else(|problems| panic!("{problems}"));
            assert!(config.warnings.list.is_empty(), "{}", config.warnings);
            assert_eq!(config.unresolved().count(), 0, "{}: examples must work without DNS", path.display());
            assert_reads_back(&config);
            seen += 1;
        }
    }
    assert!(seen >= 6);
}

#[test]
fn the_default_slot_costs_are_the_cores() {
    let scheduler = example("minimal.toml").scheduler;
    assert_eq!(scheduler.policy.slot_costs, SlotCostTable::default());
}

#[test]
fn two_apps_share_four_to_one() {
    let config = example("two-apps.toml");
    let weights: Vec<_> = config.apps.iter().map(|app| (app.name.as_str(), app.weight.get())).collect();
    assert_eq!(weights, [("climate", 4), ("batch", 1), ("other", 1)]);
    assert_eq!(config.listeners[1].app, Some(AppIndex(1)));
}

#[test]
fn a_cap_in_percent_is_taken_of_the_capacity() {
    let config = example("caps.toml");
    assert_eq!(config.apps[1].cap.unwrap().to_string(), "100MB/s (burst 4MiB)");
    assert_eq!(config.default_app, AppIndex(3));
    let text = std::fs::read_to_string(repository().join("examples/four-servers.toml")).unwrap();
    for (key, expected) in [("cap", "400MB/s (burst 16MiB)"), ("server_cap", "100MB/s on each server (burst 16MiB)")] {
        let text = format!("{text}\n[[app]]\nname = \"a\"\nuids = 1\n{key} = \"25%\"\n");
        let text = text.replacen("[scheduler]", "[scheduler]\ncapacity = \"400MB/s\"", 1);
        let config = Config::parse("test", &text).unwrap();
        assert_eq!(config.apps[0].cap.unwrap().to_string(), expected, "of all four servers, or of each");
    }
}

#[test]
fn a_port_is_put_behind_every_servers_host() {
    let config = example("four-servers.toml");
    let told: Vec<_> = config.address_pairs(0).map(|(_, told)| told.as_str()).collect();
    assert_eq!(told, ["tcp://10.0.0.1:5334", "tcp://10.0.0.2:5334", "tcp://10.0.0.3:5334", "tcp://10.0.0.4:5334"]);
    assert_eq!(config.scheduler.policy.slot_costs.slot_cost(OpKind::Write, Bytes::mib(4)).get(), 5);
}

/// Symptom: beside a user who writes with eight calls of 1 MiB in flight, others of the same NFS connection got 12 of
/// 250 calls a second. Cause: a connection could hold 4 MiB.
#[test]
fn connections_of_nfs_hold_more_because_writes_carry_their_data() {
    let config = example("nfs.toml");
    assert!(config.servers.iter().all(|server| server.address.protocol() == Some(Protocol::Nfs)));
    assert_eq!([&config, &example("minimal.toml")].map(|config| config.limits.request_bytes), [80, 4].map(Bytes::mib));
}

#[test]
fn users_of_a_hub_are_applications_beside_its_backup() {
    let who = example("jupyterhub-home.toml").resolve(&|_| Vec::new());
    let of = |last: u8, uid| {
        who.identify(&Client {
            listener: 0,
            ip: [10, 0, 0, last].into(),
            uid: Some(uid),
            gids: &[],
            machine: "",
            op: OpKind::Read,
        })
    };
    assert_eq!(of(9, 0), Identity::App(AppIndex(0)), "the backup is also root");
    assert_eq!(of(1, 0), Identity::App(AppIndex(1)));
    assert_eq!(of(1, 1000), of(2, 1000), "a user on two nodes is one application");
    assert_ne!(of(1, 1000), of(1, 1001));
}

#[test]
fn one_host_gets_a_quarter_of_many_connections_and_all_of_few() {
    let minimal = std::fs::read_to_string(repository().join("examples/minimal.toml")).unwrap();
    let per_host = |limits: &str| {
        let config = Config::parse("test", &format!("{minimal}\n[limits]\n{limits}")).unwrap();
        config.limits.connections_per_host
    };
    assert_eq!(per_host(""), 1024);
    let derived = [1, 2, 64, 100, 256, 400, 1_000_000].map(|count| per_host(&format!("connections = {count}")));
    assert_eq!(derived, [1, 2, 64, 64, 64, 100, 250_000]);
    assert_eq!(per_host("connections_per_host = 4096"), 4096);
}

/// The manual always matches the code. `UPDATE=1 cargo test -p vpfs-config` rewrites it.
#[test]
fn the_manual_matches_the_code() {
    let path = repository().join("docs/config.md");
    let printed = config_manual();
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, &printed).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(committed == printed, "docs/config.md is out of date; run UPDATE=1 cargo test -p vpfs-config");
}

const PROFILE: &str =
    "[scheduler]\ndepth = 20\nsmall_threshold = \"64KiB\"\nslot_cost = [{ up_to = \"1MiB\", slots = 7 }]\n";

fn parse(text: &str) -> Result<Config, String> {
    let files = |name: &str| match name {
        "disk.toml" => Ok(PROFILE.to_owned()),
        _ => Err(io::Error::from(io::ErrorKind::NotFound)),
    };
    Config::parse_with("f", text, &files).map_err(|problems| format!("{text}\n{problems}"))
}

/// Everything that a daemon uses, without the lines of host names.
fn meaning(config: &Config) -> String {
    let mut config = config.clone();
    let mut rules: Vec<_> = Vec::new();
    for app in &mut config.apps {
        rules.extend([&mut app.rule].into_iter().chain(app.alternatives.iter_mut().map(|(_, rule)| rule)));
    }
    let lists = rules.into_iter().filter_map(|rule| rule.clients.as_mut());
    for (_, line) in lists.chain(config.trust.servers.as_mut()).flat_map(|list| &mut list.names) {
        *line = 0;
    }
    let Config {
        servers,
        listeners,
        scheduler,
        apps,
        default_app,
        auto,
        peers,
        metrics,
        trust,
        limits,
        log,
        warnings,
        ..
    } = config;
    // The lines of warnings, and those that they mention, are others.
    let warnings: Vec<_> = warnings.list.into_iter().map(|warning| warning.key).collect();
    format!(
        "{servers:?}{listeners:?}{scheduler:?}{apps:?}{default_app:?}{auto:?}{peers:?}{metrics:?}{trust:?}{limits:?}{log:?}{warnings:?}"
    )
}

#[track_caller]
fn assert_reads_back(config: &Config) {
    let printed = config.to_toml();
    let again = parse(&printed).unwrap_or_else(|problems| panic!("{problems}"));
    assert_eq!(meaning(config), meaning(&again), "{printed}");
    assert!(config.diff(&again).is_empty(), "{}\n{printed}", config.diff(&again));
    assert_eq!(printed, again.to_toml());
    for section in SECTIONS.iter().filter(|section| !section.name.contains('.')) {
        let has = |text: &str| printed.lines().any(|line| line.starts_with(text));
        assert!(printed.contains(section.header), "no {} in {printed}", section.header);
        for key in section.keys.iter().map(|row| row.key) {
            assert!(
                has(&format!("{key} =")) || has(&format!("# {key} ")) || has(&format!("# {key}:")),
                "no {key} in {printed}"
            );
        }
    }
}

#[test]
fn what_follows_from_other_settings_is_there() {
    let printed = |text: &str| {
        let config = parse(&format!("{SITE}{text}")).unwrap();
        assert_reads_back(&config);
        config.to_toml()
    };
    let default = printed("");
    for line in [
        "policy = \"isolation\"",
        "# depth = 14, but the policy isolation ignores it",
        "# profile is not set: no profile",
        "# slot_cost: read up to 512KiB: 2, read up to 1MiB: 3, read up to 2MiB: 5, write up to 512KiB: 2, write up to 1MiB: 3, write up to 2MiB: 5, of the paper's storage",
        "# default: other, created unless there is an [[app]] of that name",
        "# There is no [[app]].",
        "# There is no [peers].",
        "# servers is not set: the addresses of all `[[server]]` tables, except loopback ones",
        "connections = 4096",
        "connections_per_host = 1024",
        "host_memory = \"256MiB\"",
        "# client_timeout is not set: the value in the servers' own configuration, 300 s by default",
    ] {
        assert!(
            default.lines().any(|found| found == line || found.contains(&format!("{line}, "))),
            "no {line} in {default}"
        );
    }
    let profile = printed("[scheduler]\nprofile = \"disk.toml\"\npolicy = \"sfq-d-plus\"\n");
    assert!(profile.contains("\nprofile = \"disk.toml\"\n# depth: 20, of the profile\n"), "{profile}");
    let app = printed(
        "[scheduler]\ncapacity = \"400MB/s\"\n[[app]]\nname = \"a\"\ncap = \"25%\"\nuids = [7, \"1-3\", 3]\nclients = \"c[01-100] d1\"\n\
         [[match]]\napp = \"a\"\nclients = \"e1\"\nmachines = \"hub-*\"\nlisteners = 5334\noperations = [\"read\", \"metadata\"]\n",
    );
    assert!(app.contains("\ncap = \"100MB/s\"\n") && app.contains("\nuids = [\"1-3\", 7]\n"), "{app}");
    assert!(app.contains("\nclients = [\"c[01-100] d1\"]\n"), "{app}");
}

#[test]
fn odd_texts_are_quoted() {
    let text = "[[server]]\nname = \"s.1\"\naddress = \"tcp://n1:3334\"\n[[server]]\nname = \"s\"\naddress = \"tcp://n2:3334\"\n\
                [[listener]]\naddresses = { \"s.1\" = \"tcp://n1:1\", s = \"tcp://n2:1\" }\n\
                [peers]\naddresses = { \"s.1\" = \"n1:7\", s = \"[::1]:7\" }\nshared_key = \"a\\\\b \\\"c\\\"\\n#d\"\n";
    assert_reads_back(&parse(text).unwrap());
}

/// Values of a key that its kind and range allow.
fn values(row: &'static Tunable) -> Vec<String> {
    let quote = |text: &str| if row.kind == Kind::Count { text.to_owned() } else { format!("{text:?}") };
    let mut values: Vec<String> = row.range.iter().flat_map(|(low, high)| [quote(low), quote(high)]).collect();
    if let Absent::Is(default) = row.absent {
        values.push(quote(default));
    }
    if let Kind::Choice(words) = row.kind {
        values.extend(words.iter().map(|word| quote(word)));
    }
    let more: &[&str] = match row.key {
        "clients" | "servers" => &["\"10.1.0.0/16\"", "[\"c[1-3]\", \"10.2.0.4-9\"]", "[\"0.0.0.0/0\"]"],
        "uids" | "gids" => &["0", "[7, \"100-200\"]", "[5, 4, 3]"],
        "cap" | "server_cap" => &["\"1GB/s\"", "\"12.5%\""],
        "profile" => &["\"disk.toml\""],
        "default" => &["\"a\""],
        "slot_cost" => &[
            "[{ up_to = \"2GiB\", slots = 2 }]",
            "[{ op = \"read\", up_to = \"2GiB\", slots = 20 }, { op = \"write\", up_to = \"2GiB\", slots = 1 }]",
        ],
        "min_local_share" => &["\"2.5%\"", "\" 1 %\""],
        "metadata_cost" => &["1", "\"12KiB\""],
        "token" => &["\"a/b.token\""],
        "listen" => &["\"127.0.0.1:9334\"", "\"[::1]:9334\""],
        "sockets" | "cluster" => &["\"x\""],
        "shared_key" | "authority" | "certificate" | "private_key" => &["\"a/b.key\""],
        "bind" => &["\"0.0.0.0\""],
        _ => &[],
    };
    values.extend(more.iter().map(|value| (*value).to_owned()));
    values
}

/// Some keys of a section, with values.
fn table(name: &str, header: &str, without: &'static [&str]) -> impl Strategy<Value = String> {
    let section: &Section = SECTIONS.iter().find(|section| section.name == name).unwrap();
    let rows: Vec<&'static Tunable> =
        section.keys.iter().filter(|row| !without.contains(&row.key) && !values(row).is_empty()).collect();
    let count = rows.len();
    let header = header.to_owned();
    let chosen = prop::sample::subsequence(rows, 0..=count.min(5));
    chosen.prop_flat_map(move |rows| {
        let lines = rows
            .into_iter()
            .map(|row| prop::sample::select(values(row)).prop_map(|value| format!("{} = {value}\n", row.key)));
        let header = header.clone();
        lines.collect::<Vec<_>>().prop_map(move |lines| format!("{header}\n{}", lines.concat()))
    })
}

proptest! {
    #![proptest_config(ProptestConfig { max_global_rejects: 100_000, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn every_file_reads_back(
        scheduler in table("scheduler", "[scheduler]", &[]),
        apps in table("apps", "[apps]", &[]),
        a in table("app", "[[app]]\nname = \"a\"", &["name"]),
        b in table("app", "[[app]]\nname = \"b\"", &["name"]),
        limits in table("limits", "[limits]", &[]),
        (trust, log) in (table("trust", "[trust]", &[]), table("log", "[log]", &[])),
        peers in prop::option::of(table("peers", "[peers]\nport = 7334", &["port", "addresses", "name"])),
        bound in prop::option::of(table("listener", "[[listener]]\napp = \"b\"\nport = 6334", &["app", "port", "addresses"])),
    ) {
        let text = [SITE, &scheduler, &apps, &a, &b, &limits, &trust, &log, &peers.unwrap_or_default(), &bound.unwrap_or_default()].concat();
        let config = parse(&text);
        prop_assume!(config.is_ok());
        assert_reads_back(&config.unwrap());
    }
}

/// A value, usually of a form that some key accepts.
fn value() -> impl Strategy<Value = String> {
    let shapes = r#"14|-1|0|1.5|true|1979-05-27|[]|{}|""|"s1"|"fifo"|"64KiB"|"1GB/s"|"30%"|"5min"|"uid"|"tcp://n1:3334"|
        { s1 = "tcp://n1:1" }|"10.0.0.0/8"|"c[01-99]"|[1, "5-9"]|[{ op = "read", up_to = "1MiB", slots = 3 }]|
        99999999999999999999999"#;
    let shapes: Vec<&str> = shapes.split('|').map(str::trim).collect();
    prop_oneof![4 => prop::sample::select(shapes).prop_map(String::from), 1 => "\\PC{0,20}".prop_map(|text| format!("{text:?}"))]
}

/// Existing tables and keys with arbitrary values, to get past the syntax check.
fn nearly_a_file() -> impl Strategy<Value = String> {
    let section = prop::sample::select(SECTIONS.to_vec());
    let entries = prop::collection::vec((0_usize..8, value()), 0..6);
    let table = (section, entries).prop_map(|(section, entries)| {
        let mut text = format!("{}\n", section.header);
        for (index, value) in entries {
            text += &format!("{} = {value}\n", section.keys[index % section.keys.len()].key);
        }
        text
    });
    prop::collection::vec(table, 0..8).prop_map(|tables| tables.concat())
}

/// Everything that is accepted can be used.
fn use_it(text: &str) {
    match Config::parse("f", text) {
        Err(problems) => assert!(!problems.list.is_empty() && !problems.to_string().is_empty()),
        Ok(config) => {
            let ip = [10, 0, 0, 1].into();
            config.resolve(&|_| vec![ip]).identify(&Client {
                listener: 0,
                ip,
                uid: None,
                gids: &[],
                machine: "",
                op: OpKind::Read,
            });
            assert!(config.diff(&config).is_empty());
            assert!(
                (0..config.listeners.len())
                    .all(|listener| config.address_pairs(listener).count() == config.servers.len())
            );
        }
    }
}

proptest! {
    #[test]
    fn any_text(text in "(\\PC|\n){0,200}") {
        use_it(&text);
    }

    #[test]
    fn any_values(text in nearly_a_file()) {
        use_it(&text);
        use_it(&format!("{}{text}", SITE.replace("n1", "n9")));
    }
}

#[test]
fn the_largest_files_are_read_in_time() {
    let parts = [
        "[[app]]\n",
        "a = 1\n",
        "[",
        "[[server]]\nname=\"s\"\n",
        "\"",
        "a.b.",
        "{",
        "clients = \"c[0-9999]\"\n[[app]]\n",
    ];
    for part in parts {
        use_it(&part.repeat((1 << 20) / part.len()));
    }
    let key = "k".repeat(1 << 19);
    use_it(&format!("{key} = \"{key}\""));
    let servers: String =
        (0..4000).map(|n| format!("[[server]]\nname = \"s{n}\"\naddress = \"tcp://n{n}:1\"\n")).collect();
    use_it(&format!("{servers}{}", "[[listener]]\nport = 2\n".repeat(4000)));
}

/// The check of the fuzz target, on its corpus and the examples, whole and cut off at every byte.
#[test]
fn fuzz_corpus() {
    for (folder, least) in [("fuzz/corpus/configuration", 1), ("examples", 4)] {
        for_each_file(folder, least, |data| (0..=data.len()).for_each(|len| fuzz::configuration(&data[..len])));
    }
}
