//! The network between the nodes of different servers, with injected faults.

use std::time::Duration;

use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};
use slab::Slab;
use vpfs_core::{AppId, ServerId, Time};
use vpfs_node::{PeerMessage, PeerService};

use crate::calendar::{Calendar, Event};
use crate::measure::Series;
use crate::peer_network::{Exchange, PeerNetwork};
use crate::proxy::Proxy;

/// A message in transit.
struct Underway {
    from: u32,
    to: u32,
    message: PeerMessage,
}

/// The network between the nodes of all servers.
pub(crate) struct Peers {
    network: PeerNetwork,
    random: Xoshiro256PlusPlus,
    underway: Slab<Underway>,
    /// Service reported and heard by nodes before their restart, by server and application.
    before: Vec<Vec<PeerService>>,
    pub(crate) traffic: Traffic,
}

/// Network traffic of coordination.
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
    pub(crate) fn new(network: &PeerNetwork, servers: usize, apps: usize, seed: u64) -> Self {
        Self {
            network: network.clone(),
            random: Xoshiro256PlusPlus::seed_from_u64(seed),
            underway: Slab::new(),
            before: vec![vec![PeerService::default(); apps]; servers],
            traffic: Traffic::default(),
        }
    }

    /// Takes a message out of the network and delivers it; returns its receiver and what it costs that server.
    pub(crate) fn deliver(&mut self, now: Time, message: u32, proxies: &mut [Proxy]) -> (u32, Exchange) {
        let Underway { from, to, message } = self.underway.remove(message as usize);
        let cost = self.network.cost(1, message.encoded_len() as u64);
        let handled = proxies[to as usize].node.handle_message(now, ServerId(from), &message);
        debug_assert!(handled.is_ok(), "{handled:?}");
        (to, cost)
    }

    /// A server's proxy restarts.
    pub(crate) fn restart(&mut self, server: u32, proxy: &Proxy) {
        for (app, before) in (0..).map(AppId).zip(&mut self.before[server as usize]) {
            *before = sum(*before, proxy.node.peer_service(app));
        }
    }

    /// Sends a node's messages; returns what they cost its server.
    pub(crate) fn transmit_all(
        &mut self,
        now: Time,
        server: u32,
        messages: impl Iterator<Item = (ServerId, PeerMessage)>,
        calendar: &mut Calendar,
    ) -> Exchange {
        let before = (self.traffic.messages, self.traffic.bytes);
        for (to, message) in messages {
            self.transmit(now, server, to.0, message, calendar);
        }
        self.network.cost(self.traffic.messages - before.0, self.traffic.bytes - before.1)
    }

    /// Passes a message to the network, which may lose or repeat it.
    fn transmit(&mut self, now: Time, from: u32, to: u32, message: PeerMessage, calendar: &mut Calendar) {
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

    /// Draws only if the result matters, so that a network without faults does not consume random numbers.
    fn chance(&mut self, ppm: u32) -> bool {
        ppm > 0 && self.random.random_range(0..1_000_000) < ppm
    }

    /// An interval of the time series ends.
    pub(crate) fn sample(&mut self, proxies: &[Proxy]) {
        self.traffic.messages_series.close();
        self.traffic.bytes_series.close();
        let unheard = self.unheard(proxies);
        self.traffic.unheard_series.push(unheard);
    }

    /// The largest difference, over all servers, between what it has heard about an application and what the others
    /// gave it.
    pub(crate) fn unheard(&self, proxies: &[Proxy]) -> u64 {
        let apps = self.before.first().map_or(0, Vec::len);
        let off = (0..apps).flat_map(|app| {
            let service = |(proxy, before): (&Proxy, &Vec<PeerService>)| {
                sum(before[app], proxy.node.peer_service(AppId(u32::try_from(app).unwrap_or(u32::MAX))))
            };
            let services: Vec<PeerService> = proxies.iter().zip(&self.before).map(service).collect();
            let total: i64 = services.iter().map(|service| service.reported).sum();
            services.into_iter().map(move |service| (total - service.reported - service.heard).unsigned_abs())
        });
        off.max().unwrap_or(0)
    }
}

fn sum(one: PeerService, other: PeerService) -> PeerService {
    PeerService { reported: one.reported + other.reported, heard: one.heard + other.heard }
}
