//! Coordination with the nodes of other servers while shares hold for the sum over all servers.

use vpfs_core::{AppId, Policy, Reach, ServerId, ServiceReport, SharedService, Time, TotalId};

use crate::coordination::{CoordinationSettings, Coordinator, Counted, FlowKey, Members, Message, MessageError};
use crate::flows::Flows;
use crate::pace::{Pace, PaceMessage};
use crate::part::{Part, Parts, Terms};

/// The other servers, and the parameters of coordination.
#[derive(Clone, Debug)]
pub struct PeerSettings {
    /// Greater after each start of this server's node.
    pub incarnation: u64,
    /// All servers; this one may be among them.
    pub servers: Members,
    /// Timers and bounds.
    pub coordination: CoordinationSettings,
}

/// Service of one application since the node started, in bytes of cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PeerService {
    /// Reported to other servers.
    pub reported: i64,
    /// Heard from other servers.
    pub heard: i64,
}

/// What nodes of different servers tell each other.
#[derive(Clone, Debug, PartialEq)]
pub enum PeerMessage {
    /// About service.
    Service(Message),
    /// About the pace of bulk.
    Pace(PaceMessage),
}

impl PeerMessage {
    /// Bytes of its form on the wire, without what is around it. O(1).
    pub fn encoded_len(&self) -> usize {
        match self {
            Self::Service(message) => message.encoded_len(),
            Self::Pace(message) => message.encoded_len(),
        }
    }
}

/// The coordinator, and the service that passed through it.
#[derive(Debug)]
pub(crate) struct Peers {
    coordinator: Coordinator,
    service: Vec<PeerService>,
    /// By application: the key under which it was announced to peers.
    announced: Vec<Option<FlowKey>>,
    /// For clusters of several groups.
    parts: Parts,
    pub(crate) pace: Pace,
}

impl Peers {
    /// `None` if `settings` names no other server.
    pub(crate) fn new(now: Time, me: ServerId, settings: &PeerSettings) -> Option<Self> {
        if settings.servers.iter().all(|server| server == me) {
            return None;
        }
        let servers = settings.servers.clone();
        let coordinator = Coordinator::new(now, me, settings.incarnation, servers, settings.coordination);
        Some(Self {
            coordinator,
            service: Vec::new(),
            announced: Vec::new(),
            parts: Parts::default(),
            pace: Pace::new(me),
        })
    }

    pub(crate) fn set_members(&mut self, now: Time, members: &Members) {
        self.coordinator.set_members(now, members.clone());
        if !self.divides() {
            self.parts = Parts::default();
        }
    }

    /// An application has a request here; it is announced to peers once, and again if its key has changed. Applications
    /// beyond the coordinator's limit are shared at each server separately.
    pub(crate) fn flow_arrived(&mut self, now: Time, flows: &Flows, app: AppId) {
        if app.index() >= self.announced.len() {
            self.announced.resize(app.index() + 1, None);
        }
        let Some(key) = flows.key(app).filter(|key| self.announced[app.index()] != Some(*key)) else { return };
        self.flow_left(now, app);
        if self.coordinator.flow_arrived(now, key).is_ok() {
            self.announced[app.index()] = Some(key);
        }
    }

    pub(crate) fn flow_left(&mut self, now: Time, app: AppId) {
        let Some(key) = self.announced.get_mut(app.index()).and_then(Option::take) else { return };
        self.coordinator.flow_left(now, key);
    }

    pub(crate) fn share_left(&mut self, now: Time, key: FlowKey) {
        self.coordinator.flow_left(now, key);
    }

    pub(crate) fn handle_message(
        &mut self,
        now: Time,
        from: ServerId,
        message: &PeerMessage,
        flows: &Flows,
        scheduler: &mut Policy,
    ) -> Result<(), MessageError> {
        match message {
            PeerMessage::Service(message) => {
                self.coordinator.handle_message(now, from, message)?;
                self.find_others(now, scheduler);
            }
            PeerMessage::Pace(message) => self.pace.handle(now, from, message, flows, scheduler),
        }
        Ok(())
    }

    fn find_others(&mut self, now: Time, scheduler: &mut Policy) {
        self.pace.set_others(now, scheduler, self.coordinator.group());
    }

    /// Whether a message to all peers goes out anyway.
    pub(crate) fn takes_all_reports(&mut self) -> bool {
        self.coordinator.takes_all_reports()
    }

    /// The next message to a peer. After the last one the scheduler has received all that peers reported.
    pub(crate) fn poll_transmit(
        &mut self,
        now: Time,
        flows: &Flows,
        scheduler: &mut Policy,
    ) -> Option<(ServerId, PeerMessage)> {
        self.pace.run(now, flows, scheduler);
        if let Some((to, message)) = self.pace.poll_transmit() {
            return Some((to, PeerMessage::Pace(message)));
        }
        let message = self.coordinator.poll_transmit(now);
        if message.is_none() {
            self.hear(now, flows, scheduler);
        }
        message.map(|(to, message)| (to, PeerMessage::Service(message)))
    }

    fn hear(&mut self, now: Time, flows: &Flows, scheduler: &mut Policy) {
        while let Some((key, counted, bytes)) = self.coordinator.poll_service() {
            let app = flows.app(key);
            match (counted, app) {
                (Counted::Service(class), Some(app)) => {
                    self.service_of(app).heard += bytes;
                    scheduler.handle_peer(now, ServiceReport { app, class, bytes });
                }
                (Counted::Service(class), None) => {
                    if let Some(share) = flows.places.of_key(key) {
                        scheduler.handle_strangers(now, share, class, bytes);
                    }
                }
                (Counted::Given(kind, class), _) => {
                    if let Some(of) = flows.member(key) {
                        self.hear_given(now, TotalId { of, kind, class }, bytes, scheduler);
                    }
                }
                (Counted::Wanted(kind, class), _) => {
                    let total = flows.member(key).map(|of| TotalId { of, kind, class });
                    if let Some(part) = total.and_then(|total| self.parts.get_mut(total)) {
                        part.hear_wanted(bytes);
                    }
                }
            }
        }
    }

    fn hear_given(&mut self, now: Time, total: TotalId, bytes: i64, scheduler: &mut Policy) {
        if !self.divides() {
            if let Some(totals) = scheduler.totals(total.kind, total.class) {
                totals.hear(now, total.of, bytes);
            }
        } else if let Some(part) = self.parts.get_mut(total) {
            part.hear_used(bytes);
        }
    }

    pub(crate) fn report(&mut self, now: Time, flows: &Flows, report: ServiceReport) {
        let ServiceReport { app, class, bytes } = report;
        let Some(key) = flows.key(app) else { return };
        if self.coordinator.report(now, key, class, bytes).is_ok() {
            self.service_of(app).reported += bytes;
        }
    }

    pub(crate) fn report_total(&mut self, now: Time, flows: &Flows, total: TotalId, bytes: i64) {
        if self.divides() {
            self.parts.want(now, total).use_here(bytes);
        } else if let Some(key) = flows.key_of(total.of) {
            // Beyond the limit of flows, the others do not hear of it; each of them gets its even part at least.
            let _ = self.coordinator.report(now, key, Counted::Given(total.kind, total.class), bytes);
        }
    }

    /// Whether servers take parts of totals, since news takes too long for anything better: beyond one group.
    pub(crate) fn divides(&self) -> bool {
        !self.coordinator.news_delay().is_zero()
    }

    pub(crate) fn want(&mut self, now: Time, total: TotalId) {
        self.parts.want(now, total);
    }

    /// Sets the parts of totals anew, if it is time; `rate` is that of a total.
    pub(crate) fn divide(
        &mut self,
        now: Time,
        flows: &Flows,
        rate: impl Fn(TotalId) -> Option<u64>,
        scheduler: &mut Policy,
    ) {
        if !self.parts.is_due(now) {
            return;
        }
        let Reach { reachable, servers } = self.all();
        // A tick is how late the first message is.
        let delay = self.coordinator.news_delay() + Part::TICK;
        let terms = |total| Some(Terms { rate: rate(total)?, reachable, servers, delay });
        for (total, ticked) in self.parts.tick(now, terms, scheduler) {
            let TotalId { of, kind, class } = total;
            let Some(key) = flows.key_of(of) else { continue };
            let wanted = i64::try_from(ticked.wanted).unwrap_or(i64::MAX);
            for (counted, bytes) in [(Counted::Given(kind, class), ticked.used), (Counted::Wanted(kind, class), wanted)]
            {
                // Beyond the limit of flows, the others do not hear of it; there is the floor for all of them.
                let _ = self.coordinator.report(now, key, counted, bytes);
            }
        }
    }

    /// What totals depend on. Beyond one group, a server gets its even part until it takes one by demand.
    pub(crate) fn reach(&self) -> Reach {
        let reach = self.all();
        if self.divides() { Reach { reachable: 1, ..reach } } else { reach }
    }

    /// How many servers there are, and are there now.
    fn all(&self) -> Reach {
        let count = |servers: usize| u32::try_from(servers).unwrap_or(u32::MAX);
        Reach { reachable: count(self.coordinator.reachable()), servers: count(self.coordinator.members()) }
    }

    pub(crate) fn poll_event(&mut self) -> Option<(Time, crate::coordination::Event)> {
        self.coordinator.poll_event()
    }

    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        let all = [self.coordinator.poll_timeout(), self.parts.poll_timeout(), self.pace.poll_timeout()];
        all.into_iter().flatten().min()
    }

    pub(crate) fn handle_timeout(&mut self, now: Time, scheduler: &mut Policy) {
        if self.coordinator.poll_timeout().is_some_and(|due| due <= now) {
            self.coordinator.handle_timeout(now);
            self.find_others(now, scheduler);
        }
    }

    pub(crate) fn service(&self, app: AppId) -> PeerService {
        self.service.get(app.index()).copied().unwrap_or_default()
    }

    fn service_of(&mut self, app: AppId) -> &mut PeerService {
        if app.index() >= self.service.len() {
            self.service.resize(app.index() + 1, PeerService::default());
        }
        &mut self.service[app.index()]
    }
}
