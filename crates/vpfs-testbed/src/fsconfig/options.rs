//! The options that matter here, and where each may stand: from the servers' table.

use super::sections::Section::{
    self, Aliases, DataHandleRanges, Defaults, Distribution, FileSystem, MetaHandleRanges, ServerOptions, StorageHints,
};

/// An option that is read.
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

/// Whether the option of this name is one text.
pub(super) fn is_text(name: &[u8]) -> bool {
    TEXTS.split(' ').any(|known| name.eq_ignore_ascii_case(known.as_bytes()))
}
