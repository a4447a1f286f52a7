//! Whether storage is slower than it was.

use serde::Serialize;

use super::{AtServer, Storage};

/// What requests would have taken at best.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Best {
    /// In the storage, all of them together,
    pub seconds: f64,
    /// and what of it would have been their own.
    pub own_seconds: f64,
}

impl Best {
    /// As those that are like `quiet`; `None` while that is not known.
    pub fn of(alike: &Storage, quiet: &Storage) -> Option<Self> {
        let requests = alike.requests as f64;
        let (seconds, own_seconds) = (quiet.quiet_seconds? * requests, quiet.quiet_own_seconds? * requests);
        Some(Self { seconds, own_seconds })
    }
}

/// How much slower the storage is than at best, for all that use it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Slower {
    /// Requests take so many times as long.
    pub factor: f64,
    /// For how long, if that is known.
    pub for_seconds: Option<f64>,
}

impl AtServer {
    /// Storage is slower than at best from this factor on; less is chance.
    pub const SLOWER: f64 = 2.5;

    /// Whether the storage is slower than at best.
    pub fn slower(&self) -> Option<Slower> {
        self.slowness().filter(|slower| slower.factor > Self::SLOWER)
    }

    /// How many times as long as at best, in the same situations, the storage takes for all of its work; `None` if the
    /// best is not known for any of it. More requests in front change the whole time alone, and more parallel work the
    /// own part alone.
    pub fn slowness(&self) -> Option<Slower> {
        let (mut took, mut usual, mut longest) = (0.0, 0.0, (0.0, None));
        for alike in self.apps.iter().flat_map(|app| &app.in_storage).filter(|alike| alike.requests > 0) {
            let Some(best) = Best::of(alike, alike).filter(|best| best.own_seconds > 0.0) else { continue };
            let factor = (alike.seconds / best.seconds).min(alike.own_seconds / best.own_seconds).max(1.0);
            took += factor * best.own_seconds;
            usual += best.own_seconds;
            if alike.slower_seconds.is_some() && best.own_seconds > longest.0 {
                longest = (best.own_seconds, alike.slower_seconds);
            }
        }
        (usual > 0.0).then(|| Slower { factor: took / usual, for_seconds: longest.1 })
    }
}
