//! What schedulers and reports need to know of an application.

use vpfs_core::{AppPolicy, Weight};

/// An application with an id.
#[derive(Clone, Debug, PartialEq)]
pub struct AppEntry {
    /// The name in logs and in `vpfs peers`; automatic ones are `host:10.1.2.3` or `uid:1000`, pushed ones
    /// `slurm:4711`.
    pub name: String,
    /// No table of the file has it: it was created for a client, or pushed.
    pub is_automatic: bool,
    /// Whose it is, if its owner said so when it was pushed.
    pub charge: Charge,
    /// The share that it is in; `None` at the top.
    pub share: Option<Place>,
    /// The rest of what its table says; the number of its share and its order follow from names.
    pub policy: AppPolicy,
}

/// Whose a pushed application is, for metrics: nothing depends on it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Charge {
    /// What it is charged to.
    pub account: Option<String>,
    /// The name of its user.
    pub user: Option<String>,
}

/// A share that an application is in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Names separated by `/`.
    pub path: String,
    /// The weight of the share, unless it has a table of its own.
    pub weight: Weight,
}

impl Place {
    /// A share whose weight, if it has no table of its own, is 1.
    pub(crate) fn at(path: String) -> Self {
        Self { path, weight: Weight::ONE }
    }
}
