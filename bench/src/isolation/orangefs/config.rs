//! The vpfs.toml of a case.

use std::fmt::Write as _;

use super::super::Real;
use crate::real::cluster::Cluster;

/// `policy` is a name, optionally followed by lines for `[scheduler]`, each after a ';'. Each application has a
/// listener of its own, so that neither is mistaken for the other: the ports are those of the small one, then those of
/// the large.
pub(super) fn text(cluster: &Cluster, options: &Real, ports: &[u16], policy: &str, cap: Option<&str>) -> String {
    let mut text = String::new();
    for (i, address) in cluster.addresses.iter().enumerate() {
        let _ = writeln!(text, "[[server]]\nname = \"s{i}\"\naddress = \"{address}\"\n");
    }
    for (app, ports) in ["small", "large"].into_iter().zip(ports.chunks(cluster.addresses.len())) {
        let addresses: Vec<String> =
            ports.iter().enumerate().map(|(i, port)| format!("s{i} = \"tcp://127.0.0.1:{port}\"")).collect();
        let _ = writeln!(text, "[[listener]]\napp = \"{app}\"\naddresses = {{ {} }}\n", addresses.join(", "));
    }
    let mut scheduler = policy.split(';');
    let name = scheduler.next().unwrap_or_default().trim();
    let _ = writeln!(text, "[scheduler]\npolicy = \"{name}\"");
    scheduler.for_each(|line| text += &format!("{}\n", line.trim()));
    let (small, large) = options.weights;
    let _ = writeln!(text, "\n[apps]\nauto = \"off\"\n\n[[app]]\nname = \"small\"\nweight = {small}");
    if name == "two-level" {
        // It has targets instead of weights: set a target that just covers the demand of the small application.
        text += "server_target_rate = \"4MB/s\"\ndeadline = \"20ms\"\n";
    }
    options.small_app.iter().for_each(|line| text += &format!("{line}\n"));
    let _ = writeln!(text, "\n[[app]]\nname = \"large\"\nweight = {large}");
    if let Some(cap) = cap {
        let _ = writeln!(text, "server_cap = \"{cap}\"\nburst = \"4MiB\"");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::super::tests::parsed;
    use super::*;

    fn config(policy: &str, cap: Option<&str>) -> String {
        let cluster = Cluster {
            dir: "/c".into(),
            addresses: vec!["tcp://127.0.0.1:1".into(), "tcp://127.0.0.1:2".into()],
            data_dirs: Vec::new(),
            name: "pfs".into(),
        };
        let options = parsed(&["--orangefs", "/c", "--weights", "1:4", "--small-app", "uids = 7"]).unwrap().real;
        text(&cluster, &options, &[10, 11, 20, 21], policy, cap)
    }

    #[test]
    fn each_application_has_a_listener_in_front_of_every_server() {
        let text = config("sfq-d; depth = 4", None);
        assert!(
            text.contains("app = \"large\"\naddresses = { s0 = \"tcp://127.0.0.1:20\", s1 = \"tcp://127.0.0.1:21\" }")
        );
        assert!(text.contains("policy = \"sfq-d\"\ndepth = 4\n"), "{text}");
        assert!(text.contains("name = \"small\"\nweight = 1\nuids = 7\n"), "{text}");
        assert!(text.ends_with("name = \"large\"\nweight = 4\n"), "{text}");
    }

    #[test]
    fn a_cap_is_for_the_large_ones() {
        assert!(
            config("sfq-d-plus", Some("10MB/s")).ends_with("weight = 4\nserver_cap = \"10MB/s\"\nburst = \"4MiB\"\n")
        );
    }
}
