//! Checks of what gives jobs of Slurm their shares, on the host of slurmctld.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use vpfs_admin::PushedSets;
use vpfs_config::Config;
use vpfs_slurm::{Reach, Settings};

use super::finding::{Check, Finding};
use crate::cmd::asking::{Answers, Asking};
use crate::cmd::slurm::{
    At, Files, Hosts, addresses, are_accounts_enforced, have_own_jobs, look_at, names, settings_of_slurm,
};

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

    use vpfs_admin::PushedSet;
    use vpfs_config::sets::SetText;

    use super::super::finding::Verdict;
    use super::*;

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
        let prolog = |pairs: &[(&str, &str)]| verdicts(&prolog(Ok(&told(pairs)), minute));
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
        let reached = |list, silent| verdicts(&reached(&settings, Ok(Answers { list, silent })));
        assert_eq!(reached(vec![told(Some(280.0))], Vec::new()), [Verdict::Ok]);
        assert_eq!(reached(vec![told(Some(100.0))], Vec::new()), [Verdict::Failed]);
        assert_eq!(reached(vec![told(None)], vec!["s2 is silent".into()]), [Verdict::Failed, Verdict::Failed]);
        assert_eq!(verdicts(&super::reached(&settings, Err("nobody".into()))), [Verdict::Failed]);
    }
}
