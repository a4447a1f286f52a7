//! Facts about a cluster from its own files.

use std::path::Path;

use vpfs_testbed::fsconfig::{Alias, Configuration};

/// A running OrangeFS file system.
#[derive(Debug)]
pub(crate) struct Cluster {
    /// Addresses of all servers, written as in fs.conf, as vpfs requires.
    pub(crate) addresses: Vec<String>,
    /// The file system's name, which follows the address when mounting.
    pub(crate) name: String,
}

impl Cluster {
    /// Reads `fs.conf` in `dir`; of several file systems, the first.
    pub(crate) fn read(dir: &Path) -> Result<Self, String> {
        let file = dir.join("fs.conf");
        let conf = std::fs::read_to_string(&file).map_err(|error| {
            format!("{}: {error}; start a cluster and give --orangefs the directory with its fs.conf", file.display())
        })?;
        Self::of(&conf).map_err(|error| format!("{}: {error}", file.display()))
    }

    fn of(conf: &str) -> Result<Self, String> {
        let parsed = Configuration::parse(conf.as_bytes()).map_err(|error| error.to_string())?;
        // A server may have several addresses, one for each kind of network; vpfs speaks TCP.
        let addresses: Vec<_> = parsed.aliases.iter().filter_map(Alias::tcp).map(str::to_owned).collect();
        if addresses.is_empty() {
            return Err("no line is `Alias NAME tcp://HOST:PORT`".to_owned());
        }
        let name = parsed.file_systems[0].name.clone();
        Ok(Self { addresses, name })
    }

    /// The URL for a client that is to start with the server at `address`.
    pub(crate) fn spec(&self, address: &str) -> String {
        format!("{address}/{}", self.name)
    }
}

#[cfg(test)]
mod tests {
    use vpfs_testbed::fsconfig::FsConfig;

    use super::*;

    #[test]
    fn addresses_and_name_are_those_that_clients_know() {
        let text = FsConfig::new("pfs", &["tcp://127.0.0.1:7334".to_owned(), "tcp://h:7335".to_owned()]).to_text();
        let cluster = Cluster::of(&text).unwrap();
        assert_eq!(cluster.spec(&cluster.addresses[1]), "tcp://h:7335/pfs");
    }

    #[test]
    fn a_directory_without_a_cluster_is_named_with_the_fix() {
        let error = Cluster::read(Path::new("/nonexistent")).unwrap_err();
        assert!(error.contains("/nonexistent/fs.conf") && error.contains("--orangefs"), "{error}");
    }
}
