//! For tests of this and other crates: a slow, obvious oracle, random operation lists, and storage that follows a
//! script. Not part of what is shipped (feature `testing`).

mod ops;
mod oracle;
mod random;
mod storage;

pub use ops::{Op, Runner, Tunable, random_ops};
pub use oracle::Oracle;
pub use random::Random;
pub use storage::{Client, Storage, run};
