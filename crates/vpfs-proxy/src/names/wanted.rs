//! The host names of a configuration that the proxies of some servers need.

use std::collections::BTreeSet;
use std::net::IpAddr;

use vpfs_config::Config;
use vpfs_core::ServerId;

/// Names of rules and of `trust.servers`, of servers (nobody connects to a mount), and of addresses to listen at and of
/// peers.
pub(super) fn of(config: &Config, own: &[ServerId]) -> BTreeSet<String> {
    let mut hosts: Vec<String> = config.unresolved().map(|(name, _)| name.to_owned()).collect();
    let is_needed = |id: &ServerId| config.trust.servers.is_none() || own.contains(id);
    let servers = config.servers().filter(|(id, server)| is_needed(id) && !server.is_mount());
    hosts.extend(servers.map(|(_, server)| server.address.host().to_owned()));
    hosts.extend(config.listeners.iter().flat_map(|listener| own.iter().map(|&id| listener.bind_address(id).0)));
    if let Some(peers) = &config.peers {
        hosts.extend(peers.addresses.iter().map(|(host, _)| host.clone()));
    }
    hosts.into_iter().filter(|host| host.parse::<IpAddr>().is_err()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_that_are_used_are_wanted() {
        let text = "[[server]]\nname = \"s1\"\naddress = \"tcp://oss1:3334\"\n\
                    [[server]]\nname = \"s2\"\naddress = \"tcp://oss2:3334\"\n\
                    [[listener]]\naddresses = { s1 = \"tcp://p1:5334\", s2 = \"tcp://10.0.0.2:5334\" }\n\
                    [[app]]\nname = \"a\"\nclients = [\"c[1-2]\", \"10.1.0.1\"]\n";
        let wanted = |text: &str, own: &[ServerId]| {
            let names = of(&Config::parse("test", text).unwrap(), own);
            names.into_iter().collect::<Vec<_>>().join(" ")
        };
        let both = [ServerId(0), ServerId(1)];
        assert_eq!(wanted(text, &both), "c1 c2 oss1 oss2 p1");
        assert_eq!(wanted(text, &both[1..]), "c1 c2 oss1 oss2");
        let listed = format!("{text}[trust]\nservers = [\"mds\"]\n");
        assert_eq!(wanted(&listed, &both[1..]), "c1 c2 mds oss2");
        let peers = "[peers]\nsecurity = \"none\"\naddresses = { s1 = \"n1:1\", s2 = \"n2:1\" }\n";
        assert_eq!(wanted(&format!("{listed}{peers}"), &both[1..]), "c1 c2 mds n1 n2 oss2");
        assert_eq!(wanted(&format!("{listed}{peers}"), &both), "c1 c2 mds n1 n2 oss1 oss2 p1");
    }

    /// Symptom: a mount on a host that no name server knows warned about clients that get no answer.
    #[test]
    fn the_host_of_a_mount_is_only_a_name() {
        let text =
            "[[server]]\nname = \"a\"\naddress = \"mount://c1\"\n[[server]]\nname = \"b\"\naddress = \"mount://c2\"\n";
        let wanted = |text: &str| of(&Config::parse("test", text).unwrap(), &[ServerId(0)]);
        assert!(wanted(text).is_empty());
        let peers = "[peers]\nsecurity = \"none\"\nport = 7350\n";
        assert_eq!(wanted(&format!("{text}{peers}")).into_iter().collect::<Vec<_>>(), ["c1", "c2"], "peers connect");
    }
}
