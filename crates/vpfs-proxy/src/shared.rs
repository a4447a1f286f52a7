//! What all connections of a daemon share.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use tokio::sync::watch;
use vpfs_config::{AppIndex, AppTable, Identify};
use vpfs_core::AppId;

use crate::clock::Clock;
use crate::gate::Gate;
use crate::limits::Limits;

/// Whether the daemon serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    /// New connections and requests are welcome.
    Serving,
    /// What is in progress ends, nothing new begins.
    Draining,
    /// Every connection is closed.
    Stopped,
}

/// A user as credentials show one: user id and group ids.
pub(crate) type User = (u32, Vec<u32>);

/// State of the daemon that outlives a connection.
pub(crate) struct Shared {
    pub(crate) clock: Clock,
    pub(crate) gates: Vec<Arc<Gate>>,
    stage: watch::Sender<Stage>,
    rules: RwLock<Arc<Rules>>,
    /// Counts replacements of `rules`, so that connections notice without a lock.
    generation: AtomicU64,
    apps: Mutex<AppTable>,
    users: Mutex<HashMap<IpAddr, User>>,
    warned: Mutex<Vec<String>>,
}

/// What a reload replaces.
pub(crate) struct Rules {
    pub(crate) identify: Identify,
    pub(crate) limits: Limits,
}

impl Shared {
    /// Hosts whose users are remembered; the memory of more is dropped.
    const MAX_USERS: usize = 1 << 16;

    pub(crate) fn new(clock: Clock, gates: Vec<Arc<Gate>>, rules: Rules, apps: AppTable) -> Self {
        Self {
            clock,
            gates,
            stage: watch::Sender::new(Stage::Serving),
            rules: RwLock::new(Arc::new(rules)),
            generation: AtomicU64::new(0),
            apps: Mutex::new(apps),
            users: Mutex::default(),
            warned: Mutex::default(),
        }
    }

    pub(crate) fn rules(&self) -> Arc<Rules> {
        Arc::clone(&self.rules.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Takes over new rules; `update` brings the applications and the gates up to date first.
    pub(crate) fn replace(&self, rules: Rules, update: impl FnOnce(&mut AppTable, &[Arc<Gate>])) {
        update(&mut self.apps(), &self.gates);
        *self.rules.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(rules);
        self.generation.fetch_add(1, Ordering::Release);
    }

    pub(crate) fn apps(&self) -> std::sync::MutexGuard<'_, AppTable> {
        self.apps.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn stage(&self) -> watch::Receiver<Stage> {
        self.stage.subscribe()
    }

    pub(crate) fn enter(&self, stage: Stage) {
        self.stage.send_replace(stage);
    }

    /// Says once for each address that clients will go around vpfs.
    pub(crate) fn warn_unmapped(&self, address: &str) {
        let mut warned = self.warned.lock().unwrap_or_else(PoisonError::into_inner);
        if warned.len() < 1000 && !warned.iter().any(|known| known == address) {
            warned.push(address.to_owned());
            tracing::error!(
                %address,
                "the file system has a server that the configuration does not name: clients reach it around vpfs, \
                 or refuse to mount; add a [[server]] with exactly this address"
            );
        }
    }

    fn remember(&self, host: IpAddr, user: &User) {
        let mut users = self.users.lock().unwrap_or_else(PoisonError::into_inner);
        if users.len() >= Self::MAX_USERS && !users.contains_key(&host) {
            users.clear();
        }
        users.insert(host, user.clone());
    }

    fn user_of(&self, host: IpAddr) -> Option<User> {
        self.users.lock().unwrap_or_else(PoisonError::into_inner).get(&host).cloned()
    }
}

/// Who is at the other end of a connection.
///
/// Data requests carry no credential: they count as the user whom the connection showed last, and before that as the
/// user whom another connection from the same host showed last.
pub(crate) struct ClientIdentity {
    host: IpAddr,
    listener_app: Option<AppIndex>,
    user: Option<User>,
    /// The answer, and the generation of the rules that gave it.
    known: Option<(u64, AppId)>,
}

impl ClientIdentity {
    pub(crate) fn new(host: IpAddr, listener_app: Option<AppIndex>) -> Self {
        Self { host, listener_app, user: None, known: None }
    }

    /// The client showed a credential.
    pub(crate) fn learned(&mut self, shared: &Shared, user: User) {
        shared.remember(self.host, &user);
        self.user = Some(user);
        self.known = None;
    }

    /// The application that a request of this client belongs to now.
    pub(crate) fn app(&mut self, shared: &Shared) -> AppId {
        let generation = shared.generation.load(Ordering::Acquire);
        if let Some((known, app)) = self.known
            && known == generation
        {
            return app;
        }
        let rules = shared.rules();
        let user = self.user.clone().or_else(|| shared.user_of(self.host));
        let (uid, gids) = user.map_or((None, Vec::new()), |(uid, gids)| (Some(uid), gids));
        let identity = rules.identify.identify(self.listener_app, self.host, uid, &gids);
        let app = self.assign(shared, identity);
        // Until a user is known, the next request may tell more.
        let settled = uid.is_some() || !rules.identify.depends_on_user();
        self.known = settled.then_some((generation, app));
        app
    }

    fn assign(&self, shared: &Shared, identity: vpfs_config::Identity) -> AppId {
        let mut apps = shared.apps();
        let before = apps.len();
        let app = apps.assign(identity);
        if apps.len() > before
            && let Some(entry) = apps.get(app)
        {
            tracing::info!(app = %entry.name, weight = entry.weight.get(), client = %self.host, "new application");
            for gate in &shared.gates {
                gate.set_app(app, entry);
            }
        }
        app
    }
}
