//! Shares in a window of control: the part of each application, and whether those in a share ask for much together.
//!
//! A share is judged as if it were one flow, at every level. If it is bulk, those in it are responsible that have most
//! of its pending work: applications, or shares, of which again the largest are.

use super::Isolation;
use super::control::Crowd;
use super::meter::Meter;
use crate::app_policy::{ShareId, SharePolicy};
use crate::shares::{Share, Shares};
use crate::units::AppId;

/// Fraction bits of a flow's part of the weights.
const PART_BITS: u32 = 16;

/// Members of a share by the power of two of the work that they had pending.
const SIZES: usize = 64;

/// A share in the last window of control.
#[derive(Clone, Copy, Debug)]
pub(super) struct ShareUse {
    /// The weights of applications and shares in it that were active, and φ of the share itself, relative to all.
    weights: u64,
    phi: Share,
    /// The device time of all applications below it.
    used_ns: u64,
    /// The work that they had pending, and its mean over the last windows; names may change from window to window.
    pending_ns: u64,
    footprint_ns: u64,
    /// The largest usual request of one of them.
    usual_ns: u64,
    /// The footprints of applications and shares in it, all and by size, and the largest two.
    all: u64,
    by_size: [u64; SIZES],
    largest: Largest,
    /// Together they took more than their share, and have always had requests pending since.
    greedy: bool,
    /// Together they are a bulk flow: they are greedy, or had at least half as much work pending as each other flow,
    /// and each share that is beside this one or beside one that it is in. There was another one.
    is_heavy: bool,
    /// Members with at least this footprint are responsible for that.
    bulk_from_ns: u64,
}

/// The largest two footprints in a share, or at the top, and whose they are if they are those of shares: for each
/// share, the largest of the rest is one of these.
#[derive(Clone, Copy, Debug, Default)]
struct Largest([(u64, Option<ShareId>); 2]);

impl Largest {
    fn add(&mut self, footprint_ns: u64, share: Option<ShareId>) {
        let [first, second] = &mut self.0;
        *second = (*second).max((footprint_ns, share));
        if second > first {
            core::mem::swap(first, second);
        }
    }

    fn beside(&self, share: ShareId) -> u64 {
        let [first, second] = self.0;
        if first.1 == Some(share) { second.0 } else { first.0 }
    }
}

impl ShareUse {
    const NONE: Self = Self {
        weights: 0,
        phi: Share::ONE,
        used_ns: 0,
        pending_ns: 0,
        footprint_ns: 0,
        usual_ns: 0,
        all: 0,
        by_size: [0; SIZES],
        largest: Largest([(0, None); 2]),
        greedy: false,
        is_heavy: false,
        bulk_from_ns: 0,
    };

    /// A new window; what is kept of the one before.
    fn new(footprint_ns: u64, greedy: bool) -> Self {
        Self { footprint_ns, greedy, ..Self::NONE }
    }

    /// An application somewhere below it was active.
    fn add(&mut self, meter: &Meter) {
        let Meter { mean_pending_ns, used_ns, usual_ns, .. } = *meter;
        self.used_ns = self.used_ns.saturating_add(used_ns);
        self.pending_ns = self.pending_ns.saturating_add(mean_pending_ns);
        self.usual_ns = self.usual_ns.max(usual_ns);
    }

    /// An application in it, or a share, has this footprint.
    fn add_member(&mut self, footprint_ns: u64, share: Option<ShareId>) {
        self.all = self.all.saturating_add(footprint_ns);
        let of_size = &mut self.by_size[footprint_ns.max(1).ilog2() as usize];
        *of_size = of_size.saturating_add(footprint_ns);
        self.largest.add(footprint_ns, share);
    }

    /// The footprint from which a member is bulk if the share is: half of the largest, or less if the smaller ones have
    /// more than a quarter of all work together. Otherwise many names with little work each would be protected.
    fn responsible_from_ns(&self) -> u64 {
        let mut smaller = 0_u64;
        let size = self.by_size.iter().position(|of_size| {
            smaller = smaller.saturating_add(*of_size);
            smaller > self.all / 4
        });
        (self.largest.0[0].0 / 2).min(size.map_or(0, |size| 1 << size))
    }
}

/// φ of a share, relative to all that was active.
fn phi(shares: &Shares, uses: &[ShareUse], share: ShareId) -> Share {
    let SharePolicy { weight, parent, .. } = shares.policy_of(share);
    let within = |phi: Share, (share, policy): (ShareId, SharePolicy)| {
        phi.within(policy.weight, uses[share.index()].weights.max(1))
    };
    shares.above(parent).fold(Share::whole(weight), within)
}

impl Isolation {
    /// Divides the weight of each share among those in it that were active in this window, for shares of its time, and
    /// adds up the work that they had pending.
    ///
    /// Tags count members differently, see [`Shares`]: those that ask for little are hardly present there, but each is
    /// entitled to its part of the time.
    pub(super) fn end_window_of_shares(&mut self) {
        let (shares, uses) = (self.queue.shares(), &mut self.share_uses);
        uses.resize(shares.len(), ShareUse::NONE);
        uses.iter_mut().for_each(|of| *of = ShareUse::new(of.footprint_ns, of.greedy));
        for app in &self.active {
            let (meter, share) = (&self.meters[app.index()], shares.share_of(*app));
            let (mut weight, mut is_new) = (shares.weight(*app), true);
            for (share, policy) in shares.above(share) {
                let of = &mut uses[share.index()];
                of.add(meter);
                if is_new {
                    is_new = of.weights == 0;
                    of.weights += u64::from(weight.get());
                }
                weight = policy.weight;
            }
        }
        for share in (0..).map(ShareId).take(shares.len()) {
            let phi = phi(shares, uses, share);
            let of = &mut uses[share.index()];
            (of.phi, of.footprint_ns) = (phi, of.footprint_ns.midpoint(of.pending_ns));
        }
        for app in &self.active {
            let (weight, share) = (shares.weight(*app), shares.share_of(*app).map(|share| &uses[share.index()]));
            let phi = share.map_or(Share::whole(weight), |of| of.phi.within(weight, of.weights.max(1)));
            self.meters[app.index()].part = phi.scaled(PART_BITS);
        }
    }

    /// Decides which shares are bulk, each as if it were one flow.
    pub(super) fn judge_shares(&mut self, crowd: &Crowd) {
        let (shares, uses) = (self.queue.shares(), &mut self.share_uses);
        let mut at_the_top = Largest::default();
        let mut add = |uses: &mut [ShareUse], within: Option<ShareId>, footprint_ns, share| match within {
            Some(within) => uses[within.index()].add_member(footprint_ns, share),
            None => at_the_top.add(footprint_ns, share),
        };
        for app in &self.active {
            add(uses, shares.share_of(*app), self.meters[app.index()].footprint_ns, None);
        }
        let all = || (0..).map(ShareId).take(shares.len());
        for share in all() {
            let footprint_ns = uses[share.index()].footprint_ns;
            add(uses, shares.policy_of(share).parent, footprint_ns, Some(share));
        }
        for share in all() {
            let beside = |(share, policy): (ShareId, SharePolicy)| {
                policy.parent.map_or(&at_the_top, |within| &uses[within.index()].largest).beside(share)
            };
            let of_others = shares.above(Some(share)).map(beside).max().unwrap_or(0);
            let of = &mut uses[share.index()];
            let takes_more = crowd.is_more_than_share(of.used_ns, of.phi.scaled(PART_BITS), of.usual_ns);
            of.greedy = takes_more || of.greedy && of.footprint_ns >= of.usual_ns;
            of.is_heavy = of_others > 0 && (of.greedy || of.footprint_ns >= of_others / 2);
            of.bulk_from_ns = of.responsible_from_ns();
        }
    }

    /// Whether `app` is one of those that are responsible for it that a share is bulk.
    pub(super) fn is_large_in_heavy_share(&self, app: AppId) -> bool {
        let footprint_ns = self.meters[app.index()].footprint_ns;
        self.use_around(app).is_some_and(|of| footprint_ns >= of.bulk_from_ns) && self.is_in_heavy_share(app)
    }

    /// Whether `app` stands in a share that is bulk, or is responsible for it that the next one is. Then it is bulk
    /// until it has shown otherwise: if every new name were interactive at first, new names would be all that a bulk
    /// application needs.
    pub(super) fn is_in_heavy_share(&self, app: AppId) -> bool {
        let shares = self.queue.shares();
        let mut least_ns = None;
        for (share, _) in shares.above(shares.share_of(app)) {
            let Some(of) = self.share_uses.get(share.index()) else { return false };
            // What was asked about so far must be large in this one, so that it is responsible.
            if least_ns.is_some_and(|footprint_ns| footprint_ns < of.bulk_from_ns) {
                return false;
            }
            if of.is_heavy {
                return true;
            }
            least_ns = Some(of.footprint_ns);
        }
        false
    }

    fn use_around(&self, app: AppId) -> Option<&ShareUse> {
        self.share_uses.get(self.queue.shares().share_of(app)?.index())
    }
}
