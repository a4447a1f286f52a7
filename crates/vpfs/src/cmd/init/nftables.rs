//! Rules of nftables that send clients of the servers' own addresses to the proxies.

use std::collections::BTreeSet;

use vpfs_config::Config;

/// A file for `nft -f`, the same on all hosts: on each, only connections to its own addresses match.
///
/// Connections of servers pass by, so requests between servers wait for no client; so do those of the host itself,
/// such as the proxy's own ones, because they are not routed.
pub(super) fn rules(config: &Config) -> String {
    let hosts: BTreeSet<&str> = config.servers.iter().map(|server| server.address.host()).collect();
    let hosts: Vec<&str> = hosts.into_iter().collect();
    let proxies = config.servers.iter().zip(&config.listeners[0].addresses);
    let ports = proxies.map(|(server, proxy)| {
        format!("            {} . {} : {},\n", server.address.host(), server.address.port(), proxy.port())
    });
    format!(
        "#!/usr/sbin/nft -f\n\
         # Written by `vpfs init`; run it on every server's host. `nft delete table ip vpfs` undoes it. Only new\n\
         # connections are redirected; existing ones stay as they are.\n\
         table ip vpfs\n\
         delete table ip vpfs\n\
         table ip vpfs {{\n    \
             set servers {{\n        type ipv4_addr\n        elements = {{ {} }}\n    }}\n    \
             map proxies {{\n        type ipv4_addr . inet_service : inet_service\n        elements = {{\n{}        \
             }}\n    }}\n    \
             chain prerouting {{\n        \
                 type nat hook prerouting priority dstnat; policy accept;\n        \
                 meta l4proto tcp ip saddr != @servers redirect to :ip daddr . tcp dport map @proxies\n    \
             }}\n\
         }}\n",
        hosts.join(", "),
        ports.collect::<String>(),
    )
}
