//! The configuration for an NFS server: one proxy in front of it, on its host.

use std::path::Path;

use vpfs_config::{Config, Problems};
use vpfs_testbed::nfs::Url;

use super::files::{self, NewFile};
use super::nftables;
use crate::exit::Exit;
use crate::print::print;

/// The port where the proxy listens for NFS; the one before it is for the mount daemon.
pub(super) const PORT: u16 = 12049;

/// What a server exports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Export(Url);

impl Export {
    /// Reads `host:/path`, as for `mount`, or a URL.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let url = match text.split_once(":/") {
            Some((host, path)) if host != "nfs" => format!("nfs://{host}/{path}"),
            _ => text.to_owned(),
        };
        Url::parse(&url).map(Self).map_err(|_| {
            "write HOST:/EXPORT, or nfs://HOST:PORT/EXPORT?mountport=PORT for other ports than 2049 and 20048"
                .to_owned()
        })
    }

    /// Writes vpfs.toml to the directory `output`, for a proxy at `port`, if `redirect` with rules that send clients
    /// there, and says what to do with it.
    pub(super) fn write(&self, output: &Path, port: u16, redirect: bool) -> Result<(), Exit> {
        let text = self.config(port);
        // One is enough: the others are the same at other ports.
        let refused = |problems: Problems| {
            let first = problems.list.first().map_or("", |problem| &problem.message);
            Exit::Usage(format!("--nfs {}: {first}", self.0.host))
        };
        let config = Config::parse("vpfs.toml", &text).map_err(refused)?;
        let mut files = vec![NewFile::new("vpfs.toml", text, 0o644)];
        if redirect {
            files.push(NewFile::new("vpfs.nft", nftables::rules(&config), 0o644));
        }
        files::write(output, &files)?;
        print(self.next_steps(output, port, redirect))
    }

    fn has_mount_daemon(&self) -> bool {
        self.0.mount_port != self.0.port
    }

    fn config(&self, port: u16) -> String {
        let Url { host, export, port: server_port, mount_port } = &self.0;
        let mut addresses = format!("nfs = \"nfs://{host}:{port}\"");
        let mut text = format!(
            "# Written by `vpfs init` for {host}:{export}. `vpfs proxy --check --print` prints all settings with their\n\
             # defaults, and `vpfs proxy --check --connect` asks the server what it speaks.\n\n\
             [[server]]\nname = \"nfs\"\naddress = \"nfs://{host}:{server_port}\"\n\n"
        );
        if self.has_mount_daemon() {
            text += &format!(
                "# The mount daemon, for NFSv3. NFSv4 has none: remove this and its address below if nobody uses NFSv3.\n\
                 [[server]]\nname = \"mountd\"\naddress = \"nfs://{host}:{mount_port}\"\n\n"
            );
            addresses += &format!(", mountd = \"nfs://{host}:{}\"", port - 1);
        }
        text + &format!(
            "[[listener]]\naddresses = {{ {addresses} }}\n\n\
             # Each user is an application, on whichever host.\n\
             [apps]\nauto = \"uid\"\n\n{}",
            super::app_example("users = [\"alice\", \"bob\"]", "each user")
        )
    }

    fn next_steps(&self, output: &Path, port: u16, redirect: bool) -> String {
        let Url { host, export: path, .. } = &self.0;
        let mount_port = if self.has_mount_daemon() { port - 1 } else { port };
        let clients = match redirect {
            true => format!("Once the proxy runs, redirect clients on {host}: nft -f vpfs.nft"),
            false => format!(
                "Once the proxy runs, clients mount through it:\n  \
                     mount -t nfs -o vers=4.1,port={port} {host}:{path} {path}\n  \
                     mount -t nfs -o vers=3,proto=tcp,nolock,port={port},mountproto=tcp,mountport={mount_port} {host}:{path} {path}"
            ),
        };
        format!(
            "wrote {config}\n\
             On {host}, there or as /etc/vpfs/vpfs.toml, which needs no --config:\n  \
                 vpfs proxy --config {config} --check --connect\n  \
                 vpfs proxy --config {config}\n\
             The server sees the proxy as its client: export {path} to {host}, with `insecure` in Linux's exports\n\
             {clients}",
            config = output.join("vpfs.toml").display()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exports_are_written_as_administrators_write_them() {
        for (text, expected) in [
            ("nas1:/export/home", "nfs://nas1:2049/export/home?mountport=20048"),
            ("10.0.0.1:/", "nfs://10.0.0.1:2049/?mountport=20048"),
            ("[fd00::1]:/home", "nfs://[fd00::1]:2049/home?mountport=20048"),
            ("nfs://nas1:3049/home?mountport=635", "nfs://nas1:3049/home?mountport=635"),
        ] {
            assert_eq!(Export::parse(text).map(|export| export.0.to_string()).as_deref(), Ok(expected), "{text}");
        }
        for bad in ["nas1", "nas1:home", ":/home", "nfs://nas1", "nfs:///home", "nfs://a:x/home"] {
            assert!(Export::parse(bad).is_err_and(|problem| problem.starts_with("write HOST:/EXPORT")), "{bad}");
        }
    }

    #[test]
    fn what_is_written_can_be_used() {
        let folder = tempfile::tempdir().unwrap();
        let write =
            |text: &str, output: &str| Export::parse(text).unwrap().write(&folder.path().join(output), PORT, true);
        let servers = |output: &str| {
            let config = Config::load(&folder.path().join(output).join("vpfs.toml")).unwrap();
            assert!(config.warnings.list.is_empty(), "{}", config.warnings);
            let pairs = config.servers.iter().zip(&config.listeners[0].addresses);
            pairs.map(|(server, proxy)| format!("{} {proxy}", server.address)).collect::<Vec<_>>()
        };
        write("10.0.0.1:/home", "two").unwrap();
        crate::cmd::init::tests::assert_example(&folder.path().join("two"));
        let nfs = "nfs://10.0.0.1:2049 nfs://10.0.0.1:12049".to_owned();
        assert_eq!(servers("two"), [nfs.clone(), "nfs://10.0.0.1:20048 nfs://10.0.0.1:12048".to_owned()]);
        let rules = std::fs::read_to_string(folder.path().join("two/vpfs.nft")).unwrap();
        assert!(rules.contains("10.0.0.1 . 20048 : 12048"), "{rules}");
        write("nfs://10.0.0.1/home?mountport=2049", "one").unwrap();
        assert_eq!(servers("one"), [nfs]);
        let Err(Exit::Usage(problem)) = write("[fd00::1]:/home", "six") else { panic!("IPv6 is not supported") };
        assert!(problem.starts_with("--nfs [fd00::1]: ") && problem.contains("IPv6"), "{problem}");
        assert!(!folder.path().join("six").exists());
    }
}
