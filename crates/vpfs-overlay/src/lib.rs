//! x

mod map;
mod names;
pub use map::*;
pub use names::*;
