//! Users and groups of rules: looked up in the background and never waited for, as host names are
//! (docs/decisions/0009-operation.md).

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nix::unistd::{Group, User};
use tokio::sync::Notify;
use vpfs_config::{Account, Config};

/// After this time an id may have changed.
const REFRESH: Duration = Duration::from_secs(300);
/// The pause before names without an id are looked up again.
const RETRY: Duration = Duration::from_secs(10);
/// How long a check of a configuration waits.
const PATIENCE: Duration = Duration::from_secs(10);

/// The id of a user or group, as configured in `/etc/nsswitch.conf`; `None` if there is no such one. Blocks.
///
/// # Errors
/// If the system cannot say.
pub fn account_id(account: &Account) -> io::Result<Option<u32>> {
    Ok(match account {
        Account::User(name) => User::from_name(name)?.map(|user| user.uid.as_raw()),
        Account::Group(name) => Group::from_name(name)?.map(|group| group.gid.as_raw()),
    })
}

/// Finds the id of an account.
type LookUp = fn(&Account) -> io::Result<Option<u32>>;

/// The ids of all accounts of a configuration. Copies share them.
#[derive(Clone)]
pub(crate) struct Accounts(Arc<Inner>);

struct Inner {
    look_up: LookUp,
    state: Mutex<State>,
    /// Others are wanted.
    wake: Notify,
    /// Ids have changed.
    changed: Notify,
}

#[derive(Default)]
struct State {
    wanted: BTreeSet<Account>,
    /// The last ids; one that is not found any more keeps what it had.
    known: BTreeMap<Account, u32>,
    /// What the log has said to be unknown.
    missing: BTreeSet<Account>,
}

impl Accounts {
    pub(crate) fn new(look_up: LookUp) -> Self {
        let (state, wake, changed) = (Mutex::default(), Notify::new(), Notify::new());
        Self(Arc::new(Inner { look_up, state, wake, changed }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Those of this configuration are looked up from now on, at once and now and then.
    pub(crate) fn want(&self, config: &Config) {
        let mut state = self.state();
        state.wanted = config.accounts();
        let State { wanted, known, missing } = &mut *state;
        known.retain(|account, _| wanted.contains(account));
        missing.retain(|account| wanted.contains(account));
        self.0.wake.notify_one();
    }

    /// The id that an account had last.
    pub(crate) fn known(&self, account: &Account) -> Option<u32> {
        self.state().known.get(account).copied()
    }

    /// Waits until ids have changed. For one task.
    pub(crate) async fn changed(&self) {
        self.0.changed.notified().await;
    }

    /// Looks accounts up for ever. One look-up that hangs holds up the others, and nothing else.
    pub(crate) async fn run(self) {
        loop {
            let wanted = self.state().wanted.clone();
            let pause = async {
                if wanted.is_empty() {
                    return std::future::pending().await;
                }
                let look_up = self.0.look_up;
                let ask = move || wanted.into_iter().map(|account| (look_up(&account), account)).collect();
                let answers: Vec<_> = tokio::task::spawn_blocking(ask).await.unwrap_or_default();
                let all_are_known = self.take(answers);
                tokio::time::sleep(if all_are_known { REFRESH } else { RETRY }).await;
            };
            tokio::select! {
                () = pause => {}
                () = self.0.wake.notified() => {}
            }
        }
    }

    /// Whether all are known.
    fn take(&self, answers: Vec<(io::Result<Option<u32>>, Account)>) -> bool {
        let (mut has_changed, mut missing) = (false, BTreeSet::new());
        let mut state = self.state();
        for (answer, account) in answers {
            match answer {
                // A reload may have come in between.
                _ if !state.wanted.contains(&account) => {}
                Ok(Some(id)) => has_changed |= state.known.insert(account, id) != Some(id),
                _ => drop(missing.insert(account)),
            }
        }
        let unknown = |account: &&Account| !state.known.contains_key(*account);
        let strange: Vec<String> = missing.iter().filter(unknown).map(ToString::to_string).collect();
        if !missing.is_subset(&state.missing) && !strange.is_empty() {
            let accounts = strange.join(", ");
            tracing::warn!(accounts, "not known to the system; rules do not apply to them until they are");
        } else if missing.is_empty() && !state.missing.is_empty() {
            tracing::info!("all users and groups of rules are known");
        }
        let all_are_known = missing.is_empty();
        state.missing = missing;
        drop(state);
        if has_changed {
            self.0.changed.notify_one();
        }
        all_are_known
    }
}

/// A line for each user or group of the configuration that this system does not know, or not within ten seconds.
pub(crate) async fn check(config: &Config) -> Vec<String> {
    let wanted = config.accounts();
    let ask = move || {
        let answers = wanted.into_iter().map(|account| (account_id(&account), account));
        let line = |(answer, account): (io::Result<Option<u32>>, Account)| match answer {
            Ok(Some(_)) => None,
            Ok(None) => Some(format!("{account} is not known here; rules do not apply to it until it is")),
            Err(error) => Some(format!("{account} cannot be looked up: {error}")),
        };
        answers.filter_map(line).collect()
    };
    let asked = tokio::time::timeout(PATIENCE, tokio::task::spawn_blocking(ask)).await;
    asked.ok().and_then(Result::ok).unwrap_or_else(|| vec!["users and groups cannot be looked up in 10 s".to_owned()])
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    /// The id of alice; 0 if she is unknown, and 1 if the system cannot say.
    static ALICE: AtomicU32 = AtomicU32::new(0);

    fn look_up(account: &Account) -> io::Result<Option<u32>> {
        match (account.to_string().as_str(), ALICE.load(Ordering::SeqCst)) {
            ("user alice", 0) => Ok(None),
            ("user alice", 1) => Err(io::Error::other("LDAP is down")),
            ("user alice", id) => Ok(Some(id)),
            _ => Ok(Some(500)),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn ids_follow_the_system_and_outlive_its_outages() {
        let text = "[[server]]\nname = \"s1\"\naddress = \"tcp://127.0.0.1:3334\"\n[[listener]]\nport = 5334\n\
                    [[app]]\nname = \"a\"\nusers = [\"alice\"]\ngroups = [\"physics\"]\n";
        let accounts = Accounts::new(look_up);
        accounts.want(&Config::parse("f", text).unwrap());
        tokio::spawn(accounts.clone().run());
        let (alice, physics) = (Account::User("alice".into()), Account::Group("physics".into()));
        assert_eq!(accounts.known(&physics), None, "nothing waits");
        accounts.changed().await;
        assert_eq!((accounts.known(&alice), accounts.known(&physics)), (None, Some(500)));
        for id in [3001, 3002] {
            ALICE.store(id, Ordering::SeqCst);
            accounts.changed().await;
            assert_eq!(accounts.known(&alice), Some(id));
        }
        for outage in [0, 1] {
            ALICE.store(outage, Ordering::SeqCst);
            tokio::time::sleep(2 * REFRESH).await;
            assert_eq!(accounts.known(&alice), Some(3002));
        }
    }

    #[test]
    fn the_system_knows_root() {
        assert_eq!(account_id(&Account::User("root".into())).unwrap(), Some(0));
        assert_eq!(account_id(&Account::User("no such user".into())).unwrap(), None);
    }
}
