//! The files of the agent, and whether they have changed.

use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::{fs, io};

use vpfs_config::Config;
use vpfs_slurm::{Reach, Settings};

use super::load;
use crate::cmd::asking::changing::read_token;
use crate::exit::Exit;

/// What the files say.
pub(in crate::cmd) struct Files {
    /// slurm.toml.
    pub(super) rules: PathBuf,
    pub(in crate::cmd) settings: Settings,
    pub(in crate::cmd) config: Config,
    pub(super) token: Option<String>,
    /// As they were before they were read.
    pub(super) stamp: Stamp,
}

/// Which file was there and when it was written, for slurm.toml, the configuration and the token.
pub(super) type Stamp = Vec<Option<(u64, i64, i64)>>;

impl Files {
    /// Reads and checks all of them.
    pub(in crate::cmd) fn load(rules: &Path) -> Result<Self, Exit> {
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
        look_at(&settings.wake).map_err(|reason| {
            Exit::Usage(format!("{}: agent.wake: {}: {reason}", rules.display(), settings.wake.display()))
        })?;
        let token = settings.token.as_deref().map(read_token).transpose()?;
        Ok(Self { rules: rules.to_owned(), settings, config, token, stamp })
    }

    /// As they are now.
    pub(super) fn stamp_now(&self) -> Stamp {
        stamp(&self.rules, &self.settings)
    }
}

/// The configuration of the servers, which accept jobs of the owner in `settings`.
pub(super) fn load_config(settings: &Settings) -> Result<Config, Exit> {
    let config = crate::cmd::load_config(&settings.config)?;
    let owner = settings.owner.owner();
    // Root needs no token at sockets, and then no owner.
    if settings.token.is_some() && !config.owners.iter().any(|known| known.name == owner) {
        let file = settings.config.display();
        return Err(Exit::Usage(format!(
            "{file} has no [[owner]] {owner:?}, so proxies refuse its jobs; add name = {owner:?} and its token there, or \
             correct agent.owner"
        )));
    }
    Ok(config)
}

/// What is at the path of a socket that is to be made.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::cmd) enum At {
    /// Nothing, or the socket of a program that has ended.
    Free,
    /// A socket at which a program receives, such as this or another agent.
    Used,
}

/// Looks without changing anything. An error, if there is what no agent has made.
pub(in crate::cmd) fn look_at(path: &Path) -> Result<At, String> {
    let metadata = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(At::Free),
        Err(error) => return Err(error.to_string()),
        Ok(metadata) => metadata,
    };
    if !metadata.file_type().is_socket() {
        return Err("is something else than a socket, and stays as it is; name a path where nothing is".into());
    }
    match UnixDatagram::unbound().and_then(|socket| socket.connect(path)) {
        Ok(()) => Ok(At::Used),
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Ok(At::Free),
        Err(error) => Err(format!("is another program's socket ({error}); name a path where nothing is")),
    }
}

fn stamp(rules: &Path, settings: &Settings) -> Stamp {
    let of = |path: &Path| {
        let metadata = fs::metadata(path).ok()?;
        Some((metadata.ino(), metadata.mtime(), metadata.mtime_nsec()))
    };
    [Some(rules), Some(&settings.config), settings.token.as_deref()].into_iter().flatten().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_do_not_fit_together_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        let load = |agent: &str| {
            let text = format!("[agent]\nconfig = \"vpfs.toml\"\ntoken = \"token\"\nreach = \"sockets\"\n{agent}\n");
            write("slurm.toml", &text);
            Files::load(&folder.path().join("slurm.toml")).map(drop).map_err(|exit| exit.to_string())
        };
        let text = "[[server]]\nname = \"s\"\naddress = \"tcp://127.0.0.1:3334\"\n[[listener]]\nport = 5334\n";
        write("vpfs.toml", text);
        write("token", "0123456789abcdef");
        assert!(load("").unwrap_err().contains("has no [[owner]] \"slurm\""));
        write("vpfs.toml", &format!("{text}[[owner]]\nname = \"slurm\"\ntoken = \"token\"\n"));
        assert_eq!(load("wake = \"new.sock\""), Ok(()));
        assert!(load("owner = \"slurn\"").unwrap_err().contains("has no [[owner]] \"slurn\""));
        assert!(load("wake = \"vpfs.toml\"").unwrap_err().contains("agent.wake"));
        assert!(folder.path().join("vpfs.toml").exists());
    }
}
