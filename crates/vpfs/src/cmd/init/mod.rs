//! `vpfs init`: the configuration of a cluster, with keys or certificates, from the servers' own one.

mod config;
mod nftables;
mod secrets;

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use vpfs_config::Config;
use vpfs_testbed::fsconfig::FsConfig;

use crate::exit::Exit;
use crate::print::print;

/// Write the configuration of a cluster from that of its OrangeFS servers
///
/// Writes vpfs.toml and what proxies recognise each other by: a shared key, or an authority with a certificate for each
/// server's host; with --redirect also rules of nftables, by which clients reach the proxies at the servers' own
/// addresses. Nothing that exists is overwritten.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    vpfs init --from /etc/orangefs/orangefs-server.conf --output /etc/vpfs\n  \
    vpfs init --from fs.conf --output cluster --certificates      then copy cluster/s1/* to /etc/vpfs of s1's host")]
pub(crate) struct Init {
    /// The configuration of the OrangeFS servers
    #[arg(long, value_name = "FILE")]
    from: PathBuf,

    /// The file system in it
    #[arg(long, value_name = "NAME", default_value = "orangefs")]
    file_system: String,

    /// The directory to write to
    #[arg(long, value_name = "DIR")]
    output: PathBuf,

    /// The port where proxies listen for clients
    #[arg(long, value_name = "PORT", default_value = "5334")]
    port: u16,

    /// The port where proxies listen for each other
    #[arg(long, value_name = "PORT", default_value = "7334")]
    peer_port: u16,

    /// Write certificates instead of a shared key
    #[arg(long)]
    certificates: bool,

    /// Redirect clients on the servers' hosts, so that they keep the servers' addresses
    #[arg(long)]
    redirect: bool,
}

impl Init {
    pub(crate) fn run(&self) -> Result<(), Exit> {
        let fs = self.read()?;
        let text = config::text(self, &fs.servers);
        // What is written must be valid: names of servers can be too long, or addresses of another transport.
        let config = Config::parse("vpfs.toml", &text)
            .map_err(|problems| Exit::Failed(format!("{} leads to\n{problems}", self.from.display())))?;
        std::fs::create_dir_all(&self.output)
            .map_err(|error| Exit::Failed(format!("cannot create {}: {error}", self.output.display())))?;
        write(&self.output.join("vpfs.toml"), &text, 0o644)?;
        if self.redirect {
            write(&self.output.join("vpfs.nft"), &nftables::rules(&config), 0o644)?;
        }
        if self.certificates {
            secrets::certificates(&self.output, &fs.servers)?;
        } else {
            write(&self.output.join("peers.key"), &secrets::key()?, 0o600)?;
        }
        print(format_args!("wrote {}; docs/guide/cluster.md says where each file belongs", self.output.display()))
    }

    fn read(&self) -> Result<FsConfig, Exit> {
        let failed = |error: &dyn std::fmt::Display| Exit::Usage(format!("{}: {error}", self.from.display()));
        let text = vpfs_config::read_text(&self.from).map_err(|error| failed(&error))?;
        FsConfig::parse(&text, &self.file_system).map_err(|error| failed(&error))
    }
}

/// Writes a new file with this mode.
fn write(path: &Path, text: &str, mode: u32) -> Result<(), Exit> {
    let written = OpenOptions::new().write(true).create_new(true).mode(mode).open(path);
    written
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .map_err(|error| Exit::Failed(format!("cannot write {}: {error}", path.display())))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use vpfs_config::PeerSecurity;

    use super::*;

    fn init(output: &Path, certificates: bool) -> Result<(), Exit> {
        init_for(output, certificates, false, &["tcp://oss1:3334", "tcp://10.0.0.2:3334"])
    }

    fn init_for(output: &Path, certificates: bool, redirect: bool, addresses: &[&str]) -> Result<(), Exit> {
        let addresses: Vec<String> = addresses.iter().map(|address| (*address).to_owned()).collect();
        let from = output.with_extension("conf");
        std::fs::write(&from, FsConfig::new("orangefs", &addresses).to_text()).unwrap();
        let (output, file_system) = (output.to_owned(), "orangefs".to_owned());
        Init { from, file_system, output, port: 5334, peer_port: 7334, certificates, redirect }.run()
    }

    #[test]
    fn what_is_written_can_be_used() {
        let folder = tempfile::tempdir().unwrap();
        let output = folder.path().join("key");
        init(&output, false).unwrap();
        let peers = Config::load(&output.join("vpfs.toml")).unwrap().peers.unwrap();
        let PeerSecurity::SharedKey(key) = peers.security else { panic!("{peers:?}") };
        assert_eq!(std::fs::read_to_string(&key).unwrap().trim().len(), 64);
        assert_eq!(std::fs::metadata(&key).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(peers.addresses, [("oss1".into(), 7334), ("10.0.0.2".into(), 7334)]);
        assert!(init(&output, false).is_err(), "nothing is overwritten");
    }

    #[test]
    fn each_server_gets_a_certificate() {
        let folder = tempfile::tempdir().unwrap();
        let output = folder.path().join("certificates");
        init(&output, true).unwrap();
        let config = Config::load(&output.join("vpfs.toml")).unwrap();
        for server in &config.servers {
            for (file, mode) in [("peers.pem", 0o644), ("peers-key.pem", 0o600), ("ca.pem", 0o644)] {
                let metadata = std::fs::metadata(output.join(&server.name).join(file)).unwrap();
                assert_eq!(metadata.permissions().mode() & 0o777, mode, "{file}");
            }
        }
        assert_eq!(std::fs::metadata(output.join("ca-key.pem")).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn servers_of_one_host_get_ports_of_their_own() {
        let folder = tempfile::tempdir().unwrap();
        let output = folder.path().join("shared");
        init_for(&output, false, true, &["tcp://oss1:3334", "tcp://oss2:3334", "tcp://oss1:3335"]).unwrap();
        let config = Config::load(&output.join("vpfs.toml")).unwrap();
        let listener: Vec<&str> = config.listeners[0].addresses.iter().map(|address| address.as_str()).collect();
        assert_eq!(listener, ["tcp://oss1:5334", "tcp://oss2:5334", "tcp://oss1:5335"]);
        let clients: Vec<&str> = config.address_pairs(0).map(|(_, told)| told.as_str()).collect();
        assert_eq!(clients, ["tcp://oss1:3334", "tcp://oss2:3334", "tcp://oss1:3335"], "clients notice nothing");
        let peers = config.peers.unwrap().addresses;
        assert_eq!(peers, [("oss1".into(), 7334), ("oss2".into(), 7334), ("oss1".into(), 7335)]);
        let rules = std::fs::read_to_string(output.join("vpfs.nft")).unwrap();
        assert!(rules.contains("oss1 . 3335 : 5335"), "{rules}");
        assert!(rules.contains("elements = { oss1, oss2 }"), "{rules}");
    }
}
