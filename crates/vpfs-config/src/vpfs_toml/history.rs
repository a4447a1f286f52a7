//! `[history]`: whether a proxy keeps what applications did.

use super::keys::HISTORY;
use crate::schema::table::Table;

/// Reads the table; whether history is kept.
pub(crate) fn read(root: &Table<'_>) -> bool {
    let table = root.table("history", &HISTORY);
    table.choice("enabled") != Some(0)
}
