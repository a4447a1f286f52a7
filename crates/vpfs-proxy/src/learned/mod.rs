//! What the schedulers have learned, for the next process: told to a successor, and kept in a file for each server
//! (docs/decisions/0003-isolation.md).

mod file;
mod text;

pub(crate) use file::{content, parse, read, write};
pub(crate) use text::Known;
