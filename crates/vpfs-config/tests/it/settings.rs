//! The file that `--check --print` prints: it reads as the one that it was made from, and has every key.

use std::io;
use std::path::Path;

use proptest::prelude::*;
use vpfs_config::tunables::{Absent, Kind, Section, Tunable};
use vpfs_config::{Config, SECTIONS};

const PROFILE: &str = "[scheduler]\ndepth = 20\nsmall_threshold = \"64KiB\"\nslot_cost = [{ up_to = \"1MiB\", slots = 7 }]\n\
                       device_time = [{ op = \"write\", size = \"1MiB\", time = \"70ms\" }]\n";

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
fn every_example_reads_back() {
    let mut count = 0;
    for entry in std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "toml") {
            assert_reads_back(&Config::load(&path).unwrap());
            count += 1;
        }
    }
    assert!(count >= 6);
}

#[test]
fn what_follows_from_other_settings_is_there() {
    let site = "[[server]]\nname = \"s1\"\naddress = \"tcp://n1:3334\"\n[[listener]]\nport = 5334\n";
    let printed = |text: &str| {
        let config = parse(&format!("{site}{text}")).unwrap();
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
        "device_time" => &["[{ size = \"4KiB\", time = \"2ms\" }]", "[]"],
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
        let site = "[[server]]\nname = \"s1\"\naddress = \"tcp://n1:3334\"\n[[listener]]\nport = 5334\n";
        let text = [site, &scheduler, &apps, &a, &b, &limits, &trust, &log, &peers.unwrap_or_default(), &bound.unwrap_or_default()].concat();
        let config = parse(&text);
        prop_assume!(config.is_ok());
        assert_reads_back(&config.unwrap());
    }
}
