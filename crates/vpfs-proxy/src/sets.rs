//! Sets of applications that owners push: where they are kept, and who may ask for a change.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, TryLockError};
use std::time::Duration;

use vpfs_config::sets::{Put, Refusal, Set, SetName, SetText, Sets};
use vpfs_core::Time;

use crate::follower::Follower;
use crate::handover::Inheritance;
use crate::state_dir::StateDir;

/// How long the answer to a push waits for the disk, which may hang.
const PATIENCE: Duration = Duration::from_secs(2);
/// More than all sets need.
const LIMIT: u64 = 64 << 20;

/// The file of the sets of a process.
pub(crate) struct SetsFile {
    state: StateDir,
    name: String,
    /// One writes at a time; whoever finds it busy leaves it to that one.
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
    fn write(&self, content: impl Fn() -> String) {
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

/// Changes the pushed applications of a daemon from outside; copies change the same one.
#[derive(Clone)]
pub struct Pushes(pub(crate) Arc<Follower>);

impl Pushes {
    /// Replaces an owner's set, and keeps it; the caller has checked who asks. Clients belong to its applications with
    /// their next requests.
    ///
    /// # Errors
    /// See [`Refusal`]; nothing is changed then.
    pub async fn put(&self, name: SetName, set: Set) -> Result<Put, Refusal> {
        let follower = Arc::clone(&self.0);
        // Indexing thousands of jobs takes milliseconds.
        let put = tokio::task::spawn_blocking(move || follower.put(name, set)).await;
        let put = put.unwrap_or_else(|_| Err(Refusal::Full("a bug in vpfs; its log says where".into())))?;
        self.keep().await;
        Ok(put)
    }

    /// Removes a set; whether there was one.
    pub async fn remove(&self, name: &SetName) -> bool {
        let removed = self.0.remove(name);
        if removed {
            self.keep().await;
        }
        removed
    }

    /// All sets by name, and how long each still holds. O(applications).
    pub fn sets(&self) -> Vec<(SetName, SetText, Duration)> {
        self.0.sets()
    }

    /// The file with the secret of an owner; `None` if the configuration does not have this owner.
    pub fn token_of(&self, owner: &str) -> Option<PathBuf> {
        self.0.token_of(owner)
    }

    async fn keep(&self) {
        let follower = Arc::clone(&self.0);
        let writing = tokio::task::spawn_blocking(move || follower.sets_file().write(|| follower.sets_json()));
        let _ = tokio::time::timeout(PATIENCE, writing).await;
    }
}
