//! `vpfs init`: the configuration of a cluster, with keys or certificates, from the servers' own one; or for an NFS
//! server.

mod config;
mod files;
mod nfs;
mod nftables;
mod secrets;
mod servers;

use std::path::{Path, PathBuf};

use vpfs_config::{Config, Problem};

use self::files::NewFile;
use self::nfs::Export;
use self::servers::Found;
use super::count;
use crate::exit::Exit;
use crate::print::print;

/// Write the configuration of a cluster from that of its OrangeFS servers, or for an NFS server
///
/// With --nfs, writes a vpfs.toml with one proxy on the server's host, in which each user is an application. Otherwise
/// writes vpfs.toml and what proxies recognise each other by: a shared key, or an authority with a certificate for each
/// server's host. With --redirect writes also rules of nftables, by which clients reach the proxies at the servers' own
/// addresses. Says where each file belongs. Nothing that exists is overwritten.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    vpfs init --from /etc/orangefs/orangefs-server.conf --output /etc/vpfs\n  \
    vpfs init --from fs.conf --output cluster --certificates      then copy cluster/s1/* to /etc/vpfs of s1's host\n  \
    vpfs init --nfs nas1:/export/home --output /etc/vpfs")]
pub(crate) struct Init {
    /// The configuration of the OrangeFS servers, the file that all of them have in common
    #[arg(long, value_name = "FILE", required_unless_present = "nfs")]
    from: Option<PathBuf>,

    /// The NFS server as for mount, or nfs://HOST:PORT/EXPORT?mountport=PORT if its ports are not 2049 and 20048
    #[arg(long, value_name = "HOST:/EXPORT", value_parser = Export::parse,
        conflicts_with_all = ["from", "file_system", "peer_port", "certificates"])]
    nfs: Option<Export>,

    /// Only the servers of this file system [default: of all in the file]
    #[arg(long, value_name = "NAME")]
    file_system: Option<String>,

    /// The directory to write to
    #[arg(long, value_name = "DIR")]
    output: PathBuf,

    /// The port where proxies listen for clients; with --nfs, that before it is for the mount daemon [default: 5334, or
    /// 12049 with --nfs]
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(2..))]
    port: Option<u16>,

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
        match (&self.nfs, &self.from) {
            (Some(export), _) => export.write(&self.output, self.port.unwrap_or(nfs::PORT), self.redirect),
            (None, Some(from)) => self.for_orangefs(from),
            (None, None) => Err(Exit::Usage("give --from or --nfs".to_owned())),
        }
    }

    fn for_orangefs(&self, from: &Path) -> Result<(), Exit> {
        let found = servers::read(from, self.file_system.as_deref())?;
        let text = config::text(self, &found.servers);
        // What is written must be valid: names of servers can be too long, or ports too high.
        let config =
            Config::parse("vpfs.toml", &text).map_err(|problems| refused(from, &found, &text, &problems.list))?;
        files::write(&self.output, &self.files(&found, &config, text)?)?;
        found.notes.iter().for_each(|note| eprintln!("vpfs: note: {note}"));
        print(self.next_steps(&found, &config))
    }

    fn files(&self, found: &Found<'_>, config: &Config, text: String) -> Result<Vec<NewFile>, Exit> {
        let mut files = vec![NewFile::new("vpfs.toml", text, 0o644)];
        if self.redirect {
            files.push(NewFile::new("vpfs.nft", nftables::rules(config), 0o644));
        }
        if self.certificates {
            files.extend(secrets::certificates(&found.servers)?);
        } else {
            files.push(NewFile::new("peers.key", secrets::key()?, 0o600));
        }
        Ok(files)
    }

    /// What an administrator does with the files.
    fn next_steps(&self, found: &Found<'_>, config: &Config) -> String {
        let count = count(config.servers.len(), "server");
        let server = &config.servers[0];
        let name = &server.name;
        let copy = match self.certificates {
            true => format!(
                "copy vpfs.toml and what is in {name}/ to /etc/vpfs, but never ca-key.pem; chgrp vpfs and chmod 640 \
                 peers-key.pem there"
            ),
            false => {
                "copy both: install -m 644 vpfs.toml /etc/vpfs; install -m 640 -g vpfs peers.key /etc/vpfs".to_owned()
            }
        };
        let clients = match self.redirect {
            true => "Once all proxies run, redirect clients on each host: nft -f vpfs.nft".to_owned(),
            false => {
                let (proxy, fs) = (&config.listeners[0].addresses[0], &found.file_system);
                format!("Once all proxies run, clients mount {proxy}/{fs} instead of {}/{fs}", server.address)
            }
        };
        format!(
            "wrote {} for {count}\n\
             On the host of each server, for example {name}:\n  \
                 {copy}\n  \
                 vpfs proxy --check --connect --server {name}\n  \
                 vpfs proxy --server {name}\n\
             {clients}",
            self.output.display(),
        )
    }
}

/// How an application is written, as a comment, for who reads the file; without one `others` are applications.
fn app_example(rule: &str, others: &str) -> String {
    format!(
        "# By default {others} is an application, with an equal share, until a rule such as this one gives some of them a name and a\n\
         # larger share together (`vpfs proxy --reload PID` applies it, and `vpfs app which` says to which application a\n\
         # client belongs):\n\
         # [[app]]\n# name = \"climate\"\n# weight = 4\n# {rule}\n"
    )
}

/// The problems of a text that is not written, at the places in the servers' configuration that lead to them.
fn refused(from: &Path, found: &Found<'_>, text: &str, problems: &[Problem]) -> Exit {
    let described = problems.iter().map(|problem| match config::server_at(text, problem.line) {
        Some(index) => {
            let server = &found.servers[index];
            format!("{}: Alias {:?}: {}", found.place(server), server.alias, problem.message)
        }
        None => {
            let (from, ports) = (from.display(), "--port and --peer-port are the first ports");
            format!("{from}: {}: {} ({ports})", problem.key, problem.message)
        }
    });
    Exit::Usage(described.collect::<Vec<_>>().join("\n"))
}

#[cfg(test)]
pub(super) mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;

    use vpfs_config::PeerSecurity;
    use vpfs_testbed::fsconfig::FsConfig;

    use super::*;

    fn init(output: &Path, certificates: bool) -> Result<(), Exit> {
        init_for(output, certificates, false, &["tcp://oss1:3334", "tcp://10.0.0.2:3334"])
    }

    fn init_for(output: &Path, certificates: bool, redirect: bool, addresses: &[&str]) -> Result<(), Exit> {
        let addresses: Vec<String> = addresses.iter().map(|address| (*address).to_owned()).collect();
        let from = output.with_extension("conf");
        std::fs::write(&from, FsConfig::new("orangefs", &addresses).to_text()).unwrap();
        let output = output.to_owned();
        Init {
            from: Some(from),
            nfs: None,
            file_system: None,
            output,
            port: None,
            peer_port: 7334,
            certificates,
            redirect,
        }
        .run()
    }

    fn usage(result: Result<(), Exit>) -> String {
        let Err(Exit::Usage(problem)) = result else { panic!("{result:?}") };
        problem
    }

    /// The example of an application is valid when its comment is removed.
    pub(super) fn assert_example(output: &Path) {
        let text = std::fs::read_to_string(output.join("vpfs.toml")).unwrap();
        let (before, example) = text.split_once("# [[app]]\n").expect("an example");
        let (example, after) = example.split_once("\n\n").unwrap_or((example, ""));
        let lines: Vec<&str> = example.lines().filter_map(|line| line.strip_prefix("# ")).collect();
        let uncommented = format!("{before}[[app]]\n{}\n{after}", lines.join("\n"));
        let config = Config::parse("vpfs.toml", &uncommented).unwrap();
        let app = config.apps.iter().find(|app| app.name == "climate").expect("the example");
        assert_eq!(app.weight.get(), 4);
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
        assert_example(&output);
        std::fs::remove_file(output.join("vpfs.toml")).unwrap();
        let Err(Exit::Failed(kept)) = init(&output, false) else { panic!("nothing is overwritten") };
        assert_eq!(kept, format!("{} exists and is kept; choose another --output", key.display()));
        assert!(!output.join("vpfs.toml").exists(), "all or nothing is written");
    }

    #[test]
    fn problems_are_those_of_the_file_that_was_given() {
        let folder = tempfile::tempdir().unwrap();
        let from = folder.path().join("bad.conf");
        let bad = |addresses: &[&str]| usage(init_for(&folder.path().join("bad"), false, false, addresses));
        let problem = bad(&["tcp://oss1:3334", "tcp://oss_1:70000"]);
        assert!(problem.starts_with(&format!("{}:18: Alias \"s2\": ", from.display())), "{problem}");
        let problem = bad(&["tcp://oss1:3334", "tcp://OSS1:3334"]);
        assert!(
            problem.ends_with(":18: Alias \"s2\" has the address of \"s1\"; each server needs its own"),
            "{problem}"
        );
        let problem = bad(&["ib://oss1:3335"]);
        assert!(problem.starts_with(&format!("{}:17: server `s1` is reached at", from.display())), "{problem}");
        assert!(!folder.path().join("bad").exists());
    }

    #[test]
    fn all_file_systems_are_served_unless_one_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let (from, output) = (folder.path().join("fs.conf"), folder.path().join("all"));
        let text = FsConfig::new("pvfs2-fs", &["tcp://oss1:3334".to_owned(), "tcp://oss2:3334".to_owned()]).to_text();
        let second = "<FileSystem>\nName home\nID 7\nRootHandle 9\n<MetaHandleRanges>\nRange s2 3-99\n\
                      </MetaHandleRanges>\n<DataHandleRanges>\nRange s2 100-200\n</DataHandleRanges>\n</FileSystem>\n";
        std::fs::write(&from, text + second).unwrap();
        let init = |output: &Path, name: Option<&str>| {
            let (from, output, file_system) = (from.clone(), output.to_owned(), name.map(str::to_owned));
            Init {
                from: Some(from),
                nfs: None,
                file_system,
                output,
                port: None,
                peer_port: 7334,
                certificates: false,
                redirect: false,
            }
            .run()
        };
        init(&output, None).unwrap();
        assert_eq!(Config::load(&output.join("vpfs.toml")).unwrap().servers.len(), 2);
        let one = folder.path().join("one");
        init(&one, Some("home")).unwrap();
        let names: Vec<String> =
            Config::load(&one.join("vpfs.toml")).unwrap().servers.into_iter().map(|server| server.name).collect();
        assert_eq!(names, ["s2"]);
        let problem = usage(init(&one, Some("orangefs")));
        assert!(
            problem.contains("no file system is called `orangefs`; there are `pvfs2-fs`, `home`; give one"),
            "{problem}"
        );
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
