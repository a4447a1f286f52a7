//! Changing a set of applications at all proxies.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use vpfs_admin::{Change, Failure, change_by};
use vpfs_config::{Config, read_text};
use vpfs_core::ServerId;
use vpfs_proxy::connect_to_ask;

use super::silence::{Silence, connect, understood, unreachable, without_answer};
use super::{Asking, sockets};
use crate::exit::Exit;

/// What became of a change at the proxies of a configuration.
#[derive(Debug, Default)]
pub(in super::super) struct Changed {
    /// Servers whose proxy has it now.
    pub(in super::super) done: Vec<String>,
    /// Whether anything is different there than before.
    pub(in super::super) is_different: bool,
    /// Why others have not.
    pub(in super::super) failed: BTreeMap<String, String>,
}

/// Why a proxy has not changed a set.
#[derive(Debug)]
pub(in super::super) struct NotChanged {
    /// The version that it has instead.
    pub(in super::super) newer: Option<u64>,
    /// Its reason.
    pub(in super::super) silence: Silence,
}

impl From<Silence> for NotChanged {
    fn from(silence: Silence) -> Self {
        Self { newer: None, silence }
    }
}

/// Changes a set at the proxy of a server; whether its applications were others before.
pub(in super::super) async fn change_one(
    config: &Config,
    remote: bool,
    server: ServerId,
    to: &Change,
) -> Result<bool, NotChanged> {
    let result = match config.peers.as_ref().filter(|_| remote) {
        None => change_by(connect(&sockets(config, &config.servers[server.index()].name)).await?, to).await,
        Some(peers) => {
            let (host, port) = &peers.addresses[server.index()];
            let place = format!("{host}:{port}");
            let stream = connect_to_ask(peers, server).await.map_err(|error| unreachable(&place, &error))?;
            match change_by(stream, to).await {
                Err(Failure::Closed) => return Err(without_answer(&place).into()),
                other => other,
            }
        }
    };
    let newer = if let Err(Failure::Newer(version)) = result { Some(version) } else { None };
    understood(result).map_err(|silence| NotChanged { newer, silence })
}

impl Asking {
    /// Changes a set at once at all proxies that would be asked: those of this host at their sockets, or with `remote`
    /// at their ports. Each takes ten seconds at most.
    pub(in super::super) async fn change(&self, config: &Config, to: &Change) -> Result<Changed, Exit> {
        self.check(config)?;
        let wanted = config.servers().filter(|(_, server)| self.is_wanted(&server.name));
        let one = |(id, server): (ServerId, _)| async move { (server, change_one(config, self.remote, id, to).await) };
        let mut asking: FuturesUnordered<_> = wanted.map(|(id, server)| one((id, server.name.as_str()))).collect();
        let mut changed = Changed::default();
        while let Some((server, result)) = asking.next().await {
            match result {
                Ok(is_different) => {
                    changed.done.push(server.to_owned());
                    changed.is_different |= is_different;
                }
                // Of several servers of one process, the first one has the socket.
                Err(NotChanged { silence: Silence::Absent, .. }) => {}
                Err(NotChanged { silence, .. }) => drop(changed.failed.insert(server.to_owned(), silence.to_string())),
            }
        }
        changed.done.sort();
        match (changed.done.is_empty() && changed.failed.is_empty(), &self.servers[..]) {
            (true, [name, ..]) => Err(self.missing(config, &format!("the proxy of {name}"), &[], &[])),
            (true, []) => Err(self.missing(config, "any proxy", &[], &[])),
            _ => Ok(changed),
        }
    }
}

/// The secret in a file.
pub(in super::super) fn read_token(path: &Path) -> Result<String, Exit> {
    let text = read_text(path).map_err(|error| Exit::Failed(format!("cannot read {}: {error}", path.display())))?;
    Ok(text.trim().to_owned())
}

/// A version for a set: microseconds since 1970, so that the next one is larger also after a restart.
pub(in super::super) fn version_now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}
