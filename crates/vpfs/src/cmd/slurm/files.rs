//! The files of the agent, and whether they have changed.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use vpfs_config::Config;
use vpfs_slurm::{Reach, Settings};

use super::load;
use crate::cmd::asking::changing::read_token;
use crate::exit::Exit;

/// What the files say.
pub(super) struct Files {
    /// slurm.toml.
    pub(super) rules: PathBuf,
    pub(super) settings: Settings,
    pub(super) config: Config,
    pub(super) token: Option<String>,
    /// As they were before they were read.
    pub(super) stamp: Stamp,
}

/// Which file was there and when it was written, for slurm.toml, the configuration and the token.
pub(super) type Stamp = Vec<Option<(u64, i64, i64)>>;

impl Files {
    /// Reads and checks all of them.
    pub(super) fn load(rules: &Path) -> Result<Self, Exit> {
        let settings = load(rules)?;
        // Before they are read: a change meanwhile is seen the next time.
        let stamp = stamp(rules, &settings);
        let config = load_config(&settings)?;
        if settings.reach == Reach::Peers && config.peers.is_none() {
            let file = settings.config.display();
            return Err(Exit::Usage(format!(
                "{file} has no [peers], so its proxies have no address; use reach = \"sockets\""
            )));
        }
        let token = settings.token.as_deref().map(read_token).transpose()?;
        Ok(Self { rules: rules.to_owned(), settings, config, token, stamp })
    }

    /// As they are now.
    pub(super) fn stamp_now(&self) -> Stamp {
        stamp(&self.rules, &self.settings)
    }
}

/// The configuration of the servers.
pub(super) fn load_config(settings: &Settings) -> Result<Config, Exit> {
    Config::load(&settings.config).map_err(|problems| Exit::Usage(format!("invalid configuration\n{problems}")))
}

fn stamp(rules: &Path, settings: &Settings) -> Stamp {
    let of = |path: &Path| {
        let metadata = fs::metadata(path).ok()?;
        Some((metadata.ino(), metadata.mtime(), metadata.mtime_nsec()))
    };
    [Some(rules), Some(&settings.config), settings.token.as_deref()].into_iter().flatten().map(of).collect()
}
