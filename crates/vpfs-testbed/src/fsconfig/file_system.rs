//! A `<FileSystem>` section while it is read, and what clients are told besides.

use std::collections::HashMap;
use std::time::Duration;

use super::alias::Alias;
use super::error::quoted;
use super::options::Setting;
use super::sections::Section;
use super::{FsConfig, FsServer, number};

/// A section without its end.
pub(super) struct OpenFileSystem {
    /// Its first line.
    pub(super) line: usize,
    config: FsConfig,
    /// Places of servers in `config`, by alias.
    places: HashMap<String, usize>,
}

impl OpenFileSystem {
    pub(super) fn new(line: usize) -> Self {
        Self { line, config: FsConfig { fs_id: 0, root_handle: 0, ..FsConfig::new("", &[]) }, places: HashMap::new() }
    }

    pub(super) fn name(&mut self, name: &str) {
        name.clone_into(&mut self.config.name);
    }

    pub(super) fn root_handle(&mut self, value: &str) -> Result<(), String> {
        let handle = number::unsigned(value);
        self.config.root_handle = handle.ok_or_else(|| format!("RootHandle: {} is not a handle", quoted(value)))?;
        Ok(())
    }

    pub(super) fn number(&mut self, setting: Setting, value: i64) -> Result<(), String> {
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
    pub(super) fn ranges<'a>(
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
            let ranges = number::ranges(handles);
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

    /// What servers demand of a file system.
    pub(super) fn end(self) -> Result<FsConfig, String> {
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
pub(super) struct Clients {
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
    pub(super) fn set(&mut self, setting: Setting, value: i64) {
        // A negative time has no end.
        let time = u64::try_from(value).unwrap_or(u32::MAX.into());
        match setting {
            Setting::ReplyTimeout => self.reply_timeout = Duration::from_secs(time),
            Setting::FlowTimeout => self.flow_timeout = Duration::from_secs(time),
            Setting::RetryDelay => self.retry_delay = Duration::from_millis(u64::try_from(value).unwrap_or(0)),
            _ => self.retry_limit = u32::try_from(value.max(0)).unwrap_or(u32::MAX),
        }
    }

    /// The file system with these values.
    pub(super) fn of(&self, fs: FsConfig) -> FsConfig {
        let Self { reply_timeout, flow_timeout, retry_limit, retry_delay } = *self;
        FsConfig { reply_timeout, flow_timeout, retry_limit, retry_delay, ..fs }
    }
}
