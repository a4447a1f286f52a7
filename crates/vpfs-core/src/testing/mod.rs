//! For tests of this and other crates: a slow but obvious oracle, random lists of operations, and scripted storage. Not
//! shipped (feature `testing`).

mod ops;
mod oracle;
mod random;
mod storage;

pub use ops::{Op, Runner, Tunable, random_ops};
pub use oracle::Oracle;
pub use random::Random;
pub use storage::{Client, Storage, run};
