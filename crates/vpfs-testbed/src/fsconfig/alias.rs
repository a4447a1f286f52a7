//! A server's name and addresses.

use super::error::{FsConfigError, quoted};

/// An `Alias` line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alias {
    /// What the rest of the configuration calls the server.
    pub name: String,
    /// Its addresses, one for each transport, separated by commas or blanks.
    pub addresses: String,
    /// The line, from 1.
    pub line: usize,
}

impl Alias {
    /// The address that clients use over TCP, as written.
    pub fn tcp(&self) -> Option<&str> {
        self.each().find(|address| is_tcp(address))
    }

    /// The addresses over other transports.
    pub fn others(&self) -> impl Iterator<Item = &str> {
        self.each().filter(|address| !is_tcp(address))
    }

    /// The error if it cannot be reached over TCP.
    pub(super) fn no_tcp(&self) -> FsConfigError {
        let Self { name, addresses, line } = self;
        let what = format!(
            "server {} is reached at {} only, and vpfs speaks TCP; add bmi_tcp to BMIModules and an address such as \
             tcp://HOST:3334 to this Alias, separated by a comma, on all servers",
            quoted(name),
            quoted(addresses)
        );
        FsConfigError::Line { line: *line, what }
    }

    fn each(&self) -> impl Iterator<Item = &str> {
        self.addresses.split([',', ' ', '\t', '\n']).filter(|address| !address.is_empty())
    }
}

/// Also `tcp-zone://`, of which only the transport counts.
pub(super) fn is_tcp(address: &str) -> bool {
    address.split_once("://").is_some_and(|(scheme, _)| scheme == "tcp" || scheme.starts_with("tcp-"))
}
