//! `nfs://host:port/export?mountport=port`: as libnfs writes it, but with the port of NFS where URLs have ports.

use std::fmt;

use super::NfsError;

/// Where an export is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    /// A name or address; one of IPv6 in brackets.
    pub host: String,
    /// Of NFS.
    pub port: u16,
    /// Of the mount daemon; the same as `port` if one program serves both.
    pub mount_port: u16,
    /// An absolute path.
    pub export: String,
}

impl Url {
    /// The port of NFS unless another one is given.
    pub const PORT: u16 = 2049;
    /// The port of the mount daemon unless another one is given.
    pub const MOUNT_PORT: u16 = 20048;

    /// # Errors
    /// The text is no such URL.
    pub fn parse(text: &str) -> Result<Self, NfsError> {
        Self::split(text).ok_or_else(|| NfsError::Url(text.to_owned()))
    }

    fn split(text: &str) -> Option<Self> {
        let (address, path) = text.strip_prefix("nfs://")?.split_once('/')?;
        let port_of = |text: &str| text.parse().ok().filter(|port| *port > 0);
        let (host, port) = match address.rsplit_once(':') {
            // The colons of an IPv6 address are in brackets.
            Some((host, port)) if !port.contains(']') => (host, port_of(port)?),
            _ => (address, Self::PORT),
        };
        let (path, mount_port) = match path.split_once("?mountport=") {
            Some((path, port)) => (path, port_of(port)?),
            None => (path, Self::MOUNT_PORT),
        };
        let is_valid = !host.is_empty() && !path.contains('?');
        is_valid.then(|| Self { host: host.to_owned(), port, mount_port, export: format!("/{path}") })
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port, mount_port, export } = self;
        write!(f, "nfs://{host}:{port}{export}?mountport={mount_port}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_the_usual_ones_unless_others_are_given() {
        let url = |host: &str, port, mount_port, export: &str| Url {
            host: host.to_owned(),
            port,
            mount_port,
            export: export.to_owned(),
        };
        for (text, expected) in [
            ("nfs://nas1/home", url("nas1", 2049, 20048, "/home")),
            ("nfs://10.0.0.1:12049/home", url("10.0.0.1", 12049, 20048, "/home")),
            ("nfs://nas1:2049/a/b?mountport=635", url("nas1", 2049, 635, "/a/b")),
            ("nfs://[::1]/", url("[::1]", 2049, 20048, "/")),
            ("nfs://[::1]:3049/", url("[::1]", 3049, 20048, "/")),
        ] {
            assert_eq!(Url::parse(text).ok(), Some(expected.clone()), "{text}");
            assert_eq!(Url::parse(&expected.to_string()).ok(), Some(expected), "{text}");
        }
        for bad in [
            "tcp://h:1/x",
            "nfs://h:1",
            "nfs://:1/x",
            "nfs:///x",
            "nfs://h:0/x",
            "nfs://h:1/x?uid=1",
            "nfs://h:1/x?mountport=y",
        ] {
            assert!(matches!(Url::parse(bad), Err(NfsError::Url(_))), "{bad}");
        }
    }
}
