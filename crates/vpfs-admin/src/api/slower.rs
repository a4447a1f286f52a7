//! Whether storage is slower than it was.

use serde::Serialize;

use super::{AtServer, Storage};

/// How much slower the storage is than at best, for all that had it to themselves.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Slower {
    /// Requests take so many times as long.
    pub factor: f64,
    /// For how long, if that is known.
    pub for_seconds: Option<f64>,
}

impl Storage {
    /// The situation of requests whose application had the storage to itself, or nearly.
    pub const ALONE: &str = "alone";
}

impl AtServer {
    /// Storage is slower than at best from this factor on; nodes speak of it from two and a half on, and had no reason
    /// to for a part of the time.
    pub const SLOWER: f64 = 2.0;

    /// Whether the storage is slower than at best.
    pub fn slower(&self) -> Option<Slower> {
        self.slowness().filter(|slower| slower.factor > Self::SLOWER)
    }

    /// How many times as long as at best the storage takes for requests whose application has it to itself; `None` if
    /// there were none, or their best is not known. Requests with company never tell.
    pub fn slowness(&self) -> Option<Slower> {
        let (mut took, mut usual, mut longest) = (0.0, 0.0, (0.0, None));
        for alike in self.apps.iter().flat_map(|app| &app.in_storage) {
            if alike.situation != Storage::ALONE || alike.requests == 0 || alike.quiet_seconds.is_none() {
                continue;
            }
            took += alike.seconds;
            usual += alike.seconds - alike.lost_to_storage_seconds;
            if alike.slower_seconds.is_some() && alike.seconds > longest.0 {
                longest = (alike.seconds, alike.slower_seconds);
            }
        }
        (usual > 0.0).then(|| Slower { factor: took / usual, for_seconds: longest.1 })
    }
}
