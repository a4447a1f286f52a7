//! Coordinators of several servers, on a network with faults in virtual time. Everything random comes from one seed.

mod bounds;
mod changes;
mod contact;
mod faults;
mod hostile;
mod late;
mod tree;

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use vpfs_core::testing::Random;
use vpfs_core::{ServerId, Time};
use vpfs_node::coordination::{
    CoordinationSettings, Coordinator, Counted, Event, FlowKey, Members, Message, MessageError,
};

type Account = (FlowKey, Counted);
type Sums = BTreeMap<Account, i64>;

/// What the network does to messages.
#[derive(Clone, Debug)]
struct Network {
    loss_percent: u32,
    repeat_percent: u32,
    /// Delays are drawn between nothing and this, so messages overtake each other.
    delay_ms_max: u32,
    /// Servers of different groups do not hear each other.
    groups: Vec<u32>,
}

struct Server {
    coordinator: Coordinator,
    /// The servers in its file, in order: there, a position is a server's number.
    list: Vec<usize>,
    up: bool,
    /// The sum reported by this incarnation, and by all before it.
    reported: Sums,
    reported_before: Sums,
    /// Passed to the scheduler of this incarnation, and withheld from it as a baseline.
    given: Sums,
    baseline: Sums,
    events: Vec<Event>,
}

/// The incarnation of servers that start together.
const FIRST: u64 = 1000;

struct World {
    now: Time,
    random: Random,
    network: Network,
    /// These two servers do not hear each other.
    cut: Option<(usize, usize)>,
    servers: Vec<Server>,
    settings: CoordinationSettings,
    /// All servers have started with incarnations between these.
    earliest: u64,
    latest: u64,
    flights: BTreeMap<(Time, u64), (usize, usize, Message)>,
    flown: u64,
    digest: DefaultHasher,
}

fn id(server: usize) -> ServerId {
    ServerId(u32::try_from(server).unwrap())
}

/// The members in a file that has these servers in this order.
fn members(list: &[usize]) -> Members {
    let names: Vec<String> = list.iter().map(|server| format!("s{server}")).collect();
    Members::named(names.iter().map(String::as_str))
}

fn add(sums: &mut Sums, account: Account, bytes: i64) {
    *sums.entry(account).or_default() += bytes;
}

impl World {
    /// `count` servers that start together, on a network without faults.
    fn new(seed: u64, count: usize, settings: CoordinationSettings) -> Self {
        let network = Network { loss_percent: 0, repeat_percent: 0, delay_ms_max: 1, groups: vec![0; count] };
        let mut world = Self {
            now: Time::ZERO,
            random: Random::new(seed),
            network,
            cut: None,
            servers: Vec::new(),
            settings,
            earliest: FIRST,
            latest: FIRST,
            flights: BTreeMap::new(),
            flown: 0,
            digest: DefaultHasher::new(),
        };
        world.servers = (0..count).map(|me| world.boot(me, (0..count).collect(), FIRST, Sums::new())).collect();
        (0..count).for_each(|me| world.drain(me));
        world
    }

    fn digest(&self) -> u64 {
        self.digest.finish()
    }

    fn report(&mut self, server: usize, account: Account, delta: i64) {
        add(&mut self.servers[server].reported, account, delta);
        self.servers[server].coordinator.report(self.now, account.0, account.1, delta).unwrap();
        self.drain(server);
    }

    fn crash(&mut self, server: usize) {
        self.servers[server].up = false;
    }

    fn restart(&mut self, server: usize) {
        self.latest += 1;
        self.restart_as(server, self.latest);
    }

    /// The incarnation is less than all before.
    fn restart_after_its_clock_went_back(&mut self, server: usize) {
        self.earliest -= 1;
        self.restart_as(server, self.earliest);
    }

    /// Its proxy starts again with a newer file. A server that was not there before starts for the first time.
    fn restart_with(&mut self, server: usize, list: Vec<usize>) {
        self.servers[server].list = list;
        self.restart(server);
    }

    /// Its coordinator is told of a newer file.
    fn tell(&mut self, server: usize, list: Vec<usize>) {
        self.servers[server].coordinator.set_members(self.now, members(&list));
        self.servers[server].list = list;
        self.drain(server);
    }

    /// A server that no file has yet, and that does not run.
    fn add_server(&mut self) {
        let server = self.servers.len();
        self.network.groups.push(0);
        let mut added = self.boot(server, (0..=server).collect(), FIRST, Sums::new());
        added.up = false;
        self.servers.push(added);
    }

    fn restart_as(&mut self, server: usize, incarnation: u64) {
        let before = &mut self.servers[server];
        let mut reported = std::mem::take(&mut before.reported_before);
        before.reported.iter().for_each(|(account, bytes)| add(&mut reported, *account, *bytes));
        let list = before.list.clone();
        self.servers[server] = self.boot(server, list, incarnation, reported);
        self.drain(server);
    }

    /// Restarts all servers that are down.
    fn restart_all(&mut self) {
        let down: Vec<usize> = (0..self.servers.len()).filter(|server| !self.servers[*server].up).collect();
        down.into_iter().for_each(|server| self.restart(server));
    }

    fn run_for(&mut self, duration: Duration) {
        let until = self.now + duration;
        while let Some(next) = self.next_time().filter(|next| *next <= until) {
            self.now = self.now.max(next);
            self.deliver();
            self.wake_servers();
        }
        self.now = until;
    }

    /// Messages sent so far by the current incarnations.
    fn messages(&self) -> u64 {
        self.servers.iter().map(|server| server.coordinator.sent().messages).sum()
    }

    /// Checks that every server's view of every other equals what that one knows of itself.
    fn views_are_equal(&self, accounts: &[Account]) -> Result<(), String> {
        for (at, of) in (0..self.servers.len()).flat_map(|at| (0..self.servers.len()).map(move |of| (at, of))) {
            for &(key, class) in accounts.iter().filter(|_| at != of) {
                let seen = self.servers[at].coordinator.peer_service(id(of), key, class);
                let own = self.servers[of].coordinator.own_service(key, class);
                if seen != own {
                    return Err(format!("server {at} sees {seen:?} of server {of} for {key:?} {class:?}, not {own:?}"));
                }
            }
        }
        Ok(())
    }

    /// Drains a coordinator's outputs, after every input.
    fn drain(&mut self, me: usize) {
        while let Some((to, message)) = self.servers[me].coordinator.poll_transmit(self.now) {
            (me, to.0, &message).hash(&mut self.digest);
            if let Some(&to) = self.servers[me].list.get(to.index()) {
                self.send(me, to, &message);
            }
        }
        let server = &mut self.servers[me];
        while let Some((key, class, bytes)) = server.coordinator.poll_service() {
            (me, key, class, bytes).hash(&mut self.digest);
            assert_ne!(bytes, 0, "nothing is not worth a word");
            add(&mut server.given, (key, class), bytes);
        }
        while let Some((_, event)) = server.coordinator.poll_event() {
            if let Event::Baseline { key, counted, bytes, .. } = event {
                add(&mut server.baseline, (key, counted), bytes);
            }
            server.events.push(event);
        }
    }

    fn boot(&self, me: usize, list: Vec<usize>, incarnation: u64, reported_before: Sums) -> Server {
        let position = list.iter().position(|server| *server == me).unwrap();
        let coordinator = Coordinator::new(self.now, id(position), incarnation, members(&list), self.settings);
        Server {
            coordinator,
            list,
            up: true,
            reported: Sums::new(),
            reported_before,
            given: Sums::new(),
            baseline: Sums::new(),
            events: Vec::new(),
        }
    }

    fn send(&mut self, from: usize, to: usize, message: &Message) {
        let copies = 1 + u32::from(self.random.below(100) < self.network.repeat_percent);
        for _ in 0..copies {
            let lost = self.random.below(100) < self.network.loss_percent;
            let delay = Duration::from_micros(u64::from(self.random.below(self.network.delay_ms_max * 1000)));
            let is_cut = self.cut.is_some_and(|(one, other)| (from.min(to), from.max(to)) == (one, other));
            if !lost && !is_cut && self.network.groups.get(to) == Some(&self.network.groups[from]) {
                self.flown += 1;
                self.flights.insert((self.now + delay, self.flown), (from, to, message.clone()));
            }
        }
    }

    fn next_time(&self) -> Option<Time> {
        let up = self.servers.iter().filter(|server| server.up);
        let timeouts = up.filter_map(|server| server.coordinator.poll_timeout());
        self.flights.keys().map(|&(at, _)| at).take(1).chain(timeouts).min()
    }

    fn deliver(&mut self) {
        while let Some(flight) = self.flights.first_entry().filter(|flight| flight.key().0 <= self.now) {
            let (from, to, message) = flight.remove();
            // Connections know servers by name, and are refused if the file does not have it.
            let position = self.servers[to].list.iter().position(|server| *server == from);
            let passes = self.servers[to].up && self.network.groups[from] == self.network.groups[to];
            if let Some(position) = position.filter(|_| passes) {
                let handled = self.servers[to].coordinator.handle_message(self.now, id(position), &message);
                let is_removed = matches!(handled, Err(MessageError::UnknownPeer(_)));
                assert!(handled.is_ok() || is_removed, "{handled:?}");
                self.drain(to);
            }
        }
    }

    fn wake_servers(&mut self) {
        for me in 0..self.servers.len() {
            let Server { up, coordinator, .. } = &mut self.servers[me];
            if *up && coordinator.poll_timeout().is_some_and(|at| at <= self.now) {
                coordinator.handle_timeout(self.now);
                self.drain(me);
                let next = self.servers[me].coordinator.poll_timeout();
                assert!(next.is_none_or(|at| at > self.now), "a timer of server {me} stays due");
            }
        }
    }
}
