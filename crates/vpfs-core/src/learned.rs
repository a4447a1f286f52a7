//! What a policy has learned at run time and can take back after a restart, as plain data: for a successor, or a file.
//!
//! Only what makes the first seconds bad without it is kept; the rest is learned again at once. It may come from
//! another version, or from a time when the storage was another one. So a policy takes any values, limits them to what
//! it could have learned itself, and continues to learn from there: what is wrong is corrected as after a change of the
//! storage.

/// By [`Isolation`](crate::Isolation); other policies learn nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Learned {
    /// The best rate of bulk, 0 if unknown, and the most that it was served, in cost per second.
    pub best: u64,
    /// See `best`.
    pub most: u64,
    /// The usual cost of a request of bulk.
    pub usual: u64,
    /// How long such a request takes alone, 0 if unknown.
    pub alone_ns: u64,
}
