//! Facts about a cluster from its own files.

use std::path::{Path, PathBuf};

use vpfs_testbed::fsconfig::{Alias, Configuration};

/// A running OrangeFS file system.
#[derive(Debug)]
pub(crate) struct Cluster {
    pub(crate) dir: PathBuf,
    /// Addresses of all servers, written as in fs.conf, as vpfs requires.
    pub(crate) addresses: Vec<String>,
    /// Where the servers keep their data; empty if not given in fs.conf.
    pub(crate) data_dirs: Vec<PathBuf>,
    /// The file system's name, which follows the address when mounting.
    pub(crate) name: String,
}

impl Cluster {
    /// Reads `fs.conf` in `dir`; of several file systems, the first.
    pub(crate) fn read(dir: &Path) -> Result<Self, String> {
        // Servers and mounts have other working directories, so they need absolute paths.
        let dir = std::path::absolute(dir).map_err(|error| format!("--orangefs {}: {error}", dir.display()))?;
        let file = dir.join("fs.conf");
        let conf = std::fs::read_to_string(&file).map_err(|error| {
            format!("{}: {error}; start a cluster and give --orangefs the directory with its fs.conf", file.display())
        })?;
        Self::of(dir, &conf).map_err(|error| format!("{}: {error}", file.display()))
    }

    fn of(dir: PathBuf, conf: &str) -> Result<Self, String> {
        let parsed = Configuration::parse(conf.as_bytes()).map_err(|error| error.to_string())?;
        // A server may have several addresses, one for each kind of network; vpfs speaks TCP.
        let addresses: Vec<_> = parsed.aliases.iter().filter_map(Alias::tcp).map(str::to_owned).collect();
        if addresses.is_empty() {
            return Err("no line is `Alias NAME tcp://HOST:PORT`".to_owned());
        }
        let name = parsed.file_systems[0].name.clone();
        Ok(Self { addresses, data_dirs: data_dirs(conf), name, dir })
    }

    /// The URL for a client that is to start with the server at `address`.
    pub(crate) fn spec(&self, address: &str) -> String {
        format!("{address}/{}", self.name)
    }
}

/// The last entry of a server counts, as in OrangeFS itself.
fn data_dirs(conf: &str) -> Vec<PathBuf> {
    let mut dirs: Vec<(&str, &str)> = Vec::new();
    for options in conf.split("<ServerOptions>").skip(1).filter_map(|rest| rest.split("</ServerOptions>").next()) {
        if let Some((server, dir)) = values(options, "Server").next().zip(values(options, "DataStorageSpace").last()) {
            dirs.retain(|(other, _)| *other != server);
            dirs.push((server, dir));
        }
    }
    dirs.into_iter().map(|(_, dir)| PathBuf::from(dir)).collect()
}

/// The values of `key` in the lines that start with it.
fn values<'a>(conf: &'a str, key: &'a str) -> impl Iterator<Item = &'a str> {
    let lines = conf.lines().filter_map(move |line| line.trim().strip_prefix(key));
    lines.filter(|rest| rest.starts_with(char::is_whitespace)).map(str::trim)
}

#[cfg(test)]
mod tests {
    use vpfs_testbed::fsconfig::FsConfig;

    use super::*;

    const CONF: &str = "<Defaults>\n\tDataStorageSpace /x/d\n</Defaults>\n\
        <ServerOptions>\n\tServer a\n\tDataStorageSpace /x/a\n\tMetadataStorageSpace /m\n</ServerOptions>\n\
        <ServerOptions>\n\tServer b\n\tDataStorageSpace /x/b\n</ServerOptions>\n\
        <ServerOptions>\n\tServer a\n\tDataStorageSpace /y/a\n</ServerOptions>\n";

    #[test]
    fn the_last_entry_of_a_server_names_its_directory() {
        assert_eq!(data_dirs(CONF), [Path::new("/x/b"), Path::new("/y/a")]);
    }

    #[test]
    fn addresses_and_name_are_those_that_clients_know() {
        let text = FsConfig::new("pfs", &["tcp://127.0.0.1:7334".to_owned(), "tcp://h:7335".to_owned()]).to_text();
        let cluster = Cluster::of(PathBuf::new(), &text).unwrap();
        assert_eq!(cluster.spec(&cluster.addresses[1]), "tcp://h:7335/pfs");
    }

    #[test]
    fn a_directory_without_a_cluster_is_named_with_the_fix() {
        let error = Cluster::read(Path::new("/nonexistent")).unwrap_err();
        assert!(error.contains("/nonexistent/fs.conf") && error.contains("--orangefs"), "{error}");
    }
}
