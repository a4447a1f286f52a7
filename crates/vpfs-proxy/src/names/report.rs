//! What the log says about names without addresses: one line for each application, not for each name.

use std::collections::{BTreeMap, BTreeSet};

use vpfs_config::Config;
use vpfs_core::ServerId;

use super::NO_ANSWER;
use super::table::Table;

/// The length of a list of hosts in a line.
const LIST_MAX: usize = 60;

/// Names of one purpose, some of which have no address.
pub(super) struct Line {
    /// What lacks them: an application or a setting.
    pub(super) subject: String,
    pub(super) missing: usize,
    pub(super) text: String,
}

/// A line for each purpose for which names are missing.
pub(super) fn missing(config: &Config, own: &[ServerId], table: &Table) -> Vec<Line> {
    let listed = |key: &str| config.setting(key).unwrap_or_default();
    let mut lines = Vec::new();
    for app in &config.apps {
        let clients = app.rules().filter_map(|rule| rule.clients.as_ref());
        let names = clients.flat_map(|clients| &clients.names).map(|(name, _)| name.as_str());
        let list = listed(&format!("app.{}.clients", app.name));
        let effect = "its rule does not apply to them";
        lines.extend(line(format!("app {}", app.name), names, list, effect, table));
    }
    if let Some(servers) = &config.trust.servers {
        let names = servers.names.iter().map(|(name, _)| name.as_str());
        let effect = "requests that they send as servers are scheduled like a client's";
        lines.extend(line("trust.servers".into(), names, listed("trust.servers"), effect, table));
    }
    let host = |id: ServerId| config.servers[id.index()].address.host();
    // Nobody connects to a mount.
    let is_server = |id: &ServerId| !config.servers[id.index()].is_mount();
    let own: Vec<_> = own.iter().copied().filter(is_server).collect();
    let named =
        |ids: &[ServerId]| ids.iter().map(|id| config.servers[id.index()].name.as_str()).collect::<Vec<_>>().join(", ");
    let effect = "this proxy cannot connect to them, so their clients get no answer through it";
    lines.extend(line("[[server]]".into(), own.iter().map(|&id| host(id)), &named(&own), effect, table));
    if config.trust.servers.is_none() {
        let others: Vec<_> =
            config.servers().map(|(id, _)| id).filter(|id| is_server(id) && !own.contains(id)).collect();
        let effect = "requests that they send as servers are scheduled like a client's";
        let subject = "[[server]] of other proxies".into();
        lines.extend(line(subject, others.iter().map(|&id| host(id)), &named(&others), effect, table));
    }
    lines
}

fn line<'a>(
    subject: String,
    names: impl Iterator<Item = &'a str>,
    list: &str,
    effect: &str,
    table: &Table,
) -> Option<Line> {
    let names: BTreeSet<&str> = names.filter(|name| name.parse::<std::net::IpAddr>().is_err()).collect();
    let missing: Vec<&str> = names.iter().copied().filter(|name| table.addresses(name).is_empty()).collect();
    let first = missing.first()?;
    let reason = match table.answer(first) {
        Some(Err(reason)) => reason,
        _ => NO_ANSWER,
    };
    let text = format!(
        "{subject}: {} of {} hosts of {} can't be resolved ({}: {reason}); until they are, {effect}",
        missing.len(),
        names.len(),
        shortened(list),
        shortened(&missing.join(", ")),
    );
    Some(Line { subject, missing: missing.len(), text })
}

fn shortened(list: &str) -> String {
    match list.char_indices().nth(LIST_MAX) {
        Some((end, _)) => format!("{}…", &list[..end]),
        None => list.to_owned(),
    }
}

/// What is to be said about the names of a configuration now.
pub(crate) struct Findings {
    missing: Vec<Line>,
    /// Names that can't be looked up but have addresses: their number, and one of them with the reason.
    stale: Option<(usize, String, String)>,
}

impl Findings {
    pub(super) fn of(config: &Config, own: &[ServerId], table: &Table) -> Self {
        let first = table.stale().next().map(|(name, reason)| (name.to_owned(), reason.to_owned()));
        let stale = first.map(|(name, reason)| (table.stale().count(), name, reason));
        Self { missing: missing(config, own, table), stale }
    }
}

/// What the log has said, so that it says what is new.
#[derive(Default)]
pub(crate) struct Reporter {
    missing: BTreeMap<String, usize>,
    is_stale: bool,
}

impl Reporter {
    /// Logs what is worse than before, and what is as it should be again.
    pub(crate) fn tell(&mut self, findings: Findings) {
        for line in &findings.missing {
            if line.missing > self.missing.get(&line.subject).copied().unwrap_or_default() {
                tracing::warn!("{}; they are looked up again in the background", line.text);
            }
        }
        let now: BTreeMap<_, _> = findings.missing.into_iter().map(|line| (line.subject, line.missing)).collect();
        for subject in self.missing.keys().filter(|subject| !now.contains_key(*subject)) {
            tracing::info!("{subject}: all hosts are resolved");
        }
        self.missing = now;
        match findings.stale {
            Some((hosts, name, reason)) if !self.is_stale => {
                self.is_stale = true;
                tracing::warn!(hosts, name, reason, "host names cannot be looked up now; keeping their last addresses");
            }
            None if self.is_stale => {
                self.is_stale = false;
                tracing::info!("host names can be looked up again");
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use vpfs_core::Time;

    use super::*;

    const TEXT: &str = "[[server]]\nname = \"s1\"\naddress = \"tcp://oss1:3334\"\n\
                        [[server]]\nname = \"s2\"\naddress = \"tcp://oss2:3334\"\n[[listener]]\nport = 5334\n\
                        [[app]]\nname = \"climate\"\nclients = \"c[001-064]\"\n";

    fn lines(text: &str, resolved: &[&str]) -> Vec<String> {
        let config = Config::parse("test", text).unwrap();
        let mut table = Table::new(BTreeMap::new());
        table.want(Time::ZERO, super::super::wanted::of(&config, &[ServerId(0)]));
        while let Some(name) = table.poll_lookup(Time::ZERO) {
            let found = resolved.contains(&name.as_str());
            let answer = if found { Ok(vec![[10, 0, 0, 1].into()]) } else { Err("no such host".to_owned()) };
            table.answered(Time::ZERO, &name, answer);
        }
        missing(&config, &[ServerId(0)], &table).into_iter().map(|line| line.text).collect()
    }

    /// Symptom: 64 lines for 64 hosts that cannot be resolved.
    #[test]
    fn one_line_for_each_application() {
        let lines = lines(TEXT, &["oss1", "oss2"]);
        assert_eq!(lines.len(), 1);
        let start = "app climate: 64 of 64 hosts of c[001-064] can't be resolved (c001, c002, c003, ";
        assert!(lines[0].starts_with(start), "{}", lines[0]);
        assert!(lines[0].ends_with("…: no such host); until they are, its rule does not apply to them"));
    }

    #[test]
    fn a_line_says_what_happens_to_whom() {
        let text = TEXT.replace("c[001-064]", "c064");
        assert_eq!(
            lines(&text, &["c064", "oss1"]),
            [
                "[[server]] of other proxies: 1 of 1 hosts of s2 can't be resolved (oss2: no such host); until they are, \
              requests that they send as servers are scheduled like a client's"
            ]
        );
        let listed = format!("{text}[trust]\nservers = [\"oss1\", \"10.0.0.1\", \"mds\"]\n");
        assert_eq!(
            lines(&listed, &["c064"]),
            [
                "trust.servers: 2 of 2 hosts of oss1, 10.0.0.1, mds can't be resolved (mds, oss1: no such host); until \
                 they are, requests that they send as servers are scheduled like a client's",
                "[[server]]: 1 of 1 hosts of s1 can't be resolved (oss1: no such host); until they are, this proxy \
                 cannot connect to them, so their clients get no answer through it",
            ]
        );
    }

    #[test]
    fn a_mount_needs_no_address_for_itself() {
        assert_eq!(lines("[[server]]\nname = \"s1\"\naddress = \"mount://unknown\"\n", &[]), [""; 0]);
    }
}
