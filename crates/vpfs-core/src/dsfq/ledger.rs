//! One scheduler's account of service at other servers, and of the service that it must report to them.

use alloc::vec::Vec;

use super::division::Owed;
use super::guard::Guard;
use super::lent::{Lent, part_by_weight};
use super::pending_max;
use super::threshold::Accumulation;
use crate::app_policy::ShareId;
use crate::event::{Event, EventQueue};
use crate::request::{OpKind, Request, ServiceClass, ServiceReport};
use crate::settings::{Sharing, SharingMode};
use crate::shares::Shares;
use crate::units::{AppId, Bytes, RequestId, Time, VirtualTime};

/// One scheduler's account of service at other servers, and of the service that it must report to them.
///
/// All calls but [`Ledger::set_sharing`] are O(1), or O(depth) for applications in shares, and do nothing while shares
/// are local.
#[derive(Debug)]
pub(crate) struct Ledger {
    sharing: Sharing,
    guard: Guard,
    /// By request; empty for those that arrived while shares were local.
    charges: Vec<Charge>,
    /// By application.
    accounts: Vec<Account>,
    lent: Lent,
    data: Accumulation,
    metadata: Accumulation,
}

/// An application's service elsewhere.
#[derive(Clone, Copy, Debug, Default)]
struct Account {
    /// Service that has not moved the application's tags yet, at most [`pending_max`].
    pending: Bytes,
    /// Service that moved the tags and was not refunded, since the flow last lagged behind virtual time.
    charged: u128,
    /// The part of `pending` that its share pays for while it is not present.
    lent: Bytes,
    /// The share that it was present in last, and how much of what that share's members pay for it has paid.
    paid: Option<(ShareId, i128)>,
}

/// Where a flow stands when a request of it arrives, or service elsewhere becomes known.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Standing<'a> {
    /// The service by which it lags behind virtual time; `None` if it has requests queued.
    pub(crate) lag: Option<Bytes>,
    /// Who is present at virtual time `now`.
    pub(crate) shares: &'a Shares,
    pub(crate) now: VirtualTime,
}

impl Standing<'_> {
    /// The share of `app`, and whether it is present there.
    fn member(&self, app: AppId) -> Option<(ShareId, bool)> {
        Some((self.shares.share_of(app)?, self.shares.is_present(app)))
    }
}

impl Account {
    /// Adds `bytes` of service elsewhere to what is pending; waives the excess over `most`.
    fn defer(&mut self, bytes: Bytes, most: Bytes) {
        // A sum that overflows is above the limit as well.
        self.pending = (self.pending + bytes).min(most);
    }

    /// A present member pays its part by weight of what members of its share have to pay by now; `charged` is the sum
    /// since the beginning.
    fn contribute(&mut self, share: ShareId, charged: i128, [weight, weights]: [u64; 2], most: Bytes) {
        let paid = self.paid.filter(|(before, _)| *before == share).map_or(charged, |(_, paid)| paid);
        let part = part_by_weight(charged - paid, weight, weights);
        // What is given back reduces what is pending now or later.
        let left = if part < 0 { self.repay(part.unsigned_abs()).cast_signed() } else { 0 };
        self.defer(Bytes(u64::try_from(part.max(0)).unwrap_or(u64::MAX)), most);
        self.paid = Some((share, paid + part_by_weight(part + left, weights, weight)));
    }

    /// Reduces what is pending by a refund; returns the rest of the refund.
    fn repay(&mut self, refund: u128) -> u128 {
        let repaid = refund.min(self.pending.0.into());
        let left = u128::from(self.pending.0).checked_sub(repaid).expect("no more is repaid than is pending");
        self.pending = Bytes(u64::try_from(left).expect("less than was pending"));
        refund - repaid
    }

    /// Takes back up to `refund` of what was charged; returns how much.
    fn take_back(&mut self, refund: u128) -> u128 {
        let taken = refund.min(self.charged);
        self.charged = self.charged.checked_sub(taken).expect("no more is taken back than was charged");
        taken
    }
}

/// The charges of a request in use beyond its own cost.
#[derive(Clone, Copy, Debug, Default)]
struct Charge {
    /// It is reported to other servers.
    counted: bool,
    /// Its objects on arrival.
    objects: u32,
    /// Its cost on arrival.
    cost: Bytes,
    /// The cost of its other parts on arrival, as far as that can be refunded.
    elsewhere: Bytes,
}

impl Charge {
    /// The cost of its other parts if its own cost becomes `cost`: the parts of one access shrink in proportion.
    fn elsewhere_at(&self, cost: Bytes) -> i128 {
        let (own, elsewhere) = (u128::from(self.cost.0), u128::from(self.elsewhere.0));
        let scaled = (elsewhere * u128::from(cost.0)).checked_div(own).unwrap_or(elsewhere);
        // No access is larger than 64 bits can express.
        scaled.min(u64::MAX.into()).cast_signed()
    }
}

/// A request whose cost changes, with both costs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Change {
    pub(crate) id: RequestId,
    pub(crate) app: AppId,
    pub(crate) class: ServiceClass,
    pub(crate) from: Bytes,
    pub(crate) to: Bytes,
    /// The difference in what is reported to other servers.
    pub(crate) reported: i128,
}

impl Change {
    /// Its cost is reported as it is charged.
    pub(crate) fn new(id: RequestId, app: AppId, op: OpKind, [from, to]: [Bytes; 2]) -> Self {
        Self::reporting(id, app, op, [from, to], [from, to])
    }

    /// Its cost is reported in another unit than it is charged.
    pub(crate) fn reporting(
        id: RequestId,
        app: AppId,
        op: OpKind,
        [from, to]: [Bytes; 2],
        reports: [Bytes; 2],
    ) -> Self {
        let [before, after] = reports.map(|bytes| i128::from(bytes.0));
        Self { id, app, class: op.into(), from, to, reported: after - before }
    }

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
            accounts: Vec::new(),
            lent: Lent::default(),
            data: Accumulation::new(ServiceClass::Data),
            metadata: Accumulation::new(ServiceClass::Metadata),
        }
    }

    pub(crate) fn sharing(&self) -> Sharing {
        self.sharing
    }

    /// Switches to other rules. Counted and pending service is forgotten when shares become local; requests that
    /// arrived before keep their charges.
    pub(crate) fn set_sharing(&mut self, sharing: Sharing) {
        if sharing.mode == SharingMode::Local {
            let (charges, mut accounts) = (core::mem::take(&mut self.charges), core::mem::take(&mut self.accounts));
            for account in &mut accounts {
                *account = Account { charged: account.charged, ..Account::default() };
            }
            *self = Self { charges, accounts, ..Self::new(sharing) };
        }
        self.guard = Guard::new(&sharing);
        self.sharing = sharing;
        let most = pending_max(&sharing);
        self.accounts.iter_mut().for_each(|account| account.pending = account.pending.min(most));
    }

    pub(crate) fn is_local(&self) -> bool {
        self.sharing.mode == SharingMode::Local
    }

    /// A request arrives: counts it, or charges the cost of its other parts that it reveals. Returns the delay of its
    /// start tag.
    ///
    /// `reported` is its cost as other servers are told.
    pub(crate) fn arrive(&mut self, request: &Request, reported: Bytes, standing: Standing<'_>) -> Bytes {
        let Request { id, app, op, cost, .. } = *request;
        let objects = request.objects.get();
        let stated = match self.sharing.mode {
            SharingMode::Local => return Bytes::ZERO,
            SharingMode::Threshold => None,
            SharingMode::Layout => request.elsewhere,
        };
        if stated.is_none() {
            self.accumulation(op.into()).add(app, i128::from(reported.0), objects.into());
        }
        let (delay, elsewhere) = self.settle(app, stated.unwrap_or_default(), standing, cost);
        *self.charge_mut(id) = Charge { counted: stated.is_none(), objects, cost, elsewhere };
        delay
    }

    /// Divides what is pending and what a request of `cost` reveals of its other parts, and books the result. Returns
    /// the delay of the request and the refundable part of the cost of its other parts.
    fn settle(&mut self, app: AppId, stated: Bytes, standing: Standing<'_>, cost: Bytes) -> (Bytes, Bytes) {
        let lag = standing.lag.unwrap_or_default();
        let room = self.guard.room(cost);
        let most = pending_max(&self.sharing);
        let member = standing.member(app);
        if let Some((share, true)) = member {
            let charged = self.lent.charged(standing.shares, share);
            let weights = [standing.shares.weight(app).get().into(), standing.shares.weights_in(share)];
            self.account_mut(app).contribute(share, charged, weights, most);
        }
        let account = self.account_mut(app);
        let owed = Owed::new(account.pending, stated, most);
        let division = owed.divide(lag, room);
        if lag > Bytes::ZERO {
            // Its tags advance to virtual time in any case, so earlier charges make no difference now.
            account.charged = 0;
        }
        account.charged += u128::from(division.charged);
        account.pending = Bytes(division.deferred);
        if let Some((share, false)) = member {
            let lent = core::mem::take(&mut account.lent);
            let lent = [lent.0.into(), division.absorbed.into()];
            let paid = self.lent.join((standing.shares, standing.now), share, lent);
            self.account_mut(app).paid = Some((share, paid));
        }
        (division.delay(), owed.refundable(division))
    }

    /// Service elsewhere that has not moved the tags of `app` yet.
    pub(crate) fn pending(&self, app: AppId) -> Bytes {
        self.accounts.get(app.index()).map_or(Bytes::ZERO, |account| account.pending)
    }

    /// The cost of a request changes; returns by how much more to charge the flow, for all parts that are charged here.
    pub(crate) fn correct(&mut self, change: Change) -> i128 {
        let charge = self.charges.get(change.id.index()).copied().unwrap_or_default();
        if charge.counted {
            self.count(change, 0);
        }
        change.own()
            + self.charge_elsewhere(change.app, charge.elsewhere_at(change.to) - charge.elsewhere_at(change.from))
    }

    /// A request is cancelled; returns by how much to charge its flow, below zero.
    pub(crate) fn cancel(&mut self, change: Change) -> i128 {
        let charge = self.forget(change.id);
        if charge.counted {
            self.count(change, -i64::from(charge.objects));
        }
        change.own() + self.charge_elsewhere(change.app, -charge.elsewhere_at(change.from))
    }

    /// A request is complete: its id may be used again.
    pub(crate) fn complete(&mut self, id: RequestId) {
        self.forget(id);
    }

    /// Other servers gave an application service, or took some back. Returns how far its tags move back.
    pub(crate) fn hear(
        &mut self,
        now: Time,
        report: ServiceReport,
        standing: Standing<'_>,
        events: &mut EventQueue,
    ) -> i128 {
        let ServiceReport { app, class, bytes } = report;
        let before = self.pending(app);
        if bytes > 0 {
            let most = pending_max(&self.sharing);
            self.account_mut(app).defer(Bytes(bytes.unsigned_abs()), most);
        }
        let refund = self.charge_elsewhere(app, i128::from(bytes.min(0)));
        if let Some((share, false)) = standing.member(app) {
            let account = self.account_mut(app);
            let [pending, before, lent] = [account.pending, before, account.lent].map(|bytes| i128::from(bytes.0));
            account.lent = account.pending;
            let change = if bytes > 0 { i128::from(bytes) } else { pending - before };
            self.lent.add(standing.shares, share, change + before - lent);
        }
        events.push(now, Event::PeerService { app, class, bytes, pending: self.pending(app) });
        // A flow without requests that lags behind v will start at v anyway.
        if standing.lag.is_none_or(|lag| lag == Bytes::ZERO) { refund } else { 0 }
    }

    /// Other servers gave members of `share` service, or took some back, that have never been here.
    pub(crate) fn hear_of_strangers(&mut self, shares: &Shares, share: ShareId, bytes: i64) {
        self.lent.add(shares, share, bytes.into());
    }

    /// Service elsewhere costs `delta` bytes more (or less) than was known; returns how far to move the tags of `app`.
    fn charge_elsewhere(&mut self, app: AppId, delta: i128) -> i128 {
        if delta == 0 {
            return 0;
        }
        let account = self.account_mut(app);
        if delta > 0 {
            account.charged += delta.unsigned_abs();
            return delta;
        }
        let refund = account.repay(delta.unsigned_abs());
        -account.take_back(refund).cast_signed()
    }

    /// Uses a refund (`delta` below zero) to reduce what is pending; returns the rest of it. A `delta` above zero is
    /// returned unchanged.
    pub(crate) fn pay(&mut self, app: AppId, delta: i128) -> i128 {
        if delta >= 0 || self.pending(app) == Bytes::ZERO {
            return delta;
        }
        -self.account_mut(app).repay(delta.unsigned_abs()).cast_signed()
    }

    /// The next amount to report to other servers.
    pub(crate) fn poll_report(&mut self, now: Time, events: &mut EventQueue) -> Option<ServiceReport> {
        let report = self.next_report()?;
        let ServiceReport { app, class, bytes } = report;
        events.push(now, Event::Reported { app, class, bytes });
        Some(report)
    }

    /// A message goes out anyway, with all amounts. O(1).
    pub(crate) fn report_all(&mut self) {
        self.data.report_all();
        self.metadata.report_all();
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

    /// Counts the change in cost of a reported request, and by how many `operations` the count changes.
    fn count(&mut self, change: Change, operations: i64) {
        if !self.is_local() {
            self.accumulation(change.class).add(change.app, change.reported, operations);
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

    fn account_mut(&mut self, app: AppId) -> &mut Account {
        if app.index() >= self.accounts.len() {
            self.accounts.resize(app.index() + 1, Account::default());
        }
        &mut self.accounts[app.index()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::OpKind;
    use crate::tags::FlowTags;
    use crate::units::{VirtualTime, Weight};

    const Y: AppId = AppId(1);
    const MIB: i64 = 1 << 20;

    /// Server A of the example, as far as application y is concerned.
    struct ServerA {
        ledger: Ledger,
        shares: Shares,
        tags: FlowTags,
        queued: bool,
        v: VirtualTime,
        requests: u32,
    }

    fn mib(tag: u64) -> VirtualTime {
        VirtualTime::of(Bytes::mib(tag), Weight::ONE)
    }

    impl ServerA {
        fn lag(&self) -> Option<Bytes> {
            (!self.queued).then(|| self.tags.lag(self.v))
        }

        /// y sends a request of 1 MiB.
        fn send(&mut self) {
            let request = Request::new(RequestId(self.requests), Y, OpKind::Write, Bytes::mib(1));
            self.requests += 1;
            let standing = Standing { lag: self.lag(), shares: &self.shares, now: self.v };
            let delay = self.ledger.arrive(&request, request.cost, standing);
            self.tags.delay(delay);
            self.tags.anchor(self.tags.end(), self.tags.finish().max(self.v));
            self.tags.append(request.cost);
            self.queued = true;
        }

        /// Server B reports `mib` MiB for y.
        fn hear(&mut self, mib: i64) {
            let report = ServiceReport { app: Y, class: ServiceClass::Data, bytes: mib * MIB };
            let standing = Standing { lag: self.lag(), shares: &self.shares, now: self.v };
            let refund = self.ledger.hear(Time::ZERO, report, standing, &mut EventQueue::with_capacity(0));
            if refund != 0 {
                self.tags.anchor(self.tags.end(), self.tags.moved(self.tags.finish(), refund, self.v));
            }
        }

        /// The last three columns of the example.
        #[track_caller]
        fn assert(&self, finish: u64, pending: u64, charged: u64) {
            let account = self.ledger.accounts[Y.index()];
            let shown = (self.tags.finish(), account.pending, account.charged);
            assert_eq!(shown, (mib(finish), Bytes::mib(pending), u128::from(Bytes::mib(charged).0)));
        }
    }

    #[test]
    fn the_example_in_the_documentation() {
        let sharing = Sharing { mode: SharingMode::Threshold, ..Sharing::default() };
        let (ledger, tags) = (Ledger::new(sharing), FlowTags::NEW);
        let mut a = ServerA { ledger, shares: Shares::new(0), tags, queued: false, v: VirtualTime::ZERO, requests: 0 };
        a.send();
        a.assert(1, 0, 0);
        a.hear(3);
        a.assert(1, 3, 0);
        a.send();
        a.assert(5, 0, 3);
        a.v = mib(4);
        a.hear(-1);
        a.assert(4, 0, 2);
        (a.v, a.queued) = (mib(9), false);
        a.hear(2);
        a.assert(4, 2, 2);
        a.send();
        a.assert(10, 0, 0);
        a.hear(-2);
        a.assert(10, 0, 0);
    }
}
