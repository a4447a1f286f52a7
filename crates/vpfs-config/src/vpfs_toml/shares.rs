//! `[[share]]`: the tree in which applications stand.

use std::collections::HashMap;

use vpfs_core::{PolicyKind, SharePolicy};

use super::apps::weight;
use super::ignored;
use super::keys::SHARE;
use super::paths::read_path;
use super::rates::{Cap, Capacity, read_cap, read_minimum};
use crate::schema::table::Table;
use crate::schema::units::quote;

/// A share: its weight is divided among the applications and shares in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Share {
    /// Names separated by `/`, the one at the top first.
    pub path: String,
    /// What is due to it. Where it stands follows from its path.
    pub policy: SharePolicy,
}

impl Table<'_> {
    /// The path of a share.
    pub fn share_path(&self, key: &str) -> Option<String> {
        read_path(self, key)
    }
}

/// Reads the shares of a vpfs.toml for this policy, each with its table.
pub(crate) fn read_for<'a>(
    root: &Table<'a>,
    policy: PolicyKind,
    capacity: Option<Capacity>,
) -> (Vec<Share>, Vec<Table<'a>>) {
    let (shares, tables) = read(root, capacity);
    ignored::warn(&tables, policy);
    (shares, tables)
}

pub(super) fn read<'a>(root: &Table<'a>, capacity: Option<Capacity>) -> (Vec<Share>, Vec<Table<'a>>) {
    let mut lines: HashMap<String, usize> = HashMap::new();
    let (mut list, mut tables) = (Vec::new(), Vec::new());
    for (index, value) in root.list("share").iter().enumerate() {
        let name = value.get_ref().as_table().and_then(|keys| keys.get("name")?.get_ref().as_str());
        let path = name.map_or_else(|| format!("share.{}", index + 1), |name| format!("share.{name}"));
        let table = Table::open(root.cx, &SHARE, path, Some(value));
        let cap = read_cap(&table, capacity).and_then(Cap::policy);
        let (weight, minimum) = (weight(&table, "weight"), read_minimum(&table, cap));
        let policy = SharePolicy { weight, minimum, cap, parent: None };
        let path = read_path(&table, "name");
        let Some(path) = path else { continue };
        if let Some(line) = lines.insert(path.clone(), table.line()) {
            table.refuse("name", format!("line {line} already has [[share]] {}; put both together", quote(&path)));
        }
        list.push(Share { path, policy });
        tables.push(table);
    }
    (list, tables)
}
