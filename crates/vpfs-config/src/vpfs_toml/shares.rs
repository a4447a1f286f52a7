//! `[[share]]`: the tree in which applications stand.

use std::collections::HashMap;

use vpfs_core::{Cap, PolicyKind, SharePolicy, Weight};

use super::apps::{Capacity, is_name, read_server_cap, weight};
use super::ignored;
use super::keys::SHARE;
use crate::schema::reader::Reader;
use crate::schema::tables::Table;
use crate::schema::units::quote;

/// A share: its weight is divided among the applications and shares in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Share {
    /// Names separated by `/`, the one at the top first.
    pub path: String,
    /// Its weight among those in the same share.
    pub weight: Weight,
    /// The upper limit on the rate of all in it together, at each server.
    pub cap: Option<Cap>,
}

/// The share of all automatic applications, or the beginning of the names of those for networks.
pub(crate) const AUTO: &str = "auto";

impl Table<'_> {
    /// The list `share` of the file, for another file than vpfs.toml.
    pub fn shares(&self) -> Vec<Share> {
        read(self.reader(), None).0
    }

    /// The path of a share.
    pub fn share_path(&self, key: &str) -> Option<String> {
        read_path(self.reader(), key)
    }
}

/// Reads the shares of a vpfs.toml for this policy.
pub(crate) fn read_for(root: &Reader<'_>, policy: PolicyKind, capacity: Option<Capacity>) -> Vec<Share> {
    let (shares, readers) = read(root, capacity);
    ignored::warn(&readers, policy);
    shares
}

fn read<'a>(root: &Reader<'a>, capacity: Option<Capacity>) -> (Vec<Share>, Vec<Reader<'a>>) {
    let mut lines: HashMap<String, usize> = HashMap::new();
    let (mut list, mut readers) = (Vec::new(), Vec::new());
    for (index, value) in root.list("share").iter().enumerate() {
        let name = value.get_ref().as_table().and_then(|table| table.get("name")?.get_ref().as_str());
        let table = name.map_or_else(|| format!("share.{}", index + 1), |name| format!("share.{name}"));
        let reader = Reader::open(root.cx, &SHARE, table, Some(value));
        let (weight, cap) = (weight(&reader, "weight"), read_server_cap(&reader, capacity));
        let path = read_path(&reader, "name");
        readers.push(reader);
        let (Some(path), Some(reader)) = (path, readers.last()) else { continue };
        if let Some(line) = lines.insert(path.clone(), reader.line) {
            reader.refuse("name", format!("line {line} already has [[share]] {}; put both together", quote(&path)));
        }
        list.push(Share { path, weight, cap });
    }
    (list, readers)
}

/// A path of names.
pub(crate) fn read_path(reader: &Reader<'_>, key: &str) -> Option<String> {
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
