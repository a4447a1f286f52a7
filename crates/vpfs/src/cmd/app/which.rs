//! `vpfs app which`: to which application a client belongs, and why.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::net::IpAddr;
use std::path::PathBuf;

use vpfs_config::{App, AppIndex, Config, Identity, Ids};

use crate::cmd::names::Names;
use crate::cmd::runtime;
use crate::exit::Exit;
use crate::print::print;

/// Show to which application a client belongs, and why it is no earlier one
///
/// Reads the configuration and looks host names up; asks no proxy, so a file can be tried before it is reloaded.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    vpfs app which --host c012 --uid 3001\n  \
    vpfs app which --host 10.1.2.3 --uid 3001 --gid 100 --gid 2000 --port 5335")]
pub(super) struct Which {
    /// The configuration, see docs/config.md
    #[arg(long, value_name = "FILE", default_value = "/etc/vpfs/vpfs.toml")]
    config: PathBuf,

    /// The client's host, by name or address
    #[arg(long)]
    host: String,

    /// The user that it states [default: none, as at the start of a connection]
    #[arg(long)]
    uid: Option<u32>,

    /// A group that it states; may be given several times
    #[arg(long = "gid", value_name = "GID")]
    gids: Vec<u32>,

    /// The port that it connects to, if listeners have applications
    #[arg(long)]
    port: Option<u16>,
}

/// A client as proxies see it.
struct Client<'a> {
    ip: IpAddr,
    uid: Option<u32>,
    gids: &'a [u32],
    listener: Option<AppIndex>,
}

impl Which {
    pub(crate) fn run(&self) -> Result<(), Exit> {
        let config =
            Config::load(&self.config).map_err(|problems| Exit::Usage(format!("invalid configuration\n{problems}")))?;
        let listener = self.listener(&config)?;
        let wanted: BTreeSet<String> =
            config.unresolved().map(|(name, _)| name.to_owned()).chain([self.host.clone()]).collect();
        let runtime = runtime()?;
        let names = runtime.block_on(Names::look_up(wanted));
        // A name server that hangs must not keep this from ending.
        runtime.shutdown_background();
        let addresses = names.of(&self.host);
        if addresses.is_empty() {
            return Err(Exit::Failed(format!("{} can't be resolved; give its address instead", self.host)));
        }
        for ip in addresses {
            let client = Client { ip, uid: self.uid, gids: &self.gids, listener };
            print(explained(&config, &client, &names).trim_end())?;
        }
        Ok(())
    }

    /// The application of the listener at the port, if it has one.
    fn listener(&self, config: &Config) -> Result<Option<AppIndex>, Exit> {
        let Some(port) = self.port else { return Ok(None) };
        let mut listeners = config.listeners.iter();
        match listeners.find(|listener| listener.addresses.iter().any(|address| address.port() == port)) {
            Some(listener) => Ok(listener.app),
            None => Err(Exit::Usage(format!("no [[listener]] has port {port}"))),
        }
    }
}

/// In the first line the application, then why.
fn explained(config: &Config, client: &Client<'_>, names: &Names) -> String {
    let identify = config.resolve(&|name| names.of(name));
    let identity = identify.identify(client.listener, client.ip, client.uid, client.gids);
    let (name, why) = match identity {
        Identity::App(index) => {
            let app = &config.apps[index.0];
            let why = match client.listener {
                Some(_) => "the listener at this port belongs to it".to_owned(),
                None if app.rule.is_given() && mismatch(config, app, client, names).is_none() => {
                    format!("the first rule that matches: {}", rule(config, app))
                }
                None => "apps.default: no rule matches, and apps.auto makes no application for it".to_owned(),
            };
            (app.name.clone(), format!("{why}{}", if app.exempt { "; its requests pass at once" } else { "" }))
        }
        Identity::Auto(key) => {
            let auto = config.setting("apps.auto").unwrap_or_default();
            (key.to_string(), format!("no rule matches; apps.auto = \"{auto}\" makes one for it"))
        }
    };
    let mut text = format!("{name}\n  {why}\n");
    if client.listener.is_none() {
        let before = config.apps.iter().take_while(|app| app.name != name).filter(|app| app.rule.is_given());
        for app in before {
            let reason = mismatch(config, app, client, names).unwrap_or_default();
            let _ = writeln!(text, "  not {}: {reason}", app.name);
        }
    }
    text
}

/// The keys of a rule, as they are in the file.
fn rule(config: &Config, app: &App) -> String {
    let parts = ["clients", "uids", "gids"].into_iter().filter_map(|key| {
        let text = setting(config, app, key);
        (!text.is_empty()).then(|| format!("{key} = {text}"))
    });
    parts.collect::<Vec<_>>().join(", ")
}

fn setting<'a>(config: &'a Config, app: &App, key: &str) -> &'a str {
    config.setting(&format!("app.{}.{key}", app.name)).unwrap_or_default()
}

/// The first part of a rule that does not match.
fn mismatch(config: &Config, app: &App, client: &Client<'_>, names: &Names) -> Option<String> {
    let list = |key| setting(config, app, key);
    if let Some(clients) = &app.rule.clients {
        if !clients.resolve(&|name| names.of(name)).contains(client.ip) {
            let missing = clients.names.iter().filter(|(name, _)| names.of(name).is_empty()).count();
            let missing = if missing > 0 { format!(", of which {missing} have no address now") } else { String::new() };
            return Some(format!("{} is not in clients = {}{missing}", client.ip, list("clients")));
        }
    }
    if let Some(uids) = &app.rule.uids {
        match client.uid {
            None => return Some(format!("no user is stated, and it has uids = {}", list("uids"))),
            Some(uid) if !uids.contains(uid) => return Some(format!("{uid} is not in uids = {}", list("uids"))),
            Some(_) => {}
        }
    }
    let is_member = |gids: &Ids| client.gids.iter().any(|&gid| gids.contains(gid));
    let strange = app.rule.gids.as_ref().is_some_and(|gids| !is_member(gids));
    strange.then(|| format!("no group that is stated is in gids = {}", list("gids")))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "[[server]]\nname = \"s1\"\naddress = \"tcp://127.0.0.1:3334\"\n\
        [[listener]]\nport = 5334\n[[listener]]\nport = 5335\napp = \"viz\"\n\
        [[app]]\nname = \"root\"\nclients = \"10.9.0.1\"\nexempt = \"on\"\n\
        [[app]]\nname = \"climate\"\nclients = \"c[001-003]\"\nuids = [\"3000-3999\"]\n\
        [[app]]\nname = \"physics\"\ngids = [500]\n[[app]]\nname = \"viz\"\n";

    fn explain(auto: &str, (ip, uid, gids): (&str, Option<u32>, &[u32]), port: u16) -> String {
        let config = Config::parse("f", &format!("{TEXT}[apps]\nauto = \"{auto}\"\n")).unwrap();
        let names = Names::from([("c001".to_owned(), vec!["10.0.0.1".parse().unwrap()])]);
        let listener = config.listeners.iter().find(|listener| listener.addresses[0].port() == port).unwrap().app;
        explained(&config, &Client { ip: ip.parse().unwrap(), uid, gids, listener }, &names)
    }

    #[test]
    fn a_rule_and_those_before_it_are_explained() {
        assert_eq!(
            explain("off", ("10.0.0.1", Some(3001), &[]), 5334),
            "climate\n  the first rule that matches: clients = c[001-003], uids = 3000-3999\n  \
             not root: 10.0.0.1 is not in clients = 10.9.0.1\n"
        );
        assert_eq!(
            explain("off", ("10.0.0.2", None, &[1, 500]), 5334),
            "physics\n  the first rule that matches: gids = 500\n  not root: 10.0.0.2 is not in clients = 10.9.0.1\n  \
             not climate: 10.0.0.2 is not in clients = c[001-003], of which 2 have no address now\n"
        );
        let root = explain("off", ("10.9.0.1", None, &[]), 5334);
        assert_eq!(root, "root\n  the first rule that matches: clients = 10.9.0.1; its requests pass at once\n");
    }

    #[test]
    fn what_no_rule_has_is_explained() {
        let nobody = ("10.0.0.1", Some(2), &[][..]);
        let others = "  not root: 10.0.0.1 is not in clients = 10.9.0.1\n  not climate: 2 is not in uids = 3000-3999\n  \
                      not physics: no group that is stated is in gids = 500\n";
        let automatic = "host:10.0.0.1\n  no rule matches; apps.auto = \"client-host\" makes one for it\n";
        assert_eq!(explain("client-host", nobody, 5334), format!("{automatic}{others}"));
        let default = "other\n  apps.default: no rule matches, and apps.auto makes no application for it\n";
        assert_eq!(explain("off", nobody, 5334), format!("{default}{others}"));
        assert_eq!(explain("off", nobody, 5335), "viz\n  the listener at this port belongs to it\n");
    }
}
