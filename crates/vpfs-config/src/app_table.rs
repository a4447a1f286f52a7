//! Numbers applications for the schedulers: first those of the file, then automatic and pushed ones.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use vpfs_core::{AppId, AppPolicy, Time, Weight};

use crate::apps::App;
use crate::clients::{AppEntry, Auto, AutoKey, Charge, Identity, Place, PushedApps};
use crate::config::Config;

/// Gives every application an [`AppId`] that it keeps until the process ends.
///
/// The ids are dense: first the applications of the file in its order, then automatic ones as they appear. Equal calls
/// give equal ids. An application that is missing in a newer file keeps its id, because requests of it may still be in
/// the storage, and gets it back if it returns. The number of automatic applications is limited by `auto_limit`;
/// clients beyond it get the default application. All together, those of a network, or none of them are in a share.
///
/// Pushed applications get an id when their first client appears, and lose it some time after they are gone: jobs come
/// and go without number, and schedulers hold something for each id. [`AppTable::retired`] tells which ids nobody
/// gets any more, and [`AppTable::recycle`] frees one for the next pushed application.
///
/// An application that is gone, of the file or pushed, has no cap, no minimum, no target and no share: what is left of
/// it must not be held by rules that nobody sees any more.
#[derive(Clone, Debug)]
pub struct AppTable {
    entries: Vec<AppEntry>,
    by_name: HashMap<String, AppId>,
    configured: Vec<AppId>,
    auto: HashMap<AutoKey, AppId>,
    pushed: Arc<PushedApps>,
    pushed_ids: HashMap<String, AppId>,
    /// Ids of pushed applications that are gone, in the order in which they went, ...
    retired: VecDeque<(AppId, Time)>,
    /// ... and those that may be given to others.
    free: Vec<AppId>,
    /// Automatic and pushed ones that have metrics of their own.
    shown: BTreeSet<AppId>,
    rule: Auto,
    default: AppId,
}

impl AppTable {
    /// So many automatic applications have metrics of their own, those that came first, ...
    pub const AUTOMATIC_SHOWN: usize = 100;
    /// ... and so many pushed ones: jobs that run. Each has about a hundred series at each server. With those that are
    /// gone, until their ids are recycled, there may be twice as many.
    pub const PUSHED_SHOWN: usize = 200;

    /// The table of a configuration; its applications have the ids 0, 1, ... in the order of the file.
    pub fn new(config: &Config) -> Self {
        let mut table = Self {
            entries: Vec::new(),
            by_name: HashMap::new(),
            configured: Vec::new(),
            auto: HashMap::new(),
            pushed: Arc::default(),
            pushed_ids: HashMap::new(),
            retired: VecDeque::new(),
            free: Vec::new(),
            shown: BTreeSet::new(),
            rule: config.auto,
            default: AppId(0),
        };
        table.reload(config);
        table
    }

    /// Switches to a newer configuration. Returns the ids that are new, gone, or whose weight, cap or target changed.
    ///
    /// Automatic applications beyond a lowered `auto_limit` stay.
    pub fn reload(&mut self, config: &Config) -> Vec<AppId> {
        let mut changed = Vec::new();
        let configured: Vec<AppId> = config.apps.iter().map(|app| self.configure(app, &mut changed)).collect();
        let present: HashSet<AppId> = configured.iter().copied().collect();
        for id in std::mem::replace(&mut self.configured, configured) {
            if !present.contains(&id) {
                changed.extend(self.retire(id));
            }
        }
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
        let share = app.share.clone().map(Place::at);
        let entry = AppEntry {
            name: app.name.clone(),
            is_automatic: false,
            charge: Charge::default(),
            share,
            policy: app.policy(),
        };
        match self.by_name.get(&app.name) {
            Some(&id) => {
                changed.extend(self.replace(id, entry));
                id
            }
            None => {
                let id = self.add(entry);
                self.by_name.insert(app.name.clone(), id);
                changed.push(id);
                id
            }
        }
    }

    /// Switches to other pushed applications. Returns the ids whose application changed; those that have no client here
    /// have no id. O(ids of pushed applications).
    pub fn push(&mut self, now: Time, pushed: Arc<PushedApps>) -> Vec<AppId> {
        self.pushed = pushed;
        let mut changed = Vec::new();
        let mut known: Vec<_> = std::mem::take(&mut self.pushed_ids).into_iter().collect();
        known.sort_unstable_by_key(|(_, id)| *id);
        for (name, id) in known {
            match self.pushed.named(&name).cloned() {
                Some(entry) => {
                    changed.extend(self.replace(id, entry));
                    self.pushed_ids.insert(name, id);
                }
                None => {
                    changed.extend(self.retire(id));
                    self.retired.push_back((id, now));
                }
            }
        }
        changed
    }

    /// Ids that nobody has got for the time of `rest`. Connections may still have requests under one.
    pub fn retired(&self, now: Time, rest: Duration) -> Vec<AppId> {
        self.retired.iter().take_while(|(_, since)| now.since(*since) >= rest).map(|(id, _)| *id).collect()
    }

    /// Nothing is left of a retired id: the next pushed application may have it.
    pub fn recycle(&mut self, id: AppId) {
        if let Some(index) = self.retired.iter().position(|(retired, _)| *retired == id) {
            self.retired.remove(index);
            self.shown.remove(&id);
            self.free.push(id);
        }
    }

    /// Whether an application has metrics of its own: those of the file, and automatic and pushed ones as long as there
    /// is room. One that has them keeps them.
    pub fn is_shown(&self, id: AppId) -> bool {
        self.shown.contains(&id) || self.get(id).is_some_and(|entry| !entry.is_automatic)
    }

    /// Pushed applications that have metrics of their own from now on, because others are gone. O(ids of pushed
    /// applications).
    pub fn show_more(&mut self) -> Vec<AppId> {
        let mut waiting: Vec<AppId> = self.pushed_ids.values().filter(|id| !self.shown.contains(id)).copied().collect();
        waiting.sort_unstable();
        waiting.truncate(self.room());
        self.shown.extend(&waiting);
        waiting
    }

    fn room(&self) -> usize {
        let all = self.shown.len() - self.auto.len().min(Self::AUTOMATIC_SHOWN);
        let gone = self.retired.iter().filter(|(id, _)| self.shown.contains(id)).count();
        Self::PUSHED_SHOWN.saturating_sub(all - gone).min((2 * Self::PUSHED_SHOWN).saturating_sub(all))
    }

    /// The id for a result of [`crate::Identify::identify`], and whether the caller has to tell its schedulers who that
    /// is: a new automatic or pushed application. O(1).
    pub fn assign(&mut self, identity: Identity) -> (AppId, bool) {
        match identity {
            Identity::App(index) => (self.configured.get(index.0).copied().unwrap_or(self.default), false),
            Identity::Pushed(index) => self.assign_pushed(index),
            Identity::Auto(key) => match self.auto.get(&key) {
                Some(&id) => (id, false),
                None if self.is_full() => (self.default, false),
                None => {
                    let entry = self.automatic(key);
                    let id = self.add(entry);
                    if self.auto.len() < Self::AUTOMATIC_SHOWN {
                        self.shown.insert(id);
                    }
                    self.auto.insert(key, id);
                    (id, true)
                }
            },
        }
    }

    fn assign_pushed(&mut self, index: usize) -> (AppId, bool) {
        let Some(entry) = self.pushed.get(index).cloned() else { return (self.default, false) };
        if let Some(&id) = self.pushed_ids.get(&entry.name) {
            return (id, false);
        }
        let name = entry.name.clone();
        // A job that was requeued continues where it was.
        let revived = self.retired.iter().position(|(id, _)| self.entries[id.index()].name == name);
        let revived = revived.and_then(|index| self.retired.remove(index)).map(|(id, _)| id);
        let id = match revived.or_else(|| self.free.pop()) {
            Some(id) => {
                self.entries[id.index()] = entry;
                id
            }
            None => self.add(entry),
        };
        if self.room() > 0 {
            self.shown.insert(id);
        }
        self.pushed_ids.insert(name, id);
        (id, true)
    }

    fn automatic(&self, key: AutoKey) -> AppEntry {
        let share = self.rule.share.path(key).map(|path| Place { path, weight: self.rule.weight });
        let share = if self.rule.have_runs { Some(self.place_of_owner(key, share)) } else { share };
        let weight = match (key, &share) {
            (AutoKey::Run(_, weight), _) => weight.weight(),
            (_, Some(_)) => Weight::ONE,
            (_, None) => self.rule.weight,
        };
        AppEntry {
            name: key.to_string(),
            is_automatic: true,
            charge: Charge::default(),
            share,
            policy: AppPolicy::weighted(weight),
        }
    }

    /// A share of its user's or job's own, in the one of all.
    fn place_of_owner(&self, key: AutoKey, of_all: Option<Place>) -> Place {
        let owner = key.owner();
        match of_all {
            Some(Place { path, .. }) => Place::at(format!("{path}/{owner}")),
            None => Place { path: owner.to_string(), weight: self.rule.weight },
        }
    }

    /// What an application was given is gone with it.
    fn retire(&mut self, id: AppId) -> Option<AppId> {
        let AppEntry { name, is_automatic, charge, .. } = self.entries[id.index()].clone();
        self.replace(id, AppEntry { name, is_automatic, charge, share: None, policy: AppPolicy::default() })
    }

    fn replace(&mut self, id: AppId, entry: AppEntry) -> Option<AppId> {
        let before = std::mem::replace(&mut self.entries[id.index()], entry);
        (before != self.entries[id.index()]).then_some(id)
    }

    fn add(&mut self, entry: AppEntry) -> AppId {
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
        self.by_name.get(name).or_else(|| self.pushed_ids.get(name)).copied().or_else(auto)
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
