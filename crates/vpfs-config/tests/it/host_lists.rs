//! Host lists as sites write them: what they denote, why others denote nothing, and what the tools that write them say.

use std::path::Path;
use std::process::Command;

use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use vpfs_config::{HOSTS_LIMIT, HostList};

#[path = "../../../../fuzz/src/hosts.rs"]
#[expect(unreachable_pub, reason = "public in the crate of the fuzz targets")]
mod fuzz;

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
        ("c[a]", "[a] is not a number or a range such as [001-064]; write names that differ in letters one by one"),
        ("c[1 2]", "[1 2] is not a number or a range such as [001-064]; separate numbers by commas"),
        (
            "c[1\u{2013}3]",
            "[1\u{2013}3] is not a number or a range such as [001-064]; replace the typographic dash by \"-\"",
        ),
        ("c[-3]", "[-3] is not a number or a range such as [001-064]"),
        ("c[1-9/0]", "[1-9/0] has a step of 0; write [1-9]"),
        ("c[1-9:2]", "[1-9:2] has an unknown step; write [1-9/2]"),
        ("c[1-1000000000]", "[1-1000000000] has a number of more than 9 digits"),
        ("c [1-3]", r#""[1-3]" has no name before its numbers; write it without a blank, for example "c[001-064]""#),
        ("c[1-65537]", r#""c[1-65537]" names too many hosts; 65536 more are allowed"#),
        ("c[1-65536],d[1-2]", r#""d[1-2]" names too many hosts; 0 more are allowed"#),
    ] {
        assert_eq!(why(text), expected, "of {text:?}");
    }
}

#[test]
fn addresses_and_networks_that_are_none_are_explained() {
    for (text, expected) in [
        ("10.1.2.300", r#""10.1.2.300" is not an address: 300 is more than 255; write for example "10.1.2.3""#),
        (
            "10.1.0.[08]",
            r#""10.1.0.08" is not an address: 08 begins with 0, which some programs read as octal; write for example "10.1.2.3""#,
        ),
        ("10.1.", r#""10.1." is not an address: it has not all four numbers; write "10.1.0.0/16" for the network"#),
        ("c 1", r#""1" is not an address: it is only a number; write a whole name such as "c1""#),
        ("10.1/16", r#""10.1/16" has only a part of its address; write "10.1.0.0/16""#),
        ("10.1.2.3/16", r#"10.1.2.3/16 has bits set beyond its prefix; write "10.1.0.0/16""#),
        ("10.1.0.0/33", r#""10.1.0.0/33" has more bits than an IPv4 address, which has 32"#),
        ("fd00::/129", r#""fd00::/129" has more bits than an IPv6 address, which has 128"#),
        ("10.1.0.0/", r#""10.1.0.0/" has no number after "/"; write for example "10.1.0.0/16""#),
        ("10.1.0.0/x", r#""10.1.0.0/x" has no number of bits after "/"; write for example "10.1.0.0/16""#),
        ("10.1.0.0/0.0.255.255", r#""10.1.0.0/0.0.255.255" has an inverted mask; write "10.1.0.0/16""#),
        ("10.1.0.0/255.0.255.0", r#""10.1.0.0/255.0.255.0" has a mask with gaps, which no network has"#),
        (
            "10.1.0.0 255.255.0.0",
            r#"255.255.0.0 is a netmask; write it behind its network, for example "10.1.0.0/255.255.0.0""#,
        ),
        ("0.0.0.0", r#"0.0.0.0 is not the address of a host; "0.0.0.0/0" means all of them"#),
        ("224.0.0.1", "224.0.0.1 is an address of many hosts, from which none connects"),
        ("10.1.0.9-10.1.0.3", r#""10.1.0.9-10.1.0.3" is a descending range; write "10.1.0.3-10.1.0.9""#),
        (
            "10.1.0.9-x",
            r#""10.1.0.9-x" begins like a range, but "x" is not an address; write for example "10.1.0.31-10.1.0.38""#,
        ),
        ("10.1.0.9-fd00::1", r#""10.1.0.9-fd00::1" begins with an IPv4 and ends with an IPv6 address"#),
        (
            "10.*.0.1",
            r#""10.*.0.1" has a "*" that is not the end of an address; write a network such as "10.1.0.0/16""#,
        ),
        ("*", r#""*" means every host; write "0.0.0.0/0", and "::/0" if there are IPv6 clients"#),
        (
            "fe80::1%eth0",
            r#""fe80::1%eth0" is for one network interface, which a list cannot tell apart; write "fe80::1" for all of them, or an address that is valid beyond one link"#,
        ),
        (
            "fd00::[1-8]",
            r#""fd00::[1-8]" has numbers in brackets, which are decimal, in an IPv6 address, which is hexadecimal; write a range such as "fd00::1-fd00::8", or a network"#,
        ),
        ("fd00::g", r#""fd00::g" is not an IPv6 address; write for example "fd00::7""#),
        ("10.1.0.5:3334", r#""10.1.0.5:3334" has a port, but a list is of hosts; write "10.1.0.5""#),
        ("[fd00::7]:3334", r#""[fd00::7]:3334" has a port, but a list is of hosts; write "fd00::7""#),
        ("tcp://10.1.0.5:3334", r#""tcp://10.1.0.5:3334" is a URL; write its host only"#),
        ("00:11:22:33:44:55", r#""00:11:22:33:44:55" is a hardware address; write the IP address"#),
        (
            "5@gni",
            r#""5@gni" is neither a host nor a NID with an IP address (@tcp, @o2ib); write the address from which the host connects by TCP"#,
        ),
        ("10.1.0.5@tcp:10.1.0.6@tcp", r#""10.1.0.5@tcp:10.1.0.6@tcp" has several NIDs; separate them by commas"#),
        ("node01/0", r#""node01/0" has a "/", which belongs to networks, behind a host name; write "node01""#),
    ] {
        assert_eq!(why(text), expected, "of {text:?}");
    }
}

#[test]
fn names_that_are_none_are_explained() {
    for (text, expected) in [
        ("", r#"is empty; remove it, or write hosts such as "c[001-064]""#),
        (" , ", r#"is empty; remove it, or write hosts such as "c[001-064]""#),
        (
            "None assigned",
            r#""None assigned" is what Slurm shows for a job without hosts; write hosts such as "c[001-064]""#,
        ),
        ("(null)", r#""(null)" is what Slurm shows for a job without hosts; write hosts such as "c[001-064]""#),
        (
            "(Resources)",
            r#""(Resources)" is what Slurm shows for a job without hosts; write hosts such as "c[001-064]""#,
        ),
        (
            "@compute",
            r#""@compute" is a group, which only ClusterShell's own files or a netgroup define; write the hosts that `nodeset -f @compute` or `getent netgroup compute` prints"#,
        ),
        (
            "*.compute.example.org",
            r#""*.compute.example.org" is a pattern of names, but a proxy knows its clients by address and does not ask a name server for each; write their network, or their names as "c[001-064].example.org""#,
        ),
        (
            ".example.org",
            r#"".example.org" is a pattern of names, but a proxy knows its clients by address and does not ask a name server for each; write their network, or their names as "c[001-064].example.org""#,
        ),
        (
            "c?",
            r#""c?" is a pattern of names, but a proxy knows its clients by address and does not ask a name server for each; write their network, or their names as "c[001-064].example.org""#,
        ),
        (
            "c1, -c5",
            r#""-c5" would exclude hosts, which a list cannot; write those that remain, as `nodeset -f` prints them"#,
        ),
        ("c[1-9]!c5", r#""c[1-9]!c5" combines sets of hosts; write the result, as `nodeset -f` prints it"#),
        ("c{1..3}", r#""c{1..3}" has braces, which only shells expand; write brackets such as "c[001-064]""#),
        ("c1 - c5", r#""c1 - c5" has a blank beside "-"; write "c[001-064]" for a range, and commas between hosts"#),
        ("c1;c2", r#""c1;c2" has ";" in it; separate hosts by commas"#),
        ("c1\u{2013}c5", "\"c1\u{2013}c5\" has the typographic dash \"\u{2013}\"; write \"-\""),
        ("bücher", r#""bücher" has "ü" in it; write the name as DNS has it, "xn--...""#),
        ("n01 slots=4", r#""slots=4" is not a host name: '=' cannot be in one"#),
        ("c..d", r#""c..d" has an empty part between two dots"#),
        ("n1:5334", r#""n1:5334" has a port, but a list is of hosts; write "n1""#),
    ] {
        assert_eq!(why(text), expected, "of {text:?}");
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
