//! Copies with a new layout.

mod kill;
mod orangefs;
