//! What is remembered of a copy, so that another process can go on with it.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The part of a file's metadata that changes whenever its content is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Version {
    /// Bytes.
    pub size: u64,
    /// Time of the last write, in nanoseconds since 1970.
    pub mtime_ns: i128,
}

/// How far a copy is, as far as that matters after a crash.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// The partial file may not exist yet; if it does, it is empty.
    Reserving,
    /// All data before this offset of the source is on storage in the partial file.
    Copying {
        /// Bytes.
        copied: u64,
    },
    /// The partial file is complete and may have got its final name already.
    Switching {
        /// SHA-256 of the content, in hexadecimal digits.
        sha256: String,
    },
}

/// The state file's content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// Of this format: [`Record::FORMAT`].
    pub format: u32,
    /// Absolute path of the file that is copied.
    pub source: PathBuf,
    /// The name that the new file gets: a new one, or that of the source.
    pub destination: PathBuf,
    /// An empty file at the destination that has the layout already becomes the partial file.
    pub fill: bool,
    /// The source when the copy began.
    pub version: Version,
    /// How far it is.
    pub stage: Stage,
}

impl Record {
    /// The format that this version writes and reads.
    pub const FORMAT: u32 = 1;
}
