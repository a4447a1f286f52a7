//! How pushed applications are changed from outside.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use vpfs_config::sets::{Put, Refusal, Set, SetName, SetText};

use crate::follower::Follower;

/// How long the answer to a push waits for the disk, which may hang.
const PATIENCE: Duration = Duration::from_secs(2);

/// Changes the pushed applications of a daemon from outside; copies change the same one.
#[derive(Clone)]
pub struct Pushes(pub(crate) Arc<Follower>);

impl Pushes {
    /// Replaces an owner's set, and keeps it; the caller has checked who asks, which `by` says for the log. Clients
    /// belong to its applications at once, also with requests that wait.
    ///
    /// # Errors
    /// See [`Refusal`]; nothing is changed then.
    pub async fn put(&self, name: SetName, set: Set, by: String) -> Result<Put, Refusal> {
        let follower = Arc::clone(&self.0);
        // Indexing thousands of jobs takes milliseconds.
        let put = tokio::task::spawn_blocking(move || follower.put(&name, set, &by)).await;
        let put = put.unwrap_or_else(|_| Err(Refusal::Full("a bug in vpfs; its log says where".into())))?;
        self.keep().await;
        Ok(put)
    }

    /// Removes a set; whether there was one. `by` says who asked for it.
    pub async fn remove(&self, name: &SetName, by: &str) -> bool {
        let removed = self.0.remove(name, by);
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
