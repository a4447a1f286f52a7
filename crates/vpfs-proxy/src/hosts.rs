//! What the connections of one client host share: the user that they stated last, memory, lines in the log, and how
//! many there may be.
//! Connections that have not authenticated or asked for anything yet are bounded in total and per holder, see
//! [`Places`].

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::net::IpAddr;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::{Notify, oneshot, watch};
use vpfs_core::Time;
use vpfs_protocol::session::{SessionLimits, User};

use crate::event_log::LogLimit;
use crate::gate::Mailbox;
use crate::lock;

#[derive(Default)]
pub(crate) struct Hosts(Mutex<HashMap<IpAddr, Arc<Host>>>);

#[derive(Default)]
pub(crate) struct Host {
    connections: AtomicUsize,
    seats: Mutex<BTreeMap<u64, Arc<Seat>>>,
    pub(crate) memory: Budget,
    pub(crate) patience: Patience,
    pub(crate) log: LogLimit,
    /// The user that a connection from this host stated last. Connections that have not stated a user are attributed to
    /// it.
    user: Mutex<Option<Arc<User>>>,
    /// Counts changes of `user`, so that connections notice without a lock.
    changes: AtomicU64,
}

/// What others see of a connection: whether it could leave its place to a newcomer.
#[derive(Default)]
pub(crate) struct Seat {
    /// Since when nothing is in progress, in nanoseconds; zero while something is.
    idle_since: AtomicU64,
    pub(crate) mailbox: Arc<Mailbox>,
}

impl Seat {
    pub(crate) fn set_idle(&self, is_idle: bool, now: impl FnOnce() -> Time) {
        let was_idle = self.idle_since.load(Ordering::Relaxed) > 0;
        if is_idle != was_idle {
            let since = if is_idle { now().as_nanos().max(1) } else { 0 };
            self.idle_since.store(since, Ordering::Relaxed);
        }
    }

    fn idle_since(&self) -> Option<Time> {
        let since = self.idle_since.load(Ordering::Relaxed);
        (since > 0 && !self.mailbox.is_claimed()).then(|| Time::from_nanos(since))
    }
}

/// One connection of a host, which is counted until this is dropped.
pub(crate) struct HostConnection {
    host: Arc<Host>,
    number: u64,
    seat: Arc<Seat>,
}

impl HostConnection {
    pub(crate) fn new(host: Arc<Host>, limit: usize) -> Result<Self, Arc<Host>> {
        let more = |count| (count < limit).then_some(count + 1);
        if host.connections.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_err() {
            return Err(host);
        }
        let seat = Arc::<Seat>::default();
        let mut seats = lock(&host.seats);
        let number = seats.last_key_value().map_or(0, |(last, _)| last + 1);
        seats.insert(number, Arc::clone(&seat));
        drop(seats);
        Ok(Self { host, number, seat })
    }

    pub(crate) fn host(&self) -> &Host {
        &self.host
    }

    pub(crate) fn seat(&self) -> &Arc<Seat> {
        &self.seat
    }
}

impl Drop for HostConnection {
    fn drop(&mut self) {
        lock(&self.host.seats).remove(&self.number);
        let before = self.host.connections.fetch_sub(1, Ordering::Relaxed);
        assert!(before > 0, "a connection that ends was counted");
    }
}

/// A connection on which nothing was in progress for this long leaves for any newcomer; its client connects again when
/// it needs to.
const UNUSED: Duration = Duration::from_secs(60);

impl Hosts {
    /// The number of hosts to remember. When it is reached, those without connections are forgotten.
    const MAX: usize = 1 << 16;

    pub(crate) fn get(&self, ip: IpAddr) -> Arc<Host> {
        // A dual-stack socket reports ::ffff:10.1.2.3 for the host that others report as 10.1.2.3.
        let ip = ip.to_canonical();
        let mut hosts = lock(&self.0);
        if hosts.len() >= Self::MAX && !hosts.contains_key(&ip) {
            hosts.retain(|_, host| Arc::strong_count(host) > 1);
        }
        Arc::clone(hosts.entry(ip).or_default())
    }

    /// Asks a connection on which nothing is in progress to leave its place to one of `newcomer`: of the hosts with
    /// such connections that with most, if it has more, and there the one that is idle for longest; otherwise one of
    /// any host that is unused for long. So hosts get equal parts of what there is, however much one holds. Returns
    /// whether there is one. O(connections).
    pub(crate) fn claim(&self, newcomer: &Host, now: Time) -> bool {
        let own = newcomer.connections.load(Ordering::Relaxed);
        let idlest = |host: Arc<Host>| {
            let idle = |seat: &Arc<Seat>| Some((seat.idle_since()?, Arc::clone(seat)));
            let (since, seat) = lock(&host.seats).values().filter_map(idle).min_by_key(|(since, _)| *since)?;
            Some((host.connections.load(Ordering::Relaxed), since, seat))
        };
        let candidates: Vec<_> = self.all().into_iter().filter_map(idlest).collect();
        let of_most = candidates.iter().max_by_key(|(count, since, _)| (*count, Reverse(*since)));
        let idlest = || candidates.iter().min_by_key(|(_, since, _)| *since);
        let found = of_most
            .filter(|(count, ..)| *count > own)
            .or_else(|| idlest().filter(|(_, since, _)| now.since(*since) >= UNUSED));
        found.inspect(|(.., seat)| seat.mailbox.claim()).is_some()
    }

    pub(crate) fn holders(&self, each: usize) -> Vec<(Holder, usize)> {
        let hosts = lock(&self.0);
        let count = |(ip, host): (&IpAddr, &Arc<Host>)| (Holder::from(*ip), host.connections.load(Ordering::Relaxed));
        largest(hosts.iter().map(count).filter(|(_, count)| *count > 0 && 2 * count >= each))
    }

    pub(crate) fn all(&self) -> Vec<Arc<Host>> {
        lock(&self.0).values().cloned().collect()
    }
}

impl Host {
    pub(crate) fn show(&self, user: &Arc<User>) {
        let mut known = lock(&self.user);
        if known.as_ref() != Some(user) {
            *known = Some(Arc::clone(user));
            self.changes.fetch_add(1, Ordering::Release);
        }
    }

    pub(crate) fn shown(&self) -> Option<Arc<User>> {
        lock(&self.user).clone()
    }

    pub(crate) fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }
}

/// The patience with one host.
///
/// With the same patience for all, a client that stalls with one large write after another keeps slots for a second
/// each time; where only a few such requests are outstanding at once, that is most of the server's time. Halving it
/// makes that harmless, and a host whose client hangs once loses nothing: what is released continues without a slot.
#[derive(Default)]
pub(crate) struct Patience(Mutex<Stalls>);

#[derive(Clone, Copy, Default)]
struct Stalls {
    halvings: u32,
    latest: Time,
}

impl Stalls {
    /// The shortest patience is a sixteenth, 62 ms: longer than a loaded but healthy client needs to send the data of
    /// an acknowledged write.
    const MOST: u32 = 4;

    /// After each such time without a stall the patience doubles again.
    const FORGOTTEN: Duration = Duration::from_secs(10);

    fn at(self, now: Time) -> u32 {
        let forgotten = now.since(self.latest).as_secs() / Self::FORGOTTEN.as_secs();
        self.halvings.saturating_sub(u32::try_from(forgotten).unwrap_or(u32::MAX))
    }
}

impl Patience {
    pub(crate) fn at(&self, now: Time) -> Duration {
        SessionLimits::PATIENCE / (1 << lock(&self.0).at(now))
    }

    /// A client of the host has stalled. Those that stall together, as all processes of a host that is suspended do,
    /// count once.
    pub(crate) fn shorten(&self, now: Time) {
        let mut stalls = lock(&self.0);
        let halvings = stalls.at(now);
        if halvings == 0 || now.since(stalls.latest) >= SessionLimits::PATIENCE / (1 << halvings) {
            *stalls = Stalls { halvings: Stalls::MOST.min(halvings + 1), latest: now };
        }
    }
}

/// How much is used of something that is limited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Used {
    /// Now.
    pub now: usize,
    /// At most.
    pub limit: usize,
}

/// The number of bytes that many connections hold together. The bound is passed with each call, because all hosts have
/// the same bound and a reload may change it.
#[derive(Default)]
pub(crate) struct Budget {
    held: AtomicUsize,
    is_scarce: AtomicBool,
    was_scarce: AtomicBool,
    eased: Notify,
}

impl Budget {
    /// Adds `bytes`. Returns whether this made memory scarce for the first time since the bound was set.
    pub(crate) fn take(&self, bytes: usize, limit: usize) -> bool {
        let held = self.held.fetch_add(bytes, SeqCst) + bytes;
        if held < limit - limit / 8 {
            return false;
        }
        self.is_scarce.store(true, SeqCst);
        // Another thread may have given back the last bytes before the flag was set; then no later call would clear it.
        self.ease(limit);
        !self.was_scarce.swap(true, SeqCst)
    }

    pub(crate) fn give_back(&self, bytes: usize, limit: usize) {
        let before = self.held.fetch_sub(bytes, SeqCst);
        assert!(before >= bytes, "more memory is given back than was taken");
        self.ease(limit);
    }

    /// Ends the scarcity and wakes all waiting tasks, if at most three quarters of the bound are held.
    fn ease(&self, limit: usize) {
        if self.is_scarce.load(SeqCst) && self.held() <= limit / 4 * 3 && self.is_scarce.swap(false, SeqCst) {
            self.eased.notify_waiters();
        }
    }

    pub(crate) fn held(&self) -> usize {
        self.held.load(SeqCst)
    }

    pub(crate) fn is_scarce(&self) -> bool {
        self.is_scarce.load(SeqCst)
    }

    /// Waits while memory is scarce; cancel safe.
    pub(crate) async fn eased(&self) {
        while self.is_scarce() {
            let mut eased = std::pin::pin!(self.eased.notified());
            // From this point on, no notification is missed.
            eased.as_mut().enable();
            if self.is_scarce() {
                eased.await;
            }
        }
    }

    /// Adopts a new bound. The next time that it is nearly reached is reported again.
    pub(crate) fn renew(&self, limit: usize) {
        self.was_scarce.store(false, SeqCst);
        self.ease(limit);
    }
}

pub(crate) struct ConnectionPermits(watch::Sender<Count>);

#[derive(Clone, Copy, Debug)]
struct Count {
    taken: usize,
    limit: usize,
}

impl Count {
    fn has_room(&self) -> bool {
        self.taken < self.limit
    }
}

pub(crate) struct ConnectionPermit(Arc<ConnectionPermits>);

impl ConnectionPermits {
    pub(crate) fn new(limit: usize) -> Self {
        Self(watch::Sender::new(Count { taken: 0, limit }))
    }

    pub(crate) fn try_take(self: &Arc<Self>) -> Option<ConnectionPermit> {
        let mut found = false;
        self.0.send_if_modified(|count| {
            found = count.has_room();
            count.taken += usize::from(found);
            // No task waits for a permit to be taken.
            false
        });
        found.then(|| ConnectionPermit(Arc::clone(self)))
    }

    /// Waits for a permit. Waiters are served in no particular order: they are the listeners of one daemon.
    pub(crate) async fn take(self: &Arc<Self>) -> ConnectionPermit {
        loop {
            self.until(Count::has_room).await;
            if let Some(permit) = self.try_take() {
                return permit;
            }
        }
    }

    pub(crate) async fn all_free(&self) {
        self.until(|count| count.taken == 0).await;
    }

    pub(crate) fn taken(&self) -> usize {
        self.0.borrow().taken
    }

    pub(crate) fn used(&self) -> Used {
        let Count { taken, limit } = *self.0.borrow();
        Used { now: taken, limit }
    }

    /// Changes the number of permits. If more are already taken, none is free until enough have been returned.
    pub(crate) fn set_limit(&self, limit: usize) {
        self.0.send_modify(|count| count.limit = limit);
    }

    async fn until(&self, condition: impl FnMut(&Count) -> bool) {
        // The sender is in `self`.
        let _ = self.0.subscribe().wait_for(condition).await;
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        self.0.0.send_modify(|count| {
            count.taken = count.taken.checked_sub(1).expect("a permit is returned only once");
        });
    }
}

/// The owner of connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Holder {
    /// A host, by its address.
    Host(IpAddr),
    /// A user of this host, by number.
    User(u32),
}

impl From<IpAddr> for Holder {
    fn from(ip: IpAddr) -> Self {
        // A dual-stack socket reports ::ffff:10.1.2.3 for the host that others report as 10.1.2.3.
        Self::Host(ip.to_canonical())
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host(ip) => ip.fmt(f),
            Self::User(uid) => write!(f, "uid {uid}"),
        }
    }
}

/// How many connections may have a place at a time.
#[derive(Clone, Copy, Debug)]
pub struct Room {
    /// Of all together.
    pub all: usize,
    /// Of one holder.
    pub each: usize,
}

/// Bounds connections that have not authenticated or asked for anything yet, in total and per holder. A new connection
/// is admitted however many others hold: it takes the place of the oldest connection of the holder that has most.
/// Copies share them. Each operation costs O(connections).
#[derive(Clone)]
pub struct Places {
    room: Room,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    opened: u64,
    taken: HashMap<Holder, BTreeMap<u64, Taken>>,
}

struct Taken {
    /// How the connection learns that it lost its place; `None` while it cannot lose it.
    losing: Option<oneshot::Sender<()>>,
    /// It failed, and occupies its place for a while; a newcomer of the same holder does not get it.
    is_penalty: bool,
}

impl Taken {
    fn can_be_lost(&self, to_itself: bool) -> bool {
        self.losing.is_some() && !(to_itself && self.is_penalty)
    }
}

/// The place of one connection, which is free again when this is dropped.
pub struct Place {
    places: Places,
    holder: Holder,
    number: u64,
    lost: Option<oneshot::Receiver<()>>,
}

impl Places {
    /// None is taken.
    pub fn new(room: Room) -> Self {
        Self { room, state: Arc::default() }
    }

    /// A place for a connection of `holder`, perhaps that of another one. `None` if none can be lost to it.
    pub fn admit(&self, holder: Holder) -> Option<Place> {
        let mut state = lock(&self.state);
        let own = state.taken.get(&holder).map_or(0, BTreeMap::len);
        let all: usize = state.taken.values().map(BTreeMap::len).sum();
        if own >= self.room.each {
            state.take_from(holder, true)?;
        } else if all >= self.room.all {
            let loser = state.holder_of_most(holder, own)?;
            state.take_from(loser, loser == holder)?;
        }
        let (losing, lost) = oneshot::channel();
        let number = state.opened;
        state.opened += 1;
        state.taken.entry(holder).or_default().insert(number, Taken { losing: Some(losing), is_penalty: false });
        Some(Place { places: self.clone(), holder, number, lost: Some(lost) })
    }

    /// Holders of at least half of what one may have, with the number of their connections, most first.
    pub fn holders(&self) -> Vec<(Holder, usize)> {
        let state = lock(&self.state);
        let counts = state.taken.iter().map(|(holder, places)| (*holder, places.len()));
        largest(counts.filter(|(_, count)| 2 * count >= self.room.each))
    }

    /// How many there are.
    pub fn room(&self) -> Room {
        self.room
    }
}

pub(crate) fn largest(counts: impl Iterator<Item = (Holder, usize)>) -> Vec<(Holder, usize)> {
    /// More tell nothing new, and each is a series of a metric.
    const TOLD: usize = 4;
    let mut counts: Vec<_> = counts.collect();
    counts.sort_unstable_by_key(|(holder, count)| (Reverse(*count), *holder));
    counts.truncate(TOLD);
    counts
}

impl State {
    /// The holder that loses a place to `newcomer`, which has `own`: the one with most that can lose any, but none with
    /// fewer; of equal ones that with the oldest connection.
    fn holder_of_most(&self, newcomer: Holder, own: usize) -> Option<Holder> {
        let loser = |(holder, places): (&Holder, &BTreeMap<u64, Taken>)| {
            let (oldest, _) = places.iter().find(|(_, taken)| taken.can_be_lost(*holder == newcomer))?;
            Some((places.len(), Reverse(*oldest), *holder))
        };
        let losers = self.taken.iter().filter(|(_, places)| places.len() >= own).filter_map(loser);
        losers.max().map(|(_, _, holder)| holder)
    }

    fn take_from(&mut self, holder: Holder, to_itself: bool) -> Option<()> {
        let places = self.taken.get_mut(&holder)?;
        let (&oldest, _) = places.iter().find(|(_, taken)| taken.can_be_lost(to_itself))?;
        if let Some(losing) = places.remove(&oldest).and_then(|taken| taken.losing) {
            // A connection that ends just now does not listen any more.
            let _ = losing.send(());
        }
        self.forget_if_empty(holder);
        Some(())
    }

    fn forget_if_empty(&mut self, holder: Holder) {
        if self.taken.get(&holder).is_some_and(BTreeMap::is_empty) {
            self.taken.remove(&holder);
        }
    }
}

impl Place {
    /// Does `work` unless the place is lost before it is done: then `None`, and the connection must be closed.
    pub async fn keep<T>(&mut self, work: impl Future<Output = T>) -> Option<T> {
        let lost = async {
            // It fails if the place cannot be lost any more.
            if let Some(lost) = &mut self.lost
                && lost.await.is_ok()
            {
                return;
            }
            std::future::pending().await
        };
        tokio::select! {
            () = lost => None,
            done = work => Some(done),
        }
    }

    /// From now on it is not lost to others. No effect if it already was.
    pub fn hold(&mut self) {
        self.lost = None;
        self.change(|taken| taken.losing = None);
    }

    /// From now on, a newcomer of the same holder does not get it.
    pub(crate) fn penalize(&mut self) {
        self.change(|taken| taken.is_penalty = true);
    }

    fn change(&self, change: impl FnMut(&mut Taken)) {
        let mut state = lock(&self.places.state);
        let places = state.taken.get_mut(&self.holder);
        places.and_then(|places| places.get_mut(&self.number)).into_iter().for_each(change);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut state = lock(&self.places.state);
        if let Some(places) = state.taken.get_mut(&self.holder) {
            places.remove(&self.number);
            state.forget_if_empty(self.holder);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_count_until_they_end_by_any_name_of_their_host() {
        let hosts = Hosts::default();
        let [host, mapped] = ["10.0.0.1", "::ffff:10.0.0.1"].map(|ip| hosts.get(ip.parse().unwrap()));
        let connect = |host: &Arc<Host>, limit| HostConnection::new(Arc::clone(host), limit).ok();
        let (first, _second) = (connect(&host, 2).unwrap(), connect(&mapped, 2).unwrap());
        assert!(connect(&host, 2).is_none() && connect(&host, 1).is_none());
        let _third = connect(&host, 3).unwrap();
        drop(first);
        assert!(connect(&host, 2).is_none() && connect(&host, 3).is_some());
        assert!(connect(&hosts.get("10.0.0.2".parse().unwrap()), 1).is_some(), "another host");
    }

    /// Four addresses with a quarter of all connections each kept everybody else waiting.
    #[test]
    fn a_newcomer_gets_the_place_of_the_host_with_most() {
        let hosts = Hosts::default();
        let connect = |last: u8| HostConnection::new(hosts.get([10, 0, 0, last].into()), 9).ok().unwrap();
        let at = |seconds: u64| Time::from_millis(seconds * 1000);
        let many: Vec<HostConnection> = (0..3).map(|_| connect(1)).collect();
        let few: Vec<HostConnection> = (0..2).map(|_| connect(2)).collect();
        let newcomer = connect(3);
        assert!(!hosts.claim(newcomer.host(), at(9)), "something is in progress on all of them");
        few[1].seat().set_idle(true, || at(1));
        many[2].seat().set_idle(true, || at(3));
        many[1].seat().set_idle(true, || at(2));
        assert!(hosts.claim(newcomer.host(), at(9)) && many[1].seat().mailbox.take_claim());
        many[1].seat().set_idle(false, || at(9));
        assert!(hosts.claim(newcomer.host(), at(9)) && many[2].seat().mailbox.take_claim());
        many[2].seat().set_idle(false, || at(9));
        assert!(hosts.claim(newcomer.host(), at(9)) && few[1].seat().mailbox.take_claim(), "two are more than one");
        let second = connect(3);
        assert!(!hosts.claim(second.host(), at(9)), "two are not more than two");
        assert!(hosts.claim(second.host(), at(61)) && few[1].seat().mailbox.take_claim(), "unused for a minute");
        assert_eq!(hosts.holders(6), [(Holder::from(IpAddr::from([10, 0, 0, 1])), 3)]);
    }

    fn ms(ms: u64) -> Time {
        Time::from_millis(ms)
    }

    #[test]
    fn stalls_one_after_another_halve_it_down_to_a_sixteenth() {
        let patience = Patience::default();
        let mut now = ms(0);
        let mut seen = Vec::new();
        for _ in 0..7 {
            seen.push(patience.at(now).as_micros());
            now = now + patience.at(now);
            patience.shorten(now);
        }
        assert_eq!(seen, [1_000_000, 500_000, 250_000, 125_000, 62_500, 62_500, 62_500]);
    }

    #[test]
    fn stalls_at_the_same_time_count_once() {
        let patience = Patience::default();
        for late in 0..100 {
            patience.shorten(ms(60_000 + late));
        }
        assert_eq!(patience.at(ms(60_100)), Duration::from_millis(500));
    }

    #[test]
    fn it_comes_back() {
        let patience = Patience::default();
        for at in [1000, 2000, 3000] {
            patience.shorten(ms(at));
        }
        let at = [3, 12, 13, 23, 33, 1000].map(|s| patience.at(ms(s * 1000)).as_millis());
        assert_eq!(at, [125, 125, 250, 500, 1000, 1000]);
    }

    /// Tasks of this runtime run in turn, so every task that was ready has run after this.
    async fn others_run() {
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn a_waiter_gets_the_next_free_permit_also_when_their_number_changes() {
        let permits = Arc::new(ConnectionPermits::new(1));
        let first = permits.try_take().unwrap();
        assert!(permits.try_take().is_none());
        let waiting = tokio::spawn({
            let permits = Arc::clone(&permits);
            async move { permits.take().await }
        });
        others_run().await;
        assert!(!waiting.is_finished());
        drop(first);
        let second = waiting.await.unwrap();
        assert_eq!(permits.taken(), 1);
        permits.set_limit(2);
        let third = permits.take().await;
        permits.set_limit(1);
        drop(second);
        assert!(permits.try_take().is_none(), "all permits are taken");
        drop(third);
        permits.all_free().await;
    }

    const ROOM: Room = Room { all: 8, each: 4 };

    fn ip(last: u8) -> Holder {
        IpAddr::from([10, 0, 0, last]).into()
    }

    fn is_lost(place: &mut Place) -> bool {
        place.lost.as_mut().is_some_and(|lost| lost.try_recv().is_ok())
    }

    #[test]
    fn a_newcomer_takes_the_oldest_place_of_whoever_has_most() {
        let places = Places::new(ROOM);
        let mut many: Vec<Place> = (0..4).map(|_| places.admit(ip(1)).unwrap()).collect();
        let mut few: Vec<Place> = (2..6).map(|last| places.admit(ip(last)).unwrap()).collect();
        let _newcomer = places.admit(ip(9)).unwrap();
        assert!(is_lost(&mut many[0]) && !is_lost(&mut many[1]));
        // At its own bound a holder takes its own oldest one, and of equal ones the oldest goes.
        let _again = places.admit(ip(1)).unwrap();
        assert!(is_lost(&mut many[1]) && !few.iter_mut().any(is_lost));
        let own = places.admit("::ffff:10.0.0.9".parse::<IpAddr>().unwrap().into()).unwrap();
        assert_eq!(own.holder, ip(9), "by any name");
        assert!(is_lost(&mut many[2]) && !few.iter_mut().any(is_lost));
        assert_eq!(places.holders(), [(ip(1), 2), (ip(9), 2)]);
    }

    #[test]
    fn places_that_are_held_stay_and_all_are_freed() {
        let places = Places::new(ROOM);
        let mut held: Vec<Place> = (0..4).map(|_| places.admit(ip(1)).unwrap()).collect();
        held.iter_mut().for_each(Place::hold);
        assert!(places.admit(ip(1)).is_none(), "none of this one can be lost");
        let mut others: Vec<Place> = (2..6).map(|last| places.admit(ip(last)).unwrap()).collect();
        let newcomer = places.admit(ip(9)).unwrap();
        assert!(is_lost(&mut others[0]));
        drop((held, others, newcomer));
        assert!(lock(&places.state).taken.is_empty() && places.holders().is_empty());
    }

    /// A holder that fails again and again keeps no other out, but is itself slowed down.
    #[test]
    fn a_penalty_is_for_its_own_holder() {
        let places = Places::new(ROOM);
        let mut failed: Vec<Place> = [1, 2]
            .iter()
            .flat_map(|&last| (0..4).map(move |_| last))
            .map(|last| {
                let mut place = places.admit(ip(last)).unwrap();
                place.penalize();
                place
            })
            .collect();
        assert!(places.admit(ip(1)).is_none() && places.admit(ip(2)).is_none());
        let _newcomer = places.admit(ip(9)).unwrap();
        assert!(is_lost(&mut failed[0]));
    }
}
