//! Total-service fairness over servers, DSFQ [vPFS §III-B]: shares hold for what an application gets from all servers
//! together, also when applications use different ones.
//!
//! The start tag of a request becomes S = max(v, F of the flow's request before it + delay/φ), where the delay is what
//! the flow asked for elsewhere and was not charged here yet. There are two ways to know it:
//!
//! - **By threshold** ([`SharingMode::Threshold`], `threshold`): schedulers count what arrives and report it. A report of
//!   another server waits for the flow's next request here and delays that one, as the paper has it. What is queued
//!   already stays where it is, although a flow with a long queue is ahead by delay/φ for so long. If its queue were moved
//!   back instead, requests would keep the distance of their own cost only, a flow's queue would be served in one piece,
//!   and each server would begin with another flow: calls that need all servers wait for the last one. With 96 servers
//!   that costs half of the throughput [vPFS Table 2].
//! - **By layout** ([`SharingMode::Layout`], [`by_layout`]): a request tells by itself what its other parts cost
//!   ([`Request::elsewhere`]), so nothing is counted for it. Requests that tell nothing are counted and reported as above.
//!
//! The starvation guard (`guard`) limits the delay between two requests of a flow. What is beyond stays pending until the
//! next one arrives, up to [`PENDING_MAX`]: more is forgiven, so that no application is in debt for
//! ever. A flow that had nothing queued and lies behind virtual time is not limited in what only brings it up to there.
//!
//! Refunds for service elsewhere first pay what is pending, and then move tags back, never below v, as all refunds do, and
//! by no more than such service had moved them. Not all of it did: what is forgiven or brings a flow up to virtual time
//! is not charged. If that were refunded, an application could ask for much somewhere, take it back, and so go before
//! all others everywhere else. Like this it is never better off than with local shares.

pub mod by_layout;
mod guard;
mod threshold;

use alloc::vec::Vec;

use guard::Guard;
use threshold::Accumulation;

use crate::event::{Event, EventQueue};
use crate::request::{Request, ServiceClass, ServiceReport};
use crate::settings::{Sharing, SharingMode};
use crate::units::{AppId, Bytes, RequestId, Time};

/// So much of a flow's service elsewhere can wait to be charged here.
pub const PENDING_MAX: Bytes = Bytes::mib(1024);

/// What one scheduler knows of service at other servers, and what these must hear.
///
/// All calls but [`Ledger::set_sharing`] are O(1), and do nothing while shares are local.
#[derive(Debug)]
pub(crate) struct Ledger {
    sharing: Sharing,
    guard: Guard,
    /// By request; none for those that arrived while shares were local.
    charges: Vec<Charge>,
    /// By application.
    debts: Vec<Debt>,
    data: Accumulation,
    metadata: Accumulation,
}

/// An application's service elsewhere.
#[derive(Clone, Copy, Debug, Default)]
struct Debt {
    /// What did not move its tags yet, at most [`PENDING_MAX`].
    pending: Bytes,
    /// What moved them and was not refunded, since its flow last lay behind virtual time.
    charged: Bytes,
}

/// How a request in use was charged beyond its cost.
#[derive(Clone, Copy, Debug, Default)]
struct Charge {
    /// Other servers hear of it.
    counted: bool,
    /// The cost with which it arrived.
    cost: Bytes,
    /// What its other parts cost then, as far as that was charged.
    elsewhere: Bytes,
}

impl Charge {
    /// What its other parts cost if its own one costs `cost`: parts of one access shrink alike.
    fn elsewhere_at(&self, cost: Bytes) -> i128 {
        let (own, elsewhere) = (u128::from(self.cost.0), u128::from(self.elsewhere.0));
        let scaled = (elsewhere * u128::from(cost.0)).checked_div(own).unwrap_or(elsewhere);
        i128::try_from(scaled).unwrap_or(i128::MAX)
    }
}

/// A request whose cost changes, and how.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Change {
    pub(crate) id: RequestId,
    pub(crate) app: AppId,
    pub(crate) class: ServiceClass,
    pub(crate) from: Bytes,
    pub(crate) to: Bytes,
}

impl Change {
    fn own(&self) -> i128 {
        i128::from(self.to.0) - i128::from(self.from.0)
    }
}

impl Ledger {
    pub(crate) fn new(sharing: Sharing) -> Self {
        Self {
            guard: Guard::new(&sharing),
            sharing,
            charges: Vec::new(),
            debts: Vec::new(),
            data: Accumulation::new(ServiceClass::Data),
            metadata: Accumulation::new(ServiceClass::Metadata),
        }
    }

    pub(crate) fn sharing(&self) -> Sharing {
        self.sharing
    }

    /// Goes on with other rules. What is counted or pending is forgotten when shares become local; requests that arrived
    /// before keep the charges they have.
    pub(crate) fn set_sharing(&mut self, sharing: Sharing) {
        if sharing.mode == SharingMode::Local {
            let (charges, mut debts) = (core::mem::take(&mut self.charges), core::mem::take(&mut self.debts));
            debts.iter_mut().for_each(|debt| debt.pending = Bytes::ZERO);
            *self = Self { charges, debts, ..Self::new(sharing) };
        }
        self.guard = Guard::new(&sharing);
        self.sharing = sharing;
    }

    pub(crate) fn is_local(&self) -> bool {
        self.sharing.mode == SharingMode::Local
    }

    /// A request arrives: counts it, or charges what it tells of its other parts; the delay of its start tag.
    ///
    /// `behind` is `None` when its flow has requests queued, else by how much service the flow lies behind virtual time.
    pub(crate) fn arrive(&mut self, request: &Request, behind: Option<Bytes>) -> Bytes {
        let Request { id, app, op, cost, .. } = *request;
        let told = match self.sharing.mode {
            SharingMode::Local => return Bytes::ZERO,
            SharingMode::Threshold => None,
            SharingMode::Layout => request.elsewhere,
        };
        if told.is_none() {
            self.accumulation(op.into()).add(app, i128::from(cost.0), 1);
        }
        let elsewhere = told.unwrap_or(Bytes::ZERO);
        let room = self.guard.room(cost);
        let debt = self.debt_mut(app);
        let pending = core::mem::take(&mut debt.pending);
        if behind > Some(Bytes::ZERO) {
            debt.charged = Bytes::ZERO;
        }
        let due = pending + elsewhere;
        let unnoticed = due.min(behind.unwrap_or(Bytes::ZERO));
        let delay = (due - unnoticed).min(room);
        debt.charged += delay;
        let forgiven = self.owe(app, due - unnoticed - delay);
        // What is pending goes up to virtual time first.
        let elsewhere = elsewhere - (unnoticed - pending) - forgiven;
        *self.charge_mut(id) = Charge { counted: told.is_none(), cost, elsewhere };
        unnoticed + delay
    }

    /// Service elsewhere that did not move the tags of `app` yet.
    pub(crate) fn pending(&self, app: AppId) -> Bytes {
        self.debts.get(app.index()).map_or(Bytes::ZERO, |debt| debt.pending)
    }

    /// The cost of a request changes; by how much more the flow is to be charged, for all parts that are charged here.
    pub(crate) fn correct(&mut self, change: Change) -> i128 {
        let charge = self.charges.get(change.id.index()).copied().unwrap_or_default();
        if charge.counted {
            self.count(change, 0);
        }
        change.own()
            + self.charge_elsewhere(change.app, charge.elsewhere_at(change.to) - charge.elsewhere_at(change.from))
    }

    /// A request is taken back; by how much its flow is to be charged, below zero.
    pub(crate) fn cancel(&mut self, change: Change) -> i128 {
        let charge = self.forget(change.id);
        if charge.counted {
            self.count(change, -1);
        }
        change.own() + self.charge_elsewhere(change.app, -charge.elsewhere_at(change.from))
    }

    /// A request is complete: its id may be used again.
    pub(crate) fn complete(&mut self, id: RequestId) {
        self.forget(id);
    }

    /// Other servers gave an application so much, or took so much back, while it lies `behind` virtual time, if it has nothing queued:
    /// how far its tags go back for that.
    pub(crate) fn hear(
        &mut self,
        now: Time,
        report: ServiceReport,
        behind: Option<Bytes>,
        events: &mut EventQueue,
    ) -> i128 {
        let ServiceReport { app, class, bytes } = report;
        if bytes > 0 {
            self.owe(app, Bytes(bytes.unsigned_abs()));
        }
        let refund = self.charge_elsewhere(app, i128::from(bytes.min(0)));
        events.push(now, Event::PeerService { app, class, bytes, pending: self.pending(app) });
        // A flow without requests that lies behind v starts there anyway.
        if behind.is_none_or(|behind| behind == Bytes::ZERO) { refund } else { 0 }
    }

    /// Service elsewhere costs `delta` bytes more (or less); how far the tags of `app` are to move for that.
    fn charge_elsewhere(&mut self, app: AppId, delta: i128) -> i128 {
        if delta == 0 {
            return 0;
        }
        let delta = self.pay(app, delta);
        let charged = &mut self.debt_mut(app).charged;
        let moved = delta.max(-i128::from(charged.0));
        *charged = Bytes(u64::try_from(i128::from(charged.0) + moved).unwrap_or(u64::MAX));
        moved
    }

    /// Uses a refund, `delta` below zero, for what is pending; what is left of it.
    pub(crate) fn pay(&mut self, app: AppId, delta: i128) -> i128 {
        let pending = self.pending(app);
        if delta >= 0 || pending == Bytes::ZERO {
            return delta;
        }
        let paid = delta.unsigned_abs().min(pending.0.into());
        self.debt_mut(app).pending = pending - Bytes(u64::try_from(paid).unwrap_or(u64::MAX));
        delta + i128::try_from(paid).unwrap_or(i128::MAX)
    }

    /// The next amount that other servers must hear of.
    pub(crate) fn poll_report(&mut self, now: Time, events: &mut EventQueue) -> Option<ServiceReport> {
        let report = self.next_report()?;
        let ServiceReport { app, class, bytes } = report;
        events.push(now, Event::Reported { app, class, bytes });
        Some(report)
    }

    fn next_report(&mut self) -> Option<ServiceReport> {
        if self.is_local() {
            return None;
        }
        let Sharing { broadcast_threshold, metadata_threshold, .. } = self.sharing;
        if let Some((app, bytes)) = self.data.poll(broadcast_threshold.0) {
            return Some(ServiceReport { app, class: ServiceClass::Data, bytes });
        }
        let (app, bytes) = self.metadata.poll(metadata_threshold.into())?;
        Some(ServiceReport { app, class: ServiceClass::Metadata, bytes })
    }

    #[cfg(test)]
    pub(crate) fn capacities(&self) -> Vec<usize> {
        let own = [self.charges.capacity(), self.debts.capacity()];
        own.into_iter().chain(self.data.capacities()).chain(self.metadata.capacities()).collect()
    }

    /// Notes that `bytes` of service elsewhere are not charged yet; what of it is forgiven.
    fn owe(&mut self, app: AppId, bytes: Bytes) -> Bytes {
        let debt = self.debt_mut(app);
        let kept = bytes.min(PENDING_MAX - debt.pending);
        debt.pending += kept;
        bytes - kept
    }

    /// Counts the change of a request that other servers heard of, and of so many `operations`.
    fn count(&mut self, change: Change, operations: i64) {
        if !self.is_local() {
            self.accumulation(change.class).add(change.app, change.own(), operations);
        }
    }

    fn accumulation(&mut self, class: ServiceClass) -> &mut Accumulation {
        match class {
            ServiceClass::Data => &mut self.data,
            ServiceClass::Metadata => &mut self.metadata,
        }
    }

    fn forget(&mut self, id: RequestId) -> Charge {
        self.charges.get_mut(id.index()).map(core::mem::take).unwrap_or_default()
    }

    fn charge_mut(&mut self, id: RequestId) -> &mut Charge {
        if id.index() >= self.charges.len() {
            self.charges.resize(id.index() + 1, Charge::default());
        }
        &mut self.charges[id.index()]
    }

    fn debt_mut(&mut self, app: AppId) -> &mut Debt {
        if app.index() >= self.debts.len() {
            self.debts.resize(app.index() + 1, Debt::default());
        }
        &mut self.debts[app.index()]
    }
}
