//! The daemon inside `vpfs mount`, in which requests take turns.

use std::path::Path;

use tokio::task::JoinSet;
use vpfs_admin::events::Events;
use vpfs_config::Config;
use vpfs_core::ServerId;
use vpfs_proxy::{Daemon, Environment, Resolver, StateDir, Turns};

use super::{admin, load_config, reload};
use crate::exit::Exit;
use crate::log::LogSwitch;

/// A daemon without listeners, and those who may ask it.
pub(super) struct Shares {
    daemon: Daemon,
    _admin: JoinSet<()>,
}

/// Reads a file, and chooses the mount that this host or `name` is.
pub(super) fn load(path: &Path, name: Option<&str>) -> Result<(Config, ServerId), Exit> {
    let config = load_config(path)?;
    let path = path.display();
    if !config.servers.iter().all(vpfs_config::Server::is_mount) {
        let message = format!("{path} is for proxies; a mount needs a [[server]] with address = \"mount://HOST\"");
        return Err(Exit::Usage(message));
    }
    let own = rustix::system::uname();
    let own = own.nodename().to_string_lossy();
    let here = || config.servers().find(|(_, server)| server.address.host() == own).map(|(id, _)| id);
    let server = match (name, config.servers.len()) {
        (Some(name), _) => config.server(name).map_err(Exit::Usage)?,
        (None, 1) => ServerId(0),
        (None, _) => here().ok_or_else(|| {
            Exit::Usage(format!(
                "{path} has no mount://{own}; add a [[server]] for this host, or name one with --server"
            ))
        })?,
    };
    Ok((config, server))
}

impl Shares {
    pub(super) async fn start(config: Config, server: ServerId, events: &Events) -> Result<Self, Exit> {
        if !config.warnings.list.is_empty() {
            tracing::warn!(warnings = %config.warnings, "the configuration is valid, but probably not as intended");
        }
        let environment = Environment { resolver: Resolver::default(), state: StateDir::of_service() };
        let daemon = Daemon::start_in(&environment, config, &[server]).await;
        let mut daemon = daemon.map_err(|error| Exit::Failed(error.to_string()))?;
        let askers = daemon.take_askers();
        let admin =
            admin::serve(daemon.config(), &[server], false, (&daemon.observer(), daemon.pushes()), (events, askers));
        tracing::info!(policy = daemon.config().scheduler.policy.kind.name(), "requests take turns");
        Ok(Self { daemon, _admin: admin })
    }

    pub(super) fn turns(&self) -> Turns {
        self.daemon.turns(0)
    }

    /// Reads the file again; one with problems changes nothing.
    pub(super) async fn reload(&mut self, path: &Path, log: &LogSwitch) {
        reload::run(&mut self.daemon, path, log).await;
    }

    /// Ends when nobody uses the mount any more.
    pub(super) async fn end(self) {
        self.daemon.drain().await;
    }
}
