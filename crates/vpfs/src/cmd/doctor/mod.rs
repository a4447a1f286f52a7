//! `vpfs doctor`: what is wrong with a deployment, and how to fix it.

mod cluster;
mod finding;
mod host;
mod slurm;
mod sockets;

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use vpfs_admin::api::{Status, fingerprint};
use vpfs_admin::events::EventsReport;
use vpfs_config::{Address, Config};
use vpfs_core::ServerId;
use vpfs_proxy::{PeersReport, Resolver, check_names, check_serving, check_start};

use super::asking::{Answer, Answers, Asking};
use super::names::{Names, is_own};
use super::{HOW_TO_CONFIGURE, check_connect, runtime};
use crate::exit::Exit;
use crate::print::{print, print_json};
use finding::{Check, Finding, Verdict};

pub(super) use finding::table;

/// Check a deployment, and say how to fix what is wrong
///
/// Reads the configuration, asks the servers and the proxies, and looks at this host: clients that are connected to
/// servers past their proxies, file descriptors, the packet filter, the state directory, the memory of an NFS server.
/// Where slurm.toml is in the same directory, also looks at what jobs of Slurm need for their shares. Changes nothing.
/// Some checks need root. Exits with 1 if a check fails.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    vpfs doctor                 on each storage server, as root\n  \
    vpfs doctor --json          the same for programs")]
pub(crate) struct Doctor {
    #[command(flatten)]
    patient: Patient,

    /// Print JSON: a list with an object for each finding
    #[arg(long)]
    json: bool,
}

/// What is examined.
#[derive(clap::Args)]
pub(in crate::cmd) struct Patient {
    /// The configuration, see docs/config.md
    #[arg(long, value_name = "FILE", default_value = crate::cmd::CONFIG)]
    pub(in crate::cmd) config: PathBuf,

    /// A server whose proxy runs here, by its name in the file; may be given several times [default: those whose
    /// address is this host's]
    #[arg(long = "server", value_name = "NAME", add = crate::cmd::asking::candidates::servers())]
    pub(in crate::cmd) servers: Vec<String>,
}

impl Doctor {
    pub(crate) fn run(&self) -> Result<(), Exit> {
        let runtime = runtime()?;
        let findings = runtime.block_on(self.patient.examine());
        // A name server that hangs must not keep this from ending.
        runtime.shutdown_background();
        let findings = findings?;
        if self.json { print_json(&findings) } else { print(finding::table(&findings)) }?;
        match findings.iter().filter(|finding| finding.result == Verdict::Failed).count() {
            0 => Ok(()),
            1 => Err(Exit::Failed("one check failed".to_owned())),
            failed => Err(Exit::Failed(format!("{failed} checks failed"))),
        }
    }
}

impl Patient {
    /// All findings, in the order of the checks. An error if a server that was named is not in the file.
    pub(in crate::cmd) async fn examine(&self) -> Result<Vec<Finding>, Exit> {
        let config = match Config::load(&self.config) {
            Ok(config) => config,
            Err(problems) => {
                let mut check = Check::new("configuration");
                let fix = match self.config.try_exists() {
                    Ok(false) => HOW_TO_CONFIGURE,
                    _ => "each line says what to change; nothing else was checked",
                };
                check.fail(problems, fix);
                return Ok(check.or(""));
            }
        };
        let names = addresses(&config).await;
        let here = self.here(&config, &names)?;
        let mut findings = configuration(&self.config, &config);
        findings.extend(start(&config, &here).await);
        findings.extend(resolved(&config, &here).await);
        findings.extend(servers(&config).await);
        findings.extend(self.proxies(&config, &here).await);
        findings.extend(host::bypass(&config, &here, &names));
        findings.extend(host::firewall(&config, &here));
        findings.extend(host::state());
        findings.extend(host::write_back(&config, &here).await);
        findings.extend(slurm::examine(&self.config).await);
        Ok(findings)
    }

    /// The servers whose proxies run here.
    fn here(&self, config: &Config, names: &Names) -> Result<Vec<ServerId>, Exit> {
        if !self.servers.is_empty() {
            return self.servers.iter().map(|name| config.server(name).map_err(Exit::Usage)).collect();
        }
        let is_here = |host: &str| names.of(host).into_iter().any(is_own);
        let servers = config.servers().filter(|(_, server)| is_here(server.address.host()));
        Ok(servers.map(|(id, _)| id).collect())
    }

    /// What those of this host and, with `[peers]`, of all hosts say.
    async fn proxies(&self, config: &Config, here: &[ServerId]) -> Vec<Finding> {
        let ((statuses, failure), (reports, _), (remote, remote_failure), (events, _)) = tokio::join!(
            self.ask::<Status>(config),
            self.ask::<PeersReport>(config),
            self.ask_at::<PeersReport>(config, true),
            self.ask_at::<EventsReport>(config, false)
        );
        let name = |id: &ServerId| config.servers[id.index()].name.as_str();
        let expected: Vec<&str> = if config.peers.is_some() {
            config.servers().map(|(id, _)| name(&id)).collect()
        } else {
            here.iter().map(name).collect()
        };
        let processes: Vec<u32> = events.list.iter().map(|report| report.process).collect();
        let mut findings = cluster::proxies(&statuses, failure.as_deref(), &expected);
        findings.extend(cluster::versions(&statuses.list, env!("CARGO_PKG_VERSION")));
        findings.extend(cluster::configurations(&statuses.list, &fingerprint(config.fingerprint())));
        findings.extend(cluster::connections(&statuses.list));
        findings.extend(cluster::peers(config, &reports.list));
        findings.extend(cluster::remote(config, &remote, remote_failure.as_deref()));
        findings.extend(cluster::clocks(config, &reports.list));
        findings.extend(host::descriptors(config, &processes));
        findings.extend(host::secrets(config, &processes));
        findings
    }

    /// What the proxies of this host answer and, if they do not have all servers, those of all hosts by `[peers]`; or
    /// why none does.
    pub(in crate::cmd) async fn ask<A: Answer>(&self, config: &Config) -> (Answers<A>, Option<String>) {
        // All at once, as each may have to wait for one that hangs.
        let elsewhere = async {
            match config.peers {
                Some(_) => Some(self.ask_at::<A>(config, true).await),
                None => None,
            }
        };
        let ((here, failure), elsewhere) = tokio::join!(self.ask_at::<A>(config, false), elsewhere);
        let servers = here.list.iter().flat_map(A::servers).count();
        let Some((all, remote_failure)) = elsewhere.filter(|_| servers != config.servers.len()) else {
            return (here, failure);
        };
        match remote_failure {
            None => (all, None),
            Some(why) if failure.is_none() => (Answers { silent: vec![why], ..here }, None),
            why => (here, why),
        }
    }

    async fn ask_at<A: Answer>(&self, config: &Config, remote: bool) -> (Answers<A>, Option<String>) {
        let asking = Asking::of(self.config.clone(), Vec::new(), remote);
        match asking.answers(config).await {
            Ok(answers) => (answers, None),
            Err(exit) => (Answers { list: Vec::new(), silent: Vec::new() }, Some(exit.to_string())),
        }
    }
}

fn configuration(path: &Path, config: &Config) -> Vec<Finding> {
    let mut check = Check::new("configuration");
    if !config.warnings.list.is_empty() {
        check.warn(&config.warnings, "change it, unless you mean it");
    }
    check.or(format!("{} is valid", path.display()))
}

async fn start(config: &Config, here: &[ServerId]) -> Vec<Finding> {
    let mut check = Check::new("start");
    if here.is_empty() {
        return check.skip("no server of the file is on this host", "name those whose proxies run here with --server");
    }
    for reason in check_start(config, here).await {
        check.fail(reason, "vpfs proxy --check with the same --server tells the same before a restart does");
    }
    for reason in check_serving(config) {
        check.fail(reason, "write an address of this host, or 0.0.0.0, as listen");
    }
    check.or("proxies can start here")
}

async fn resolved(config: &Config, here: &[ServerId]) -> Vec<Finding> {
    let mut check = Check::new("names");
    let (count, missing) = check_names(config, here, Resolver::default()).await;
    let fix = "correct the name, or what /etc/nsswitch.conf asks";
    missing.into_iter().for_each(|line| check.warn(line, fix));
    check.or(format!("all have addresses ({count})"))
}

async fn servers(config: &Config) -> Vec<Finding> {
    let mut check = Check::new("servers");
    let all: Vec<ServerId> = config.servers().map(|(id, _)| id).collect();
    let (answers, differences) = check_connect::ask_all(config, &all).await;
    let fix = "start the server, or make vpfs.toml and the servers' configuration agree";
    differences.into_iter().for_each(|difference| check.fail(difference, fix));
    check.or(format!("all answer, and agree with the configuration ({})", answers.len()))
}

/// Addresses of all servers, of hosts that are trusted like servers, and of proxies.
async fn addresses(config: &Config) -> Names {
    let wanted = RefCell::new(BTreeSet::new());
    let want = |name: &str| {
        wanted.borrow_mut().insert(name.to_owned());
        Vec::new()
    };
    config.resolve_servers(&want);
    let servers = config.servers.iter().map(|server| &server.address);
    servers.chain(proxies(config)).for_each(|address| drop(want(address.host())));
    Names::look_up(wanted.into_inner()).await
}

/// Where clients reach the proxies.
fn proxies(config: &Config) -> impl Iterator<Item = &Address> {
    config.listeners.iter().flat_map(|listener| &listener.addresses)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cmd::asking::PATIENCE;
    use crate::cmd::asking::tests::stopped;

    /// Symptom: with one proxy that was stopped, this took 40 s. Cause: it was asked for one thing after the other,
    /// here and by `[peers]`.
    #[tokio::test(start_paused = true)]
    async fn a_proxy_that_hangs_is_waited_for_once() {
        let folder = tempfile::tempdir().unwrap();
        let (path, _sockets, _port) = stopped(folder.path());
        let patient = Patient { config: path.clone(), servers: vec!["s1".to_owned()] };
        let (config, began) = (Config::load(&path).unwrap(), tokio::time::Instant::now());
        let findings = patient.proxies(&config, &[ServerId(0)]).await;
        assert_eq!(findings[0].result, Verdict::Failed);
        assert!(began.elapsed() < PATIENCE * 11 / 10, "{:?}", began.elapsed());
    }
}
