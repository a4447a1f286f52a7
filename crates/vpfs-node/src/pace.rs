//! One pace of bulk at all servers of a group.
//!
//! A call waits for the slowest of its servers, so what a higher or lower pace is worth shows only if all servers
//! change theirs together. The first server of those that are there decides for all: the others send it what they
//! measured, ten times a second while there are requests, and it sends a decision to all whenever one changes. Each
//! measure says under which decision it was made; one that was made under an earlier one is not used. So nothing
//! depends on clocks, and a message that is lost costs a tenth of a second: a server that measures under another
//! decision is told the current one again.
//!
//! If the one that decides is lost, the others stay at the pace that they have until the next one decides, which goes
//! on from the best rate known. Servers in different groups of [`coordination`](crate::coordination) decide apart.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use vpfs_core::isolation::Decider;
use vpfs_core::pace::{AppMeasure, Decision, Measure, SHARED_TICK, TriedRate};
use vpfs_core::{AppId, Policy, ServerId, Time};

use crate::coordination::FlowKey;
use crate::flows::Flows;

/// What servers of a group tell each other about the pace of bulk.
#[derive(Clone, Debug, PartialEq)]
pub enum PaceMessage {
    /// For the one that decides.
    Measured {
        /// Of the decision under which it was measured; 0: the sender's own.
        number: u32,
        /// The best rate known to the sender, 0 if none, and the most that bulk was served, see [`Decision`].
        best: f64,
        /// See `best`.
        most: f64,
        /// At most [`PaceMessage::APPS`] applications.
        measure: Measure<FlowKey>,
    },
    /// For all others.
    Decided {
        /// Never 0.
        number: u32,
        /// With at most [`PaceMessage::APPS`] applications.
        decision: Decision<FlowKey>,
    },
}

impl PaceMessage {
    /// The most applications in a message.
    pub const APPS: usize = 32;

    /// Bytes of its form on the wire, without what is around it. O(1).
    pub fn encoded_len(&self) -> usize {
        match self {
            Self::Measured { measure, .. } => Self::MEASURED_LEN + measure.apps.len() * Self::APP_LEN,
            Self::Decided { decision, .. } => {
                Self::DECIDED_LEN + (decision.bulk.len() + decision.interactive.len()) * Self::KEY_LEN
            }
        }
    }

    /// Bytes of a measure without applications, ...
    pub const MEASURED_LEN: usize = 1 + 4 + 10 * 4 + 1;
    /// ... of an application in it, ...
    pub const APP_LEN: usize = 8 + 11 * 4;
    /// ... of a decision without applications, ...
    pub const DECIDED_LEN: usize = 1 + 4 + 5 * 4 + 1 + 1;
    /// ... and of an application in it.
    pub const KEY_LEN: usize = 8;
}

/// This server's part in the decision; see the [module](self).
#[derive(Debug)]
pub(crate) struct Pace {
    me: ServerId,
    /// The server that decides; `None`: this one, for itself alone.
    leader: Option<ServerId>,
    number: u32,
    decision: Decision<FlowKey>,
    decider: Option<Decider>,
    /// For the next decision.
    measured: BTreeMap<ServerId, Measure<FlowKey>>,
    /// When to decide, and when it is to be decided at the latest.
    decide_at: Option<Time>,
    decide_by: Time,
    /// When the latest measure of each server came, by whatever decision.
    heard: BTreeMap<ServerId, Time>,
    told_at: Time,
    told_largest: f64,
    told_interactive: Vec<FlowKey>,
    others: Vec<ServerId>,
    outgoing: VecDeque<(ServerId, PaceMessage)>,
}

impl Pace {
    /// A server that sends nothing for so long has no requests.
    const SILENT: Duration = Duration::from_millis(500);

    pub(crate) fn new(me: ServerId) -> Self {
        Self {
            me,
            leader: None,
            number: 0,
            decision: Decision::default(),
            decider: None,
            measured: BTreeMap::new(),
            decide_at: None,
            decide_by: Time::ZERO,
            heard: BTreeMap::new(),
            told_at: Time::ZERO,
            told_largest: 0.0,
            told_interactive: Vec::new(),
            others: Vec::new(),
            outgoing: VecDeque::new(),
        }
    }

    pub(crate) fn set_others(&mut self, now: Time, scheduler: &mut Policy, others: impl Iterator<Item = ServerId>) {
        self.others.clear();
        self.others.extend(others);
        let leader = self.others.iter().min().map(|first| (*first).min(self.me));
        let Some(pacing) = scheduler.pacing() else { return };
        // Also if the policy is a new one.
        pacing.set_shared(now, leader.is_some());
        if leader == self.leader {
            return;
        }
        self.leader = leader;
        self.measured.clear();
        self.heard.clear();
        self.decider = None;
        self.decide_at = None;
        if leader == Some(self.me) {
            let Decision { best, most, .. } = self.decision;
            self.decider =
                Some(Decider::knowing(scheduler.settings().constants, best, most, scheduler.settings().protection));
            self.renumber(now);
        }
    }

    fn renumber(&mut self, now: Time) {
        self.told_at = now;
        self.number = self.number.wrapping_add(1).max(1);
        self.measured.clear();
        self.tell();
    }

    /// Sends the decision to all. What was measured before still counts.
    fn tell(&mut self) {
        self.told_largest = self.decision.largest;
        self.told_interactive.clone_from(&self.decision.interactive);
        for &other in &self.others {
            self.outgoing.push_back((other, self.decided()));
        }
    }

    fn decided(&self) -> PaceMessage {
        PaceMessage::Decided { number: self.number, decision: self.decision.clone() }
    }

    /// Takes what was measured here, and decides if it is time. O(1) if there is nothing to do.
    pub(crate) fn run(&mut self, now: Time, flows: &Flows, scheduler: &mut Policy) {
        let Some(leader) = self.leader else { return };
        let Some(pacing) = scheduler.pacing() else { return };
        if let Some(measure) = pacing.poll_measure() {
            let measure = named(&measure, flows);
            if leader == self.me {
                self.take(now, self.me, measure);
            } else {
                self.send(leader, measure);
            }
        }
        if self.decide_at.is_some_and(|at| at <= now) {
            let is_missing = |(server, at): (&ServerId, &Time)| {
                *server != self.me && *at + Self::SILENT > now && !self.measured.contains_key(server)
            };
            if now < self.decide_by && self.heard.iter().any(is_missing) {
                self.decide_at = Some(now + SHARED_TICK / 10);
                return;
            }
            self.decide(now, flows, scheduler);
        }
    }

    fn send(&mut self, leader: ServerId, measure: Measure<FlowKey>) {
        let Decision { best, most, .. } = self.decision;
        self.outgoing.push_back((leader, PaceMessage::Measured { number: self.number, best, most, measure }));
    }

    fn take(&mut self, now: Time, from: ServerId, measure: Measure<FlowKey>) {
        self.heard.insert(from, now);
        match self.measured.entry(from) {
            std::collections::btree_map::Entry::Occupied(mut entry) => entry.get_mut().add(measure),
            std::collections::btree_map::Entry::Vacant(entry) => drop(entry.insert(measure)),
        }
        if self.decide_at.is_none() {
            self.decide_in(now, SHARED_TICK);
        }
    }

    fn decide_in(&mut self, now: Time, time: Duration) {
        (self.decide_at, self.decide_by) = (Some(now + time), now + time + 2 * SHARED_TICK);
    }

    fn decide(&mut self, now: Time, flows: &Flows, scheduler: &mut Policy) {
        self.decide_at = None;
        let (Some(pacing), true) = (scheduler.pacing(), self.decider.is_some()) else { return };
        pacing.end_tick(now);
        if let Some(measure) = pacing.poll_measure() {
            self.take(now, self.me, named(&measure, flows));
        }
        let Some(decider) = self.decider.as_mut().filter(|_| !self.measured.is_empty()) else { return };
        decider.set_protection(scheduler.settings().protection);
        let decision = decider.decide(&largest(Measure::of_all(self.measured.values())));
        self.measured.clear();
        self.decide_in(now, SHARED_TICK);
        let Decision { pace, wide, ref bulk, .. } = decision;
        let is_new = (pace, wide, bulk) != (self.decision.pace, self.decision.wide, &self.decision.bulk)
            || !(0.5..=2.0).contains(&(decision.largest / self.told_largest));
        let is_told = |app: &FlowKey| self.told_interactive.binary_search(app).is_ok();
        let all_told = decision.interactive.iter().all(is_told);
        self.decision = decision;
        if let Some(pacing) = scheduler.pacing() {
            pacing.follow(now, local(&self.decision, flows));
        }
        if is_new {
            self.renumber(now);
        } else if !all_told {
            self.tell();
        }
    }

    pub(crate) fn handle(
        &mut self,
        now: Time,
        from: ServerId,
        message: &PaceMessage,
        flows: &Flows,
        scheduler: &mut Policy,
    ) {
        match message {
            PaceMessage::Measured { number, best, most, measure } => {
                // A server that is in another group, or not heard of yet, has its own decision.
                let Some(decider) = self.decider.as_mut().filter(|_| self.others.contains(&from)) else { return };
                if self.decision.best == 0.0 && *best > 0.0 {
                    // This one has just started.
                    *decider =
                        Decider::knowing(scheduler.settings().constants, *best, *most, scheduler.settings().protection);
                    (self.decision.best, self.decision.most) = (*best, *most);
                }
                if *number == self.number {
                    self.take(now, from, measure.clone());
                } else {
                    self.heard.insert(from, now);
                    if self.told_at + 2 * SHARED_TICK <= now {
                        self.outgoing.push_back((from, self.decided()));
                    }
                }
            }
            PaceMessage::Decided { number, decision } => {
                let Some(pacing) = scheduler.pacing() else { return };
                let is_known = *number == self.number && *decision == self.decision;
                if self.leader != Some(from) || self.decider.is_some() || is_known {
                    return;
                }
                pacing.end_tick(now);
                let measure = pacing.poll_measure();
                pacing.follow(now, local(decision, flows));
                if let Some(measure) = measure {
                    self.send(from, named(&measure, flows));
                }
                (self.number, self.decision) = (*number, decision.clone());
            }
        }
    }

    /// What rates of bulk were recently worth, if this server decides for others, too.
    pub(crate) fn tried_rates(&self, flows: &Flows) -> Option<Vec<TriedRate<AppId>>> {
        let of_all = self.decider.as_ref()?.tried_rates();
        Some(of_all.iter().map(|tried| tried.by(|key| flows.app(FlowKey(key)))).collect())
    }

    pub(crate) fn poll_transmit(&mut self) -> Option<(ServerId, PaceMessage)> {
        self.outgoing.pop_front()
    }

    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        self.decide_at
    }
}

/// By the names that all servers know; of the applications with most pending, if there are many.
fn named(measure: &Measure<AppId>, flows: &Flows) -> Measure<FlowKey> {
    largest(measure.by(|app| flows.key(app)))
}

/// Of as many applications as fit into a message.
fn largest(mut measure: Measure<FlowKey>) -> Measure<FlowKey> {
    let footprint = |app: &AppMeasure<FlowKey>| app.footprint;
    measure.apps.sort_by(|one, other| footprint(other).total_cmp(&footprint(one)));
    measure.apps.truncate(PaceMessage::APPS);
    measure
}

fn local(decision: &Decision<FlowKey>, flows: &Flows) -> Decision<AppId> {
    let Decision { pace, wide, most, best, largest, ref bulk, ref interactive } = *decision;
    let [bulk, interactive] = [bulk, interactive].map(|keys| {
        let mut apps: Vec<AppId> = keys.iter().filter_map(|key| flows.app(*key)).collect();
        apps.sort_unstable();
        apps
    });
    Decision { pace, wide, most, best, largest, bulk, interactive }
}

#[cfg(test)]
mod tests {
    use vpfs_core::{Depth, PolicyKind, Settings, SlotCostTable};

    use super::*;

    /// Sixteen servers of a group may have 512 applications, and a message has 32.
    #[test]
    fn a_decision_fits_into_a_message() {
        let depth = Depth::new(14).expect("not zero");
        let mut scheduler = Policy::new(&Settings::new(PolicyKind::Isolation, depth, SlotCostTable::default()), 16);
        let (mut pace, flows, now) = (Pace::new(ServerId(0)), Flows::default(), Time::from_millis(100));
        pace.set_others(Time::ZERO, &mut scheduler, (1..16).map(ServerId));
        while pace.poll_transmit().is_some() {}
        for server in 1..16 {
            let busy = |app| AppMeasure {
                key: FlowKey(u64::from(server) * 100 + app),
                weight: 1.0,
                footprint: 1e6,
                got: 1e6,
                waited: 1.0,
                ..AppMeasure::default()
            };
            let apps = (0..32).map(busy).collect();
            pace.take(now, ServerId(server), Measure { seconds: 0.1, apps, ..Measure::default() });
        }
        pace.decide(now, &flows, &mut scheduler);
        let told: Vec<_> = std::iter::from_fn(|| pace.poll_transmit()).collect();
        assert_eq!(told.len(), 15);
        for (_, message) in told {
            let PaceMessage::Decided { decision, .. } = message else { panic!("{message:?}") };
            assert_eq!(decision.bulk.len() + decision.interactive.len(), PaceMessage::APPS);
        }
    }
}
