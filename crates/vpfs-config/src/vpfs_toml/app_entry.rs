//! What schedulers and reports need to know of an application.

use vpfs_core::AppPolicy;

/// An application with an id.
#[derive(Clone, Debug, PartialEq)]
pub struct AppEntry {
    /// The name in logs and in `vpfs peers`; automatic ones are `host:10.1.2.3` or `uid:1000`,
    /// pushed ones `slurm:4711`.
    pub name: String,
    /// No table of the file has it: it was created for a client, or pushed.
    pub is_automatic: bool,
    /// The group with which it shares its weight, by a name that no application has.
    pub group: Option<String>,
    /// The rest of what its table says; the number of its group and its order follow from names.
    pub policy: AppPolicy,
}
