//! `[[share]]`: the tree in which applications stand.

use std::collections::HashMap;

use vpfs_core::{Cap, PolicyKind, Weight};

use super::apps::{Capacity, read_server_cap, weight};
use super::ignored;
use super::keys::SHARE;
use super::paths::read_path;
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
