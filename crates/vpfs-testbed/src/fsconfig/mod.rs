//! The configuration text that servers send to clients (GETCONFIG): the servers and the handles that each of them owns
//! (docs/protocols/orangefs.md, GETCONFIG).

mod reader;

use std::collections::HashMap;
use std::fmt::Write as _;
use std::ops::RangeInclusive;
use std::time::Duration;

use reader::{Section, Setting};

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
        match fs.servers.iter().find(|server| !is_tcp(&server.address)) {
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

    /// The text for GETCONFIG. Equal configurations give equal bytes.
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        self.write_defaults(&mut text);
        line(&mut text, 0, "<Aliases>");
        for server in &self.servers {
            line(&mut text, 1, &format!("Alias {} {}", word(&server.alias), word(&server.address)));
        }
        line(&mut text, 0, "</Aliases>\n");
        self.write_file_system(&mut text);
        text
    }

    fn write_defaults(&self, text: &mut String) {
        line(text, 0, "<Defaults>");
        line(text, 1, "UnexpectedRequests 50");
        line(text, 1, "EventLogging none");
        line(text, 1, "LogStamp datetime");
        line(text, 1, "BMIModules bmi_tcp");
        line(text, 1, "FlowModules flowproto_multiqueue");
        line(text, 1, "PerfUpdateInterval 1000");
        line(text, 1, "ServerJobBMITimeoutSecs 30");
        line(text, 1, "ServerJobFlowTimeoutSecs 30");
        line(text, 1, &format!("ClientJobBMITimeoutSecs {}", self.reply_timeout.as_secs()));
        line(text, 1, &format!("ClientJobFlowTimeoutSecs {}", self.flow_timeout.as_secs()));
        line(text, 1, &format!("ClientRetryLimit {}", self.retry_limit));
        line(text, 1, &format!("ClientRetryDelayMilliSecs {}", self.retry_delay.as_millis()));
        line(text, 0, "</Defaults>\n");
    }

    fn write_file_system(&self, text: &mut String) {
        line(text, 0, "<FileSystem>");
        line(text, 1, &format!("Name {}", word(&self.name)));
        line(text, 1, &format!("ID {}", self.fs_id));
        line(text, 1, &format!("RootHandle {}", self.root_handle));
        line(text, 1, "FileStuffing yes");
        line(text, 1, &format!("FlowBufferSizeBytes {}", self.flow_buffer_bytes));
        line(text, 1, &format!("FlowBuffersPerFlow {}", self.flow_buffers));
        for (section, handles) in [
            ("MetaHandleRanges", (|server| &server.meta_handles) as fn(&FsServer) -> &Vec<RangeInclusive<u64>>),
            ("DataHandleRanges", |server| &server.data_handles),
        ] {
            line(text, 1, &format!("<{section}>"));
            for server in &self.servers {
                for range in handles(server) {
                    line(text, 2, &format!("Range {} {}-{}", word(&server.alias), range.start(), range.end()));
                }
            }
            line(text, 1, &format!("</{section}>"));
        }
        line(text, 0, "</FileSystem>");
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

/// Why a configuration cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages explain the fields")]
pub enum FsConfigError {
    #[error("no file system is called {}; there {}", quoted(.wanted), listed(.known))]
    UnknownFileSystem { wanted: String, known: Vec<String> },
    /// A line that servers refuse, or that means nothing to a client over TCP.
    #[error("line {line}: {what}")]
    Line { line: usize, what: String },
    /// No line of it, but the whole.
    #[error("{0}")]
    Whole(&'static str),
}

fn listed(names: &[String]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| quoted(name)).collect();
    match quoted.as_slice() {
        [one] => format!("is {one}"),
        many => format!("are {}", many.join(", ")),
    }
}

/// Text of others that a terminal can show.
fn quoted(text: &str) -> String {
    const SHOWN: usize = 60;
    let cut = if text.chars().nth(SHOWN).is_some() { "…" } else { "" };
    format!("`{}{cut}`", text.chars().take(SHOWN).flat_map(char::escape_debug).collect::<String>())
}

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
    fn no_tcp(&self) -> FsConfigError {
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
fn is_tcp(address: &str) -> bool {
    address.split_once("://").is_some_and(|(scheme, _)| scheme == "tcp" || scheme.starts_with("tcp-"))
}

struct OpenFileSystem {
    line: usize,
    config: FsConfig,
    places: HashMap<String, usize>,
}

impl OpenFileSystem {
    fn new(line: usize) -> Self {
        Self { line, config: FsConfig { fs_id: 0, root_handle: 0, ..FsConfig::new("", &[]) }, places: HashMap::new() }
    }

    fn name(&mut self, name: &str) {
        name.clone_into(&mut self.config.name);
    }

    fn root_handle(&mut self, value: &str) -> Result<(), String> {
        let handle = reader::unsigned(value);
        self.config.root_handle = handle.ok_or_else(|| format!("RootHandle: {} is not a handle", quoted(value)))?;
        Ok(())
    }

    fn number(&mut self, setting: Setting, value: i64) -> Result<(), String> {
        match setting {
            Setting::Id => {
                // Servers keep the lower half.
                let [a, b, c, d, ..] = value.to_le_bytes();
                self.config.fs_id = i32::from_le_bytes([a, b, c, d]);
            }
            Setting::FlowBufferSize => {
                let bytes = u64::try_from(value).ok().filter(|bytes| *bytes > 0);
                self.config.flow_buffer_bytes = bytes.ok_or("FlowBufferSizeBytes must be at least 1")?;
            }
            _ => {
                let buffers = usize::try_from(value).ok().filter(|buffers| *buffers >= 2);
                self.config.flow_buffers = buffers.ok_or("FlowBuffersPerFlow must be at least 2")?;
            }
        }
        Ok(())
    }

    /// `Range ALIAS HANDLES`. Servers ignore a third argument, and take what follows it for another alias.
    fn ranges<'a>(
        &mut self,
        arguments: &[String],
        section: Section,
        alias: &dyn Fn(&str) -> Option<&'a Alias>,
    ) -> Result<(), String> {
        if arguments.is_empty() {
            return Err("Range has neither alias nor handles".to_owned());
        }
        for part in arguments.chunks(3) {
            let name = &part[0];
            let alias = alias(name).ok_or_else(|| format!("no Alias is called {}", quoted(name)))?;
            let handles = part.get(1).ok_or_else(|| format!("Range {} has no handles", quoted(name)))?;
            let ranges = reader::ranges(handles);
            let ranges = ranges.ok_or_else(|| format!("{} is not a list of ranges such as 3-1000", quoted(handles)))?;
            let server = self.server(alias);
            let list = match section {
                Section::MetaHandleRanges => &mut server.meta_handles,
                _ => &mut server.data_handles,
            };
            list.extend(ranges);
        }
        Ok(())
    }

    fn server(&mut self, alias: &Alias) -> &mut FsServer {
        let servers = &mut self.config.servers;
        let place = *self.places.entry(alias.name.clone()).or_insert_with(|| {
            let address = alias.tcp().unwrap_or(&alias.addresses).to_owned();
            servers.push(FsServer { alias: alias.name.clone(), address, meta_handles: vec![], data_handles: vec![] });
            servers.len() - 1
        });
        &mut servers[place]
    }

    fn end(self) -> Result<FsConfig, String> {
        let Self { line, config, .. } = self;
        let lacks = |what: &str| match config.name.as_str() {
            "" => Err(format!("the file system that starts at line {line} has no {what}")),
            name => Err(format!("file system {}, which starts at line {line}, has no {what}", quoted(name))),
        };
        let root = config.root_handle;
        let mut metadata = config.servers.iter().flat_map(|server| &server.meta_handles).peekable();
        match () {
            () if config.name.is_empty() => lacks("Name"),
            () if config.fs_id == 0 => lacks("ID"),
            () if metadata.peek().is_none() => lacks("Range in <MetaHandleRanges>"),
            () if config.servers.iter().all(|server| server.data_handles.is_empty()) => {
                lacks("Range in <DataHandleRanges>")
            }
            () if root == 0 => lacks("RootHandle"),
            () if !metadata.any(|range| range.contains(&root)) => {
                lacks(&format!("range in <MetaHandleRanges> for its RootHandle {root}"))
            }
            () => Ok(config),
        }
    }
}

/// What `<Defaults>` tells clients, the same for all file systems.
struct Clients {
    reply_timeout: Duration,
    flow_timeout: Duration,
    retry_limit: u32,
    retry_delay: Duration,
}

impl Default for Clients {
    fn default() -> Self {
        let FsConfig { reply_timeout, flow_timeout, retry_limit, retry_delay, .. } = FsConfig::new("", &[]);
        Self { reply_timeout, flow_timeout, retry_limit, retry_delay }
    }
}

impl Clients {
    fn set(&mut self, setting: Setting, value: i64) {
        // A negative time has no end.
        let time = u64::try_from(value).unwrap_or(u32::MAX.into());
        match setting {
            Setting::ReplyTimeout => self.reply_timeout = Duration::from_secs(time),
            Setting::FlowTimeout => self.flow_timeout = Duration::from_secs(time),
            Setting::RetryDelay => self.retry_delay = Duration::from_millis(u64::try_from(value).unwrap_or(0)),
            _ => self.retry_limit = u32::try_from(value.max(0)).unwrap_or(u32::MAX),
        }
    }

    fn of(&self, fs: FsConfig) -> FsConfig {
        let Self { reply_timeout, flow_timeout, retry_limit, retry_delay } = *self;
        FsConfig { reply_timeout, flow_timeout, retry_limit, retry_delay, ..fs }
    }
}

fn line(text: &mut String, indent: usize, content: &str) {
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{}{content}", "\t".repeat(indent));
}

/// A word that is read as `value`.
fn word(value: &str) -> String {
    let is_plain = |c: char| !c.is_whitespace() && !matches!(c, '"' | '\'' | '\\' | '#' | '<');
    match value.chars().all(is_plain) {
        true => value.to_owned(),
        false => format!("\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\"")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn four() -> FsConfig {
        let addresses: Vec<_> = (1..=4).map(|n| format!("tcp://10.0.0.{n}:3334")).collect();
        FsConfig::new("pfs", &addresses)
    }

    /// A configuration of one server, with other lines in some places.
    fn with(changes: &[(&str, &str)]) -> String {
        let text = "<Defaults>\nBMIModules bmi_tcp\n</Defaults>\n<Aliases>\nAlias a tcp://x:2\n</Aliases>\n<FileSystem>\n\
                Name f\nID 9\nRootHandle 4\n<MetaHandleRanges>\nRange a 3-5\n</MetaHandleRanges>\n\
                <DataHandleRanges>\nRange a 10-20\n</DataHandleRanges>\n</FileSystem>\n";
        changes.iter().fold(text.to_owned(), |text, (old, new)| {
            assert!(text.contains(old), "{old}");
            text.replacen(old, new, 1)
        })
    }

    fn changed(changes: &[(&str, &str)]) -> FsConfig {
        FsConfig::parse(with(changes).as_bytes(), "f").unwrap_or_else(|error| panic!("{error} in {}", with(changes)))
    }

    fn refused(changes: &[(&str, &str)]) -> String {
        FsConfig::parse(with(changes).as_bytes(), "f").expect_err(&with(changes)).to_string()
    }

    #[test]
    fn text_round_trip() {
        assert_eq!(FsConfig::parse(four().to_text().as_bytes(), "pfs"), Ok(four()));
    }

    #[test]
    fn every_handle_has_one_owner() {
        let fs = four();
        let bounds = fs.servers.iter().flat_map(|server| server.meta_handles.iter().chain(&server.data_handles));
        for bound in bounds.flat_map(|range| [*range.start(), *range.end()]) {
            assert_eq!(fs.servers.iter().filter(|server| server.owns(bound)).count(), 1, "{bound}");
        }
        assert_eq!(fs.owner_of(fs.root_handle), Some(0));
        assert_eq!(fs.owner_of(2), None);
        assert_eq!(fs.owner_of(u64::MAX), None);
    }

    #[test]
    fn sections_have_options_of_their_own() {
        let distribution =
            "Name f\n<Distribution>\nName simple_stripe\nParam strip_size\nValue 1048576\n</Distribution>";
        assert_eq!(changed(&[("Name f", distribution)]), changed(&[]));
        let unknown = "<Defaults>\n<Unknown>\nNothing 1\nServerKey /k\n</Unknown>";
        assert_eq!(changed(&[("<Defaults>", unknown)]), changed(&[]), "servers skip what they do not know");
        let last = with(&[]).split_once("<Aliases>").map(|(defaults, rest)| format!("<Aliases>{rest}{defaults}"));
        assert_eq!(FsConfig::parse(last.unwrap_or_default().as_bytes(), "f"), Ok(changed(&[])));
        assert_eq!(changed(&[("</FileSystem>\n", "")]), changed(&[]), "the end of the text ends sections");
    }

    #[test]
    fn options_can_be_given_twice() {
        let fs = changed(&[("Name f", "Name g\nName f"), ("Range a 3-5", "Range a 3-5\nRange a 7-9")]);
        assert_eq!((fs.name.as_str(), &fs.servers[0].meta_handles[..]), ("f", &[3..=5, 7..=9][..]));
        // Another <Defaults> starts from the servers' own defaults, wherever it stands.
        let again = "</FileSystem>\n<Defaults>\nClientRetryLimit 7\n</Defaults>\n";
        let fs = changed(&[("<Defaults>", "<Defaults>\nClientRetryDelayMilliSecs 9"), ("</FileSystem>\n", again)]);
        assert_eq!((fs.retry_limit, fs.retry_delay), (7, Duration::from_secs(2)));
    }

    #[test]
    fn several_transports() {
        for list in ["ib://x:1,tcp://x:2", "ib://x:1 tcp://x:2", "ib://x:1, tcp://x:2,", "'ib://x:1 tcp://x:2'"] {
            let text = with(&[("tcp://x:2", list)]);
            let configuration = Configuration::parse(text.as_bytes()).expect("it is valid");
            let alias = &configuration.aliases[0];
            assert_eq!(
                (alias.tcp(), alias.others().collect::<Vec<_>>(), alias.line),
                (Some("tcp://x:2"), vec!["ib://x:1"], 5)
            );
            assert_eq!(configuration.file_systems[0].servers[0].address, "tcp://x:2");
        }
        assert_eq!(changed(&[("tcp://x:2", "tcp://x:2/")]).servers[0].host_and_port(), "x:2");
        for address in ["ib://x:1", "gm://x:1:0,mx://x:0:1", "portals://1:2"] {
            let error = refused(&[("tcp://x:2", address)]);
            assert!(error.starts_with(&format!("line 5: server `a` is reached at `{address}` only")), "{error}");
        }
    }

    #[test]
    fn several_file_systems() {
        let second = with(&[("Name f", "Name g"), ("ID 9", "ID 10")]);
        let text = with(&[]) + second.split_once("</Aliases>\n").expect("aliases").1;
        let parsed = |name| FsConfig::parse(text.as_bytes(), name).map(|fs| fs.fs_id);
        assert_eq!((parsed("f"), parsed("g")), (Ok(9), Ok(10)));
        let error = parsed("orangefs").expect_err("there is no such file system");
        assert_eq!(error.to_string(), "no file system is called `orangefs`; there are `f`, `g`");
        let same = text.replace("Name g", "Name f");
        assert_eq!(FsConfig::parse(same.as_bytes(), "f").map(|fs| fs.fs_id), Ok(10), "clients find the last one");
    }

    #[test]
    fn here_documents() {
        assert_eq!(changed(&[("Name f", "Name <<END\nf\nEND of it")]), changed(&[]));
        let hidden = "LogFile <<END\nName g\n</FileSystem>\nEND\nName f";
        assert_eq!(changed(&[("Name f", hidden)]), changed(&[]));
        assert!(refused(&[("Name f", "Name <<TOO_LONG_A_WORD\nf\nTOO_LONG_A_WORD")]).contains("has no ID"));
        assert!(refused(&[("ID 9", "ID <<END\n9\nEND")]).contains("`<<END` is not a number"));
    }

    #[test]
    fn errors_name_line_reason_and_remedy() {
        for (old, new, expected) in [
            ("ID 9", "ID none", "line 9: ID: `none` is not a number"),
            ("ID 9", "", "line 17: file system `f`, which starts at line 7, has no ID"),
            ("Name f", "Name f#x", "line 8: Name has no value; a comment needs a blank before it"),
            (
                "Name f",
                "Name ${NAME}",
                "line 8: Name: `${NAME}` depends on a variable of the server's environment; write its value",
            ),
            ("Name f", "Include g", "line 8: servers refuse Include; put the text of that file here"),
            ("Name f", "FlowBuffersPerFlow 1", "line 8: FlowBuffersPerFlow must be at least 2"),
            (
                "BMIModules",
                "FlowBufferSizeBytes",
                "line 2: FlowBufferSizeBytes stands in <Defaults>, which starts at line 1, but belongs in <FileSystem>",
            ),
            (
                "</Defaults>",
                "",
                "line 4: <Aliases> stands in <Defaults>, which starts at line 1, but belongs outside of all sections",
            ),
            (
                "</MetaHandleRanges>\n",
                "",
                "line 13: <DataHandleRanges> stands in <MetaHandleRanges>, which starts at line 11, but belongs in <FileSystem>",
            ),
            ("</Aliases>", "</Defaults>", "line 6: </Defaults> stands in <Aliases>, which starts at line 4"),
            ("Alias a", "Alias b", "line 12: no Alias is called `a`"),
            ("Alias a", "Alias a tcp://x:2\nAlias a", "line 6: Alias `a` is already at line 5"),
            (
                " tcp://x:2",
                "",
                "line 5: Alias `a` has no address; write for example `Alias a tcp://a:3334`, any comment behind a blank",
            ),
            ("Range a 3-5", "Range a", "line 12: Range `a` has no handles"),
            ("Range a 3-5", "Range a 3-5 7-9 10-11", "line 12: no Alias is called `10-11`"),
            (
                "RootHandle 4",
                "RootHandle 6",
                "line 17: file system `f`, which starts at line 7, has no range in <MetaHandleRanges> for its RootHandle 6",
            ),
            ("Alias a tcp://x:2\n", "", "line 6: <FileSystem> comes before any Alias; put <Aliases> first"),
        ] {
            assert_eq!(refused(&[(old, new)]), expected, "{new}");
        }
        let long = "x".repeat(3000);
        assert!(
            refused(&[("Name f", &format!("# {long}\\\n{long}"))]).starts_with("line 8: joined lines of 6003 bytes")
        );
        let own = FsConfig::parse(b"StorageSpace /s\nHostID \"tcp://x:2\"\nLogFile /l\n", "f").expect_err("a half");
        assert!(own.to_string().contains("give the one that all servers have in common"), "{own}");
        let other = FsConfig::parse(b"[server]\nport = 1\n", "f").expect_err("another file");
        assert!(other.to_string().starts_with("there is no <FileSystem> section"), "{other}");
    }
}
