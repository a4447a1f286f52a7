//! Reads a configuration as servers and clients do: sections as sections, options by the section that they are in.

use std::collections::HashMap;
use std::ops::RangeInclusive;

use Section::{
    Aliases, DataHandleRanges, Defaults, Distribution, FileSystem, MetaHandleRanges, ServerOptions, StorageHints, *,
};
use vpfs_protocol::wire::pvfs2::dotconf::{LINE_MAX, Line, Lines, Word};

use super::{Alias, Clients, Configuration, FsConfig, FsConfigError, OpenFileSystem, Storage, quoted};

pub(super) struct Reader<'a> {
    lines: Lines<'a>,
    /// The sections around the current line, each with its first line.
    sections: Vec<(Section, usize)>,
    aliases: Vec<Alias>,
    by_name: HashMap<String, usize>,
    clients: Clients,
    open: Option<OpenFileSystem>,
    file_systems: Vec<FsConfig>,
    storage: Storage,
    /// Whose options follow, in a section for one server.
    server: Option<String>,
    /// An option of a server's own file, of versions that had one, was there.
    is_servers_own: bool,
}

impl<'a> Reader<'a> {
    pub(super) fn new(text: &'a [u8]) -> Self {
        Self {
            lines: Lines::new(text),
            sections: Vec::new(),
            aliases: Vec::new(),
            by_name: HashMap::new(),
            clients: Clients::default(),
            open: None,
            file_systems: Vec::new(),
            storage: Storage::default(),
            server: None,
            is_servers_own: false,
        }
    }

    pub(super) fn read(mut self) -> Result<Configuration, FsConfigError> {
        while let Some(line) = self.lines.next() {
            self.line(&line).map_err(|what| FsConfigError::Line { line: line.number, what })?;
        }
        // Servers do not miss the ends of sections at the end of the text.
        if let Some(line) = self.open.as_ref().map(|open| open.line) {
            self.end_file_system().map_err(|what| FsConfigError::Line { line, what })?;
        }
        match self.file_systems.is_empty() {
            false => Ok(Configuration {
                file_systems: self.file_systems.into_iter().map(|fs| self.clients.of(fs)).collect(),
                aliases: self.aliases,
                storage: self.storage,
            }),
            true if self.is_servers_own => Err(FsConfigError::Whole(
                "this is the file of a single server, of an OrangeFS or PVFS that has two; give the one that all servers \
                 have in common, usually fs.conf",
            )),
            true => Err(FsConfigError::Whole(
                "there is no <FileSystem> section; is it the servers' configuration, orangefs-server.conf or fs.conf?",
            )),
        }
    }

    fn section(&self) -> Section {
        self.sections.last().map_or(Section::Outside, |(section, _)| *section)
    }

    fn line(&mut self, line: &Line) -> Result<(), String> {
        if line.bytes.len() > LINE_MAX {
            let len = line.bytes.len();
            return Err(format!("joined lines of {len} bytes; servers read at most {LINE_MAX} as one line"));
        }
        let words = line.words();
        let Some((name, arguments)) = words.split_first() else { return Ok(()) };
        match Section::of_tag(&name.value) {
            Some(Tag::Start(section)) => self.start(section, line.number),
            Some(Tag::End(section)) => self.end(section),
            None => self.option(line, &name.value, arguments),
        }
    }

    fn start(&mut self, section: Section, line: usize) -> Result<(), String> {
        if !section.may_be_in(self.section()) {
            let (name, places) = (section.name(), section.places());
            return Err(format!("<{name}> stands {}, but belongs {places}", self.place()));
        }
        match section {
            // Each such section starts from the servers' own defaults.
            Section::Defaults => self.clients = Clients::default(),
            Section::ServerOptions => self.server = None,
            Section::FileSystem if self.aliases.is_empty() => {
                return Err("<FileSystem> comes before any Alias; put <Aliases> first".to_owned());
            }
            Section::FileSystem => self.open = Some(OpenFileSystem::new(line)),
            _ => {}
        }
        self.sections.push((section, line));
        Ok(())
    }

    fn end(&mut self, section: Section) -> Result<(), String> {
        if section != self.section() {
            return Err(format!("</{}> stands {}", section.name(), self.place()));
        }
        self.sections.pop();
        if section == Section::FileSystem { self.end_file_system() } else { Ok(()) }
    }

    /// Of several file systems with one name, clients find the last one.
    fn end_file_system(&mut self) -> Result<(), String> {
        let Some(open) = self.open.take() else { return Ok(()) };
        let ended = open.end()?;
        self.file_systems.retain(|fs| fs.name != ended.name);
        self.file_systems.push(ended);
        Ok(())
    }

    fn place(&self) -> String {
        match self.sections.last() {
            None => places(&[Section::Outside]),
            Some((section, line)) => format!("in <{}>, which starts at line {line}", section.name()),
        }
    }

    fn option(&mut self, line: &Line, name: &[u8], arguments: &[Word]) -> Result<(), String> {
        let document = if is_text(name) { self.here_document(line.after_name()) } else { None };
        let Some((setting, name, sections)) = named(name) else {
            self.is_servers_own |= self.sections.is_empty() && is_servers_own(name);
            return Ok(());
        };
        if setting == Setting::Include {
            return Err(format!("servers refuse {name}; put the text of that file here"));
        }
        let section = self.section();
        if !sections.contains(&section) {
            return Err(format!("{name} stands {}, but belongs {}", self.place(), places(sections)));
        }
        if matches!(setting, Setting::Server | Setting::Storage | Setting::Trove) {
            let value = document.as_deref().or(arguments.first().map(|word| &*word.value)).unwrap_or_default();
            self.of_the_host(setting, name, String::from_utf8_lossy(value).into_owned());
            return Ok(());
        }
        let arguments = match document {
            Some(document) => vec![text(name, &document)?],
            None => arguments.iter().map(|word| text(name, &word.value)).collect::<Result<_, _>>()?,
        };
        match (setting, &mut self.open) {
            (Setting::Alias, _) => self.alias(&arguments, line.number)?,
            (Setting::Name, _) if section == Section::Distribution => {}
            (Setting::Name, Some(open)) => open.name(first(name, &arguments)?),
            (Setting::RootHandle, Some(open)) => open.root_handle(first(name, &arguments)?)?,
            (Setting::Range, Some(open)) => {
                open.ranges(&arguments, section, &|alias| Some(&self.aliases[*self.by_name.get(alias)?]))?;
            }
            (_, Some(open)) => open.number(setting, number(name, &arguments)?)?,
            (_, None) => self.clients.set(setting, number(name, &arguments)?),
        }
        Ok(())
    }

    /// What matters to a server's own host only, where a variable of its environment may stand in it.
    fn of_the_host(&mut self, setting: Setting, name: &str, value: String) {
        match setting {
            Setting::Server => self.server = Some(value),
            Setting::Storage => self.storage.directories.push((self.server.clone(), value)),
            _ if name == "TroveMethod" => self.storage.method = Some(value),
            _ => self.storage.syncs = Some(!value.eq_ignore_ascii_case("no")),
        }
    }

    fn alias(&mut self, arguments: &[String], line: usize) -> Result<(), String> {
        let [name, addresses @ ..] = arguments else { return Err("Alias has neither name nor address".to_owned()) };
        if addresses.is_empty() {
            let (name, example) = (quoted(name), quoted(&format!("Alias {name} tcp://{name}:3334")));
            return Err(format!(
                "Alias {name} has no address; write for example {example}, any comment behind a blank"
            ));
        }
        if let Some(earlier) = self.by_name.insert(name.clone(), self.aliases.len()) {
            return Err(format!("Alias {} is already at line {}", quoted(name), self.aliases[earlier].line));
        }
        self.aliases.push(Alias { name: name.clone(), addresses: addresses.join(","), line });
        Ok(())
    }

    /// What stands between `<<WORD` and a line that starts with WORD, without its last line end.
    fn here_document(&mut self, value: &[u8]) -> Option<Vec<u8>> {
        /// Servers keep this much of WORD, so that a longer one never comes.
        const WORD_MAX: usize = 8;
        let (_, word) = value.strip_prefix(b"<<")?.split_last()?;
        let mut document = Vec::new();
        for line in self.lines.by_ref() {
            if word.len() <= WORD_MAX && line.bytes.starts_with(word) {
                break;
            }
            document.extend_from_slice(&line.bytes);
        }
        document.pop();
        Some(document)
    }
}

/// Options of the servers' own files that older versions have beside fs.conf.
fn is_servers_own(name: &[u8]) -> bool {
    ["HostID", "StorageSpace"].iter().any(|own| name.eq_ignore_ascii_case(own.as_bytes()))
}

fn text(option: &str, argument: &[u8]) -> Result<String, String> {
    let Ok(text) = str::from_utf8(argument) else {
        return Err(format!("{option}: {} is not UTF-8", quoted(&String::from_utf8_lossy(argument))));
    };
    match text.contains("${") {
        true => Err(format!(
            "{option}: {} depends on a variable of the server's environment; write its value",
            quoted(text)
        )),
        false => Ok(text.to_owned()),
    }
}

fn number(option: &str, arguments: &[String]) -> Result<i64, String> {
    let value = first(option, arguments)?;
    signed(value).ok_or_else(|| format!("{option}: {} is not a number", quoted(value)))
}

fn first<'a>(option: &str, arguments: &'a [String]) -> Result<&'a str, String> {
    let missing = || format!("{option} has no value; a comment needs a blank before it");
    arguments.first().map(String::as_str).ok_or_else(missing)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Section {
    Outside,
    Defaults,
    Security,
    Ldap,
    Aliases,
    ServerOptions,
    FileSystem,
    ExportOptions,
    StorageHints,
    MetaHandleRanges,
    DataHandleRanges,
    Distribution,
}

/// Each section's name, and those in which it may stand.
const SECTIONS: [(Section, &str, &[Section]); 11] = [
    (Defaults, "Defaults", &[Outside]),
    (Security, "Security", &[Defaults, ServerOptions]),
    (Ldap, "LDAP", &[Security]),
    (Aliases, "Aliases", &[Outside]),
    (ServerOptions, "ServerOptions", &[Outside]),
    (FileSystem, "FileSystem", &[Outside]),
    (ExportOptions, "ExportOptions", &[FileSystem]),
    (StorageHints, "StorageHints", &[FileSystem]),
    (MetaHandleRanges, "MetaHandleRanges", &[FileSystem]),
    (DataHandleRanges, "DataHandleRanges", &[FileSystem]),
    (Distribution, "Distribution", &[FileSystem]),
];

impl Section {
    /// The section that a tag starts or ends. Others than these mean nothing to servers.
    pub(super) fn of_tag(tag: &[u8]) -> Option<Tag> {
        let name = tag.strip_prefix(b"<")?.strip_suffix(b">")?;
        let end = name.strip_prefix(b"/");
        let name = end.unwrap_or(name);
        let (section, ..) = SECTIONS.iter().find(|(_, known, _)| name.eq_ignore_ascii_case(known.as_bytes()))?;
        Some(if end.is_some() { Tag::End(*section) } else { Tag::Start(*section) })
    }

    pub(super) fn may_be_in(self, outer: Self) -> bool {
        SECTIONS.iter().any(|(section, _, outers)| *section == self && outers.contains(&outer))
    }

    /// Its name, empty outside of all.
    pub(super) fn name(self) -> &'static str {
        SECTIONS.iter().find(|(section, ..)| *section == self).map_or("", |(_, name, _)| name)
    }

    pub(super) fn places(self) -> String {
        let outers = SECTIONS.iter().find(|(section, ..)| *section == self).map_or(&[][..], |(.., outers)| outers);
        places(outers)
    }
}

/// Where something may stand, in words.
pub(super) fn places(sections: &[Section]) -> String {
    let place = |section: &Section| match section {
        Outside => "outside of all sections".to_owned(),
        section => format!("in <{}>", section.name()),
    };
    sections.iter().map(place).collect::<Vec<_>>().join(" or ")
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tag {
    Start(Section),
    End(Section),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Setting {
    Alias,
    Range,
    Name,
    Id,
    RootHandle,
    FlowBufferSize,
    FlowBuffers,
    ReplyTimeout,
    FlowTimeout,
    RetryLimit,
    RetryDelay,
    Server,
    Storage,
    Trove,
    Include,
}

const SETTINGS: [(Setting, &str, &[Section]); 18] = [
    (Setting::Alias, "Alias", &[Aliases]),
    (Setting::Range, "Range", &[MetaHandleRanges, DataHandleRanges]),
    (Setting::Name, "Name", &[FileSystem, Distribution]),
    (Setting::Id, "ID", &[FileSystem]),
    (Setting::RootHandle, "RootHandle", &[FileSystem]),
    (Setting::FlowBufferSize, "FlowBufferSizeBytes", &[FileSystem]),
    (Setting::FlowBuffers, "FlowBuffersPerFlow", &[FileSystem]),
    (Setting::ReplyTimeout, "ClientJobBMITimeoutSecs", &[Defaults]),
    (Setting::FlowTimeout, "ClientJobFlowTimeoutSecs", &[Defaults]),
    (Setting::RetryLimit, "ClientRetryLimit", &[Defaults]),
    (Setting::RetryDelay, "ClientRetryDelayMilliSecs", &[Defaults]),
    (Setting::Server, "Server", &[ServerOptions]),
    (Setting::Storage, "DataStorageSpace", &[Defaults, ServerOptions]),
    (Setting::Storage, "MetadataStorageSpace", &[Defaults, ServerOptions]),
    (Setting::Trove, "TroveMethod", &[Defaults, StorageHints]),
    (Setting::Trove, "TroveSyncData", &[StorageHints]),
    // Servers know these, but refuse them everywhere.
    (Setting::Include, "Include", &[]),
    (Setting::Include, "IncludePath", &[]),
];

/// Options with one text, which may be given as a here-document: the lines up to one that starts with a word.
const TEXTS: &str = "\
    AnonGID AnonUID BindDN BindPassword BMIOpts CAFile CoalescingHighWatermark DataStorageSpace DBCacheType DBMaxSize \
    EnableTracing FileStuffing GIDAttr Hosts ImmediateCompletion Include IncludePath KeyStore LogFile LogStamp LogType \
    MetadataStorageSpace Name Param RootHandle SearchAttr SearchClass SearchMode SearchRoot SearchScope SecretKey \
    Server ServerKey StorageSpace TCPBindSpecific TroveMethod TroveSyncData TroveSyncMeta TrustedPorts TurnOffTimeouts \
    UIDAttr UserCertDN";

/// The option of this name, as it is written in manuals, and where it may stand.
pub(super) fn named(name: &[u8]) -> Option<(Setting, &'static str, &'static [Section])> {
    SETTINGS.into_iter().find(|(_, known, _)| name.eq_ignore_ascii_case(known.as_bytes()))
}

pub(super) fn is_text(name: &[u8]) -> bool {
    TEXTS.split(' ').any(|known| name.eq_ignore_ascii_case(known.as_bytes()))
}

/// `%li`: decimal, hexadecimal after `0x`, octal after `0`.
pub(super) fn signed(text: &str) -> Option<i64> {
    let (is_negative, digits) = sign(text.trim_start());
    let (radix, digits) = radix(digits);
    let (magnitude, _) = leading(digits, radix)?;
    Some(match is_negative {
        true => i64::try_from(-i128::from(magnitude)).unwrap_or(i64::MIN),
        false => i64::try_from(magnitude).unwrap_or(i64::MAX),
    })
}

/// `%llu`: decimal; negative numbers wrap.
pub(super) fn unsigned(text: &str) -> Option<u64> {
    let (is_negative, digits) = sign(text.trim_start());
    let (magnitude, _) = leading(digits, 10)?;
    Some(if is_negative { magnitude.wrapping_neg() } else { magnitude })
}

/// `3-5,7-9`, also with blanks; single numbers are ranges of one. Numbers that start with 0 are octal.
pub(super) fn ranges(text: &str) -> Option<Vec<RangeInclusive<u64>>> {
    if text.contains(|c: char| !c.is_ascii_digit() && !matches!(c, ',' | ' ' | '-')) {
        return None;
    }
    let mut ranges = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let (first, after) = handle(rest)?;
        let (last, after) = match after.strip_prefix('-') {
            Some(after) => handle(after)?,
            None if after.is_empty() || after.starts_with(',') => (first, after),
            None => return None,
        };
        ranges.push(first..=last);
        rest = after.strip_prefix(',').unwrap_or(after).trim_start();
    }
    (!ranges.is_empty()).then_some(ranges)
}

fn handle(text: &str) -> Option<(u64, &str)> {
    let (radix, digits) = radix(text.trim_start());
    let (handle, rest) = leading(digits, radix)?;
    Some((handle, rest.trim_start()))
}

fn sign(text: &str) -> (bool, &str) {
    match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    }
}

fn radix(digits: &str) -> (u32, &str) {
    match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        Some(digits) => (16, digits),
        None if digits.starts_with('0') => (8, digits),
        None => (10, digits),
    }
}

fn leading(text: &str, radix: u32) -> Option<(u64, &str)> {
    let len = text.find(|c: char| !c.is_digit(radix)).unwrap_or(text.len());
    let (digits, rest) = text.split_at(len);
    // Of digits alone, only a number that is too large fails.
    (len > 0).then(|| (u64::from_str_radix(digits, radix).unwrap_or(u64::MAX), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_c() {
        let large = "99999999999999999999";
        for (text, expected) in [
            ("1001", Some(1001)),
            (" +7x", Some(7)),
            ("256K", Some(256)),
            ("0x3E9", Some(1001)),
            ("010", Some(8)),
            ("-5", Some(-5)),
            (large, Some(i64::MAX)),
            ("-99999999999999999999", Some(i64::MIN)),
            ("0", Some(0)),
            ("x", None),
            ("", None),
        ] {
            assert_eq!(signed(text), expected, "{text}");
        }
        assert_eq!((unsigned("010"), unsigned("-1"), unsigned(large)), (Some(10), Some(u64::MAX), Some(u64::MAX)));
        assert_eq!((unsigned("0x10"), unsigned("a")), (Some(0), None));
    }

    #[test]
    fn ranges_are_those_of_servers() {
        assert_eq!(ranges("3-5,7-9"), Some(vec![3..=5, 7..=9]));
        assert_eq!(ranges(" 3 - 5 7-9, 11 ,"), Some(vec![3..=5, 7..=9, 11..=11]));
        assert_eq!(ranges("010-020"), Some(vec![8..=16]));
        for text in ["", ",", "-5", "3-", "a", "3 5", "08", "0x8", "3-5x", "3\t-5"] {
            assert_eq!(ranges(text), None, "{text}");
        }
    }
}
