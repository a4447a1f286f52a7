//! `nfs://host:port/export?mountport=port`, as libnfs writes it.

use super::NfsError;

/// Where an export is.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Url {
    /// `host:port` of NFS.
    pub(super) nfs: String,
    /// `host:port` of the mount daemon: that of NFS unless the URL says otherwise.
    pub(super) mount: String,
    /// An absolute path.
    pub(super) export: String,
}

impl Url {
    pub(super) fn parse(text: &str) -> Result<Self, NfsError> {
        Self::split(text).ok_or_else(|| NfsError::Url(text.to_owned()))
    }

    fn split(text: &str) -> Option<Self> {
        let (nfs, path) = text.strip_prefix("nfs://")?.split_once('/')?;
        let (host, port) = nfs.rsplit_once(':')?;
        let (path, mount_port) = path.split_once("?mountport=").unwrap_or((path, port));
        let are_ports = [port, mount_port].iter().all(|port| port.parse::<u16>().is_ok());
        let is_valid = are_ports && !host.is_empty() && !path.contains('?');
        is_valid.then(|| Self {
            nfs: nfs.to_owned(),
            mount: format!("{host}:{mount_port}"),
            export: format!("/{path}"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_port_serves_both_unless_the_mount_daemon_has_its_own() {
        let url = |nfs: &str, mount: &str, export: &str| Url {
            nfs: nfs.to_owned(),
            mount: mount.to_owned(),
            export: export.to_owned(),
        };
        for (text, expected) in [
            ("nfs://10.0.0.1:2049/home", url("10.0.0.1:2049", "10.0.0.1:2049", "/home")),
            ("nfs://nas1:2049/a/b?mountport=20048", url("nas1:2049", "nas1:20048", "/a/b")),
            ("nfs://[::1]:2049/", url("[::1]:2049", "[::1]:2049", "/")),
        ] {
            assert_eq!(Url::parse(text).ok(), Some(expected), "{text}");
        }
        for bad in
            ["tcp://h:1/x", "nfs://h:1", "nfs://h/x", "nfs://:1/x", "nfs://h:1/x?uid=1", "nfs://h:1/x?mountport=y"]
        {
            assert!(matches!(Url::parse(bad), Err(NfsError::Url(_))), "{bad}");
        }
    }
}
