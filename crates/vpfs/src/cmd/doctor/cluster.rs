//! Checks of what proxies say: whether they answer, their versions, their peers and clocks.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use vpfs_admin::api::{Holder, Status};
use vpfs_config::{Config, PeerSecurity};
use vpfs_proxy::PeersReport;

use super::finding::{Check, Finding};
use crate::cmd::asking::Answers;

/// Whether the proxies of all servers in `expected` answer; `failure` is why none does.
pub(super) fn proxies(answers: &Answers<Status>, failure: Option<&str>, expected: &[&str]) -> Vec<Finding> {
    let mut check = Check::new("proxies");
    let fix = "systemctl start vpfs-proxy there; journalctl --unit vpfs-proxy says why it does not";
    if let Some(failure) = failure {
        check.fail(failure, fix);
        return check.or("");
    }
    let answering: BTreeSet<&str> = answering(&answers.list).map(|(server, _)| server).collect();
    let missing: Vec<&str> = expected.iter().copied().filter(|server| !answering.contains(server)).collect();
    if !missing.is_empty() {
        let why = answers.silent.iter().map(|silent| format!("\n{silent}")).collect::<String>();
        check.fail(format!("no answer for {}{why}", missing.join(", ")), fix);
    }
    check.or(format!("those of {} answer", answering.into_iter().collect::<Vec<_>>().join(", ")))
}

/// Server and version.
fn answering(statuses: &[Status]) -> impl Iterator<Item = (&str, &str)> {
    statuses
        .iter()
        .flat_map(|status| status.servers.iter().map(|server| (server.server.as_str(), status.version.as_str())))
}

/// Whether all are of one version, which is also that of this command, `own`.
pub(super) fn versions(statuses: &[Status], own: &str) -> Vec<Finding> {
    let mut check = Check::new("versions");
    let mut by_version = BTreeMap::<&str, Vec<&str>>::new();
    answering(statuses).for_each(|(server, version)| by_version.entry(version).or_default().push(server));
    if by_version.is_empty() {
        return check.skip("no proxy was asked", "");
    }
    if by_version.keys().any(|version| *version != own) {
        let list: Vec<String> =
            by_version.iter().map(|(version, servers)| format!("{version}: {}", servers.join(", "))).collect();
        let fix = "install the same package everywhere; where it is installed already: /usr/lib/vpfs/hand-over";
        check.warn(format!("this command is {own}, proxies are {}", list.join("; ")), fix);
    }
    check.or(format!("all are {own}"))
}

/// Whether all have the configuration of the file, whose fingerprint is `own`, in force; those of another version than
/// this command's cannot be compared.
pub(super) fn configurations(statuses: &[Status], own: &str) -> Vec<Finding> {
    let mut check = Check::new("configurations");
    let known = |status: &&Status| status.version == env!("CARGO_PKG_VERSION") && !status.configuration.is_empty();
    let others: Vec<&str> = (statuses.iter().filter(known).filter(|status| status.configuration != own))
        .flat_map(|status| status.servers.iter().map(|server| server.server.as_str()))
        .collect();
    if !others.is_empty() {
        let fix = "install the same file on all hosts, then vpfs reload (systemctl reload vpfs-proxy) on each";
        check.warn(format!("{}: the configuration in force is not that of this file", others.join(", ")), fix);
    }
    if !statuses.iter().any(|status| known(&status)) {
        return check.skip("no proxy of this version was asked", "");
    }
    check.or("all have this configuration in force")
}

/// Whether a host holds so many connections that others may lack them.
pub(super) fn connections(statuses: &[Status]) -> Vec<Finding> {
    let mut check = Check::new("connections");
    for status in statuses {
        let servers: Vec<&str> = status.servers.iter().map(|server| server.server.as_str()).collect();
        for Holder { port, holder, connections } in &status.holders {
            let text = format!(
                "{}: {holder} holds {} of the {} connections that one may have for {port}",
                servers.join(", "),
                connections.now,
                connections.limit
            );
            let fix = "look what it runs; close the port to it if it has no business there";
            check.warn(text, fix);
        }
    }
    if statuses.is_empty() {
        return check.skip("no proxy was asked", "");
    }
    check.or("no host holds many")
}

/// Whether proxies are connected with each other.
pub(super) fn peers(config: &Config, reports: &[PeersReport]) -> Vec<Finding> {
    let mut check = Check::new("peers");
    if config.peers.is_none() {
        return match config.servers.len() {
            1 => check.or("there is only one server"),
            _ => check.skip("there is no [peers] table: shares hold at each server, or in one process", ""),
        };
    }
    for report in reports {
        let missing: Vec<&str> =
            report.peers.iter().filter(|peer| !peer.connected).map(|peer| peer.server.as_str()).collect();
        if !missing.is_empty() {
            let text = format!("{} not connected with {}", report.servers.join(", "), missing.join(", "));
            check.fail(text, "the log of both says why; peers.port must be open between servers' hosts");
        }
    }
    if reports.is_empty() {
        return check.skip("no proxy was asked", "");
    }
    check.or("all are connected")
}

/// Whether the proxies can be asked from another host, as the agent of Slurm and `--remote` do; `failure` is why none
/// can.
pub(super) fn remote(config: &Config, answers: &Answers<PeersReport>, failure: Option<&str>) -> Vec<Finding> {
    let mut check = Check::new("remote");
    match config.peers.as_ref().map(|peers| &peers.security) {
        None => return check.skip("there is no [peers] table: proxies are asked on their own hosts only", ""),
        Some(PeerSecurity::None) => {
            let fix = "write shared_key in [peers] for jobs of Slurm and --remote";
            return check.skip("peers.security is \"none\": proxies answer nobody at the port of peers", fix);
        }
        Some(_) => {}
    }
    let fix = "peers.port must be open, and the key or certificate the same; the log of that proxy says more";
    failure.into_iter().chain(answers.silent.iter().map(String::as_str)).for_each(|why| check.fail(why, fix));
    check.or("all answer at the port of peers")
}

/// Whether the clocks of peers agree within `peers.clock_limit`.
pub(super) fn clocks(config: &Config, reports: &[PeersReport]) -> Vec<Finding> {
    let mut check = Check::new("clocks");
    let Some(limit) = config.peers.as_ref().map(|peers| peers.clock_limit) else {
        return check.skip("without [peers] clocks are not compared", "");
    };
    let mut worst = Duration::ZERO;
    let mut known = false;
    for report in reports {
        for peer in &report.peers {
            let Some(ahead) = peer.clock_ahead_seconds else { continue };
            let off = Duration::try_from_secs_f64(ahead.abs()).unwrap_or(Duration::MAX);
            (worst, known) = (worst.max(off), true);
            if off > limit {
                let text = format!(
                    "{}: the clock of {} is {:+.3} s ahead (peers.clock_limit is {limit:?})",
                    report.servers.join(", "),
                    peer.server,
                    ahead
                );
                check.fail(text, "look at chronyc tracking, or timedatectl, on both");
            }
        }
    }
    if !known {
        return check.skip("no proxy knows another one's clock yet", "");
    }
    check.or(format!("they differ by at most {worst:.1?}"))
}

#[cfg(test)]
mod tests {
    use super::super::finding::Verdict;
    use vpfs_admin::api::Usage;

    use super::*;
    use crate::cmd::rows::tests::status;

    #[test]
    fn who_does_not_answer_is_named() {
        let answers = |servers: &[&str]| Answers {
            list: servers.iter().map(|server| status(server, 1)).collect(),
            silent: vec!["the proxy of s2 does not answer within 2s".to_owned()],
        };
        let verdict = |answers: &Answers<Status>| proxies(answers, None, &["s1", "s2"])[0].result;
        assert_eq!(verdict(&answers(&["s1", "s2"])), Verdict::Ok);
        assert_eq!(verdict(&answers(&["s1"])), Verdict::Failed);
        assert_eq!(proxies(&answers(&[]), Some("cannot ask"), &["s1"])[0].result, Verdict::Failed);
    }

    #[test]
    fn who_holds_connections_is_named() {
        let holder =
            Holder { port: "clients".into(), holder: "10.0.0.9".into(), connections: Usage { now: 9, limit: 10 } };
        let held = Status { holders: vec![holder], ..status("s1", 1) };
        assert_eq!(connections(&[held])[0].result, Verdict::Warning);
        assert_eq!(connections(&[status("s1", 1)])[0].result, Verdict::Ok);
        assert_eq!(connections(&[])[0].result, Verdict::Skipped);
    }

    #[test]
    fn a_port_of_peers_at_which_nobody_answers_fails() {
        let verdict = |peers: &str, silent: &[&str]| {
            let text = "[[server]]\nname = \"s1\"\naddress = \"tcp://127.0.0.1:3334\"\n[[listener]]\nport = 5334\n";
            let config = Config::parse("f", &format!("{text}{peers}")).unwrap();
            let silent = silent.iter().map(|&why| why.to_owned()).collect();
            remote(&config, &Answers { list: Vec::new(), silent }, None)[0].result
        };
        let key = "[peers]\nport = 7334\nshared_key = \"k\"\n";
        assert_eq!(verdict("", &[]), Verdict::Skipped);
        assert_eq!(verdict("[peers]\nport = 7334\nsecurity = \"none\"\n", &["no"]), Verdict::Skipped);
        assert_eq!(verdict(key, &[]), Verdict::Ok);
        assert_eq!(verdict(key, &["the proxy of s1 cannot be asked at 127.0.0.1:7334"]), Verdict::Failed);
    }

    #[test]
    fn another_configuration_in_force_is_a_warning() {
        let of = |server: &str, configuration: &str| Status {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            configuration: configuration.to_owned(),
            ..status(server, 1)
        };
        let found = configurations(&[of("s1", "a"), of("s2", "b")], "a");
        assert_eq!(found[0].result, Verdict::Warning);
        assert!(super::super::table(&found).to_string().contains("s2:"), "{found:?}");
        assert_eq!(configurations(&[of("s1", "a")], "a")[0].result, Verdict::Ok);
        assert_eq!(configurations(&[of("s1", "")], "a")[0].result, Verdict::Skipped, "an older one does not say");
    }

    #[test]
    fn versions_that_differ_are_a_warning() {
        let verdict = |statuses: &[Status], own: &str| versions(statuses, own)[0].result;
        assert_eq!(verdict(&[status("s1", 1), status("s2", 1)], "1"), Verdict::Ok);
        assert_eq!(verdict(&[status("s1", 1)], "2"), Verdict::Warning);
        assert_eq!(verdict(&[], "2"), Verdict::Skipped);
    }
}
