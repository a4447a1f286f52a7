//! Facts about a cluster from its own files.

use std::path::{Path, PathBuf};

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
    /// Reads `fs.conf` and `pvfs2tab` in `dir`.
    pub(crate) fn read(dir: &Path) -> Result<Self, String> {
        // Servers and mounts have other working directories, so they need absolute paths.
        let dir = &std::path::absolute(dir).map_err(|error| format!("--orangefs {}: {error}", dir.display()))?;
        let [conf, tab] = ["fs.conf", "pvfs2tab"].map(|name| {
            let file = dir.join(name);
            std::fs::read_to_string(&file).map_err(|error| {
                format!(
                    "{}: {error}; start a cluster and give --orangefs the directory with its fs.conf and pvfs2tab",
                    file.display()
                )
            })
        });
        let (conf, tab) = (conf?, tab?);
        let addresses = addresses(&conf);
        if addresses.is_empty() {
            return Err(format!("{}/fs.conf has no line `Alias NAME tcp://HOST:PORT`", dir.display()));
        }
        let name = name(&tab)
            .ok_or_else(|| format!("{}/pvfs2tab has no line that begins with tcp://HOST:PORT/NAME", dir.display()))?;
        Ok(Self { dir: dir.to_owned(), addresses, data_dirs: data_dirs(&conf), name })
    }

    /// The URL for a client that is to start with the server at `address`.
    pub(crate) fn spec(&self, address: &str) -> String {
        format!("{address}/{}", self.name)
    }
}

/// A server may have several addresses, one for each kind of network; vpfs speaks TCP.
fn addresses(conf: &str) -> Vec<String> {
    let aliases = values(conf, "Alias").filter_map(|value| value.split_once(char::is_whitespace));
    aliases
        .filter_map(|(_, all)| all.split(',').map(str::trim).find(|one| one.starts_with("tcp://")))
        .map(str::to_owned)
        .collect()
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

fn name(tab: &str) -> Option<String> {
    let spec = tab.lines().find_map(|line| line.split_whitespace().next()?.strip_prefix("tcp://"))?;
    spec.split_once('/').map(|(_, name)| name.to_owned()).filter(|name| !name.is_empty())
}

/// The values of `key` in the lines that start with it.
fn values<'a>(conf: &'a str, key: &'a str) -> impl Iterator<Item = &'a str> {
    let lines = conf.lines().filter_map(move |line| line.trim().strip_prefix(key));
    lines.filter(|rest| rest.starts_with(char::is_whitespace)).map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONF: &str = "<Defaults>\n\tDataStorageSpace /x/d\n</Defaults>\n<Aliases>\n\tAlias a tcp://127.0.0.1:7334\n\
        \tAlias b ib://h:1,tcp://h:7335\n\tAliases c tcp://no:1\n</Aliases>\n\
        <ServerOptions>\n\tServer a\n\tDataStorageSpace /x/a\n\tMetadataStorageSpace /m\n</ServerOptions>\n\
        <ServerOptions>\n\tServer b\n\tDataStorageSpace /x/b\n</ServerOptions>\n\
        <ServerOptions>\n\tServer a\n\tDataStorageSpace /y/a\n</ServerOptions>\n";

    #[test]
    fn addresses_are_those_of_the_aliases_by_tcp() {
        assert_eq!(addresses(CONF), ["tcp://127.0.0.1:7334", "tcp://h:7335"]);
    }

    #[test]
    fn the_last_entry_of_a_server_names_its_directory() {
        assert_eq!(data_dirs(CONF), [Path::new("/x/b"), Path::new("/y/a")]);
    }

    #[test]
    fn the_name_of_the_file_system_is_in_the_tab() {
        assert_eq!(
            name("# x\ntcp://127.0.0.1:7334/orangefs /mnt/ofs pvfs2 defaults 0 0\n").as_deref(),
            Some("orangefs")
        );
        assert_eq!(name("tcp://127.0.0.1:7334 /mnt/ofs pvfs2\n"), None);
    }

    #[test]
    fn a_directory_without_a_cluster_is_named_with_the_fix() {
        let error = Cluster::read(Path::new("/nonexistent")).unwrap_err();
        assert!(error.contains("/nonexistent/fs.conf") && error.contains("--orangefs"), "{error}");
    }
}
