//! `[limits]` and `[log]`.

use std::time::Duration;

use vpfs_core::Bytes;

use super::keys::{LIMITS, LOG};
use super::network::{Protocol, Server};
use crate::schema::table::Table;
use crate::schema::units::{Size, parse_size, quote};

/// How much clients and servers can make a proxy hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Client connections of one process.
    pub connections: usize,
    /// Client connections of one client host.
    pub connections_per_host: usize,
    /// Operations of one connection that are held or in progress.
    pub operations: usize,
    /// Bytes of the requests of one connection that are held or in progress.
    pub request_bytes: Bytes,
    /// Bytes of one connection waiting to be sent to one side.
    pub buffer: Bytes,
    /// Bytes that all connections of one process hold together.
    pub memory: Bytes,
    /// Bytes that all connections of one client host hold together.
    pub host_memory: Bytes,
    /// Limit for the server's answer to an operation.
    pub reply_timeout: Duration,
    /// How long a request is held until it is sent only when its client repeats it.
    pub max_hold: Duration,
    /// Limit for a transfer that makes no progress.
    pub flow_timeout: Duration,
    /// Limit for an operation that waits for its client.
    pub stall_timeout: Duration,
    /// Limit for the rest of a request of which a part has arrived.
    pub request_timeout: Duration,
    /// How long clients are told to wait for an answer; `None` keeps the servers' value.
    pub client_timeout: Option<Duration>,
    /// Limit for connecting to a server.
    pub connect_timeout: Duration,
    /// Limit for operations in progress at shutdown.
    pub drain_timeout: Duration,
    /// Limit for what a server's host has not stored yet.
    pub write_back: WriteBack,
}

/// How much of what was written may be in the memory of a server's host only, for each disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteBack {
    /// What the disk stores in an eighth of a second.
    Auto,
    /// This much.
    Size(Bytes),
    /// As much as the kernel is set up for.
    Off,
}

/// The least urgent level of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// Someone must act.
    Error,
    /// Degraded but serving.
    Warn,
    /// Life cycle.
    Info,
    /// Each decision.
    Debug,
    /// Bytes.
    Trace,
}

impl LogLevel {
    /// In the order of the table of tunables.
    pub const ALL: [Self; 5] = [Self::Error, Self::Warn, Self::Info, Self::Debug, Self::Trace];

    /// Its name in tracing filters.
    pub fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warn => "warn",
            Self::Info => "info",
            Self::Debug => "debug",
            Self::Trace => "trace",
        }
    }
}

/// The format of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// Readable text.
    Text,
    /// JSON for programs.
    Json,
}

/// Settings of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Log {
    /// The least urgent level shown.
    pub level: LogLevel,
    /// Text or JSON.
    pub format: LogFormat,
}

pub(crate) fn read_limits(root: &Table<'_>, servers: &[Server]) -> Limits {
    let table = root.table("limits", &LIMITS);
    let count = |key| usize::try_from(table.number_or_default(key)).unwrap_or(usize::MAX);
    let span = |key| Duration::from_nanos(table.number_or_default(key));
    let memory = table.number_or_default("memory");
    let connections = count("connections");
    let client_timeout = table.number("client_timeout").map(Duration::from_nanos);
    Limits {
        connections,
        connections_per_host: connections_per_host(&table, connections),
        operations: count("operations"),
        request_bytes: request_bytes(&table, servers),
        buffer: Bytes(table.number_or_default("buffer")),
        memory: Bytes(memory),
        host_memory: Bytes(host_memory(&table, memory)),
        reply_timeout: span("reply_timeout"),
        max_hold: max_hold(&table, client_timeout),
        flow_timeout: span("flow_timeout"),
        stall_timeout: span("stall_timeout"),
        request_timeout: span("request_timeout"),
        client_timeout,
        connect_timeout: span("connect_timeout"),
        drain_timeout: span("drain_timeout"),
        write_back: write_back(&table),
    }
}

/// By default a quarter, so that four hosts are needed to use up all connections. But one host may use up a small
/// number of connections alone: few hosts are expected there.
fn connections_per_host(table: &Table<'_>, connections: usize) -> usize {
    const SMALL: usize = 64;
    match table.number("connections_per_host").map(|count| usize::try_from(count).unwrap_or(usize::MAX)) {
        Some(count) if count > connections => {
            table.refuse("connections_per_host", format!("{count} is more than limits.connections, {connections}"));
            connections
        }
        Some(count) => count,
        None => {
            let count = (connections / 4).max(SMALL).min(connections);
            table.set("connections_per_host", count.to_string());
            count
        }
    }
}

/// How long clients wait for an answer if `limits.client_timeout` does not say it: the default of OrangeFS.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(300);

/// By default nine tenths of what clients wait; the server needs the rest to answer. What is held for longer is sent
/// when its client repeats it, so less than half of that would only delay.
fn max_hold(table: &Table<'_>, client_timeout: Option<Duration>) -> Duration {
    let patience = client_timeout.unwrap_or(CLIENT_TIMEOUT);
    let default = patience * 9 / 10;
    let Some(held) = table.number("max_hold").map(Duration::from_nanos) else { return default };
    if (patience / 2..patience).contains(&held) {
        return held;
    }
    let of =
        if client_timeout.is_some() { "limits.client_timeout" } else { "by default, as there is no client_timeout" };
    let half = patience / 2;
    let message =
        format!("{held:?} is not from {half:?} to less than {patience:?}, which clients wait for an answer ({of})");
    table.refuse("max_hold", message);
    default
}

/// The requests of OrangeFS carry little data. Those of NFS carry all that is written: 64 slots of 1 MiB, as servers
/// give them to a client, and some more for others on the connection.
fn request_bytes(table: &Table<'_>, servers: &[Server]) -> Bytes {
    if let Some(given) = table.number("request_bytes") {
        return Bytes(given);
    }
    let is_nfs = servers.iter().any(|server| server.address.protocol() == Some(Protocol::Nfs));
    let default = Bytes::mib(if is_nfs { 80 } else { 4 });
    table.set("request_bytes", Size(default).to_string());
    default
}

fn write_back(table: &Table<'_>) -> WriteBack {
    /// Less would be a few calls.
    const LEAST: Bytes = Bytes::kib(256);
    let text = table.text("write_back").unwrap_or("auto");
    let (setting, shown) = match text {
        "auto" => (WriteBack::Auto, text.to_owned()),
        "off" => (WriteBack::Off, text.to_owned()),
        size => match parse_size(size) {
            Ok(size) if size >= LEAST => (WriteBack::Size(size), Size(size).to_string()),
            Ok(size) => {
                let message = format!("{} is less than {}; write \"auto\", or more", Size(size), Size(LEAST));
                table.refuse("write_back", message);
                return WriteBack::Auto;
            }
            Err(_) => {
                let message = format!("{} is neither \"auto\", \"off\" nor a size such as \"64MiB\"", quote(size));
                table.refuse("write_back", message);
                return WriteBack::Auto;
            }
        },
    };
    table.set("write_back", shown);
    setting
}

fn host_memory(table: &Table<'_>, memory: u64) -> u64 {
    match table.number("host_memory") {
        Some(host) if host > memory => {
            let message = format!("{} is more than limits.memory, {}", Size(Bytes(host)), Size(Bytes(memory)));
            table.refuse("host_memory", message);
            memory
        }
        Some(host) => host,
        None => {
            table.set("host_memory", Size(Bytes(memory / 4)).to_string());
            memory / 4
        }
    }
}

pub(crate) fn read_log(root: &Table<'_>) -> Log {
    let table = root.table("log", &LOG);
    let formats = [LogFormat::Text, LogFormat::Json];
    Log {
        level: table.choice("level").map_or(LogLevel::Info, |index| LogLevel::ALL[index]),
        format: table.choice("format").map_or(LogFormat::Text, |index| formats[index]),
    }
}
