//! `[[owner]]`: who may push sets of applications, besides those who administer a proxy on its own host.

use std::path::{Path, PathBuf};

use super::apps::Names;
use super::keys::OWNER;
use crate::names::SetName;
use crate::schema::table::Table;

/// Who may push sets under one name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// What its sets are called, or begin with before a dot.
    pub name: String,
    /// The file with the secret that it must send.
    pub token: PathBuf,
}

impl Owner {
    /// Makes a relative path relative to `folder`.
    pub(crate) fn resolve_path(&mut self, folder: &Path) {
        self.token = folder.join(&self.token);
    }
}

/// Reads all of them, without those that have a problem, which is reported.
pub(crate) fn read(root: &Table<'_>) -> Vec<Owner> {
    let mut names = Names::new("owner");
    let read = |(index, value)| {
        let table = Table::open(root.cx, &OWNER, format!("owner.{}", index + 1), Some(value));
        let name = names.read(&table, "name");
        let token = table.text("token");
        token.iter().for_each(|token| table.set("token", *token));
        let name = name?;
        match SetName::parse(&name) {
            Ok(set) if set.owner() == name => Some(Owner { name, token: PathBuf::from(token?) }),
            Ok(_) => {
                table.refuse("name", "has a dot; the owner of a set is what stands before the first one");
                None
            }
            Err(problem) => {
                table.refuse("name", problem);
                None
            }
        }
    };
    (0..).zip(root.list("owner")).filter_map(read).collect()
}
