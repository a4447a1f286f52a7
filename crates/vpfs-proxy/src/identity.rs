//! Identifies the client of a connection.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use vpfs_core::{OpKind, Time};
use vpfs_protocol::session::User;

use crate::event_log::Kind;
use crate::gate::{Belonging, Origin};
use crate::hosts::Host;
use crate::shared::Shared;

/// Identifies the client of one connection.
///
/// Requests that state no user are attributed to the user that another connection from the same host stated last.
pub(crate) struct ClientIdentity {
    ip: IpAddr,
    listener: usize,
    host: Arc<Host>,
    /// Of the rules by which the applications below were found.
    generation: u64,
    /// What is known, by [`OpKind`].
    known: [Known; 3],
}

/// The applications of requests that do the same.
#[derive(Default)]
struct Known {
    /// The user of the latest request that stated one, and its application.
    latest: Option<(Arc<User>, Belonging)>,
    /// The applications of its users.
    apps: HashMap<Arc<User>, Belonging>,
    /// The application of requests without a user, and the changes of the host's user that it is based on.
    unstated: Option<(u64, Belonging)>,
}

/// The number of users of one connection to remember: those of a busy login node.
const USERS: usize = 256;

impl ClientIdentity {
    /// A client at `ip` that connected to the listener with this index.
    pub(crate) fn new(shared: &Shared, ip: IpAddr, listener: usize) -> Self {
        // A dual-stack socket reports ::ffff:10.1.2.3 for the host that others report as 10.1.2.3.
        let ip = ip.to_canonical();
        let host = shared.hosts.get(ip);
        Self { ip, listener, host, generation: shared.generation(), known: Default::default() }
    }

    /// The host at the other end.
    pub(crate) fn host(&self) -> &Arc<Host> {
        &self.host
    }

    /// Its address.
    pub(crate) fn ip(&self) -> IpAddr {
        self.ip
    }

    /// Tells, once a minute for each host, that a client repeated a request that waited for its turn.
    pub(crate) fn tell_repeated(&self, now: Time, server: &str) {
        if let Some(suppressed) = self.host.log.due(Kind::HeldForTooLong, now) {
            tracing::warn!(
                server,
                client = %self.ip,
                suppressed = (suppressed > 0).then_some(suppressed),
                "a request waited for longer than limits.max_hold, and its client repeated it; it keeps its place. Clients \
                 give up after a few repetitions: raise the application's cap or weight, or limits.client_timeout"
            );
        }
    }

    /// The application of a request of this client now, from `user` if it states one.
    pub(crate) fn app(&mut self, shared: &Shared, user: Option<&Arc<User>>, op: OpKind) -> Belonging {
        let generation = shared.generation();
        if generation != self.generation {
            self.generation = generation;
            self.known = Default::default();
        }
        match user {
            Some(user) => self.of_user(shared, user, op),
            None => self.of_host(shared, op),
        }
    }

    fn of_user(&mut self, shared: &Shared, user: &Arc<User>, op: OpKind) -> Belonging {
        // Usually the same allocation.
        if let Some((latest, found)) = &self.known[op as usize].latest
            && Arc::ptr_eq(latest, user)
        {
            return found.clone();
        }
        self.host.show(user);
        let found = match self.known[op as usize].apps.get(user) {
            Some(found) => found.clone(),
            None => {
                let found = self.find(shared, Some(Arc::clone(user)), op);
                let apps = &mut self.known[op as usize].apps;
                if apps.len() >= USERS {
                    apps.clear();
                }
                apps.insert(Arc::clone(user), found.clone());
                found
            }
        };
        self.known[op as usize].latest = Some((Arc::clone(user), found.clone()));
        found
    }

    fn of_host(&mut self, shared: &Shared, op: OpKind) -> Belonging {
        let changes = self.host.changes();
        match &self.known[op as usize].unstated {
            Some((known, found)) if *known == changes => found.clone(),
            _ => {
                let found = self.find(shared, self.host.shown(), op);
                self.known[op as usize].unstated = Some((changes, found.clone()));
                found
            }
        }
    }

    fn find(&self, shared: &Shared, user: Option<Arc<User>>, op: OpKind) -> Belonging {
        let origin = Origin { ip: self.ip, listener: self.listener, user };
        Belonging { app: shared.assign(&origin, op), origin: Arc::new(origin) }
    }

    /// Whether the rules have changed since the latest request was identified.
    pub(crate) fn is_outdated(&self, shared: &Shared) -> bool {
        shared.generation() != self.generation
    }
}

#[cfg(test)]
mod tests {
    use vpfs_config::{AppTable, Config};

    use super::*;
    use crate::clock::Clock;
    use crate::gate::Gate;
    use crate::shared::Rules;

    const NETWORK: &str = "[[server]]\nname = \"s\"\naddress = \"tcp://127.0.0.1:3334\"\n";

    const LISTENER: &str = "[[listener]]\nport = 5334\n";

    fn config(text: &str) -> Config {
        Config::parse("test", &format!("{NETWORK}{text}")).unwrap()
    }

    fn shared(text: &str) -> Shared {
        let config = config(&format!("{LISTENER}{text}"));
        let (apps, clock) = (AppTable::new(&config), Clock::start());
        let gate = Arc::new(Gate::alone(clock.clone(), &config, &apps));
        Shared::new(clock, vec![gate], Rules::resolved(&config), apps)
    }

    fn name(shared: &Shared, client: &mut ClientIdentity) -> String {
        name_of(shared, client, None)
    }

    fn name_of(shared: &Shared, client: &mut ClientIdentity, user: Option<&Arc<User>>) -> String {
        let app = client.app(shared, user, OpKind::Read).app;
        shared.apps().get(app).unwrap().name.clone()
    }

    fn client(shared: &Shared, ip: &str) -> ClientIdentity {
        ClientIdentity::new(shared, ip.parse().unwrap(), 0)
    }

    fn user(uid: u32) -> Arc<User> {
        Arc::new(User { uid, gids: vec![uid], ..User::default() })
    }

    const BY_USER: &str = "[[app]]\nname = \"a\"\nuids = 1\n[[app]]\nname = \"b\"\nuids = 2\n[apps]\nauto = \"off\"\n";

    #[test]
    fn a_connection_without_credentials_follows_its_host() {
        let shared = shared(BY_USER);
        let mut metadata = client(&shared, "10.0.0.1");
        let mut data = client(&shared, "::ffff:10.0.0.1");
        let mut elsewhere = client(&shared, "10.0.0.2");
        assert_eq!(name(&shared, &mut data), "other");
        metadata.app(&shared, Some(&user(1)), OpKind::Metadata);
        assert_eq!(name(&shared, &mut data), "a");
        // Symptom: the data of all users of a host was attributed to the first one. Cause: the first user found was
        // kept for the life of the connection.
        metadata.app(&shared, Some(&user(2)), OpKind::Metadata);
        assert_eq!(name(&shared, &mut data), "b");
        assert_eq!(name(&shared, &mut elsewhere), "other");
    }

    #[test]
    fn the_user_of_the_request_overrides_that_of_its_host() {
        let shared = shared(BY_USER);
        let (mut one, mut other) = (client(&shared, "10.0.0.1"), client(&shared, "10.0.0.1"));
        let (first, second) = (user(1), user(2));
        for _ in 0..2 {
            assert_eq!(name_of(&shared, &mut one, Some(&first)), "a");
            assert_eq!(name_of(&shared, &mut other, Some(&second)), "b");
        }
    }

    /// Symptom: each change of the user looked up the application again, under the lock of all. Cause: only the latest
    /// one was remembered. Users take turns on a connection of a host's kernel client.
    #[test]
    fn users_who_take_turns_are_looked_up_once() {
        let shared = shared(BY_USER);
        let mut client = client(&shared, "10.0.0.1");
        let users = [user(1), user(2)];
        let mut names = || users.each_ref().map(|user| name_of(&shared, &mut client, Some(user)));
        assert_eq!([names(), names()], [["a".to_owned(), "b".to_owned()], ["a".to_owned(), "b".to_owned()]]);
        assert_eq!(client.known[OpKind::Read as usize].apps.len(), 2);
    }

    /// A storm of lookups has a share of its own, for any user and whatever else that user does.
    #[test]
    fn requests_of_one_client_belong_to_applications_by_what_they_do() {
        let shared = shared("[[app]]\nname = \"storm\"\noperations = \"metadata\"\n[apps]\nauto = \"off\"\n");
        let mut client = client(&shared, "10.0.0.1");
        let mut app = |user, op| {
            let app = client.app(&shared, user, op).app;
            shared.apps().get(app).unwrap().name.clone()
        };
        for user in [None, Some(&user(1))] {
            let names = [OpKind::Read, OpKind::Metadata, OpKind::Write].map(|op| app(user, op));
            assert_eq!(names, ["other", "storm", "other"]);
        }
    }

    #[test]
    fn users_without_number_take_no_memory_without_bound() {
        let shared = shared(BY_USER);
        let mut client = client(&shared, "10.0.0.1");
        for uid in 0..3 * u32::try_from(USERS).unwrap() {
            let expected = ["other", "a", "b", "other"][usize::try_from(uid.min(3)).unwrap()];
            assert_eq!(name_of(&shared, &mut client, Some(&user(uid))), expected);
            assert!(client.known[OpKind::Read as usize].apps.len() <= USERS);
        }
    }

    #[test]
    fn new_rules_apply_to_known_clients() {
        let shared = shared("[[app]]\nname = \"a\"\nclients = \"10.0.0.1\"\n");
        let mut client = client(&shared, "10.0.0.1");
        assert_eq!(name(&shared, &mut client), "a");
        let newer = config(&format!("{LISTENER}[[app]]\nname = \"b\"\nclients = \"10.0.0.0/8\"\n"));
        shared.replace(Rules::resolved(&newer), |apps, _| drop(apps.reload(&newer)));
        assert_eq!(name(&shared, &mut client), "b");
    }

    /// Symptom: after a reload that put an application before another one in the file, clients of a listener bound to
    /// the latter were attributed to the former. Cause: the listener kept the position of its application in the older
    /// file.
    #[test]
    fn a_listeners_application_is_looked_up_in_the_newer_file() {
        let listener = "[[listener]]\nport = 5334\napp = \"a\"\n";
        let older = config(&format!("{listener}[[app]]\nname = \"a\"\n"));
        let (apps, clock) = (AppTable::new(&older), Clock::start());
        let shared = Shared::new(clock, Vec::new(), Rules::resolved(&older), apps);
        let mut client = client(&shared, "10.0.0.1");
        assert_eq!(name(&shared, &mut client), "a");
        let newer = config(&format!("{listener}[[app]]\nname = \"b\"\nuids = 0\n[[app]]\nname = \"a\"\n"));
        shared.replace(Rules::resolved(&newer), |apps, _| drop(apps.reload(&newer)));
        assert_eq!(name(&shared, &mut client), "a");
    }
}
