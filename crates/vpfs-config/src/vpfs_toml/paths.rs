//! Paths of names.

use vpfs_core::SharePolicy;

use super::clients::AUTO;
use crate::names::{NAME_RULE, is_name};
use crate::schema::table::Table;
use crate::schema::units::quote;

/// Whether this is the path of a share: names with `/` between them.
///
/// # Errors
/// Why it is none, and what would be.
pub fn check_share(text: &str) -> Result<(), String> {
    let (names, most) = (text.split('/').count(), SharePolicy::DEPTH_MAX);
    if !text.split('/').all(is_name) {
        return Err(format!("{} is not a path of shares; {NAME_RULE}, and \"/\" between names", quote(text)));
    }
    if names > most {
        return Err(format!("{} has {names} levels; at most {most} are possible", quote(text)));
    }
    if text.split('/').next() == Some(AUTO) {
        return Err("\"auto\" is the share of automatic applications, see auto_weight; choose another name".to_owned());
    }
    Ok(())
}

/// A path of names.
pub(super) fn read_path(table: &Table<'_>, key: &str) -> Option<String> {
    let found = table.text(key)?;
    if let Err(problem) = check_share(found) {
        table.refuse(key, problem);
        return None;
    }
    table.set(key, found);
    Some(found.to_owned())
}
