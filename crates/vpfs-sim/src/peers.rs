//! Coordination between servers: the daemon's own state machines, and a network between them that fails as it is told.

use std::collections::BTreeMap;
use std::time::Duration;

use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};
use slab::Slab;
use vpfs_coord::{Coordinator, FlowKey, Message, Settings};
use vpfs_core::{AppId, Bytes, ServerId, ServiceReport, Time};

use crate::calendar::{Calendar, Event};
use crate::measure::Series;

/// The network between servers' proxies, for coordination messages only.
#[derive(Clone, Debug)]
pub struct PeerNetwork {
    /// From one server to another.
    pub latency: Duration,
    /// Work of a server's processor for each message that it sends or receives; its storage waits if its model is one of
    /// that processor's work.
    pub message_work: Duration,
    /// Bytes that carry a message, on both servers' links.
    pub message_overhead: Bytes,
    /// Timers and bounds of the coordination.
    pub settings: Settings,
    /// Messages that do not arrive, in parts of a million.
    pub loss_ppm: u32,
    /// Messages that arrive twice, in parts of a million.
    pub duplicate_ppm: u32,
    /// Each message takes longer by a random time up to this, so that messages overtake each other.
    pub extra_delay: Duration,
    /// When servers do not hear of each other.
    pub partitions: Vec<Partition>,
    /// When proxies start anew.
    pub restarts: Vec<Restart>,
}

impl Default for PeerNetwork {
    /// 100 µs, no work, and everything arrives once.
    fn default() -> Self {
        Self {
            latency: Duration::from_micros(100),
            message_work: Duration::ZERO,
            message_overhead: Bytes::ZERO,
            settings: Settings::default(),
            loss_ppm: 0,
            duplicate_ppm: 0,
            extra_delay: Duration::ZERO,
            partitions: Vec::new(),
            restarts: Vec::new(),
        }
    }
}

/// For some time no message passes between these servers and all others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partition {
    /// Its begin.
    pub from: Duration,
    /// Its end.
    pub to: Duration,
    /// Those on one side.
    pub servers: Vec<u32>,
}

/// A server's proxy starts anew: it forgets what it knew, clients ask again for what was queued, and what is with the
/// server is no longer counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Restart {
    /// When.
    pub at: Duration,
    /// Which.
    pub server: u32,
}

/// A message on its way.
struct Underway {
    from: u32,
    to: u32,
    message: Message,
}

/// What messages cost the server that sends or receives them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Exchange {
    pub(crate) work: Duration,
    /// On its link.
    pub(crate) bytes: u64,
}

/// The coordinators of all servers and what is between them.
pub(crate) struct Peers {
    network: PeerNetwork,
    coordinators: Vec<Coordinator>,
    wakes: Vec<Option<Time>>,
    keys: Vec<FlowKey>,
    apps: BTreeMap<FlowKey, AppId>,
    random: Xoshiro256PlusPlus,
    underway: Slab<Underway>,
    /// What each server's scheduler said it gave, and what it heard that others gave, by server and application.
    given: Vec<Vec<i64>>,
    heard: Vec<Vec<i64>>,
    pub(crate) traffic: Traffic,
}

/// What coordination did to the network.
#[derive(Default)]
pub(crate) struct Traffic {
    pub(crate) messages: u64,
    pub(crate) bytes: u64,
    pub(crate) lost: u64,
    pub(crate) duplicated: u64,
    pub(crate) messages_series: Series,
    pub(crate) bytes_series: Series,
    pub(crate) unheard_series: Vec<u64>,
}

impl Peers {
    pub(crate) fn new(network: &PeerNetwork, servers: u32, apps: &[String], seed: u64) -> Self {
        let all = || (0..servers).map(ServerId);
        let new = |me| Coordinator::new(Time::ZERO, me, 1, all(), network.settings);
        let keys: Vec<FlowKey> = apps.iter().map(|name| FlowKey::of(name)).collect();
        let count = servers as usize;
        Self {
            network: network.clone(),
            coordinators: all().map(new).collect(),
            wakes: vec![None; count],
            apps: keys.iter().copied().zip((0..).map(AppId)).collect(),
            random: Xoshiro256PlusPlus::seed_from_u64(seed),
            underway: Slab::new(),
            given: vec![vec![0; keys.len()]; count],
            heard: vec![vec![0; keys.len()]; count],
            keys,
            traffic: Traffic::default(),
        }
    }

    /// A server's scheduler tells what it gave. More applications than coordinators keep are shared by server only.
    pub(crate) fn report(&mut self, server: u32, report: ServiceReport) {
        let key = self.keys[report.app.index()];
        if self.coordinators[server as usize].report(key, report.class, report.bytes).is_ok() {
            self.given[server as usize][report.app.index()] += report.bytes;
        }
    }

    /// An application has its first request at a server.
    pub(crate) fn flow_arrived(&mut self, server: u32, app: AppId) {
        // A refusal is for the server's administrator; there is no one here.
        let _ = self.coordinators[server as usize].flow_arrived(self.keys[app.index()]);
    }

    /// An application has finished.
    pub(crate) fn flow_left(&mut self, now: Time, server: u32, app: AppId) {
        self.coordinators[server as usize].flow_left(now, self.keys[app.index()]);
    }

    /// Takes a message out of the network and gives it to its receiver, which is returned with what that costs it.
    pub(crate) fn deliver(&mut self, now: Time, message: u32) -> (u32, Exchange) {
        let Underway { from, to, message } = self.underway.remove(message as usize);
        let cost = self.network.cost(1, message.encoded_len() as u64);
        let handled = self.coordinators[to as usize].handle_message(now, ServerId(from), &message);
        debug_assert!(handled.is_ok(), "{handled:?}");
        (to, cost)
    }

    /// The time a coordinator asked for has come, or it begins; `false` if it has asked for another time since.
    pub(crate) fn wake(&mut self, now: Time, server: u32) -> bool {
        let due = self.wakes[server as usize].is_none_or(|wake| wake == now);
        if due {
            self.wakes[server as usize] = None;
            self.coordinators[server as usize].handle_timeout(now);
        }
        due
    }

    /// A server's proxy starts anew.
    pub(crate) fn restart(&mut self, now: Time, server: u32, incarnation: u64) {
        let all = (0..self.coordinators.len()).map(|server| ServerId(u32::try_from(server).unwrap_or(u32::MAX)));
        let new = Coordinator::new(now, ServerId(server), incarnation, all, self.network.settings);
        self.coordinators[server as usize] = new;
        self.wakes[server as usize] = None;
    }

    /// Sends what a coordinator has to say, and returns what that costs its server; what its scheduler must hear is passed
    /// to `hear`. After every input.
    pub(crate) fn drain(
        &mut self,
        now: Time,
        server: u32,
        calendar: &mut Calendar,
        mut hear: impl FnMut(ServiceReport),
    ) -> Exchange {
        let before = (self.traffic.messages, self.traffic.bytes);
        while let Some((to, message)) = self.coordinators[server as usize].poll_transmit(now) {
            self.transmit(now, server, to.0, message, calendar);
        }
        let coordinator = &mut self.coordinators[server as usize];
        while let Some((key, class, bytes)) = coordinator.poll_service() {
            if let Some(&app) = self.apps.get(&key) {
                self.heard[server as usize][app.index()] += bytes;
                hear(ServiceReport { app, class, bytes });
            }
        }
        while coordinator.poll_event().is_some() {}
        let wake = coordinator.poll_timeout().map(|at| at.max(now));
        if let Some(at) = wake
            && self.wakes[server as usize] != wake
        {
            self.wakes[server as usize] = wake;
            calendar.push(at, Event::CoordinatorWake { server });
        }
        self.network.cost(self.traffic.messages - before.0, self.traffic.bytes - before.1)
    }

    /// Gives a message to the network, which may lose or repeat it.
    fn transmit(&mut self, now: Time, from: u32, to: u32, message: Message, calendar: &mut Calendar) {
        let bytes = message.encoded_len() as u64;
        self.traffic.messages += 1;
        self.traffic.bytes += bytes;
        self.traffic.messages_series.add(1);
        self.traffic.bytes_series.add(bytes);
        if self.network.separates(now, from, to) || self.chance(self.network.loss_ppm) {
            self.traffic.lost += 1;
            return;
        }
        if self.chance(self.network.duplicate_ppm) {
            self.traffic.duplicated += 1;
            self.put(now, Underway { from, to, message: message.clone() }, calendar);
        }
        self.put(now, Underway { from, to, message }, calendar);
    }

    fn put(&mut self, now: Time, underway: Underway, calendar: &mut Calendar) {
        let extra = u64::try_from(self.network.extra_delay.as_nanos()).unwrap_or(u64::MAX);
        let extra = if extra == 0 { 0 } else { self.random.random_range(0..=extra) };
        let message = u32::try_from(self.underway.insert(underway)).expect("messages are bounded by the peers");
        calendar.push(now + self.network.latency + Duration::from_nanos(extra), Event::Deliver { message });
    }

    /// Draws only if it matters, so that a network without faults takes nothing from the seed.
    fn chance(&mut self, ppm: u32) -> bool {
        ppm > 0 && self.random.random_range(0..1_000_000) < ppm
    }

    /// An interval of the time series ends.
    pub(crate) fn sample(&mut self) {
        self.traffic.messages_series.close();
        self.traffic.bytes_series.close();
        let unheard = self.unheard();
        self.traffic.unheard_series.push(unheard);
    }

    /// The most that any server has not heard of what all others gave an application, or heard too much of.
    pub(crate) fn unheard(&self) -> u64 {
        let totals = (0..self.keys.len()).map(|app| self.given.iter().map(|given| given[app]).sum::<i64>());
        let off = totals.enumerate().flat_map(|(app, total)| {
            let servers = self.given.iter().zip(&self.heard);
            servers.map(move |(given, heard)| (total - given[app] - heard[app]).unsigned_abs())
        });
        off.max().unwrap_or(0)
    }
}

impl PeerNetwork {
    /// What so many messages of so many bytes together cost one of their ends.
    fn cost(&self, messages: u64, bytes: u64) -> Exchange {
        let count = u32::try_from(messages).unwrap_or(u32::MAX);
        Exchange { work: self.message_work * count, bytes: bytes + self.message_overhead.0 * messages }
    }

    fn separates(&self, now: Time, from: u32, to: u32) -> bool {
        let now = now.since(Time::ZERO);
        let holds = |partition: &&Partition| (partition.from..partition.to).contains(&now);
        let apart = |partition: &Partition| partition.servers.contains(&from) != partition.servers.contains(&to);
        self.partitions.iter().filter(holds).any(apart)
    }
}
