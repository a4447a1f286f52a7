//! Applications that share one weight, in a window of control: the part of each, and whether they ask for much
//! together.

use super::Isolation;
use super::control::Crowd;
use super::meter::Meter;
use crate::app_policy::GroupId;
use crate::units::AppId;

/// Fraction bits of a flow's part of a weight.
const PART_BITS: u32 = 16;

/// Members of a group by the power of two of the work that they had pending.
const SIZES: usize = 64;

/// A group in the last window of control.
#[derive(Clone, Copy, Debug)]
pub(super) struct GroupUse {
    /// Its members that were active, and their device time.
    members: u32,
    used_ns: u64,
    /// Its share of the window relative to those of others.
    part: u64,
    /// The work that they had pending, and its mean over the last windows; names may change from window to window.
    pending_ns: u64,
    footprint_ns: u64,
    /// The footprints of its members, and the largest one.
    by_size: [u64; SIZES],
    largest_ns: u64,
    /// The largest usual request of a member.
    usual_ns: u64,
    /// Together its members took more than their share, and have always had requests pending since.
    greedy: bool,
    /// Together they are a bulk flow: they are greedy, or had at least half as much work pending as each other group
    /// and each flow without a group. There was another one.
    is_heavy: bool,
    /// Members with at least this footprint are responsible for that.
    bulk_from_ns: u64,
}

impl GroupUse {
    const NONE: Self = Self {
        members: 0,
        used_ns: 0,
        part: 0,
        pending_ns: 0,
        footprint_ns: 0,
        by_size: [0; SIZES],
        largest_ns: 0,
        usual_ns: 0,
        greedy: false,
        is_heavy: false,
        bulk_from_ns: 0,
    };

    /// A new window; what is kept of the one before.
    fn new(footprint_ns: u64, greedy: bool) -> Self {
        Self { footprint_ns, greedy, ..Self::NONE }
    }

    fn add(&mut self, meter: &Meter) {
        let Meter { footprint_ns, mean_pending_ns, used_ns, usual_ns, .. } = *meter;
        self.members += 1;
        self.used_ns = self.used_ns.saturating_add(used_ns);
        self.pending_ns = self.pending_ns.saturating_add(mean_pending_ns);
        let of_size = &mut self.by_size[footprint_ns.max(1).ilog2() as usize];
        *of_size = of_size.saturating_add(footprint_ns);
        self.largest_ns = self.largest_ns.max(footprint_ns);
        self.usual_ns = self.usual_ns.max(usual_ns);
    }

    /// The footprint from which a member is bulk if the group is: half of the largest, or less if the smaller ones have
    /// more than a quarter of all work together. Otherwise many names with little work each would be protected.
    fn responsible_from_ns(&self) -> u64 {
        let all = self.by_size.iter().fold(0_u64, |sum, of_size| sum.saturating_add(*of_size));
        let mut smaller = 0_u64;
        let size = self.by_size.iter().position(|of_size| {
            smaller = smaller.saturating_add(*of_size);
            smaller > all / 4
        });
        (self.largest_ns / 2).min(size.map_or(0, |size| 1 << size))
    }
}

impl Isolation {
    /// Divides the weight of each group among its members that were active in this window, for shares of its time, and
    /// adds up the work that they had pending.
    ///
    /// Tags count members differently, see [`Shares`](crate::shares::Shares): those that ask for little are hardly
    /// present there, but each is entitled to its part of the time.
    pub(super) fn end_window_of_groups(&mut self) {
        let shares = self.queue.shares();
        self.groups.iter_mut().for_each(|group| *group = GroupUse::new(group.footprint_ns, group.greedy));
        for app in &self.active {
            let Some(GroupId(group)) = shares.group_of(*app) else { continue };
            if group as usize >= self.groups.len() {
                self.groups.resize(group as usize + 1, GroupUse::NONE);
            }
            self.groups[group as usize].add(&self.meters[app.index()]);
        }
        for group in &mut self.groups {
            group.footprint_ns = group.footprint_ns.midpoint(group.pending_ns);
        }
        for app in &self.active {
            let weight = u64::from(shares.weight(*app).get()) << PART_BITS;
            let group = shares.group_of(*app).map(|group| &mut self.groups[group.index()]);
            self.meters[app.index()].part = group.map_or(weight, |group| {
                group.part = weight;
                weight / u64::from(group.members)
            });
        }
    }

    /// Decides which groups are bulk, each as if it were one flow.
    pub(super) fn judge_groups(&mut self, crowd: &Crowd) {
        let shares = self.queue.shares();
        // The largest two of groups and other flows: for each of them, the largest of the rest is one of these.
        let mut top = [(0, None); 2];
        let mut compare = |footprint_ns, group| {
            top[1] = top[1].max((footprint_ns, group));
            if top[1] > top[0] {
                top.swap(0, 1);
            }
        };
        let alone = self.active.iter().filter(|app| shares.group_of(**app).is_none());
        alone.for_each(|app| compare(self.meters[app.index()].footprint_ns, None));
        self.groups.iter().enumerate().for_each(|(index, group)| compare(group.footprint_ns, Some(index)));
        for (index, group) in self.groups.iter_mut().enumerate() {
            let of_others = if top[0].1 == Some(index) { top[1].0 } else { top[0].0 };
            let takes_more = crowd.is_more_than_share(group.used_ns, group.part, group.usual_ns);
            group.greedy = takes_more || group.greedy && group.footprint_ns >= group.usual_ns;
            group.is_heavy = of_others > 0 && (group.greedy || group.footprint_ns >= of_others / 2);
            group.bulk_from_ns = group.responsible_from_ns();
        }
    }

    /// Whether `app` is one of the members that are responsible for it that its group is bulk.
    pub(super) fn is_large_in_heavy_group(&self, app: AppId) -> bool {
        let footprint_ns = self.meters[app.index()].footprint_ns;
        self.group_use(app).is_some_and(|group| group.is_heavy && footprint_ns >= group.bulk_from_ns)
    }

    /// Whether `app` belongs to a group that is bulk. Then it is bulk until it has shown otherwise: if every new name
    /// were interactive at first, new names would be all that a bulk application needs.
    pub(super) fn is_in_heavy_group(&self, app: AppId) -> bool {
        self.group_use(app).is_some_and(|group| group.is_heavy)
    }

    fn group_use(&self, app: AppId) -> Option<&GroupUse> {
        self.groups.get(self.queue.shares().group_of(app)?.index())
    }
}
