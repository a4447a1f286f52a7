//! `vpfs proxy --check`: whether a proxy can start on this host; with `--connect`, whether the servers are there, and
//! say what vpfs.toml says.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, UdpSocket};
use std::time::Duration;

use futures_util::future::{FutureExt, join_all};
use futures_util::{StreamExt, stream};
use tokio::task::JoinSet;
use vpfs_config::{Config, Protocol, Server};
use vpfs_core::ServerId;
use vpfs_proxy::{Reader, check_secrets, check_serving, check_start, shortage_of_descriptors};
use vpfs_testbed::client::fetch_config;
use vpfs_testbed::fsconfig::{Alias, Configuration};
use vpfs_testbed::nfs;

use crate::print::Exit;

/// An error if a process for these servers cannot start here. Without a choice among servers of several hosts the file
/// is checked, wherever that is: then it is a warning.
pub(super) async fn check_here(config: &Config, servers: &[ServerId], are_chosen: bool) -> Result<(), Exit> {
    if let Some(shortage) = shortage_of_descriptors(config.limits.connections) {
        eprintln!("warning: {shortage}");
    }
    check_serving(config).iter().for_each(|reason| eprintln!("warning: {reason}"));
    let mut reasons: Vec<String> = check_start(config, servers).await.iter().map(ToString::to_string).collect();
    let can_start = reasons.is_empty();
    let mut open = Vec::new();
    for problem in check_secrets(config, None) {
        if problem.is_useless { &mut reasons } else { &mut open }.push(problem.to_string());
    }
    // Root can read what the packaged service cannot; whether that is what runs here is not known.
    if let Some(reader) = Reader::of_service() {
        let problems = check_secrets(config, Some(&reader)).into_iter().map(|problem| problem.to_string());
        open.extend(problems.filter(|text| text.contains(&reader.name)));
    }
    open.iter().for_each(|reason| eprintln!("warning: {reason}"));
    let hosts = |server: &vpfs_config::Server| server.address.host().to_ascii_lowercase();
    let mut hosts: Vec<String> = config.servers.iter().map(hosts).collect();
    hosts.sort_unstable();
    hosts.dedup();
    if are_chosen || hosts.len() == 1 {
        return refuse(&reasons);
    }
    if !can_start {
        eprintln!("warning: a process for all servers cannot start here; --server NAME checks one for those of a host");
    }
    reasons.iter().for_each(|reason| eprintln!("warning: {reason}"));
    Ok(())
}

fn refuse(reasons: &[String]) -> Result<(), Exit> {
    if reasons.is_empty() {
        return Ok(());
    }
    Err(Exit::Usage(format!(
        "a proxy cannot start here with this configuration, or not do all that it says\n{}",
        reasons.join("\n")
    )))
}

/// How long a server may take. Clients wait longer; an administrator does not.
const WAIT: Duration = Duration::from_secs(5);

/// How many servers are asked at a time, which needs as many sockets.
const AT_ONCE: usize = 64;

/// Asks these servers for their configuration, as clients do, or for what they speak. Prints a line for each; an error
/// if one cannot be used.
pub(super) async fn check_connect(config: &Config, servers: &[ServerId]) -> Result<(), Exit> {
    let (answers, findings) = ask_all(config, servers).await;
    answers.iter().for_each(|answer| eprintln!("{answer}"));
    if findings.is_empty() {
        eprintln!("the servers agree with the configuration ({} reached)", answers.len());
        return Ok(());
    }
    Err(Exit::Failed(format!("the servers do not agree with the configuration\n{}", findings.join("\n"))))
}

/// Asks these servers. A line for each that answers, and for each difference.
pub(super) async fn ask_all(config: &Config, servers: &[ServerId]) -> (Vec<String>, Vec<String>) {
    let of = |protocol: Protocol| -> Vec<ServerId> {
        let has = |id: &ServerId| config.servers[id.index()].address.protocol() == Some(protocol);
        servers.iter().copied().filter(has).collect()
    };
    let (mut answers, mut findings) = nfs_findings(config, &of(Protocol::Nfs)).await;
    let (more, differences) = orangefs_findings(config, &of(Protocol::OrangeFs)).await;
    answers.extend(more);
    findings.extend(differences);
    (answers, findings)
}

async fn nfs_findings(config: &Config, servers: &[ServerId]) -> (Vec<String>, Vec<String>) {
    let asked = servers.iter().map(async |id| {
        let server = &config.servers[id.index()];
        (server, nfs::answers(&format!("{}:{}", server.address.host(), server.address.port()), WAIT).await)
    });
    let (mut answers, mut findings) = (Vec::new(), Vec::new());
    for (Server { name, address, .. }, answer) in join_all(asked).await {
        match answer {
            Err(error) => findings.push(format!("{name}: {error}")),
            Ok(offered) if offered.is_empty() => findings.push(format!("{name}: {address} has neither NFS nor mountd")),
            Ok(offered) => answers.push(format!("{name}: {address} answers {}", offered.join(", "))),
        }
    }
    (answers, findings)
}

async fn orangefs_findings(config: &Config, servers: &[ServerId]) -> (Vec<String>, Vec<String>) {
    let (mut answers, mut findings) = (Vec::new(), Vec::new());
    let mut first: Option<(&str, Vec<u8>)> = None;
    for group in servers.chunks(AT_ONCE) {
        for (id, answer) in ask(config, group).await {
            let Server { name, address, .. } = &config.servers[id.index()];
            if answer.is_ok() {
                answers.push(format!("{name}: {address} answers"));
            }
            match (answer, &first) {
                (Err(problem), _) => findings.push(format!("{name}: {problem}")),
                (Ok(text), Some((_, known))) if text == *known => {}
                (Ok(text), _) => {
                    findings.extend(compared(config, name, &text));
                    if let Some((other, _)) = &first {
                        findings
                            .push(format!("{name}: its configuration is not that of {other}; clients do not mount"));
                    }
                    first = first.or(Some((name, text)));
                }
            }
        }
    }
    (answers, findings)
}

async fn ask(config: &Config, servers: &[ServerId]) -> Vec<(ServerId, Result<Vec<u8>, String>)> {
    let mut asked = JoinSet::new();
    for &id in servers {
        let address = &config.servers[id.index()].address;
        let target = format!("{}:{}", address.host(), address.port());
        asked.spawn(async move { (id, fetch_config(&target, WAIT).await.map_err(|error| error.to_string())) }.boxed());
    }
    let mut answers = asked.join_all().await;
    answers.sort_by_key(|(id, _)| id.index());
    answers
}

/// Where the configuration that a server returned differs from ours.
fn compared(config: &Config, server: &str, text: &[u8]) -> Vec<String> {
    let theirs = match Configuration::parse(text) {
        Ok(theirs) => theirs,
        Err(error) => return vec![format!("{server}: its configuration cannot be used: {error}")],
    };
    let other_aliases = theirs.aliases.iter().filter_map(|alias| other_alias(config, alias));
    let ours = config.servers.iter().filter(|server| server.address.protocol() == Some(Protocol::OrangeFs));
    let unknown = ours.filter_map(|server| unknown(&theirs, server));
    other_aliases.chain(unknown).chain(impatient(config, server, &theirs)).collect()
}

/// Clients that repeat a request before the proxies expect it, by the servers' `ClientJobBMITimeoutSecs`.
fn impatient(config: &Config, server: &str, theirs: &Configuration) -> Option<String> {
    let patience = theirs.file_systems.iter().map(|fs| fs.reply_timeout).min()?;
    let hold = config.limits.max_hold;
    (config.limits.client_timeout.is_none() && patience <= hold).then(|| {
        format!(
            "{server}: clients wait for {patience:?} (ClientJobBMITimeoutSecs), and requests may be held for {hold:?}; \
             write client_timeout = \"{}s\" under [limits]",
            patience.as_secs()
        )
    })
}

/// What we say otherwise about a server than `alias`.
fn other_alias(config: &Config, alias: &Alias) -> Option<String> {
    let (name, address) = (&alias.name, alias.tcp()?);
    let mut ours = config.servers.iter();
    if let Some(server) = ours.clone().find(|server| server.address.as_str() == address) {
        let renamed = server.name != *name;
        return renamed.then(|| format!("{}: the servers call {address} {name}; use the same name", server.name));
    }
    Some(match ours.find(|server| server.name == *name) {
        Some(Server { address: ours, .. }) => {
            format!("{name}: the servers have {address}, not {ours}; write it exactly as they do")
        }
        None => format!("{name}: no [[server]] has {address}, so clients reach it without a proxy"),
    })
}

/// A server of ours that is not in their configuration.
fn unknown(theirs: &Configuration, Server { name, address, .. }: &Server) -> Option<String> {
    let is_theirs = |alias: &Alias| alias.name == *name || alias.tcp() == Some(address.as_str());
    (!theirs.aliases.iter().any(is_theirs)).then(|| format!("{name}: the servers have neither this name nor {address}"))
}

/// How long one name may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// How many names are looked up at a time.
const LOOKUPS_AT_ONCE: usize = 32;

pub(super) fn is_own(ip: IpAddr) -> bool {
    UdpSocket::bind((ip, 0)).is_ok()
}

/// Addresses by name, as far as they were found.
#[derive(Debug)]
pub(super) struct Names(BTreeMap<String, Vec<IpAddr>>);

impl Names {
    /// Those of these names, or of addresses as text. Afterwards, threads may still wait for a name server: shut the
    /// runtime down in the background.
    pub(super) async fn look_up(wanted: BTreeSet<String>) -> Self {
        let look_up = async |name: String| {
            let found = tokio::time::timeout(PATIENCE, tokio::net::lookup_host((name.clone(), 0))).await;
            let found = found.ok().and_then(Result::ok).into_iter().flatten();
            let unique: BTreeSet<IpAddr> = found.map(|address| address.ip()).collect();
            (name, unique.into_iter().collect())
        };
        Self(stream::iter(wanted).map(look_up).buffer_unordered(LOOKUPS_AT_ONCE).collect().await)
    }

    /// None for a name that was not looked up.
    pub(super) fn of(&self, name: &str) -> Vec<IpAddr> {
        self.0.get(name).cloned().unwrap_or_default()
    }
}

#[cfg(test)]
impl<const N: usize> From<[(String, Vec<IpAddr>); N]> for Names {
    fn from(known: [(String, Vec<IpAddr>); N]) -> Self {
        Self(known.into())
    }
}

#[cfg(test)]
mod tests {
    use vpfs_testbed::fsconfig::FsConfig;

    use super::*;

    #[test]
    fn names_and_addresses_are_compared() {
        let text = FsConfig::new("pfs", &["tcp://oss1:3334".to_owned(), "tcp://oss2:3334".to_owned()]).to_text();
        let findings = |servers: &[(&str, &str)]| {
            let tables = servers.iter().map(|(name, to)| format!("[[server]]\nname = {name:?}\naddress = {to:?}\n"));
            let text_of_ours = tables.collect::<String>() + "[[listener]]\nport = 5334\n";
            compared(&Config::parse("vpfs.toml", &text_of_ours).expect("it is valid"), "s1", text.as_bytes())
        };
        let (first, second) = (("s1", "tcp://oss1:3334"), ("s2", "tcp://oss2:3334"));
        assert!(findings(&[first, second]).is_empty());
        for (servers, expected) in [
            (vec![first], "s2: no [[server]] has tcp://oss2:3334, so clients reach it without a proxy"),
            (vec![first, ("oss2", second.1)], "oss2: the servers call tcp://oss2:3334 s2; use the same name"),
            (
                vec![first, ("s2", "tcp://oss2.example.org:3334")],
                "s2: the servers have tcp://oss2:3334, not tcp://oss2.example.org:3334; write it exactly as they do",
            ),
            (
                vec![first, second, ("s3", "tcp://oss3:3334")],
                "s3: the servers have neither this name nor tcp://oss3:3334",
            ),
        ] {
            assert_eq!(findings(&servers), [expected]);
        }
    }

    #[test]
    fn clients_that_wait_for_less_than_requests_may_are_told_how_long() {
        let servers = FsConfig::new("pfs", &["tcp://oss1:3334".to_owned()]);
        let text = FsConfig { reply_timeout: Duration::from_secs(60), ..servers }.to_text();
        let findings = |more: &str| {
            let ours = "[[server]]\nname = \"s1\"\naddress = \"tcp://oss1:3334\"\n[[listener]]\nport = 5334\n";
            compared(&Config::parse("f", &format!("{ours}{more}")).expect("it is valid"), "s1", text.as_bytes())
        };
        let expected = "s1: clients wait for 60s (ClientJobBMITimeoutSecs), and requests may be held for 270s; write \
                        client_timeout = \"60s\" under [limits]";
        assert_eq!(findings(""), [expected]);
        assert_eq!(findings("[limits]\nclient_timeout = \"60s\"\n"), [""; 0]);
    }
}
