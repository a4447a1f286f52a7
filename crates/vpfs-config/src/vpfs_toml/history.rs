//! `[history]`: whether a proxy keeps what applications did.

use super::keys::HISTORY;
use crate::schema::reader::Reader;

/// Reads the table; whether history is kept.
pub(crate) fn read(root: &Reader<'_>) -> bool {
    let reader = Reader::open(root.cx, &HISTORY, "history", root.value("history"));
    reader.choice("enabled") != Some(0)
}
