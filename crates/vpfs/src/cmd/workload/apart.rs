//! Whether a proxy can tell two loads apart: it knows applications by listener, address and user.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::net::{IpAddr, SocketAddr};

/// The address that a connection comes from, and where it ends.
type Ends = (IpAddr, SocketAddr);

/// What may keep a proxy from telling both loads apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Doubt {
    /// Nothing tells them apart: the warning.
    Same(String),
    /// Only their users do, which counts by the proxy's configuration: how to make it count.
    Users(String),
}

/// A doubt if some connections of both loads come from the same address to the same listener.
///
/// By default a proxy makes an application of each client host, so both loads are one and nothing protects one of them
/// from the other. With NFS, and by `apps.auto`, users may be told apart; a client cannot know whether they are.
pub(super) fn doubt(small: &BTreeSet<Ends>, large: &BTreeSet<Ends>, users: [u32; 2]) -> Option<Doubt> {
    let &(address, listener) = small.intersection(large).next()?;
    if users[0] != users[1] {
        return Some(Doubt::Users(format!(
            "both loads connect from {address} to {listener} and differ by their users, {} and {}: two applications \
             with auto = \"uid\" in [apps], as `vpfs init --nfs` writes, or an [[app]] for each; `vpfs top` shows them",
            users[0], users[1]
        )));
    }
    Some(Doubt::Same(warning(address, listener)))
}

fn warning(address: IpAddr, listener: SocketAddr) -> String {
    let mut text = format!(
        "warning: both loads connect from {address} to {listener}, so a proxy there takes them for one application and \
         does\n  not protect one from the other. \"kept\" will say nothing about vpfs. Run it again with"
    );
    let addresses = if address.is_loopback() {
        "--bind 127.0.0.2 --large-bind 127.0.0.3"
    } else {
        "--bind ADDRESS --large-bind ANOTHER"
    };
    let ways = [
        (addresses, "two addresses of this host, which are two applications by default, or"),
        ("--large-url tcp://HOST:PORT/NAME", "a second listener: [[listener]] with a port and app = \"...\", or"),
        ("--large-uid 1001", "another user, if vpfs.toml has apps.auto = \"uid\" or [[app]] with uids."),
    ];
    for (option, meaning) in ways {
        let _ = write!(text, "\n    {option:<40} {meaning}");
    }
    text + "\n  (Without proxies there is nothing to tell apart, and this measures what there is to gain.)"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends(address: &str, ports: [u16; 2]) -> BTreeSet<Ends> {
        ports.map(|port| (address.parse().unwrap(), SocketAddr::from(([127, 0, 0, 1], port)))).into()
    }

    /// `vpfs workload isolation` had an example with one listener and one address: both loads were one application,
    /// the small one kept 0.01 of its speed, and nothing said why.
    #[test]
    fn loads_of_one_address_at_one_listener_are_one_application() {
        let small = ends("127.0.0.1", [5334, 5335]);
        let warning = |small: &BTreeSet<Ends>, large: &BTreeSet<Ends>| match doubt(small, large, [1000, 1000])? {
            Doubt::Same(text) => Some(text),
            Doubt::Users(text) => panic!("{text}"),
        };
        let text = warning(&small, &small).unwrap();
        assert!(text.contains("from 127.0.0.1 to 127.0.0.1:5334"), "{text}");
        assert!(text.contains("--bind 127.0.0.2 --large-bind 127.0.0.3"), "{text}");
        assert!(warning(&small, &ends("127.0.0.1", [5335, 5336])).is_some(), "one server in common");
        let far = ends("10.0.0.7", [5334, 5335]);
        let text = warning(&far, &far).unwrap();
        assert!(!text.contains("127.0.0.2"), "{text}");
        assert_eq!(warning(&small, &ends("127.0.0.2", [5334, 5335])), None);
        assert_eq!(warning(&small, &ends("127.0.0.1", [5434, 5435])), None);
    }

    /// With what `vpfs init --nfs` writes, loads of two users were said to be one application; `vpfs top` showed two.
    #[test]
    fn loads_of_two_users_may_be_two_applications() {
        let ends = ends("127.0.0.1", [2050, 2050]);
        let Some(Doubt::Users(text)) = doubt(&ends, &ends, [1000, 1001]) else { panic!("it is not certain") };
        assert!(text.contains("1000 and 1001") && text.contains("auto = \"uid\""), "{text}");
    }
}
