//! Applications that share one weight, in a window of control: the part of each, and whether they ask for much
//! together.

use super::Isolation;
use super::meter::Meter;
use crate::app_policy::GroupId;
use crate::units::AppId;

/// Fraction bits of a flow's part of a weight.
const PART_BITS: u32 = 16;

/// A group in the last window of control.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct GroupUse {
    /// Its members that were active.
    members: u32,
    /// The work that they had pending, and its mean over the last windows; names may change from window to window.
    pending_ns: u64,
    footprint_ns: u64,
    /// The largest footprint of one of them.
    largest_ns: u64,
    /// Together they had at least half as much work pending as each other group, and each flow without a group. There
    /// was another one.
    is_heavy: bool,
}

impl Isolation {
    /// Divides the weight of each group among its members that were active in this window, for shares of its time, and
    /// adds up the work that they had pending.
    ///
    /// Tags count members differently, see [`Shares`](crate::shares::Shares): those that ask for little are hardly
    /// present there, but each is entitled to its part of the time.
    pub(super) fn end_window_of_groups(&mut self) {
        let shares = self.queue.shares();
        for group in &mut self.groups {
            *group = GroupUse { footprint_ns: group.footprint_ns, ..GroupUse::default() };
        }
        // The largest two of groups and other flows: for each of them, the largest of the rest is one of these.
        let mut top = [(0, None); 2];
        let mut compare = |footprint_ns, group| {
            top[1] = top[1].max((footprint_ns, group));
            if top[1] > top[0] {
                top.swap(0, 1);
            }
        };
        for app in &self.active {
            let Meter { footprint_ns, mean_pending_ns, .. } = self.meters[app.index()];
            let Some(GroupId(group)) = shares.group_of(*app) else {
                compare(footprint_ns, None);
                continue;
            };
            let group = group as usize;
            if group >= self.groups.len() {
                self.groups.resize(group + 1, GroupUse::default());
            }
            let group = &mut self.groups[group];
            group.members += 1;
            group.pending_ns = group.pending_ns.saturating_add(mean_pending_ns);
            group.largest_ns = group.largest_ns.max(footprint_ns);
        }
        for (index, group) in self.groups.iter_mut().enumerate() {
            group.footprint_ns = group.footprint_ns.midpoint(group.pending_ns);
            compare(group.footprint_ns, Some(index));
        }
        for (index, group) in self.groups.iter_mut().enumerate() {
            let of_others = if top[0].1 == Some(index) { top[1].0 } else { top[0].0 };
            group.is_heavy = of_others > 0 && group.footprint_ns >= of_others / 2;
        }
        for app in &self.active {
            let among = shares.group_of(*app).map_or(1, |group| self.groups[group.index()].members);
            let weight = u64::from(shares.weight(*app).get());
            self.meters[app.index()].part = (weight << PART_BITS) / u64::from(among);
        }
    }

    /// Whether `app` is one of the largest members of a group that has much work pending: its group would take as much
    /// of the storage as one flow with all that work, so its members that are responsible for it are bulk.
    pub(super) fn is_large_in_heavy_group(&self, app: AppId) -> bool {
        let footprint_ns = self.meters[app.index()].footprint_ns;
        self.group_use(app).is_some_and(|group| group.is_heavy && footprint_ns * 2 >= group.largest_ns)
    }

    /// Whether `app` belongs to a group that has much work pending. Then it is bulk until it has shown otherwise: if
    /// every new name were interactive at first, new names would be all that a bulk application needs.
    pub(super) fn is_in_heavy_group(&self, app: AppId) -> bool {
        self.group_use(app).is_some_and(|group| group.is_heavy)
    }

    fn group_use(&self, app: AppId) -> Option<&GroupUse> {
        self.groups.get(self.queue.shares().group_of(app)?.index())
    }
}
