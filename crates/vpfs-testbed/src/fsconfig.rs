//! The configuration text that servers send to clients (GETCONFIG): the servers and the handles that each of them owns
//! (docs/protocols/orangefs.md, GETCONFIG).

use std::fmt::Write as _;
use std::ops::RangeInclusive;
use std::time::Duration;

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
    /// The servers, in the order of their aliases.
    pub servers: Vec<FsServer>,
}

/// One server of a file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FsServer {
    /// Name inside the configuration.
    pub alias: String,
    /// `tcp://host:port`, as clients see it.
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

    /// `host:port` to connect to.
    pub fn host_and_port(&self) -> &str {
        self.address.strip_prefix("tcp://").unwrap_or(&self.address)
    }
}

/// Why a configuration text cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FsConfigError {
    /// No `<FileSystem>` section with this name.
    #[error("the servers have no file system `{0}`")]
    UnknownFileSystem(String),
    /// A line that cannot be parsed.
    #[error("configuration line {line}: {what}")]
    Line {
        /// Line number from 1.
        line: usize,
        /// What is wrong.
        what: String,
    },
    /// A file system without servers or without an id.
    #[error("the file system lacks {0}")]
    Lacks(&'static str),
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

    /// The text for GETCONFIG. Equal configurations give equal bytes.
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        self.write_defaults(&mut text);
        line(&mut text, 0, "<Aliases>");
        for server in &self.servers {
            line(&mut text, 1, &format!("Alias {} {}", server.alias, server.address));
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
        line(text, 1, &format!("Name {}", self.name));
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
                let ranges: Vec<_> = handles(server).iter().map(|r| format!("{}-{}", r.start(), r.end())).collect();
                line(text, 2, &format!("Range {} {}", server.alias, ranges.join(",")));
            }
            line(text, 1, &format!("</{section}>"));
        }
        line(text, 0, "</FileSystem>");
    }

    /// Parses a configuration text; unknown lines are meant for other programs and are skipped.
    pub fn parse(text: &str, fs_name: &str) -> Result<Self, FsConfigError> {
        let mut parser = Parser::new(fs_name);
        for (index, raw) in text.lines().enumerate() {
            let at_line = |what| FsConfigError::Line { line: index + 1, what };
            parser.line(raw.trim()).map_err(at_line)?;
        }
        parser.finish()
    }
}

fn line(text: &mut String, indent: usize, content: &str) {
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{}{content}", "\t".repeat(indent));
}

/// Part `index` of `count` equal parts of `range`; the last one takes the remainder.
fn part(range: RangeInclusive<u64>, index: usize, count: usize) -> RangeInclusive<u64> {
    let (index, count) = (index as u64, count as u64);
    let size = (range.end() - range.start() + 1) / count;
    let first = range.start() + index * size;
    let last = if index + 1 == count { *range.end() } else { first + size - 1 };
    first..=last
}

/// Parses the text line by line. Sections of other file systems are parsed too and dropped at their end.
struct Parser<'a> {
    fs_name: &'a str,
    defaults: FsConfig,
    aliases: Vec<(String, String)>,
    current: Option<FsConfig>,
    section: Section,
    found: Option<FsConfig>,
}

#[derive(Clone, Copy, PartialEq)]
enum Section {
    Other,
    Meta,
    Data,
}

impl<'a> Parser<'a> {
    fn new(fs_name: &'a str) -> Self {
        let mut defaults = FsConfig::new(fs_name, &[]);
        defaults.fs_id = 0;
        Self { fs_name, defaults, aliases: Vec::new(), current: None, section: Section::Other, found: None }
    }

    fn line(&mut self, line: &str) -> Result<(), String> {
        if let Some(tag) = line.strip_prefix('<') {
            self.tag(tag.trim_end_matches('>').trim());
            return Ok(());
        }
        let mut words = line.split_whitespace();
        let Some(key) = words.next().filter(|key| !key.starts_with('#')) else { return Ok(()) };
        let value = words.next().unwrap_or("");
        if key.eq_ignore_ascii_case("Alias") {
            self.aliases.push((value.to_owned(), tcp_address(words.next().unwrap_or(""))));
            return Ok(());
        }
        if key.eq_ignore_ascii_case("Range") && self.section != Section::Other {
            let ranges = words.flat_map(|word| word.split(',')).filter(|word| !word.is_empty());
            let ranges: Vec<_> = ranges.map(parse_range).collect::<Result<_, _>>()?;
            return self.ranges(value, ranges);
        }
        self.setting(key, value)
    }

    fn tag(&mut self, tag: &str) {
        match tag.to_ascii_lowercase().as_str() {
            "filesystem" => {
                let mut fresh = self.defaults.clone();
                fresh.name.clear();
                self.current = Some(fresh);
            }
            "/filesystem" => {
                let ended = self.current.take();
                self.found = self.found.take().or(ended.filter(|fs| fs.name == self.fs_name));
            }
            "metahandleranges" => self.section = Section::Meta,
            "datahandleranges" => self.section = Section::Data,
            _ => self.section = Section::Other,
        }
    }

    fn ranges(&mut self, alias: &str, ranges: Vec<RangeInclusive<u64>>) -> Result<(), String> {
        let Some(fs) = &mut self.current else { return Ok(()) };
        let server = match fs.servers.iter_mut().position(|server| server.alias == alias) {
            Some(index) => &mut fs.servers[index],
            None => {
                let address = self.aliases.iter().find(|(name, _)| name == alias);
                let (_, address) = address.ok_or_else(|| format!("no Alias for `{alias}`"))?;
                let (alias, address) = (alias.to_owned(), address.clone());
                fs.servers.push(FsServer { alias, address, meta_handles: vec![], data_handles: vec![] });
                fs.servers.last_mut().expect("just pushed")
            }
        };
        let list = if self.section == Section::Meta { &mut server.meta_handles } else { &mut server.data_handles };
        list.extend(ranges);
        Ok(())
    }

    /// A setting of the current file system, or of all of them if it is outside of a section.
    fn setting(&mut self, key: &str, value: &str) -> Result<(), String> {
        let fs = self.current.as_mut().unwrap_or(&mut self.defaults);
        match key.to_ascii_lowercase().as_str() {
            "name" => value.clone_into(&mut fs.name),
            "id" => fs.fs_id = number(value)?,
            "roothandle" => fs.root_handle = number(value)?,
            "flowbuffersizebytes" => fs.flow_buffer_bytes = number(value)?,
            "flowbuffersperflow" => fs.flow_buffers = number(value)?,
            "clientjobbmitimeoutsecs" => fs.reply_timeout = Duration::from_secs(number(value)?),
            "clientjobflowtimeoutsecs" => fs.flow_timeout = Duration::from_secs(number(value)?),
            "clientretrylimit" => fs.retry_limit = number(value)?,
            "clientretrydelaymillisecs" => fs.retry_delay = Duration::from_millis(number(value)?),
            _ => {}
        }
        Ok(())
    }

    fn finish(self) -> Result<FsConfig, FsConfigError> {
        let fs = self.found.ok_or_else(|| FsConfigError::UnknownFileSystem(self.fs_name.to_owned()))?;
        let has_meta = fs.servers.iter().any(|server| !server.meta_handles.is_empty());
        let has_data = fs.servers.iter().any(|server| !server.data_handles.is_empty());
        match () {
            () if fs.fs_id == 0 => Err(FsConfigError::Lacks("an ID")),
            () if !has_meta => Err(FsConfigError::Lacks("metadata servers")),
            () if !has_data => Err(FsConfigError::Lacks("data servers")),
            () if fs.flow_buffer_bytes == 0 => Err(FsConfigError::Lacks("a flow buffer size")),
            () => Ok(fs),
        }
    }
}

/// The TCP address of a list that may name other transports.
fn tcp_address(list: &str) -> String {
    list.split(',').find(|address| address.starts_with("tcp://")).unwrap_or(list).to_owned()
}

fn parse_range(text: &str) -> Result<RangeInclusive<u64>, String> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    Ok(number(first)?..=number(last)?)
}

fn number<T: std::str::FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("`{text}` is not a number that fits"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn four() -> FsConfig {
        let addresses: Vec<_> = (1..=4).map(|n| format!("tcp://10.0.0.{n}:3334")).collect();
        FsConfig::new("pfs", &addresses)
    }

    #[test]
    fn text_round_trip() {
        assert_eq!(FsConfig::parse(&four().to_text(), "pfs"), Ok(four()));
        assert_eq!(
            FsConfig::parse(&four().to_text(), "other"),
            Err(FsConfigError::UnknownFileSystem("other".to_owned()))
        );
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
    fn several_transports_and_ranges() {
        let text = "<Aliases>\n Alias a ib://x:1,tcp://x:2\n</Aliases>\n# note\n<FileSystem>\n Name other\n</FileSystem>\n\
                    <FileSystem>\nName f\nID 9\n<MetaHandleRanges>\nRange a 3-5,7-9\n</MetaHandleRanges>\n\
                    <DataHandleRanges>\nRange a 10-20\n</DataHandleRanges>\n</FileSystem>\n";
        let fs = FsConfig::parse(text, "f").unwrap();
        assert_eq!((fs.fs_id, fs.servers[0].host_and_port()), (9, "x:2"));
        assert_eq!(fs.servers[0].meta_handles, [3..=5, 7..=9]);
        assert_eq!((fs.owner_of(6), fs.owner_of(8)), (None, Some(0)));
    }

    #[test]
    fn bad_texts_name_their_line() {
        let text = "<FileSystem>\nName f\nID none\n</FileSystem>";
        let error = FsConfig::parse(text, "f").unwrap_err();
        assert_eq!(error.to_string(), "configuration line 3: `none` is not a number that fits");
        assert_eq!(FsConfig::parse("<FileSystem>\nName f\n</FileSystem>", "f"), Err(FsConfigError::Lacks("an ID")));
    }
}
