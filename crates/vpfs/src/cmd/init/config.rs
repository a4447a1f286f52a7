//! The text of vpfs.toml.

use std::collections::HashMap;

use vpfs_testbed::fsconfig::FsServer;

use super::Init;

/// The port where proxies listen for clients, unless another one is given.
const PORT: u16 = 5334;

/// A table for each server, one listener and `[peers]`.
pub(super) fn text(init: &Init, servers: &[FsServer]) -> String {
    let mut text = String::from(
        "# Written by `vpfs init`; the same file on all hosts. `vpfs proxy --check --print` prints all settings with their\n\
         # defaults, and `vpfs proxy --check --connect` compares the servers below with what the real ones say.\n\n",
    );
    for server in servers {
        text += &format!("[[server]]\nname = {:?}\naddress = {:?}\n\n", server.alias, server.address);
    }
    text += &format!("[[listener]]\n{}", addresses(servers, "tcp://", init.port.unwrap_or(PORT)));
    if init.redirect {
        text += "# vpfs.nft redirects clients from there to the listener.\nadvertise = \"server\"\n";
    }
    text += &format!("\n{}", super::app_example("clients = [\"c[001-064]\"]", "each client host"));
    text += "\n[scheduler]\n# Shares hold for the sum over all servers.\nsharing = \"threshold\"\n\n[peers]\n";
    text += &addresses(servers, "", init.peer_port);
    text + match init.certificates {
        true => {
            "security = \"certificates\"\nauthority = \"ca.pem\"\ncertificate = \"peers.pem\"\nprivate_key = \
             \"peers-key.pem\"\n"
        }
        false => "shared_key = \"peers.key\"\n",
    }
}

/// The server, by its place, whose table has this line of the text, counted from 1.
pub(super) fn server_at(text: &str, line: usize) -> Option<usize> {
    let tables: Vec<&str> = text.lines().take(line).filter(|line| line.starts_with('[')).collect();
    let is_servers = tables.iter().all(|table| *table == "[[server]]");
    if is_servers { tables.len().checked_sub(1) } else { None }
}

/// One port on all hosts; ports from it on if servers share a host.
fn addresses(servers: &[FsServer], scheme: &str, first: u16) -> String {
    let mut on_host: HashMap<&str, u16> = HashMap::new();
    let mut named = Vec::new();
    for server in servers {
        let host = server.host_and_port().rsplit_once(':').map_or("", |(host, _)| host);
        let earlier = on_host.entry(host).or_default();
        // A port above the maximum is refused when the text is read.
        named.push(format!("{:?} = \"{scheme}{host}:{}\"", server.alias, u32::from(first) + u32::from(*earlier)));
        *earlier += 1;
    }
    match on_host.len() == servers.len() {
        true => format!("port = {first}\n"),
        false => format!("addresses = {{ {} }}\n", named.join(", ")),
    }
}
