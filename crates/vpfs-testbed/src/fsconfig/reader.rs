//! Reads a configuration as servers and clients do: sections as sections, options by the section that they are in.

use std::collections::HashMap;

use vpfs_wire::pvfs2::dotconf::{LINE_MAX, Line, Lines, Word};

use super::alias::Alias;
use super::error::{FsConfigError, quoted};
use super::file_system::{Clients, OpenFileSystem};
use super::options::{self, Setting};
use super::sections::{Section, Tag, places};
use super::{Configuration, FsConfig, Storage, number};

/// What has been read so far.
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

    /// Where the current line is, in words.
    fn place(&self) -> String {
        match self.sections.last() {
            None => places(&[Section::Outside]),
            Some((section, line)) => format!("in <{}>, which starts at line {line}", section.name()),
        }
    }

    fn option(&mut self, line: &Line, name: &[u8], arguments: &[Word]) -> Result<(), String> {
        let document = if options::is_text(name) { self.here_document(line.after_name()) } else { None };
        let Some((setting, name, sections)) = options::named(name) else {
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

/// An argument as text. What depends on a server's environment cannot be known.
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
    number::signed(value).ok_or_else(|| format!("{option}: {} is not a number", quoted(value)))
}

fn first<'a>(option: &str, arguments: &'a [String]) -> Result<&'a str, String> {
    let missing = || format!("{option} has no value; a comment needs a blank before it");
    arguments.first().map(String::as_str).ok_or_else(missing)
}
