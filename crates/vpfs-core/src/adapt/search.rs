//! Where to look for the depth next: a search for the place at which a measured gain has a given value, although each
//! measurement is off by some percent (stochastic approximation).

use crate::units::Depth;

/// Four times the depth is worth less than this, in parts of a million of throughput, where the search ends.
///
/// The depth then reaches about 94 % of what the storage can do with requests of this kind, a little below the
/// papers' knee of 95 % [vPFS+ §III-B]. That leaves room for error on both sides: a depth that is too large costs
/// the applications beside a large one their latency.
const GAIN_PPM: i64 = 62_000;

/// The depth, and how far the next step goes.
#[derive(Clone, Debug)]
pub(super) struct Search {
    /// In 2⁻¹⁶ slots.
    exact: u64,
    /// The same in whole slots, with some inertia so that it does not flicker.
    depth: u32,
    /// Relative step for an error of one, in thousandths.
    speed: i64,
    /// The sign of the last error, zero if there was none yet, and how often it was the same.
    last_sign: i64,
    repeated: u32,
}

impl Search {
    pub(super) const DEPTH_MAX: u32 = 1024;
    /// Throughput is compared with that at so many times the depth, ...
    const REACH: u32 = 4;
    /// ... at least at this depth, because a few more slots than one tell nothing, ...
    const REACH_MIN: u32 = 32;
    /// ... and with room for so many of the usual requests, where these are large.
    const REACH_REQUESTS: u32 = 12;
    const SPEED_MAX: i64 = 6000;
    const SPEED_FAST: i64 = 2500;
    const SPEED_MIN: i64 = 400;
    /// An error that is not noise, nor what is left near the place.
    const FAR_PPM: i64 = 150_000;
    /// A slot has to be wrong by this much, in 2⁻¹⁶, before the next whole number is taken.
    const INERTIA: u64 = 45_000;

    pub(super) fn from(depth: Depth) -> Self {
        let depth = depth.get().min(Self::DEPTH_MAX);
        Self { exact: u64::from(depth) << 16, depth, speed: Self::SPEED_MAX, last_sign: 0, repeated: 0 }
    }

    pub(super) fn depth(&self) -> u32 {
        self.depth
    }

    /// The depth to compare with, if requests usually cost `usual` slots.
    pub(super) fn reach(&self, usual: u32) -> u32 {
        let requests = usual.saturating_mul(Self::REACH_REQUESTS);
        (self.depth * Self::REACH).max(requests).clamp(Self::REACH_MIN, Self::REACH * Self::DEPTH_MAX)
    }

    /// No more than so many slots are asked for: goes down to where [`Search::reach`] is that, if the depth is far too
    /// large for it, or nothing is known of the depth and the load is not light. A depth that was found stays, or it
    /// would be lost while there is little to do.
    pub(super) fn limit(&mut self, slots: u32) {
        let far = self.depth / Self::REACH >= slots;
        let unknown = self.last_sign == 0 && slots >= Self::REACH_MIN;
        let depth = (slots / Self::REACH).max(1);
        if (far || unknown) && depth < self.depth {
            self.depth = depth;
            self.exact = u64::from(depth) << 16;
        }
    }

    /// The storage or its load is not what it was.
    pub(super) fn hurry(&mut self) {
        self.speed = self.speed.max(Self::SPEED_FAST);
    }

    /// Measurements at the depth itself, beyond the first, before the next comparison: the less there is to correct,
    /// the more rarely the storage is disturbed.
    pub(super) fn rests(&self) -> u32 {
        match self.speed {
            2000.. => 0,
            1000.. => 4,
            500.. => 24,
            _ => 48,
        }
    }

    /// How precise a measurement must be.
    pub(super) fn error_ppm(&self) -> u32 {
        if self.speed >= 2000 { 50_000 } else { 30_000 }
    }

    /// Throughput at [`Search::reach`] was larger by `gain_ppm`: moves the depth. No further than down to a half or up
    /// to four times; from where not even two of the usual requests fit, as if they did, since with less than that
    /// slots make no difference.
    pub(super) fn step(&mut self, gain_ppm: i64, usual: u32) {
        let error = gain_ppm.clamp(-1_000_000, 1_000_000) - GAIN_PPM;
        self.adjust_speed(if error < 0 { -1 } else { 1 });
        if error > Self::FAR_PPM {
            self.hurry();
        }
        let exact = i64::try_from(self.exact).unwrap_or(i64::MAX);
        let base = exact.max(i64::from(usual.min(Self::DEPTH_MAX)) << 17);
        let moved = (exact + base * self.speed / 1000 * error / 1_000_000).clamp(exact / 2, base * 4);
        self.exact = u64::try_from(moved).unwrap_or(0).clamp(1 << 16, u64::from(Self::DEPTH_MAX) << 16);
        if self.exact.abs_diff(u64::from(self.depth) << 16) > Self::INERTIA {
            self.depth = u32::try_from((self.exact + (1 << 15)) >> 16).unwrap_or(Self::DEPTH_MAX);
        }
    }

    /// Slower when the error changes its sign, since then the place is near (Kesten's rule), or when the depth cannot
    /// follow; faster when the sign has been the same for long.
    fn adjust_speed(&mut self, sign: i64) {
        let stuck = sign < 0 && self.depth == 1 || sign > 0 && self.depth == Self::DEPTH_MAX;
        let changed = sign != self.last_sign && self.last_sign != 0;
        self.repeated = if stuck || sign != self.last_sign { 0 } else { self.repeated + 1 };
        let factor_percent = match (stuck, changed) {
            (true, _) => 50,
            (false, true) => 75,
            _ if self.repeated >= 4 => 150,
            _ => 100,
        };
        self.speed = (self.speed * factor_percent / 100).clamp(Self::SPEED_MIN, Self::SPEED_MAX);
        self.last_sign = sign;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn search(depth: u32) -> Search {
        Search::from(Depth::new(depth).unwrap())
    }

    /// Throughput d / (d + 3), measured without error: four times the depth gives 6.2 % more at 35.5.
    #[test]
    fn it_finds_the_place_from_both_sides() {
        let slowness = |depth: i64| 1_000_000 + 3_000_000 / depth;
        for start in [1, 30, 256, 100_000] {
            let mut search = search(start);
            for _ in 0..40 {
                let [here, there] = [search.depth(), search.reach(1)].map(|depth| slowness(depth.into()));
                search.step(here * 1_000_000 / there - 1_000_000, 1);
            }
            assert!((33..=38).contains(&search.depth()), "from {start}: {}", search.depth());
        }
    }

    #[test]
    fn a_light_load_does_not_spoil_what_was_found() {
        let limited = |mut search: Search, slots| {
            search.limit(slots);
            search.depth()
        };
        let new = search(256);
        assert_eq!([160, 65, 64, 1].map(|slots| limited(new.clone(), slots)), [40, 16, 16, 1]);
        assert_eq!(limited(search(40), 20), 40, "the load is light");
        let mut found = search(60);
        found.step(GAIN_PPM, 1);
        assert_eq!([60, 32, 16].map(|slots| limited(found.clone(), slots)), [60, 60, 60]);
        assert_eq!(limited(found, 15), 3, "far too large");
    }

    #[test]
    fn it_stays_within_its_bounds() {
        let mut search = search(1);
        for (gain, usual) in [(i64::MAX, 1), (i64::MAX, u32::MAX), (i64::MIN, u32::MAX), (i64::MIN, 1)] {
            for _ in 0..100 {
                search.step(gain, usual);
                assert!((1..=Search::DEPTH_MAX).contains(&search.depth()));
                assert!(search.reach(usual) <= 4 * Search::DEPTH_MAX);
            }
        }
        assert_eq!(search.depth(), 1);
    }
}
