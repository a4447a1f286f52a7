//! The configuration text that servers send to clients (GETCONFIG): the servers and the handles that each of them owns
//! (docs/protocols/orangefs.md, GETCONFIG).

mod alias;
mod error;
mod file_system;
mod number;
mod options;
mod reader;
mod sections;
mod text;

use std::ops::RangeInclusive;
use std::time::Duration;

pub use self::alias::Alias;
pub use self::error::FsConfigError;

/// First handle that a server may own; lower numbers are reserved.
const FIRST_HANDLE: u64 = 3;
/// Metadata handles lie below, datafile handles at and above it.
const FIRST_DATA_HANDLE: u64 = 1 << 62;
/// One past the last handle.
const END_HANDLE: u64 = (1 << 63) - 1;

/// What clients need to know about a file system. All servers must return the same bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FsConfig {
    /// Name, the last part of a URL.
    pub name: String,
    /// File system id, sent in every request.
    pub fs_id: i32,
    /// Handle of the root directory.
    pub root_handle: u64,
    /// Size of a bulk data message in bytes; both ends cut transfers at multiples of it.
    pub flow_buffer_bytes: u64,
    /// Bulk data messages in flight inside a server for one transfer.
    pub flow_buffers: usize,
    /// How long a client waits for a reply.
    pub reply_timeout: Duration,
    /// How long a client's bulk transfer may make no progress.
    pub flow_timeout: Duration,
    /// Attempts after the first one.
    pub retry_limit: u32,
    /// Pause before an attempt on a lost connection.
    pub retry_delay: Duration,
    /// The servers, in the order in which they are first given handles.
    pub servers: Vec<FsServer>,
}

/// One server of a file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FsServer {
    /// Name inside the configuration.
    pub alias: String,
    /// `tcp://host:port`, as written for clients.
    pub address: String,
    /// Handles of files, directories and their entries.
    pub meta_handles: Vec<RangeInclusive<u64>>,
    /// Handles of datafiles.
    pub data_handles: Vec<RangeInclusive<u64>>,
}

impl FsServer {
    /// Whether this server owns `handle`.
    pub fn owns(&self, handle: u64) -> bool {
        self.meta_handles.iter().chain(&self.data_handles).any(|range| range.contains(&handle))
    }

    /// `host:port` to connect to, without what clients ignore behind the port.
    pub fn host_and_port(&self) -> &str {
        let rest = self.address.split_once("://").map_or(self.address.as_str(), |(_, rest)| rest);
        let port = rest.find(':').map_or(rest.len(), |colon| colon + 1);
        let digits = rest[port..].bytes().take_while(u8::is_ascii_digit).count();
        &rest[..port + digits]
    }
}

/// All that a configuration says to clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Configuration {
    /// All servers, also those of no file system.
    pub aliases: Vec<Alias>,
    /// At least one, each of which has servers for metadata and data; no two have the same name.
    pub file_systems: Vec<FsConfig>,
    /// Where and how servers store data.
    pub storage: Storage,
}

/// What a configuration says about the servers' own storage.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Storage {
    /// Directories for data and metadata, each with the alias of its server, or without one for all that have none of
    /// their own.
    directories: Vec<(Option<String>, String)>,
    /// `TroveMethod`, the last one; `alt-aio` if there is none.
    pub method: Option<String>,
    /// Whether data is stored before a write is answered (`TroveSyncData`), in the last file system.
    pub syncs: Option<bool>,
}

impl Storage {
    /// The directories of a server.
    pub fn directories(&self, alias: &str) -> Vec<&str> {
        let of = |wanted: Option<&str>| {
            let own = self.directories.iter().filter(move |(server, _)| server.as_deref() == wanted);
            own.map(|(_, directory)| directory.as_str()).collect::<Vec<_>>()
        };
        let own = of(Some(alias));
        if own.is_empty() { of(None) } else { own }
    }

    /// Whether a write is answered when it is in the server's memory: without direct I/O, and if nothing syncs it.
    pub fn answers_from_memory(&self) -> bool {
        let is_direct = self.method.as_deref().is_some_and(|method| method.eq_ignore_ascii_case("directio"));
        !is_direct && self.syncs == Some(false)
    }
}

impl Configuration {
    /// Parses a configuration as servers and clients do. What it has for other programs is skipped.
    pub fn parse(text: &[u8]) -> Result<Self, FsConfigError> {
        reader::Reader::new(text).read()
    }

    /// The file system of this name, for clients over TCP.
    pub fn file_system(&self, name: &str) -> Result<&FsConfig, FsConfigError> {
        let found = self.file_systems.iter().find(|fs| fs.name == name);
        let fs = found.ok_or_else(|| FsConfigError::UnknownFileSystem {
            wanted: name.to_owned(),
            known: self.file_systems.iter().map(|fs| fs.name.clone()).collect(),
        })?;
        match fs.servers.iter().find(|server| !alias::is_tcp(&server.address)) {
            Some(server) => Err(self.alias(&server.alias).map_or(FsConfigError::Whole("no server"), Alias::no_tcp)),
            None => Ok(fs),
        }
    }

    /// The alias of the server at `address`, as it is written there.
    pub fn alias_at(&self, address: &str) -> Option<&Alias> {
        self.aliases.iter().find(|alias| alias.tcp() == Some(address))
    }

    /// The line that names a server.
    pub fn alias(&self, name: &str) -> Option<&Alias> {
        self.aliases.iter().find(|alias| alias.name == name)
    }
}

impl FsConfig {
    /// A file system on servers at `addresses` (`tcp://host:port`), each of which owns an equal part of the handles.
    /// Aliases are `s1`, `s2`, ...; time-outs are those of a default OrangeFS installation.
    pub fn new(name: &str, addresses: &[String]) -> Self {
        let servers = addresses.iter().enumerate().map(|(index, address)| FsServer {
            alias: format!("s{}", index + 1),
            address: address.clone(),
            meta_handles: vec![part(FIRST_HANDLE..=FIRST_DATA_HANDLE - 1, index, addresses.len())],
            data_handles: vec![part(FIRST_DATA_HANDLE..=END_HANDLE - 1, index, addresses.len())],
        });
        Self {
            name: name.to_owned(),
            fs_id: 1001,
            root_handle: 1 << 20,
            flow_buffer_bytes: 256 << 10,
            flow_buffers: 8,
            reply_timeout: Duration::from_secs(300),
            flow_timeout: Duration::from_secs(300),
            retry_limit: 5,
            retry_delay: Duration::from_secs(2),
            servers: servers.collect(),
        }
    }

    /// The server that owns `handle`, as an index into `servers`.
    pub fn owner_of(&self, handle: u64) -> Option<usize> {
        self.servers.iter().position(|server| server.owns(handle))
    }

    /// Parses a configuration and takes the file system of this name.
    pub fn parse(text: &[u8], name: &str) -> Result<Self, FsConfigError> {
        Configuration::parse(text)?.file_system(name).cloned()
    }
}

/// Part `index` of `count` equal parts of `range`; the last one takes the remainder.
fn part(range: RangeInclusive<u64>, index: usize, count: usize) -> RangeInclusive<u64> {
    let (index, count) = (index as u64, count as u64);
    let size = (range.end() - range.start() + 1) / count;
    let first = range.start() + index * size;
    let last = if index + 1 == count { *range.end() } else { first + size - 1 };
    first..=last
}

#[cfg(test)]
mod tests;
