//! Bounds connections that have not authenticated or asked for anything yet, in total and per host. A new connection is
//! admitted however many others hold: it takes the place of the oldest connection of the host that holds most.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

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

/// Places of connections by holder. Copies share them. Each operation costs O(connections).
#[derive(Clone)]
pub struct Places {
    room: Room,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    opened: u64,
    /// By holder, and from the oldest on.
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
        let mut state = self.state();
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
        let state = self.state();
        let counts = state.taken.iter().map(|(holder, places)| (*holder, places.len()));
        largest(counts.filter(|(_, count)| 2 * count >= self.room.each))
    }

    /// How many there are.
    pub fn room(&self) -> Room {
        self.room
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The few with most.
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

    /// Ends the oldest connection of this holder that can lose its place.
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
        let mut state = self.places.state();
        let places = state.taken.get_mut(&self.holder);
        places.and_then(|places| places.get_mut(&self.number)).into_iter().for_each(change);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut state = self.places.state();
        if let Some(places) = state.taken.get_mut(&self.holder) {
            places.remove(&self.number);
            state.forget_if_empty(self.holder);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert!(places.state().taken.is_empty() && places.holders().is_empty());
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
