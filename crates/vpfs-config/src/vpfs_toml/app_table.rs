//! Numbers applications for the schedulers: first those of the file, then the automatic ones.

use std::collections::HashMap;

use vpfs_core::{AppId, AppPolicy, Weight};

use super::apps::App;
use super::clients::{Auto, AutoKey, Identity};
use super::config::Config;

/// An application with an id.
#[derive(Clone, Debug, PartialEq)]
pub struct AppEntry {
    /// The name in logs and in `vpfs peers`; automatic ones are `host:10.1.2.3` or `uid:1000`.
    pub name: String,
    /// No table of the file has it.
    pub is_automatic: bool,
    /// The share that it is in; `None` at the top.
    pub share: Option<Place>,
    /// The rest of what its table says; the number of its share and its order follow from names.
    pub policy: AppPolicy,
}

/// A share that an application is in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Names separated by `/`.
    pub path: String,
    /// The weight of the share, unless it has a table of its own.
    pub weight: Weight,
}

/// Gives every application an [`AppId`] that it keeps until the process ends.
///
/// The ids are dense: first the applications of the file in its order, then automatic ones as they appear. Equal calls
/// give equal ids. An application that is missing in a newer file keeps its id, because requests may still be queued
/// under it, and gets it back if it returns. The number of automatic applications is limited by `auto_limit`; clients
/// beyond it get the default application. All together, those of a network, or none of them
/// are in a share.
#[derive(Clone, Debug)]
pub struct AppTable {
    entries: Vec<AppEntry>,
    by_name: HashMap<String, AppId>,
    /// Ids of the current file's applications, by position.
    configured: Vec<AppId>,
    auto: HashMap<AutoKey, AppId>,
    rule: Auto,
    default: AppId,
}

impl AppTable {
    /// The table of a configuration; its applications have the ids 0, 1, ... in the order of the file.
    pub fn new(config: &Config) -> Self {
        let mut table = Self {
            entries: Vec::new(),
            by_name: HashMap::new(),
            configured: Vec::new(),
            auto: HashMap::new(),
            rule: config.auto,
            default: AppId(0),
        };
        table.reload(config);
        table
    }

    /// Switches to a newer configuration. Returns the ids that are new, or whose weight, cap or target changed.
    ///
    /// Automatic applications beyond a lowered `auto_limit` stay.
    pub fn reload(&mut self, config: &Config) -> Vec<AppId> {
        let mut changed = Vec::new();
        let configured = config.apps.iter().map(|app| self.configure(app, &mut changed)).collect();
        self.configured = configured;
        self.default = self.configured[config.default_app.0];
        self.rule = config.auto;
        let mut auto: Vec<_> = self.auto.iter().map(|(key, id)| (*id, *key)).collect();
        auto.sort_unstable();
        for (id, key) in auto {
            let entry = self.automatic(key);
            changed.extend(self.replace(id, entry));
        }
        changed.sort_unstable();
        changed
    }

    fn configure(&mut self, app: &App, changed: &mut Vec<AppId>) -> AppId {
        let share = app.share.clone().map(|path| Place { path, weight: Weight::ONE });
        let entry = AppEntry { name: app.name.clone(), is_automatic: false, share, policy: app.policy() };
        match self.by_name.get(&app.name) {
            Some(&id) => {
                changed.extend(self.replace(id, entry));
                id
            }
            None => {
                let id = self.push(entry);
                self.by_name.insert(app.name.clone(), id);
                changed.push(id);
                id
            }
        }
    }

    /// The id for a result of [`crate::Identify::identify`]; a new automatic application gets the next free id.
    ///
    /// O(1). The caller sets the weight of an id it has not seen before.
    pub fn assign(&mut self, identity: Identity) -> AppId {
        match identity {
            Identity::App(index) => self.configured.get(index.0).copied().unwrap_or(self.default),
            Identity::Auto(key) => match self.auto.get(&key) {
                Some(&id) => id,
                None if self.is_full() => self.default,
                None => {
                    let entry = self.automatic(key);
                    let id = self.push(entry);
                    self.auto.insert(key, id);
                    id
                }
            },
        }
    }

    fn automatic(&self, key: AutoKey) -> AppEntry {
        let share = self.rule.share.path(key).map(|path| Place { path, weight: self.rule.weight });
        let share = if self.rule.have_runs { Some(self.place_of_owner(key, share)) } else { share };
        let weight = match (key, &share) {
            (AutoKey::Run(_, weight), _) => weight.weight(),
            (_, Some(_)) => Weight::ONE,
            (_, None) => self.rule.weight,
        };
        AppEntry { name: key.to_string(), is_automatic: true, share, policy: AppPolicy::weighted(weight) }
    }

    /// A share of its user's or job's own, in the one of all.
    fn place_of_owner(&self, key: AutoKey, of_all: Option<Place>) -> Place {
        let owner = key.owner();
        match of_all {
            Some(Place { path, .. }) => Place { path: format!("{path}/{owner}"), weight: Weight::ONE },
            None => Place { path: owner.to_string(), weight: self.rule.weight },
        }
    }

    /// Returns `id` if the entry differs from the one before.
    fn replace(&mut self, id: AppId, entry: AppEntry) -> Option<AppId> {
        let before = std::mem::replace(&mut self.entries[id.index()], entry);
        (before != self.entries[id.index()]).then_some(id)
    }

    fn push(&mut self, entry: AppEntry) -> AppId {
        let id = AppId(u32::try_from(self.entries.len()).expect("bounded by the size of a file and the auto limit"));
        self.entries.push(entry);
        id
    }

    /// The application with an id from this table.
    pub fn get(&self, id: AppId) -> Option<&AppEntry> {
        self.entries.get(id.index())
    }

    /// The id of an application by name, including automatic ones.
    pub fn find(&self, name: &str) -> Option<AppId> {
        let auto = || self.iter().find(|(_, entry)| entry.name == name).map(|(id, _)| id);
        self.by_name.get(name).copied().or_else(auto)
    }

    /// All applications by id.
    pub fn iter(&self) -> impl Iterator<Item = (AppId, &AppEntry)> {
        (0..).map(AppId).zip(&self.entries)
    }

    /// The number of applications; ids are below this.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Never true: there is always a default application.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Whether new clients fall back to the default application because `auto_limit` is reached.
    pub fn is_full(&self) -> bool {
        self.auto.len() >= self.rule.limit
    }
}
