//! The file of the sets of applications that owners push.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, TryLockError};

use vpfs_config::sets::Sets;
use vpfs_core::Time;

use crate::handover::Inheritance;
use crate::state_dir::StateDir;

/// More than all sets need.
const LIMIT: u64 = 64 << 20;

/// The file of the sets of a process.
pub(crate) struct SetsFile {
    state: StateDir,
    name: String,
    /// One writes at a time; others that find it busy leave it to that one.
    writing: Mutex<()>,
    is_due: AtomicBool,
}

impl SetsFile {
    /// For the process whose first server is `first`.
    pub(crate) fn new(state: StateDir, first: &str) -> Self {
        let (writing, is_due) = (Mutex::default(), AtomicBool::default());
        Self { state, name: format!("{first}.sets.json"), writing, is_due }
    }

    /// What the predecessor held, or else an earlier process. Nothing if it is damaged, which is logged. Blocks.
    pub(crate) fn read(&self, now: Time, inheritance: Option<&Inheritance>) -> Sets {
        let content = inheritance.and_then(Inheritance::sets).or_else(|| self.state.read(&self.name, LIMIT));
        let sets = content.map_or(Ok(Sets::default()), |content| Sets::from_json(now, &content));
        sets.unwrap_or_else(|error| {
            let file = &self.name;
            tracing::warn!(
                file,
                error,
                "the applications that an earlier process held are damaged; their owners have to push again"
            );
            Sets::default()
        })
    }

    /// Replaces the file by the latest `content`. Blocks.
    pub(crate) fn write(&self, content: impl Fn() -> String) {
        self.is_due.store(true, Ordering::Release);
        while self.is_due.load(Ordering::Acquire) {
            let _writing = match self.writing.try_lock() {
                Ok(guard) => guard,
                Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
                // It sees that more is due when it has written.
                Err(TryLockError::WouldBlock) => return,
            };
            if self.is_due.swap(false, Ordering::AcqRel) {
                self.state.write(&self.name, content().as_bytes());
            }
        }
    }
}
