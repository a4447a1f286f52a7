//! What is known of a file.

use vpfs_harl::{Advice, Trace};

/// A file with the runs that use it and the advice for it.
pub(super) struct Advised {
    pub(super) name: String,
    /// Each with its weight.
    pub(super) runs: Vec<(Trace, u32)>,
    pub(super) advice: Advice,
}
