//! Identifies the client of a connection.

use std::net::IpAddr;
use std::sync::Arc;

use vpfs_core::{AppId, Time};
use vpfs_session::User;

use crate::hosts::Host;
use crate::log_limit::Kind;
use crate::shared::Shared;

/// Identifies the client of one connection.
///
/// Requests of a connection that has not stated a user yet are attributed to the user that another connection from the
/// same host stated last.
pub(crate) struct ClientIdentity {
    ip: IpAddr,
    listener: usize,
    host: Arc<Host>,
    user: Option<Arc<User>>,
    /// The result, and what it was derived from.
    known: Option<(Basis, AppId)>,
}

/// Generations of the rules and of the host's user.
type Basis = (u64, u64);

impl ClientIdentity {
    /// A client at `ip` that connected to the listener with this index.
    pub(crate) fn new(shared: &Shared, ip: IpAddr, listener: usize) -> Self {
        // A dual-stack socket reports ::ffff:10.1.2.3 for the host that others report as 10.1.2.3.
        let ip = ip.to_canonical();
        Self { ip, listener, host: shared.hosts.get(ip), user: None, known: None }
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

    fn show(&mut self, user: &Arc<User>) {
        // Usually the same allocation.
        let known = self.user.as_ref().is_some_and(|known| Arc::ptr_eq(known, user) || known == user);
        if !known {
            self.host.show(user);
            self.user = Some(Arc::clone(user));
            self.known = None;
        }
    }

    /// The application of a request of this client now, from `user` if the protocol states one.
    pub(crate) fn app(&mut self, shared: &Shared, user: Option<&Arc<User>>) -> AppId {
        if let Some(user) = user {
            self.show(user);
        }
        let of_host = if self.user.is_some() { 0 } else { self.host.changes() };
        let basis = (shared.generation(), of_host);
        if let Some((known, app)) = self.known
            && known == basis
        {
            return app;
        }
        let user = self.user.clone().or_else(|| self.host.shown());
        let app = shared.assign(self.listener, self.ip, user.as_deref());
        self.known = Some((basis, app));
        app
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
        let gate =
            Arc::new(Gate::new(clock.clone(), vpfs_core::ServerId(0), crate::post::Post::default(), &config, &apps));
        Shared::new(clock, vec![gate], Rules::resolved(&config), apps)
    }

    fn name(shared: &Shared, client: &mut ClientIdentity) -> String {
        let app = client.app(shared, None);
        shared.apps().get(app).unwrap().name.clone()
    }

    fn client(shared: &Shared, ip: &str) -> ClientIdentity {
        ClientIdentity::new(shared, ip.parse().unwrap(), 0)
    }

    fn user(uid: u32) -> Arc<User> {
        Arc::new(User { uid, gids: vec![uid] })
    }

    const BY_USER: &str = "[[app]]\nname = \"a\"\nuids = 1\n[[app]]\nname = \"b\"\nuids = 2\n[apps]\nauto = \"off\"\n";

    #[test]
    fn a_connection_without_credentials_follows_its_host() {
        let shared = shared(BY_USER);
        let mut metadata = client(&shared, "10.0.0.1");
        let mut data = client(&shared, "::ffff:10.0.0.1");
        let mut elsewhere = client(&shared, "10.0.0.2");
        assert_eq!(name(&shared, &mut data), "other");
        metadata.app(&shared, Some(&user(1)));
        assert_eq!(name(&shared, &mut data), "a");
        // Symptom: the data of all users of a host was attributed to the first one. Cause: the first user found was
        // kept for the life of the connection.
        metadata.app(&shared, Some(&user(2)));
        assert_eq!(name(&shared, &mut data), "b");
        assert_eq!(name(&shared, &mut elsewhere), "other");
    }

    #[test]
    fn the_user_stated_by_the_connection_overrides_that_of_its_host() {
        let shared = shared(BY_USER);
        let (mut one, mut other) = (client(&shared, "10.0.0.1"), client(&shared, "10.0.0.1"));
        one.app(&shared, Some(&user(1)));
        other.app(&shared, Some(&user(2)));
        assert_eq!((name(&shared, &mut one), name(&shared, &mut other)), ("a".to_owned(), "b".to_owned()));
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
