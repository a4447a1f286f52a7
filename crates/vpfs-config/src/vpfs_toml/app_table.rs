//! Numbers applications for the schedulers: first those of the file, then the automatic ones.

use std::collections::HashMap;
use std::time::Duration;

use vpfs_core::{AppId, GroupId, Minimum, Target, Weight};

use super::apps::{App, Cap};
use super::clients::{Auto, AutoKey, Identity};
use super::config::Config;

/// An application with an id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppEntry {
    /// The name in logs and in `vpfs peers`; automatic ones are `host:10.1.2.3` or `uid:1000`.
    pub name: String,
    /// Its weight.
    pub weight: Weight,
    /// Its maximum rate on each server.
    pub cap: Option<Cap>,
    /// Its promised rate and deadline on each server.
    pub target: Option<Target>,
    /// The least that it gets.
    pub minimum: Option<Minimum>,
    /// The latency to keep for nine in ten of its requests on each server, for policies that isolate.
    pub latency: Option<Duration>,
    /// The group with which it shares its weight.
    pub group: Option<AppGroup>,
}

/// Automatic applications that share one weight.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppGroup {
    /// Its number.
    pub id: GroupId,
    /// The same at all servers; no application has such a name.
    pub name: String,
}

/// Gives every application an [`AppId`] that it keeps until the process ends.
///
/// The ids are dense: first the applications of the file in its order, then automatic ones as they appear. Equal calls
/// give equal ids. An application that is missing in a newer file keeps its id, because requests may still be queued
/// under it, and gets it back if it returns. The number of automatic applications is limited by `auto_limit`; clients
/// beyond it get the default application. All together, those of a network, or none of them share their weight.
#[derive(Clone, Debug)]
pub struct AppTable {
    entries: Vec<AppEntry>,
    by_name: HashMap<String, AppId>,
    /// Ids of the current file's applications, by position.
    configured: Vec<AppId>,
    auto: HashMap<AutoKey, AppId>,
    /// By name; a group keeps its number, as applications do.
    groups: HashMap<String, GroupId>,
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
            groups: HashMap::new(),
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
        let entry = AppEntry {
            name: app.name.clone(),
            weight: app.weight,
            cap: app.cap,
            target: app.target,
            minimum: app.minimum,
            latency: app.latency,
            group: None,
        };
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

    fn automatic(&mut self, key: AutoKey) -> AppEntry {
        let group = self.rule.share.group(key).map(|name| {
            // No more groups than automatic applications.
            let next = GroupId(u32::try_from(self.groups.len()).expect("bounded by the auto limit"));
            AppGroup { id: *self.groups.entry(name.clone()).or_insert(next), name }
        });
        let weight = self.rule.weight;
        AppEntry { name: key.to_string(), weight, cap: None, target: None, minimum: None, latency: None, group }
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
