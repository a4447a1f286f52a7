//! TCP sockets of this host, as `/proc/net/tcp` and `tcp6` list them.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// A connection that is established.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Connection {
    pub(super) local: SocketAddr,
    pub(super) remote: SocketAddr,
}

const ESTABLISHED: &str = "01";

/// The established connections of such a file; lines of another form are skipped.
pub(super) fn established(text: &str) -> impl Iterator<Item = Connection> {
    text.lines().filter_map(|line| {
        let mut fields = line.split_whitespace().skip(1);
        let (local, remote) = (address(fields.next()?)?, address(fields.next()?)?);
        (fields.next()? == ESTABLISHED).then_some(Connection { local, remote })
    })
}

/// For example `0100007F:0D06`: the words of an address in this host's order of bytes, and the port.
fn address(text: &str) -> Option<SocketAddr> {
    let (ip, port) = text.split_once(':')?;
    let word = |at: usize| Some(u32::from_str_radix(ip.get(at * 8..at * 8 + 8)?, 16).ok()?.to_ne_bytes());
    let ip = match ip.len() {
        8 => IpAddr::from(Ipv4Addr::from(word(0)?)),
        32 => {
            let words = [word(0)?, word(1)?, word(2)?, word(3)?];
            IpAddr::from(Ipv6Addr::from(<[u8; 16]>::try_from(words.concat()).ok()?)).to_canonical()
        }
        _ => return None,
    };
    Some(SocketAddr::new(ip, u16::from_str_radix(port, 16).ok()?))
}

/// Who is connected to `server` past the proxies, with the number of connections: all hosts but those for which
/// `may` is true, as the host itself and other servers.
pub(super) fn past(
    connections: &[Connection],
    server: SocketAddr,
    may: impl Fn(IpAddr) -> bool,
) -> BTreeMap<IpAddr, usize> {
    let mut hosts = BTreeMap::new();
    for connection in connections.iter().filter(|connection| connection.local == server) {
        let host = connection.remote.ip();
        if !may(host) {
            *hosts.entry(host).or_default() += 1;
        }
    }
    hosts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_that_pass_by_are_found() {
        // 10.0.0.1:3334 with 10.0.0.9 twice, with itself, and listening; the last one by IPv6.
        let text = "  sl  local_address rem_address   st tx_queue rx_queue\n   \
            0: 0100000A:0D06 00000000:0000 0A 00000000:00000000\n   \
            1: 0100000A:0D06 0900000A:C001 01 00000000:00000000\n   \
            2: 0100000A:0D06 0100000A:C002 01 00000000:00000000\n   \
            3: 0100000A:1234 0900000A:C003 01 00000000:00000000\n   \
            4: 0000000000000000FFFF00000100000A:0D06 0000000000000000FFFF00000900000A:C004 01 0:0\n   \
            5: nonsense:0D06 0900000A:C001 01\n";
        let connections: Vec<Connection> = established(text).collect();
        assert_eq!(connections.len(), 4);
        let (own, client) = (IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 9]));
        let found = past(&connections, SocketAddr::new(own, 0xd06), |ip| ip == own);
        assert_eq!(found.into_iter().collect::<Vec<_>>(), [(client, 2)]);
    }
}
