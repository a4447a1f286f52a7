//! Sets of applications that an owner pushes while a daemon runs, for example a job scheduler: the JSON of one set
//! ([`set`]) and all that a daemon holds ([`held`]).
//!
//! A set replaces its owner's last one as a whole, and expires by itself (docs/decisions/0035-jobs.md).

mod held;
mod set;

pub use crate::names::SetName;
pub use held::{Put, Refusal, Sets};
pub use set::{AppText, IdText, Set, SetText, check_share};
