//! Types of a protocol are named only in the modules of that protocol, so that another protocol can be added as a new
//! module beside them.

use super::circles::before_tests;

/// The crate that defines these types.
const CODECS: &str = "vpfs_wire";

/// Prefixes of the paths that may name types of a protocol, and why.
const PROTOCOLS: [(&str, &str); 14] = [
    ("crates/vpfs-wire/", "the codecs themselves"),
    ("crates/vpfs-session/src/orangefs/", "the session of OrangeFS"),
    ("crates/vpfs-session/src/nfs/", "the session of NFS"),
    ("crates/vpfs-session/tests/", "tests of both sessions, with their messages"),
    ("crates/vpfs-testbed/src/client/", "the client library of OrangeFS"),
    ("crates/vpfs-testbed/src/server/", "the embedded servers of OrangeFS"),
    ("crates/vpfs-testbed/src/fsconfig/", "the configuration of OrangeFS servers"),
    ("crates/vpfs-testbed/src/transport/", "frames of BMI, for both"),
    ("crates/vpfs-testbed/src/flow.rs", "the rules of flows, for both"),
    ("crates/vpfs-testbed/tests/", "tests of both, with their messages"),
    ("crates/vpfs-proxy/tests/", "raw clients and servers that misbehave"),
    ("crates/vpfs-proxy/src/connection/tests.rs", "a raw client and server of one connection"),
    ("crates/vpfs-proxy/src/simulation/", "model clients and servers, for tests"),
    ("fuzz/", "fuzzes the codecs and the session"),
];

/// The lines of a file that name a type of a protocol where that is not permitted. Unit tests are exempt.
pub(super) fn check(name: &str, text: &str) -> Vec<String> {
    if PROTOCOLS.iter().any(|(start, _)| name.starts_with(start)) {
        return Vec::new();
    }
    let lines = before_tests(text).lines().zip(1..);
    let is_breach = |line: &str| !line.trim_start().starts_with("//") && line.contains(&format!("{CODECS}::"));
    lines
        .filter(|(line, _)| is_breach(line))
        .map(|(_, number)| {
            format!("{name}:{number}: must not name a type of a protocol; see xtask/src/tidy/protocols.rs")
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_of_a_protocol_are_found_outside_its_modules() {
        let text = "use vpfs_wire::bmi::Tag;\n// vpfs_wire::pvfs2\n#[cfg(test)]\nmod tests { use vpfs_wire::bmi; }\n";
        assert_eq!(check("crates/vpfs-node/src/node.rs", text).len(), 1);
        assert!(
            check("crates/vpfs-session/src/contract.rs", text)[0].starts_with("crates/vpfs-session/src/contract.rs:1:")
        );
        assert_eq!(check("crates/vpfs-session/src/orangefs/op.rs", text), Vec::<String>::new());
    }
}
