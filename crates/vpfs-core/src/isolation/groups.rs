//! What members of shares do together: a share is bulk as an application is, however little each of its members does.

use alloc::vec::Vec;

use crate::app_policy::ShareId;
use crate::constants::Constants;
use crate::pace::AppMeasure;
use crate::shares::Shares;
use crate::units::AppId;

/// How long clients would wait if the storage were quick, and how long they think: sums that fade.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Asking {
    waits: f64,
    thinks: f64,
    /// It takes more than its weight's part, and always asks for more.
    pub(super) takes_more: bool,
}

impl Asking {
    /// After `seconds` in which so many clients waited. `part` is what it got, relative to its weight's part of all.
    pub(super) fn note(&mut self, c: &Constants, [seconds, clients]: [f64; 2], [waited, stored]: [f64; 2], part: f64) {
        self.waits = self.waits * 0.9 + stored;
        self.thinks = self.thinks * 0.9 + (clients * seconds - waited).max(0.0);
        // Until it takes less.
        let margin = if self.takes_more { 0.9 } else { 1.1 };
        self.takes_more = part > margin && self.always_asks(c);
    }

    pub(super) fn always_asks(&self, c: &Constants) -> bool {
        self.waits > c.follow * (self.waits + self.thinks)
    }
}

/// What the members of a share did.
#[derive(Clone, Copy, Debug, Default)]
struct Group {
    /// Cost of what they had pending, on average in this tick, and of late.
    now: f64,
    sum: f64,
    /// The most of one member.
    largest: f64,
    /// Cost that they were served in a usual tick of late.
    got: f64,
    /// In this tick, as of an [`AppMeasure`]; of `clients`, what was pending at a time.
    weight: f64,
    waited: f64,
    stored: f64,
    clients: f64,
    asking: Asking,
}

/// By share, and what all applications were served in a usual tick of late.
#[derive(Debug, Default)]
pub(super) struct Groups(Vec<Group>, f64);

impl Groups {
    /// Ends a tick of `seconds` in which applications had so much pending on average, and were served so much.
    /// O(applications × depth + shares).
    pub(super) fn end_tick(
        &mut self,
        c: &Constants,
        shares: &Shares,
        seconds: f64,
        apps: &[(AppMeasure<AppId>, [f64; 2])],
    ) {
        for group in &mut self.0 {
            let Group { sum, got, clients, asking, .. } = *group;
            *group = Group { sum, got: got * 0.95, clients: clients * 0.99, asking, ..Group::default() };
        }
        self.1 = self.1 * 0.95 + apps.iter().map(|(_, [_, served])| served * 0.05).sum::<f64>();
        let asked = |app: &AppMeasure<AppId>| if app.waited > 0.0 { app.weight } else { 0.0 };
        let weights: f64 = apps.iter().map(|(app, _)| asked(app)).sum();
        let mut pending = alloc::vec![0.0; self.0.len()];
        for (app, [now, served]) in apps {
            for (depth, (share, _)) in shares.above(shares.share_of(app.key)).enumerate() {
                if share.index() >= self.0.len() {
                    self.0.resize(share.index() + 1, Group::default());
                    pending.resize(share.index() + 1, 0.0);
                }
                let group = &mut self.0[share.index()];
                group.now += now;
                group.got += served * 0.05;
                group.weight += asked(app);
                group.waited += app.waited;
                group.stored += app.stored;
                pending[share.index()] += app.pending;
                if depth == 0 {
                    group.largest = group.largest.max(app.footprint);
                }
            }
        }
        for (group, pending) in self.0.iter_mut().zip(pending) {
            group.sum = if group.sum == 0.0 { group.now } else { group.sum * 0.75 + group.now * 0.25 };
            group.clients = group.clients.max(pending);
            let part = group.got / group.weight.max(1e-9) / (self.1 / weights.max(1e-9)).max(1e-9);
            group.asking.note(c, [seconds, group.clients], [group.waited, group.stored], part);
        }
        for index in 0..self.0.len() {
            let sum = self.0[index].sum;
            let share = ShareId(u32::try_from(index).unwrap_or(u32::MAX));
            if let Some(parent) = shares.policy_of(share).parent.filter(|parent| parent.index() < self.0.len()) {
                let parent = &mut self.0[parent.index()];
                parent.largest = parent.largest.max(sum);
            }
        }
    }

    /// How much more counts for an application than it has pending itself: the largest member of a share counts as much
    /// as all of its members have together, and so on upwards. Infinite in a share that takes more than its part.
    pub(super) fn factor(&self, shares: &Shares, app: AppId) -> f64 {
        let one = |(share, _): (ShareId, _)| match self.0.get(share.index()) {
            Some(group) if group.asking.takes_more => f64::INFINITY,
            Some(group) if group.largest > 0.0 => (group.sum / group.largest).max(1.0),
            _ => 1.0,
        };
        shares.above(shares.share_of(app)).map(one).product()
    }
}
