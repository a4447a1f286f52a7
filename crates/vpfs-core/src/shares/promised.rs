//! Shares to which a rate is promised: who is first in one of them, and that what it got for that is owed to nobody.

use super::node::{coarse, fine};
use super::{Next, Order, Shares};
use crate::app_policy::ShareId;
use crate::units::{AppId, Bytes, VirtualTime};

impl Shares {
    /// The first flow among those in `share`, and its lane, where the share has a minimum; with its tag by the clock of
    /// what the share is in.
    pub(crate) fn first_in(&mut self, share: ShareId) -> Option<(usize, Next)> {
        let inside = |order: &Order| order.first(Some(share)).copied();
        let inside = self.orders[1..].iter().enumerate().filter_map(|(lane, order)| Some((lane, inside(order)?)));
        let inside = inside.min_by_key(|(_, first)| *first);
        let inside = inside.map(|(lane, mut first)| {
            first.tag = self.nodes[share.index()].outer(first.tag);
            (lane, first)
        });
        let entrant = self.first_entrant(share);
        inside.into_iter().chain(entrant).min_by_key(|(_, next)| *next)
    }

    /// The same among first requests that stand further out.
    fn first_entrant(&mut self, share: ShareId) -> Option<(usize, Next)> {
        while let Some(&next) = self.entrants.first(Some(share)) {
            let is_in = |lane: &usize| self.next(*lane, next.app).is_some_and(|queued| queued.arrival == next.arrival);
            let lane = (0..self.lanes()).find(is_in);
            if let Some(lane) = lane.filter(|_| self.flows[next.app.index()].first.arrival == next.arrival) {
                return Some((lane, next));
            }
            match next.share() {
                Some(share) => self.entrants.remove_share(share),
                None => self.entrants.remove(next.app),
            };
        }
        None
    }

    /// What was got by those in `share` beyond its part is not owed to others outside, except `most` of its service:
    /// its clock goes on, as if it had been due to it. `app` is in it, and its next request has this tag by the clock
    /// of its own share, if nothing is queued there. Virtual time is `now`.
    pub(crate) fn limit_lead(
        &mut self,
        share: ShareId,
        now: VirtualTime,
        (app, next): (AppId, VirtualTime),
        most: Bytes,
    ) {
        self.prepare(Some(share), now);
        let queued = self.orders[1..].iter().filter_map(|order| Some(order.first(Some(share))?.tag)).min();
        let next = queued.unwrap_or_else(|| {
            let below = self.above(self.share_of(app)).take_while(|(above, _)| *above != share);
            below.fold(next, |tag, (share, _)| self.nodes[share.index()].outer(tag))
        });
        let node = &mut self.nodes[share.index()];
        node.entry = node.entry.min(coarse(node.seen) + VirtualTime::of(most, node.policy.weight));
        let clock = fine(next.saturating_sub(VirtualTime::of_ratio(most.0.into(), node.weights)));
        if clock > node.clock {
            node.clock = clock;
            self.on_change(share);
        }
    }
}
