//! Host lists as sites write them: what they denote, why others denote nothing, and what the tools that write them say.

use std::path::Path;
use std::process::Command;

use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use vpfs_config::{HOSTS_LIMIT, HostList};

use crate::fuzz;

#[path = "../../../../e2e/src/requirements.rs"]
#[expect(unreachable_pub, reason = "public in the crate of the end-to-end tests")]
mod requirements;

/// The networks and addresses of a list, then its names.
fn hosts(text: &str) -> Vec<String> {
    let list = HostList::parse(text, HOSTS_LIMIT).unwrap_or_else(|message| panic!("{message}"));
    let show = |net: &ipnet::IpNet| match net.prefix_len() == net.max_prefix_len() {
        true => net.addr().to_string(),
        false => net.to_string(),
    };
    list.nets.iter().map(show).chain(list.names.into_iter().map(|(name, _)| name)).collect()
}

fn why(text: &str) -> String {
    HostList::parse(text, HOSTS_LIMIT).expect_err(text)
}

#[test]
fn names_are_expanded_as_cluster_tools_do() {
    for (text, expected) in [
        ("login1", "login1"),
        ("c[001-003,070]", "c001 c002 c003 c070"),
        ("c[8-11]", "c8 c9 c10 c11"),
        ("n[0-2]", "n0 n1 n2"),
        // Slurm: as many digits as the first number has.
        ("n[098-0101]", "n098 n099 n100 n101"),
        ("n[9-010]", "n9 n10"),
        ("n[001-3]", "n001 n002 n003"),
        ("n[8-9,010-011]", "n8 n9 n010 n011"),
        ("r[1-2]n[01-02].site, login1", "r1n01.site r1n02.site r2n01.site r2n02.site login1"),
        ("c[1-2][3-4]-ib", "c13-ib c14-ib c23-ib c24-ib"),
        ("c[ 1 - 3 , 5 ]", "c1 c2 c3 c5"),
        ("c[1-2,]", "c1 c2"),
        ("c[36-41/2]", "c36 c38 c40"),
        ("c[01-10/3]", "c01 c04 c07 c10"),
        (" c[1-2], d1, ", "c1 c2 d1"),
        ("c1,,c2", "c1 c2"),
        ("c[1-2] d[1-2]", "c1 c2 d1 d2"),
        ("c1\n  c2\tc3", "c1 c2 c3"),
        ("C[1-2].Example.ORG.", "C1.Example.ORG. C2.Example.ORG."),
        ("gpu-a100-[1-2]_mgmt", "gpu-a100-1_mgmt gpu-a100-2_mgmt"),
        ("c1-c5", "c1-c5"),
        ("10-1-0-5.pool", "10-1-0-5.pool"),
    ] {
        assert_eq!(hosts(text).join(" "), expected, "of {text:?}");
    }
    let hundred = hosts("n[01-100]");
    assert_eq!((hundred.len(), &*hundred[0], &*hundred[98], &*hundred[99]), (100, "n01", "n99", "n100"));
}

#[test]
fn addresses_and_networks_have_many_forms() {
    for (text, expected) in [
        ("10.1.2.3", "10.1.2.3"),
        ("10.1.0.[8-10]", "10.1.0.8 10.1.0.9 10.1.0.10"),
        ("10.1.0.0/16 10.2.0.0/255.255.0.0", "10.1.0.0/16 10.2.0.0/16"),
        ("10.1.0.0 / 16", "10.1.0.0/16"),
        ("10.[1-2].0.0/16", "10.1.0.0/16 10.2.0.0/16"),
        ("10.1.0.*", "10.1.0.0/24"),
        ("10.1.*", "10.1.0.0/16"),
        ("10.*.*.*", "10.0.0.0/8"),
        ("10.1.[2-3].*", "10.1.2.0/24 10.1.3.0/24"),
        ("10.1.0.31-10.1.0.38", "10.1.0.31 10.1.0.32/30 10.1.0.36/31 10.1.0.38"),
        ("10.1.0.31 - 10.1.0.32", "10.1.0.31 10.1.0.32"),
        ("10.1.0.254-10.1.1.1", "10.1.0.254/31 10.1.1.0/31"),
        ("10.1.0.4-7", "10.1.0.4/30"),
        ("0.0.0.0-255.255.255.255", "0.0.0.0/0"),
        ("0.0.0.0/0, ::/0", "0.0.0.0/0 ::/0"),
        ("10.1.0.5@tcp", "10.1.0.5"),
        ("10.1.0.[1-2]@o2ib1", "10.1.0.1 10.1.0.2"),
        ("oss[1-2]@tcp0", "oss1 oss2"),
        ("::1 fd00::/8", "::1 fd00::/8"),
        ("[fd00::7]", "fd00::7"),
        ("fd00::1-fd00::2", "fd00::1 fd00::2"),
        ("::ffff:10.1.2.3 ::ffff:10.1.0.0/112", "10.1.2.3 10.1.0.0/16"),
    ] {
        assert_eq!(hosts(text).join(" "), expected, "of {text:?}");
    }
}

#[test]
fn brackets_that_denote_nothing_are_explained() {
    for (text, expected) in [
        ("c[1-3", r#""c[1-3" has a "[" without "]""#),
        ("c1-3]", r#""c1-3]" has a "]" without "[""#),
        ("c[[1]]", r#""c[[1]]" has brackets inside brackets"#),
        ("c[3-1]", "[3-1] is a descending range; write [1-3]"),
        ("c[]", "there is nothing between the brackets; write numbers such as [001-064]"),
        ("c[,]", "there is nothing between the brackets; write numbers such as [001-064]"),
        ("c[a]", "[a] is not a number or a range such as [001-064]"),
        ("c[1 2]", "[1 2] is not a number or a range such as [001-064]"),
        ("c[-3]", "[-3] is not a number or a range such as [001-064]"),
        ("c[1-9/0]", "[1-9/0] has a step of 0; write [1-9]"),
        ("c[1-9:2]", "[1-9:2] has an unknown step; write [1-9/2]"),
        ("c[1-1000000000]", "[1-1000000000] has a number of more than 9 digits"),
        ("c[1-65537]", r#""c[1-65537]" names too many hosts; 65536 more are allowed"#),
        ("c[1-65536],d[1-2]", r#""d[1-2]" names too many hosts; 0 more are allowed"#),
    ] {
        assert_eq!(why(text), expected, "of {text:?}");
    }
}

#[test]
fn what_denotes_no_host_is_refused_with_a_remedy() {
    let no_host = "is not a host; write names as in \"c[001-064],login1\", addresses or networks";
    let no_address = "is not an address; write for example \"10.1.2.3\", \"10.1.0.0/16\"";
    let pattern = "is a pattern of names, but a proxy knows its clients by address";
    let nowhere = "no host connects from";
    for (texts, expected) in [
        (&["", " , "][..], "is empty; remove it, or write hosts such as \"c[001-064]\""),
        (&["10.1.2.300", "10.1.0.[08]", "10.1.", "c 1", "10.1/16", "10.1.0.0/33", "fd00::/129"], no_address),
        (&["10.1.0.0/", "10.1.0.0/x", "10.1.0.0/0.0.255.255", "10.1.0.0/255.0.255.0", "10.1.0.9-x"], no_address),
        (&["10.*.0.1", "fd00::g", "fe80::1%eth0", "00:11:22:33:44:55", "tcp://10.1.0.5:3334", "node01/0"], no_address),
        (&["10.1.2.3/16"], "10.1.2.3/16 has bits set beyond its prefix; write \"10.1.0.0/16\""),
        (&["10.1.0.9-10.1.0.3"], "is a descending range; write \"10.1.0.3-10.1.0.9\""),
        (&["10.1.0.9-fd00::1"], "begins with an IPv4 and ends with an IPv6 address"),
        (&["0.0.0.0", "::", "*", "*.*"], "means every host; write \"0.0.0.0/0\", and \"::/0\""),
        (&["224.0.0.1", "255.255.255.255", "10.1.0.0 255.255.0.0"], nowhere),
        (&["10.1.0.5:3334", "n1:5334", "[fd00::7]:3334"], "has a port, but a list is of hosts; write"),
        (&["*.compute.example.org", ".example.org", "c?"], pattern),
        (&["None assigned", "(null)", "(Resources)", "@compute", "5@gni", "10.1.0.5@tcp:10.1.0.6@tcp"], no_host),
        (
            &["c1, -c5", "c[1-9]!c5", "c{1..3}", "c1 - c5", "c1;c2", "c1\u{2013}c5", "b\u{fc}cher", "n01 slots=4"],
            no_host,
        ),
        (&["c..d", "fd00::[1-8]", "c [1-3]"], no_host),
    ] {
        for text in texts {
            assert!(why(text).contains(expected), "of {text:?}: {}", why(text));
        }
    }
    assert!(why(&"x".repeat(254)).ends_with("is longer than the 253 characters of a host name"));
}

#[test]
fn small_texts_cannot_expand_to_much() {
    let long = [
        "c[0-999999999][0-999999999][0-999999999]".to_owned(),
        "[1]".repeat(100_000),
        "c[1]".repeat(100_000),
        format!("c[1-65536]{}", "x".repeat(1 << 20)),
        format!("c[{}]", "1-9999,".repeat(100_000)),
        "0.0.0.1-255.255.255.254 ".repeat(40_000),
        format!("c{}", " ".repeat(1 << 20)),
        format!("c{}-", " ".repeat(1 << 20)),
    ];
    for text in &long {
        let found = HostList::parse(text, HOSTS_LIMIT);
        assert!(found.map_or_else(|message| message.len() < 400, |list| list.nets.len() + list.names.len() <= 1));
    }
}

/// A list of names with brackets, in the notation that both tools have.
fn list() -> impl Strategy<Value = String> {
    let range = (0_u32..120, 0_u32..30, 1_usize..4, prop::bool::weighted(0.7));
    let range = range.prop_map(|(low, more, width, is_range)| {
        // The same number of digits at both ends, which ClusterShell wants; what Slurm does otherwise is above.
        let width = if low.to_string().len() == (low + more).to_string().len() { width } else { 3 };
        if is_range { format!("{low:0width$}-{:0width$}", low + more) } else { format!("{low:0width$}") }
    });
    let bracket = prop::collection::vec(range, 1..3).prop_map(|ranges| format!("[{}]", ranges.join(",")));
    let name = ("[a-z]{1,3}", prop::option::of(bracket.clone()), "(-[a-z]|_x)?", prop::option::of(bracket));
    let name = name.prop_map(|(name, first, middle, second)| match (first, second) {
        (Some(first), Some(second)) if !middle.is_empty() => format!("{name}{first}{middle}{second}"),
        (Some(first), _) => format!("{name}{first}"),
        (None, _) => format!("{name}{middle}"),
    });
    prop::collection::vec(name, 1..4).prop_map(|names| names.join(","))
}

/// Compares with a tool of a package over random lists, and over `more`.
fn compare(package: &str, tool: &str, more: &[&str], expand: impl Fn(&str) -> Command) {
    if !requirements::are_present(package, &[tool]) {
        return;
    }
    let mut runner =
        TestRunner::new(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() });
    let check = |list: String| {
        let output = expand(&list).output().unwrap();
        prop_assert!(output.status.success(), "{list}: {}", String::from_utf8_lossy(&output.stderr));
        let mut theirs: Vec<String> =
            String::from_utf8_lossy(&output.stdout).split_whitespace().map(String::from).collect();
        let mut ours = hosts(&list);
        // ClusterShell sorts, and names each host once.
        for names in [&mut theirs, &mut ours] {
            names.sort();
            names.dedup();
        }
        prop_assert_eq!(ours, theirs, "of {}", list);
        Ok(())
    };
    runner.run(&list(), check).unwrap_or_else(|error| panic!("{error}"));
    more.iter().for_each(|list| check((*list).to_owned()).unwrap_or_else(|error| panic!("{error}")));
}

#[test]
fn slurm_expands_lists_to_the_same_hosts() {
    let folder = tempfile::tempdir().unwrap();
    let conf = folder.path().join("slurm.conf");
    std::fs::write(&conf, "ClusterName=test\nSlurmctldHost=localhost\n").unwrap();
    let more = ["n[01-100]", "n[9-011]", "n[001-3]", "c[1-2],", "c1,,c2", "c[1-2][3-4]", "c[1-2] d[1-2]", "c1."];
    compare("slurm", "scontrol", &more, |list| {
        let mut command = Command::new("scontrol");
        command.args(["show", "hostnames", list]).env("SLURM_CONF", &conf);
        command
    });
}

#[test]
fn clustershell_expands_lists_to_the_same_hosts() {
    compare(
        "clustershell",
        "nodeset",
        &["c[36-400/2]", "c[01-10/3]", "c[1-3]-ib.site", "c[ 1 - 3 , 5 ]", "C[1-2]."],
        |list| {
            let mut command = Command::new("nodeset");
            command.args(["-e", list]);
            command
        },
    );
}

proptest! {
    #[test]
    fn a_range_of_addresses_has_each_of_them_once(low in any::<u32>(), more in 0_u32..3000) {
        let last = low.saturating_add(more);
        let (first, end) = (std::net::Ipv4Addr::from_bits(low), std::net::Ipv4Addr::from_bits(last));
        let list = HostList::parse(&format!("{first}-{end}"), HOSTS_LIMIT).unwrap();
        let mut expected = low;
        for net in list.nets.iter().map(|net| match net { ipnet::IpNet::V4(net) => *net, ipnet::IpNet::V6(_) => unreachable!() }) {
            prop_assert_eq!(net.network().to_bits(), expected);
            expected = net.broadcast().to_bits().wrapping_add(1);
        }
        prop_assert_eq!(expected, last.wrapping_add(1));
    }

    #[test]
    fn any_text_stays_within_the_limit(
        text in "[\\[\\]0-9a,. @/*:%-]{0,40}|\\PC{0,40}|10\\.[0-9*]{1,3}(\\.[0-9*/-]{1,9}){0,3}",
        limit in 0_usize..50,
    ) {
        fuzz::host_list(&text, limit);
    }
}

/// The check of the fuzz target, on its corpus: one file for each notation, one list on each line.
#[test]
fn fuzz_corpus() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/hosts");
    let mut count = 0;
    for entry in std::fs::read_dir(corpus).unwrap() {
        let data = std::fs::read(entry.unwrap().path()).unwrap();
        (0..=data.len()).for_each(|len| fuzz::hosts(&data[..len]));
        count += 1;
    }
    assert!(count >= 5, "{count} files");
}
