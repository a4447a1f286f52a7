//! One scheduler's account of service at other servers, and of the service that it must report to them.

use alloc::vec::Vec;

use super::{Accumulation, pending_max};
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

// Divides service elsewhere when a request arrives: it is absorbed, charged, deferred or waived.

/// Service elsewhere to be accounted when a request of its flow arrives. The sum fits in 64 bits.
#[derive(Clone, Copy, Debug)]
struct Owed {
    pending: u64,
    stated: u64,
    /// What can stay pending.
    pending_max: u64,
}

/// The result of the division; the four parts, in this order, make up the whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Division {
    /// It only brings the flow up to virtual time, where the request would start anyway.
    absorbed: u64,
    /// It delays the request.
    charged: u64,
    /// It stays pending, up to the limit.
    deferred: u64,
    /// It is dropped.
    waived: u64,
}

impl Owed {
    /// `pending`, at most `pending_max`, and the cost of the other parts that the request reveals.
    ///
    /// No access has parts of nearly 2⁶⁴ bytes, so that cost is limited to leave room for `pending`.
    fn new(pending: Bytes, stated: Bytes, pending_max: Bytes) -> Self {
        assert!(pending <= pending_max, "`pending` is bounded");
        Self { pending: pending.0, stated: stated.0.min(u64::MAX - pending_max.0), pending_max: pending_max.0 }
    }

    /// Divides the service elsewhere while the flow lags behind virtual time by `lag` and the guard allows a delay of
    /// `room`. O(1).
    fn divide(self, lag: Bytes, room: Bytes) -> Division {
        // Each part is at most the remainder, so nothing is taken twice.
        let left = self.pending + self.stated;
        let absorbed = left.min(lag.0);
        let left = left - absorbed;
        let charged = left.min(room.0);
        let left = left - charged;
        let deferred = left.min(self.pending_max);
        Division { absorbed, charged, deferred, waived: left - deferred }
    }

    /// The part of `stated` that was charged or deferred, and can be refunded.
    ///
    /// `pending` came first, so it is absorbed first; `stated` came last, so it is waived first. The absorbed and
    /// waived parts of `stated` never exceed it:
    /// - if all of `pending` is absorbed, the waived part belongs to the rest of `stated`;
    /// - otherwise no part of `stated` is absorbed, and at most stated + pending − `pending_max` is waived.
    fn refundable(self, division: Division) -> Bytes {
        let stated_absorbed = division.absorbed - division.absorbed.min(self.pending);
        let rest = self.stated.checked_sub(stated_absorbed).and_then(|rest| rest.checked_sub(division.waived));
        Bytes(rest.expect("the absorbed and waived parts of `stated` never exceed it"))
    }
}

impl Division {
    /// By how much service the request's tag moves from the flow's last finish tag.
    fn delay(self) -> Bytes {
        Bytes(self.absorbed + self.charged)
    }
}

// The starvation guard (hybrid DSFQ): limits how far service elsewhere delays one request.

/// With a minimum local share s, the delay before a request of cost c is at most c · (1/s − 1). So a flow's tags move
/// by at most c/(φ·s) from one request to the next, as if its weight here were φ·s and it got nothing elsewhere.
///
/// Virtual time advances n times as fast for applications that use n servers equally, so the configured share is
/// divided by n; otherwise the limit would cut the cost that ordinary requests reveal by their layout.
#[derive(Clone, Copy, Debug)]
struct Guard {
    min_share_ppm: u32,
    /// n million.
    whole_ppm: u64,
}

impl Guard {
    fn new(sharing: &Sharing) -> Self {
        let whole_ppm = 1_000_000 * u64::from(sharing.servers.max(1));
        Self { min_share_ppm: sharing.min_local_share_ppm.min(1_000_000), whole_ppm }
    }

    /// The largest delay before a request of `cost`.
    fn room(self, cost: Bytes) -> Bytes {
        let share = u128::from(self.min_share_ppm);
        let room = (u128::from(cost.0) * (u128::from(self.whole_ppm) - share)).checked_div(share);
        Bytes(room.map_or(u64::MAX, |room| u64::try_from(room).unwrap_or(u64::MAX)))
    }
}

// Service elsewhere of applications in shares.
//
// Each member has an account of its own, as any other flow: it is delayed by what it gets elsewhere itself. But a
// *share* has one weight, so what its members get elsewhere without being here counts for those that are: otherwise
// one name for each server would get the whole weight at each of them.
//
// - A member that is not present here *lends* what is pending for it to its share, for which present members pay, each
//   its part by weight. When it comes back, it is charged with what is pending as any flow, and the share gets that
//   back: what remains with the share is what was absorbed.
// - Members that have never been here (strangers) have no account; their share pays for all they get.
// - While nothing in a share is present, the share *owes* it, and lends it to the next one in the same way, as its
//   member. When something comes, the service by which the share lagged behind virtual time is deducted, and the first
//   that come pay the rest.

/// The accounts of all shares, by number.
#[derive(Debug, Default)]
struct Lent(Vec<ShareAccount>);

/// What members get elsewhere without being here, in service of the whole share.
#[derive(Clone, Copy, Debug, Default)]
struct ShareAccount {
    /// For which present members pay, since the beginning.
    charged: i128,
    /// For which nobody in it pays yet.
    owed: i128,
    /// Of what present members of the share that it is in pay for, as much as it has paid.
    paid: i128,
}

/// The part of `charges` for this weight among these, rounded towards zero.
fn part_by_weight(charges: i128, weight: u64, weights: u64) -> i128 {
    charges.saturating_mul(weight.into()) / i128::from(weights)
}

impl Lent {
    /// Members of `share` got `service` more (or less) elsewhere without being here. O(depth).
    fn add(&mut self, shares: &Shares, share: ShareId, service: i128) {
        let mut at = Some(share);
        while let Some(share) = at {
            let account = self.of(share);
            if shares.is_share_present(share) {
                account.charged = account.charged.saturating_add(service);
                return;
            }
            account.owed = account.owed.saturating_add(service);
            at = shares.policy_of(share).parent;
        }
    }

    /// A member of `share` that was not present joins; `lent` is what the share was charged for it, of which it keeps
    /// what was `absorbed`. Returns from where on the member pays. O(depth²), once each time that something comes.
    fn join(&mut self, (shares, now): (&Shares, VirtualTime), share: ShareId, [lent, absorbed]: [i128; 2]) -> i128 {
        self.add(shares, share, absorbed - lent);
        let pays_from = self.charged(shares, share);
        if shares.is_share_present(share) {
            return pays_from;
        }
        let owed = core::mem::take(&mut self.of(share).owed);
        // What it lagged is unused share, which makes up for service elsewhere.
        let charged = (owed - i128::from(shares.lag_of(share, now).0)).max(owed.min(0));
        if let Some(next) = shares.policy_of(share).parent {
            self.of(share).paid = self.join((shares, now), next, [owed, owed - charged]);
        }
        self.of(share).charged += charged;
        pays_from
    }

    /// What present members of `share` have to pay, since the beginning. A share that is present first takes over its
    /// part of what is to be paid in the next one. O(depth).
    fn charged(&mut self, shares: &Shares, share: ShareId) -> i128 {
        let policy = shares.policy_of(share);
        if let Some(next) = policy.parent.filter(|_| shares.is_share_present(share)) {
            let charged = self.charged(shares, next);
            let (weight, weights) = (u64::from(policy.weight.get()), shares.weights_in(next));
            let account = self.of(share);
            let part = part_by_weight(charged - account.paid, weight, weights);
            account.paid += part_by_weight(part, weights, weight);
            account.charged += part;
        }
        self.of(share).charged
    }

    fn of(&mut self, share: ShareId) -> &mut ShareAccount {
        if share.index() >= self.0.len() {
            self.0.resize(share.index() + 1, ShareAccount::default());
        }
        &mut self.0[share.index()]
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::app_policy::{AppPolicy, SharePolicy};
    use crate::tags::FlowTags;
    use crate::units::Weight;

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

    const MAX: u64 = 1 << 30;

    fn parts(pending: u64, stated: u64, lag: u64, room: u64) -> ([u64; 4], u64) {
        let owed = Owed::new(Bytes(pending), Bytes(stated), Bytes(MAX));
        let division = owed.divide(Bytes(lag), Bytes(room));
        let Division { absorbed, charged, deferred, waived } = division;
        ([absorbed, charged, deferred, waived], owed.refundable(division).0)
    }

    #[test]
    fn each_part_has_its_limit() {
        assert_eq!(parts(0, 0, 7, 9), ([0, 0, 0, 0], 0));
        assert_eq!(parts(5, 0, 7, 9), ([5, 0, 0, 0], 0));
        assert_eq!(parts(5, 10, 7, 9), ([7, 8, 0, 0], 8), "two of the bytes in `stated` are absorbed");
        assert_eq!(parts(5, 20, 7, 9), ([7, 9, 9, 0], 18));
        assert_eq!(parts(MAX, 20, 0, 9), ([0, 9, MAX, 11], 9), "`stated` is waived first");
        assert_eq!(parts(0, MAX + 20, 7, 9), ([7, 9, MAX, 4], MAX + 9));
    }

    /// Sizes at which sums overflow and limits are reached, and some between.
    fn size(max: u64) -> impl Strategy<Value = u64> {
        prop_oneof![0..20_u64, (MAX - 20..MAX + 20), (u64::MAX - 20..=u64::MAX), any::<u64>()]
            .prop_map(move |size| size.min(max))
    }

    proptest! {
        #[test]
        fn parts_make_up_the_whole(
            pending in size(MAX),
            stated in size(u64::MAX),
            lag in size(u64::MAX),
            room in size(u64::MAX),
        ) {
            let (parts, refundable) = parts(pending, stated, lag, room);
            let stated = stated.min(u64::MAX - MAX);
            let sum: u128 = parts.into_iter().map(u128::from).sum();
            prop_assert_eq!(sum, u128::from(pending) + u128::from(stated));
            prop_assert!(refundable <= stated);
            let [_, charged, deferred, _] = parts.map(u128::from);
            prop_assert!(u128::from(refundable) <= charged + deferred, "more than was kept");
        }
    }

    #[test]
    fn leaves_the_minimum_share() {
        let room = |ppm| Guard::new(&Sharing { min_local_share_ppm: ppm, ..Sharing::default() }).room(Bytes(700));
        assert_eq!(room(10_000), Bytes(99 * 700));
        assert_eq!(room(500_000), Bytes(700));
        assert_eq!(room(1_000_000), Bytes::ZERO);
        assert_eq!(room(2_000_000), Bytes::ZERO);
        assert_eq!(room(0), Bytes(u64::MAX), "no guard");
        let hundred = Sharing { min_local_share_ppm: 1_000_000, servers: 100, ..Sharing::default() };
        assert_eq!(Guard::new(&hundred).room(Bytes(700)), Bytes(99 * 700), "as the layout over all servers reveals");
    }

    const SHARE: ShareId = ShareId(0);
    /// In it.
    const INNER: ShareId = ShareId(1);

    fn at(bytes: u64) -> VirtualTime {
        VirtualTime::of(Bytes(bytes), Weight::ONE)
    }

    /// Applications 0 and 1 in SHARE, 2 and 3 in INNER; virtual time is `now`.
    fn shares(present: &[u32], now: u64) -> Shares {
        let mut shares = Shares::new(0);
        shares.set_share(at(0), INNER, Some(&SharePolicy { parent: Some(SHARE), ..SharePolicy::default() }));
        for app in 0..4 {
            let share = Some(if app < 2 { SHARE } else { INNER });
            shares.set(at(0), AppId(app), &AppPolicy { share, ..AppPolicy::default() });
        }
        present.iter().for_each(|app| _ = shares.on_arrival(AppId(*app), at(now)));
        shares
    }

    #[test]
    fn the_share_keeps_what_was_absorbed() {
        let (mut lent, shares) = (Lent::default(), shares(&[0], 0));
        lent.add(&shares, SHARE, 100);
        assert_eq!(lent.join((&shares, at(0)), SHARE, [100, 30]), 30, "70 are charged to the member itself");
        assert_eq!(lent.charged(&shares, SHARE), 30);
    }

    #[test]
    fn what_nobody_paid_is_paid_by_who_comes_first_less_the_lag() {
        let (mut lent, shares) = (Lent::default(), shares(&[], 0));
        let mut come = |owed| {
            lent.add(&shares, SHARE, owed);
            let pays_from = lent.join((&shares, at(40)), SHARE, [0, 0]);
            (pays_from, lent.charged(&shares, SHARE))
        };
        assert_eq!(come(100), (0, 60));
        assert_eq!(come(10), (60, 60), "a lag is no credit");
        assert_eq!(come(-10), (60, 50), "but what is given back is");
    }

    #[test]
    fn what_is_lent_in_a_share_that_is_not_here_is_paid_in_the_next_one_and_given_back() {
        let (mut lent, absent) = (Lent::default(), shares(&[0], 0));
        lent.add(&absent, INNER, 100);
        assert_eq!(lent.charged(&absent, SHARE), 100, "application 0 pays all");
        assert_eq!(lent.join((&absent, at(0)), INNER, [0, 0]), 0);
        assert_eq!(lent.charged(&absent, SHARE), 0, "INNER pays itself, since it does not lag");
        let both = shares(&[0, 2], 0);
        assert_eq!(lent.charged(&both, INNER), 100);
        lent.add(&both, SHARE, 50);
        assert_eq!(lent.charged(&both, INNER), 125, "and a half of what application 1 gets");
    }
}
