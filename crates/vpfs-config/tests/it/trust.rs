//! From which addresses requests between servers are believed.

use std::net::IpAddr;

use vpfs_config::{Config, HostSet};

const SERVERS: &str = "[[server]]\nname = \"s1\"\naddress = \"tcp://10.0.0.1:3334\"\n[[server]]\nname = \"s2\"\n\
                       address = \"tcp://oss2:3334\"\n[[listener]]\nport = 5334\n";

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
