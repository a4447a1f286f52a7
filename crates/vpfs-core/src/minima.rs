//! Minimum rates: who has requests waiting and got less than his minimum comes first.
//!
//! A budget fills at the minimum and is charged with all service, whatever it was given for, so an application gets the
//! greater of its minimum and its share. While its budget is not in debt, its next request goes before all others.
//! Among those with a minimum, start-time fair queueing with their minima as weights decides, so minima that cannot all
//! be kept are kept in proportion.
//!
//! # In the tree of shares
//!
//! The minimum of a share is a promise to all in it together: what any of them gets is charged to it, whatever that was
//! for. So if those in it have minima that add up to no more than the share's, all of them are kept, and the share's is
//! what they need together. Who is first follows the tree: at the top, those stand beside each other that have a
//! minimum and are in no share with one; in a share with one, those below it likewise. A flow that is due, or has one
//! due in it, competes there by its own minimum. So of what a share gets for its minimum, those in it come first that
//! are due themselves, and the rest goes to who is first by weight. If minima exceed the storage, what a share gets
//! bounds what those in it get, as with `memory.min` of cgroups.

use crate::app_policy::Minimum;
use crate::fair::{FairQueue, Queued};
use crate::heap::{Heap, Item};
use crate::member::{ByMember, Member};
use crate::shares::{Next, Order};
use crate::total::{Scope, TotalKind};
use crate::totals::{Rate, Totals};
use crate::units::{AppId, Bytes, Time, VirtualTime};

/// The minima at one server. O(depth · log n) in those with a minimum and requests queued; nothing for others.
#[derive(Debug)]
pub(crate) struct Minima {
    accounts: ByMember<Account>,
    totals: Totals,
    /// Who has requests queued and is not due yet.
    waiting: Heap<Waiting>,
    /// Who is due, or has somebody due in it, by tag; in each share with a minimum and at the top.
    due: Order,
    /// The tag of the latest at the top that was preferred.
    clock: VirtualTime,
    /// Cost that the others may have next.
    owed: u64,
}

#[derive(Clone, Copy, Debug)]
struct Account {
    minimum: Minimum,
    /// The finish tag of its latest request that was preferred, in nanoseconds of service at its minimum.
    finish: VirtualTime,
    /// Of a share: the tag of the latest in it that was preferred.
    clock: VirtualTime,
    is_due: bool,
}

/// From when on somebody is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Waiting {
    at: Time,
    of: Member,
}

impl Item for Waiting {
    fn owner(&self) -> usize {
        self.of.owner()
    }
}

impl Minima {
    /// Of the cost that minima take from others, this part goes to the others after all: minima that exceed
    /// what the storage can give slow others down, but never stop them.
    pub(crate) const OTHERS: u64 = 20;
    /// The others have no claim for longer ago.
    const OWED_MAX: u64 = 1_000_000_000;

    /// Minima of this kind.
    pub(crate) fn new(kind: TotalKind) -> Self {
        Self {
            accounts: ByMember::new(),
            totals: Totals::new(kind),
            waiting: Heap::new(),
            due: Order::default(),
            clock: VirtualTime::ZERO,
            owed: 0,
        }
    }

    /// Sets or lifts a minimum.
    pub(crate) fn set<E: Queued>(&mut self, now: Time, queue: &mut FairQueue<E>, of: Member, minimum: Option<Minimum>) {
        let minimum = minimum.filter(|minimum| minimum.rate > Bytes::ZERO);
        let before = self.accounts.get(of).copied();
        if minimum.is_none() && before.is_none() {
            return;
        }
        let account = minimum.map(|minimum| match before {
            Some(before) => Account { minimum, ..before },
            None => Account { minimum, finish: VirtualTime::ZERO, clock: VirtualTime::ZERO, is_due: false },
        });
        self.accounts.set(of, account);
        self.adjust(now, of, queue.next_of(of).is_some());
        match of {
            Member::App(_) => self.place(now, queue, of),
            Member::Share(_) => self.rebuild(now, queue),
        }
    }

    /// The tree is another one. O(minima).
    pub(crate) fn rebuild<E: Queued>(&mut self, now: Time, queue: &mut FairQueue<E>) {
        self.due = Order::default();
        self.accounts.members().into_iter().for_each(|member| self.place(now, queue, member));
    }

    /// Which of an application's rates they are.
    pub(crate) fn kind(&self) -> TotalKind {
        self.totals.kind()
    }

    /// What the minima are kept by.
    pub(crate) fn totals(&mut self) -> &mut Totals {
        &mut self.totals
    }

    /// Who comes first for the sake of a minimum.
    pub(crate) fn first<E: Queued>(&mut self, now: Time, queue: &mut FairQueue<E>) -> Option<Member> {
        while let Some(member) = self.totals.poll_changed() {
            self.place(now, queue, member);
        }
        while let Some(&Waiting { of, .. }) = self.waiting.first().filter(|waiting| waiting.at <= now) {
            self.place(now, queue, of);
        }
        let mut within = None;
        loop {
            let Some(next) = self.due.first(within) else { return within.map(Member::Share) };
            match next.share() {
                Some(share) => within = Some(share),
                None => return Some(next.app.into()),
            }
        }
    }

    /// When the next one that has requests queued is due.
    pub(crate) fn next_due(&self) -> Option<Time> {
        self.waiting.first().map(|waiting| waiting.at)
    }

    /// Whether it is the turn of the others now, whose next request costs so much.
    pub(crate) fn owes(&self, cost: u64) -> bool {
        self.owed >= cost.clamp(1, Self::OWED_MAX)
    }

    /// A request with `bytes` is preferred for the sake of this one's minimum, and takes `taken` of their cost from the
    /// others.
    pub(crate) fn on_preferred<E: Queued>(&mut self, queue: &FairQueue<E>, whose: Member, bytes: Bytes, taken: u64) {
        self.owed = self.owed.saturating_add(taken / Self::OTHERS).min(Self::OWED_MAX);
        let mut at = Some(whose);
        while let Some(member) = at {
            at = self.within(queue, member);
            let Some(account) = self.accounts.get_mut(member) else { return };
            let start = account.finish;
            let took = u128::from(bytes.0) * 1_000_000_000 / u128::from(account.minimum.rate.0.max(1));
            account.finish = start + VirtualTime::from_raw(took);
            match at.and_then(|within| self.accounts.get_mut(within)) {
                Some(within) => within.clock = within.clock.max(start),
                None => self.clock = self.clock.max(start),
            }
        }
    }

    /// A request of this cost goes by shares.
    pub(crate) fn on_shared(&mut self, cost: u64) {
        self.owed = self.owed.saturating_sub(cost);
    }

    /// A request of `app` came, or is no longer queued.
    pub(crate) fn on_queue<E: Queued>(&mut self, now: Time, queue: &mut FairQueue<E>, app: AppId) {
        self.each(queue, app, |minima, queue, member| {
            if queue.next_of(member).is_some() != minima.has_queue(member) {
                minima.place(now, queue, member);
            }
        });
    }

    /// `app` gets `bytes` of service.
    pub(crate) fn charge<E: Queued>(&mut self, now: Time, queue: &mut FairQueue<E>, app: AppId, bytes: Bytes) {
        self.each(queue, app, |minima, queue, member| {
            minima.totals.charge_received(now, member, bytes);
            minima.place(now, queue, member);
        });
    }

    /// Service of `app` that was charged as `charged` is `real`.
    pub(crate) fn recharge<E: Queued>(
        &mut self,
        now: Time,
        queue: &mut FairQueue<E>,
        app: AppId,
        [charged, real]: [Bytes; 2],
    ) {
        self.each(queue, app, |minima, queue, member| {
            minima.totals.recharge(now, member, [charged, real]);
            minima.place(now, queue, member);
        });
    }

    /// Whether an application with a minimum got all of it.
    pub(crate) fn has_had(&mut self, now: Time, app: AppId) -> bool {
        self.totals.due(now, app).is_some()
    }

    /// Whether there is a minimum for an application or a share that it is in.
    pub(crate) fn is_for<E: Queued>(&self, queue: &FairQueue<E>, app: AppId) -> bool {
        self.first_with(queue, app).is_some()
    }

    /// Whether a member has requests queued although it has had its minimum.
    pub(crate) fn is_waiting(&self, of: Member) -> bool {
        self.waiting.get(of.owner()).is_some()
    }

    fn has_queue(&self, of: Member) -> bool {
        self.is_waiting(of) || self.accounts.get(of).is_some_and(|account| account.is_due)
    }

    /// The queue or the minimum of a member changed.
    fn adjust(&mut self, now: Time, of: Member, has_queue: bool) {
        let rate = self.accounts.get(of).and_then(|account| account.rate(has_queue));
        self.totals.set(now, of, rate);
    }

    /// For `app` and each share that it is in, as far as they have a minimum.
    fn each<E: Queued>(
        &mut self,
        queue: &mut FairQueue<E>,
        app: AppId,
        each: impl Fn(&mut Self, &mut FairQueue<E>, Member),
    ) {
        let mut at = self.first_with(queue, app);
        while let Some(member) = at {
            each(self, queue, member);
            at = self.within(queue, member);
        }
    }

    /// The first of these.
    fn first_with<E: Queued>(&self, queue: &FairQueue<E>, app: AppId) -> Option<Member> {
        let own = Some(Member::App(app)).filter(|app| self.accounts.get(*app).is_some());
        own.or_else(|| self.within(queue, app.into()))
    }

    /// The nearest share with a minimum that a member is in.
    fn within<E: Queued>(&self, queue: &FairQueue<E>, member: Member) -> Option<Member> {
        if !self.accounts.has_shares() {
            return None;
        }
        let shares = queue.shares();
        let from = match member {
            Member::App(app) => shares.share_of(app),
            Member::Share(share) => shares.policy_of(share).parent,
        };
        shares.above(from).map(|(share, _)| share.into()).find(|share| self.accounts.get(*share).is_some())
    }

    /// Puts a member where it belongs.
    fn place<E: Queued>(&mut self, now: Time, queue: &mut FairQueue<E>, of: Member) {
        let has_queue = queue.next_of(of).is_some();
        if has_queue != self.has_queue(of) {
            self.adjust(now, of, has_queue);
        }
        let due = self.totals.due(now, of).filter(|_| has_queue);
        match due {
            Some(at) => self.waiting.set(Waiting { at, of }),
            None => self.waiting.remove(of.owner()),
        }
        let is_due = has_queue && due.is_none();
        if let Some(account) = self.accounts.get_mut(of) {
            account.is_due = is_due;
        }
        self.stand(queue, of);
    }

    /// Whether a member is due changed, or its tag: it stands in what it is within, and that further up.
    fn stand<E: Queued>(&mut self, queue: &FairQueue<E>, member: Member) {
        let mut at = Some(member);
        while let Some(member) = at {
            at = self.within(queue, member);
            let clock = at.and_then(|within| self.accounts.get(within)).map_or(self.clock, |within| within.clock);
            let (app, share, has_due) = match member {
                Member::App(app) => (app, None, false),
                Member::Share(share) => (AppId(0), Some(share), self.due.first(Some(share)).is_some()),
            };
            match self.accounts.get_mut(member).filter(|account| account.is_due || has_due) {
                Some(account) => {
                    account.finish = account.finish.max(clock);
                    let next = Next::new(account.finish, 0, app, member);
                    let within = match at {
                        Some(Member::Share(within)) => Some(within),
                        _ => None,
                    };
                    self.due.set(within, &next);
                }
                None => {
                    _ = match share {
                        Some(share) => self.due.remove_share(share),
                        None => self.due.remove(app),
                    }
                }
            }
        }
    }
}

impl Account {
    /// After a pause, an application has its minimum of this time at once, over all servers,
    const BURST_PER_SECOND: u64 = 10;
    /// and while it waits, that of a second at each server: it is not its fault that a large request of somebody else
    /// is in the storage just then.
    const WAITING_SECONDS: u64 = 1;

    fn rate(&self, has_queue: bool) -> Option<Rate> {
        let Minimum { rate: Bytes(rate), scope } = self.minimum;
        let (burst, of) = match has_queue {
            true => (rate.saturating_mul(Self::WAITING_SECONDS), Scope::Server),
            false => (rate / Self::BURST_PER_SECOND, scope),
        };
        Rate::of_minimum(&self.minimum, Bytes(burst), of)
    }
}
