//! `[peers]`: addresses, security, paths.

use std::path::Path;

use vpfs_config::{Config, PeerSecurity};

const SERVERS: &str = "[[server]]\nname = \"s1\"\naddress = \"tcp://10.0.0.1:3334\"\n\
                       [[server]]\nname = \"s2\"\naddress = \"tcp://oss2:3334\"\n[[listener]]\nport = 5334\n";

fn parse(peers: &str) -> Result<Config, String> {
    Config::parse("t", &format!("{SERVERS}{peers}")).map_err(|problems| problems.to_string())
}

#[test]
fn without_the_table_there_are_no_peers() {
    assert_eq!(parse("").unwrap().peers, None);
}

#[test]
fn a_port_is_on_the_hosts_of_the_servers() {
    let peers = parse("[peers]\nport = 7334\nshared_key = \"peers.key\"\n").unwrap().peers.unwrap();
    assert_eq!(peers.addresses, [("10.0.0.1".into(), 7334), ("oss2".into(), 7334)]);
    assert_eq!(peers.security, PeerSecurity::SharedKey("peers.key".into()));
    assert_eq!((peers.cluster.as_str(), peers.sockets.as_path()), ("vpfs", Path::new("/run/vpfs")));
}

#[test]
fn addresses_are_by_server() {
    let text = "[peers]\naddresses = { s2 = \"[::1]:2\", s1 = \"a.b:1\" }\nsecurity = \"none\"\n";
    let peers = parse(text).unwrap().peers.unwrap();
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
        let found = parse(&format!("[peers]\n{text}")).unwrap_err();
        assert!(found.contains(expected), "{text}: {found}");
    }
}

#[test]
fn paths_are_relative_to_the_file() {
    let folder = std::env::temp_dir().join(format!("vpfs-config-peers-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("vpfs.toml");
    let text = "[peers]\nport = 1\nshared_key = \"k\"\nsockets = \"/run/x\"\n";
    std::fs::write(&file, format!("{SERVERS}{text}")).unwrap();
    let peers = Config::load(&file).unwrap().peers.unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    assert_eq!(peers.security, PeerSecurity::SharedKey(folder.join("k")));
    assert_eq!(peers.sockets, Path::new("/run/x"));
}
