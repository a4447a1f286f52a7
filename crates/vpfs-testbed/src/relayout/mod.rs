//! Rewrites a file with a new layout: copies it into a file with that layout, compares both, and renames the new file
//! atomically. A copy that was killed at any moment resumes where it stopped; the old file keeps its name until the new
//! one is complete and verified.
//!
//! [`Job`] has the order of steps and what a crash leaves of them, without I/O; [`Relayout`] executes the steps on any
//! mounted file system, and [`OrangefsRelayout`] on OrangeFS without a mount. Layouts themselves are set by the one who
//! prepares the target (a directory that new files inherit theirs from, or an empty file), or given by the caller.

mod mounted;
mod orangefs;

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

pub use mounted::{Options, Progress, Relayout, RelayoutError, Summary, copy_attributes};
pub use orangefs::OrangefsRelayout;

/// What to do next. The executor then calls [`Job::done`]. A step that fails is not reported; a job that is
/// [resumed](Job::resume) repeats it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Write [`Job::record`] to the state file, durably.
    Save,
    /// Make sure that the partial file exists and is empty.
    Reserve,
    /// Copy these bytes of the source to the same place of the partial file; holes stay holes.
    Copy {
        /// First byte.
        begin: u64,
        /// The byte after the last one.
        end: u64,
    },
    /// Wait until the partial file is on storage, with this size.
    Sync(u64),
    /// Read both files again and compare them.
    Verify,
    /// Give the partial file the source's owner, mode, times and extended attributes, durably.
    Attributes,
    /// Make sure that the source is as it was and that nobody writes to it.
    Check,
    /// Give the partial file its final name, atomically.
    Switch,
    /// Make sure that the file with the final name has the content with this SHA-256.
    Confirm(String),
    /// Make the new name durable.
    SyncDirectory,
    /// Remove the state file.
    Forget,
}

/// The result of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Done {
    /// Of all steps but the next one.
    Ok,
    /// Of [`Step::Verify`]: SHA-256 in hexadecimal digits.
    Equal(String),
}

/// What a new process finds of an earlier copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// The source as it is now; `None` if it does not exist.
    pub source: Option<Version>,
    /// Size of the partial file; `None` if it does not exist.
    pub partial: Option<u64>,
}

/// Why a copy cannot go on where it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ResumeError {
    /// Its size or time of modification is different.
    #[error("the source has changed since the copy began; start again with --restart")]
    SourceChanged,
    /// It was moved or deleted.
    #[error("the source is gone")]
    NoSource,
    /// Somebody else removed it.
    #[error("the partial file is gone; start again with --restart")]
    NoPartial,
    /// It was meant to be empty.
    #[error("the partial file has data that this copy did not write; move it away, or empty it with --restart")]
    ForeignPartial,
}

/// A copy as a state machine, without I/O or clock: take [`Job::step`], execute it, report [`Job::done`], until there
/// is no step. Equal calls give equal steps.
#[derive(Clone, Debug)]
pub struct Job {
    record: Record,
    piece: u64,
    step: Option<Step>,
    after_save: Option<Step>,
}

impl Job {
    /// A new copy, or one that starts again. `piece` bytes are copied between two saved states, and at most so many are
    /// copied again after a crash.
    pub fn new(record: Record, piece: u64) -> Self {
        let record = Record { stage: Stage::Reserving, ..record };
        Self { record, piece, step: Some(Step::Save), after_save: Some(Step::Reserve) }
    }

    /// Goes on with a copy of which `record` was saved.
    ///
    /// # Errors
    /// If the source is not the same as then, or the partial file is not what this copy had left.
    pub fn resume(record: Record, found: Found, piece: u64) -> Result<Self, ResumeError> {
        let step = match (&record.stage, found.partial) {
            (Stage::Reserving, Some(1..)) => return Err(ResumeError::ForeignPartial),
            (Stage::Reserving, _) => Step::Reserve,
            (Stage::Copying { .. }, None) => return Err(ResumeError::NoPartial),
            (Stage::Copying { copied }, Some(_)) => copy(&record, piece, *copied),
            // What was equal then need not be equal now.
            (Stage::Switching { .. }, Some(_)) => Step::Verify,
            // It has its new name already, and the source may be the new file itself.
            (Stage::Switching { sha256 }, None) => Step::Confirm(sha256.clone()),
        };
        match found.source {
            _ if matches!(step, Step::Confirm(_)) => {}
            None => return Err(ResumeError::NoSource),
            Some(source) if source != record.version => return Err(ResumeError::SourceChanged),
            Some(_) => {}
        }
        Ok(Self { record, piece, step: Some(step), after_save: None })
    }

    /// What to do next, `None` when all is done.
    pub fn step(&self) -> Option<&Step> {
        self.step.as_ref()
    }

    /// What must be in the state file after [`Step::Save`].
    pub fn record(&self) -> &Record {
        &self.record
    }

    /// Reports that the current step succeeded. O(1).
    ///
    /// # Panics
    /// If there is no step, or `done` is not one of its results.
    pub fn done(&mut self, done: Done) {
        let step = self.step.take().expect("there was a step");
        self.step = match (step, done) {
            (Step::Save, Done::Ok) => self.after_save.take(),
            (Step::Reserve, Done::Ok) => self.save(Stage::Copying { copied: 0 }, copy(&self.record, self.piece, 0)),
            (Step::Copy { end, .. }, Done::Ok) => Some(Step::Sync(end)),
            (Step::Sync(end), Done::Ok) if end < self.record.version.size => {
                self.save(Stage::Copying { copied: end }, copy(&self.record, self.piece, end))
            }
            (Step::Sync(end), Done::Ok) => self.save(Stage::Copying { copied: end }, Step::Verify),
            (Step::Verify, Done::Equal(sha256)) => self.save(Stage::Switching { sha256 }, Step::Attributes),
            (Step::Attributes, Done::Ok) => Some(Step::Check),
            (Step::Check, Done::Ok) => Some(Step::Switch),
            (Step::Switch | Step::Confirm(_), Done::Ok) => Some(Step::SyncDirectory),
            (Step::SyncDirectory, Done::Ok) => Some(Step::Forget),
            (Step::Forget, Done::Ok) => None,
            (step, done) => panic!("{done:?} is no result of {step:?}"),
        };
    }

    fn save(&mut self, stage: Stage, then: Step) -> Option<Step> {
        self.record.stage = stage;
        self.after_save = Some(then);
        Some(Step::Save)
    }
}

/// The next piece from `begin` on; an empty one at the end, so that the size is always set.
fn copy(record: &Record, piece: u64, begin: u64) -> Step {
    Step::Copy { begin, end: record.version.size.min(begin.saturating_add(piece.max(1))).max(begin) }
}

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
