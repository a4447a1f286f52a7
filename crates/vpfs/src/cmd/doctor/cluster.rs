//! Checks of what proxies say: whether they answer, their versions, their peers and clocks.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use vpfs_config::slurm::{Reach, Settings};
use vpfs_config::{Config, PeerSecurity};
use vpfs_proxy::PeersReport;
use vpfs_proxy::admin::PushedSets;
use vpfs_proxy::admin::api::{Holder, Status};

use super::{Check, Finding};
use crate::cmd::asking::{Answers, Asking};
use crate::cmd::slurm::{
    At, Files, Hosts, addresses, are_accounts_enforced, have_own_jobs, look_at, names, settings_of_slurm,
};

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

// Checks of what gives jobs of Slurm their shares, on the host of slurmctld.

/// All of them, if slurm.toml is in the directory of the configuration.
pub(super) async fn examine(config: &Path) -> Vec<Finding> {
    let rules = config.with_file_name("slurm.toml");
    if !rules.exists() {
        return Vec::new();
    }
    let mut check = Check::new("slurm rules");
    let Files { settings, config, .. } = match Files::load(&rules) {
        Ok(files) => files,
        Err(exit) => {
            check.fail(exit.to_string(), "correct it; nothing else of Slurm was checked");
            return check.or("");
        }
    };
    let mut findings = check.or(format!("{} is valid", rules.display()));
    findings.extend(token(&settings, &config));
    findings.extend(reach(&settings, &config).await);
    findings.extend(wake(&settings.wake));
    let patience = settings.timeout;
    let told = tokio::task::spawn_blocking(move || settings_of_slurm(patience)).await;
    let told = told.map_err(|error| error.to_string()).flatten();
    findings.extend(prolog(told.as_ref(), settings.interval));
    findings.extend(accounts(told.as_ref(), settings.uses_accounts()));
    findings.extend(nodes(&settings, &config).await);
    findings
}

/// Whether the owner's token is a secret, and the one that proxies know.
fn token(settings: &Settings, config: &Config) -> Vec<Finding> {
    let mut check = Check::new("slurm token");
    let Some(path) = &settings.token else { return check.or("root needs none at sockets") };
    let place = path.display();
    match fs::metadata(path) {
        Err(error) => check.fail(format!("{place}: {error}"), "make it readable for the agent's user (SlurmUser)"),
        Ok(metadata) if metadata.permissions().mode() & 0o007 != 0 => {
            check.fail(format!("all users can read {place}, so proxies refuse it"), format!("chmod 640 {place}"));
        }
        Ok(_) => {}
    }
    let owner = config.owners.iter().find(|known| known.name == settings.owner.owner());
    // The proxies' own file is on their hosts, and need not be here.
    let theirs = owner.and_then(|owner| fs::read_to_string(&owner.token).ok());
    if let (Some(theirs), Ok(own)) = (theirs, fs::read_to_string(path))
        && theirs.trim() != own.trim()
    {
        check.fail(format!("{place} differs from the token of the [[owner]]"), "copy one to the other on all hosts");
    }
    check.or(format!("{place} is readable for its owner and group alone"))
}

/// Whether the proxies have what the agent pushes.
async fn reach(settings: &Settings, config: &Config) -> Vec<Finding> {
    let asking = Asking::of(settings.config.clone(), Vec::new(), settings.reach == Reach::Peers);
    let told = asking.answers::<PushedSets>(config).await.map_err(|exit| exit.to_string());
    reached(settings, told)
}

fn reached(settings: &Settings, told: Result<Answers<PushedSets>, String>) -> Vec<Finding> {
    let mut check = Check::new("slurm reach");
    let Answers { list, silent } = match told {
        Ok(answers) => answers,
        Err(failure) => Answers { list: Vec::new(), silent: vec![failure] },
    };
    for why in silent {
        check.fail(why, "the agent cannot push there: start the proxy, or open peers.port to this host");
    }
    let left = |told: &PushedSets| {
        let set = told.sets.iter().find(|set| set.set == settings.owner)?;
        Some(Duration::from_secs_f64(set.left_seconds.clamp(0.0, 1e9)))
    };
    let fix = "systemctl status vpfs-slurm; its log says why it does not push";
    for told in &list {
        let servers = told.servers.join(", ");
        match left(told) {
            None => check.fail(format!("{servers} has no jobs from the agent"), fix),
            // It has missed two.
            Some(left) if left + 2 * settings.interval < settings.ttl => {
                check.fail(format!("{servers} last heard from the agent {:.0?} ago", settings.ttl - left), fix);
            }
            Some(_) => {}
        }
    }
    check.or(format!("all proxies have the jobs ({})", list.len()))
}

/// Whether the agent can be woken.
fn wake(path: &Path) -> Vec<Finding> {
    let mut check = Check::new("slurm wake");
    let place = path.display();
    match look_at(path) {
        Ok(At::Used) => {}
        Ok(At::Free) => check.fail(format!("no agent receives at {place}"), "systemctl start vpfs-slurm"),
        Err(reason) => check.fail(format!("{place}: {reason}"), "correct agent.wake, and what `vpfs slurm wake` uses"),
    }
    check.or(format!("the agent receives at {place}"))
}

/// What `scontrol show config` printed, or why not.
type Told<'a> = Result<&'a HashMap<String, String>, &'a String>;

const ELSEWHERE: &str = "run this on the host of slurmctld";

/// Whether slurmctld wakes the agent, by programs that it can run: if it cannot, no job starts.
fn prolog(told: Told<'_>, interval: Duration) -> Vec<Finding> {
    let mut check = Check::new("slurm prolog");
    let told = match told {
        Ok(told) => told,
        Err(error) => return check.skip(error, ELSEWHERE),
    };
    for (key, what) in [("PrologSlurmctld", "starts"), ("EpilogSlurmctld", "ends")] {
        // Later versions number several.
        let programs = told.iter().filter(|(name, _)| name.split('[').next() == Some(key)).map(|(_, path)| path);
        let programs: Vec<&String> = programs.filter(|path| path.starts_with('/')).collect();
        if programs.is_empty() {
            let fix = format!("in slurm.conf, {key}= a script that runs `vpfs slurm wake`, and start slurmctld again");
            check.warn(format!("no {key}: that a job {what} is seen up to {interval:?} later"), fix);
        }
        for program in programs {
            let is_program =
                fs::metadata(program).is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0);
            if !is_program {
                check.fail(
                    format!("{key}: {program} is no program here"),
                    format!("install it, and chmod 755 {program}"),
                );
            }
        }
    }
    check.or("slurmctld runs programs when jobs start and end")
}

/// Whether users can choose the accounts that rules go by.
fn accounts(told: Told<'_>, uses_accounts: bool) -> Vec<Finding> {
    let mut check = Check::new("slurm accounts");
    let told = match told {
        Ok(told) => told,
        Err(error) => return check.skip(error, ELSEWHERE),
    };
    let is_enforced = are_accounts_enforced(told);
    if uses_accounts && !is_enforced {
        check.warn(
            "rules go by accounts, and any user can choose one (sbatch -A)",
            "AccountingStorageEnforce=associations in slurm.conf, with slurmdbd; or rules by user",
        );
    }
    check.or(if is_enforced { "users have the accounts that they were given" } else { "no rule goes by accounts" })
}

/// Whether all nodes have addresses.
async fn nodes(settings: &Settings, config: &Config) -> Vec<Finding> {
    let mut check = Check::new("slurm nodes");
    if have_own_jobs(config) {
        return check.or("mounts need no addresses of nodes");
    }
    let patience = settings.timeout;
    let listed = tokio::task::spawn_blocking(move || addresses(patience)).await;
    let listed = match listed.map_err(|error| error.to_string()).flatten() {
        Ok(listed) => listed,
        Err(error) => return check.skip(error, ELSEWHERE),
    };
    let mut hosts = Hosts::new(settings.clone());
    hosts.want(listed.keys().cloned().collect());
    hosts.settle().await;
    let mut missing: Vec<String> = listed.into_keys().filter(|node| hosts.addresses(node).is_empty()).collect();
    missing.sort();
    if !missing.is_empty() {
        let text = format!("jobs are not recognised on nodes without an address: {}", names(&missing));
        check.warn(text, "correct NodeAddr in slurm.conf, agent.clients, or what /etc/nsswitch.conf asks");
    }
    check.or("all have addresses")
}

#[cfg(test)]
mod tests {
    use std::fs::{Permissions, set_permissions, write};

    use vpfs_config::sets::SetText;
    use vpfs_proxy::admin::PushedSet;
    use vpfs_proxy::admin::api::Usage;

    use super::*;
    use crate::cmd::doctor::Verdict;
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
        assert!(super::super::findings_table(&found).to_string().contains("s2:"), "{found:?}");
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

    fn verdicts(findings: &[Finding]) -> Vec<Verdict> {
        findings.iter().map(|finding| finding.result).collect()
    }

    fn settings(rules: &str, folder: &Path) -> Settings {
        let text = format!("[agent]\ntoken = \"slurm.token\"\n{rules}");
        Settings::parse("slurm.toml", &text, folder).unwrap_or_else(|problems| panic!("{problems}"))
    }

    #[test]
    fn what_slurm_does_is_compared_with_what_rules_need() {
        let told = |pairs: &[(&str, &str)]| {
            pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect::<HashMap<_, _>>()
        };
        let minute = Duration::from_secs(60);
        let prolog = |pairs: &[(&str, &str)]| verdicts(&super::prolog(Ok(&told(pairs)), minute));
        let epilog = ("EpilogSlurmctld[1]", "/bin/sh");
        assert_eq!(prolog(&[("PrologSlurmctld", "/bin/sh"), epilog]), [Verdict::Ok]);
        assert_eq!(prolog(&[("PrologSlurmctld", "(null)"), epilog]), [Verdict::Warning]);
        assert_eq!(prolog(&[("PrologSlurmctld", "/no/program"), epilog]), [Verdict::Failed]);
        assert_eq!(prolog(&[]), [Verdict::Warning, Verdict::Warning]);
        assert_eq!(verdicts(&super::prolog(Err(&"no scontrol".into()), minute)), [Verdict::Skipped]);
        let folder = Path::new("/");
        let by_account = settings("[[rule]]\nshare = \"{account}/{user}\"\n", folder).uses_accounts();
        assert!(by_account && settings("[[rule]]\naccount = \"bio\"\n", folder).uses_accounts());
        assert!(!settings("[[rule]]\nshare = \"{user}\"\n", folder).uses_accounts());
        let accounts =
            |enforced: &str, uses| verdicts(&accounts(Ok(&told(&[("AccountingStorageEnforce", enforced)])), uses));
        assert_eq!(accounts("none", by_account), [Verdict::Warning]);
        assert_eq!(accounts("associations,limits", by_account), [Verdict::Ok]);
        assert_eq!(accounts("none", false), [Verdict::Ok]);
    }

    #[test]
    fn a_token_that_proves_nothing_fails() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let text = "[[server]]\nname = \"s\"\naddress = \"tcp://127.0.0.1:3334\"\n[[listener]]\nport = 5334\n[[owner]]\n\
                    name = \"slurm\"\ntoken = \"theirs\"\n";
        write(path("vpfs.toml"), text).unwrap();
        write(path("theirs"), "0123456789abcdef\n").unwrap();
        let config = Config::load(&path("vpfs.toml")).unwrap();
        let token = || verdicts(&token(&settings("", folder.path()), &config));
        assert_eq!(token(), [Verdict::Failed], "it is missing");
        write(path("slurm.token"), "0123456789abcdef").unwrap();
        set_permissions(path("slurm.token"), Permissions::from_mode(0o644)).unwrap();
        assert_eq!(token(), [Verdict::Failed], "everybody has it");
        set_permissions(path("slurm.token"), Permissions::from_mode(0o640)).unwrap();
        assert_eq!(token(), [Verdict::Ok]);
        write(path("theirs"), "another").unwrap();
        assert_eq!(token(), [Verdict::Failed]);
    }

    #[test]
    fn a_proxy_without_recent_jobs_fails() {
        let settings = settings("", Path::new("/"));
        let told = |left_seconds: Option<f64>| {
            let text = SetText { version: 1, ttl: "5min".into(), apps: Vec::new() };
            let set = |left_seconds| PushedSet { set: settings.owner.clone(), left_seconds, text };
            PushedSets { servers: vec!["s1".into()], sets: left_seconds.map(set).into_iter().collect() }
        };
        let reached = |list, silent| verdicts(&super::reached(&settings, Ok(Answers { list, silent })));
        assert_eq!(reached(vec![told(Some(280.0))], Vec::new()), [Verdict::Ok]);
        assert_eq!(reached(vec![told(Some(100.0))], Vec::new()), [Verdict::Failed]);
        assert_eq!(reached(vec![told(None)], vec!["s2 is silent".into()]), [Verdict::Failed, Verdict::Failed]);
        assert_eq!(verdicts(&super::reached(&settings, Err("nobody".into()))), [Verdict::Failed]);
    }
}
