//! Names of tables, and paths of names.

use vpfs_core::SharePolicy;

use super::clients::AUTO;
use crate::schema::reader::Reader;
use crate::schema::units::quote;

pub(super) fn is_name(text: &str) -> bool {
    let legal = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    (1..=64).contains(&text.len()) && text.bytes().all(legal)
}

/// A path of names.
pub(super) fn read_path(reader: &Reader<'_>, key: &str) -> Option<String> {
    let found = reader.text(key)?;
    let names: Vec<&str> = found.text.split('/').collect();
    if !names.iter().all(|name| is_name(name)) {
        let rule = "use names of 1 to 64 letters, digits, \"-\", \"_\" and \".\", separated by \"/\"";
        reader.refuse(key, format!("{} is not a path of shares; {rule}", quote(found.text)));
        return None;
    }
    if names.len() > SharePolicy::DEPTH_MAX {
        let most = SharePolicy::DEPTH_MAX;
        reader.refuse(key, format!("{} has {} levels; at most {most} are possible", quote(found.text), names.len()));
        return None;
    }
    if names[0] == AUTO {
        reader.refuse(key, "\"auto\" is the share of automatic applications, see auto_weight; choose another name");
        return None;
    }
    reader.set(key, found.text);
    Some(found.text.to_owned())
}
