//! Chooses the next depth to try: a search for the depth at which the measured gain has a given value, although each
//! measurement is off by a few percent (stochastic approximation).

use crate::units::Depth;

/// The search ends where four times the depth gains less than this, in parts per million of throughput.
///
/// The depth then reaches about 94 % of the storage's throughput for this kind of request, slightly below the papers'
/// knee of 95 % [vPFS+ §III-B]. That leaves room for errors in both directions: too large a depth increases the latency
/// of applications that run beside a large one.
const GAIN_PPM: i64 = 62_000;

/// The depth and the size of the next step.
#[derive(Clone, Debug)]
pub(super) struct Search {
    /// In 2⁻¹⁶ slots.
    exact: u64,
    /// The same in whole slots, with hysteresis so that it does not flicker.
    depth: u32,
    /// Relative step for an error of one, in thousandths.
    speed: i64,
    /// The sign of the last error (zero before the first) and how often in a row it was the same.
    last_sign: i64,
    repeated: u32,
}

impl Search {
    pub(super) const DEPTH_MAX: u32 = 1024;
    /// Throughput is compared with that at this multiple of the depth, ...
    const REACH: u32 = 4;
    /// ... at least at this depth, because with a small depth a few more slots reveal nothing, ...
    const REACH_MIN: u32 = 32;
    /// ... and with room for this many of the usual requests if these are large.
    const REACH_REQUESTS: u32 = 12;
    const SPEED_MAX: i64 = 6000;
    const SPEED_FAST: i64 = 2500;
    const SPEED_MIN: i64 = 400;
    /// A larger error is neither noise nor a remainder near the target.
    const FAR_PPM: i64 = 150_000;
    /// How far `exact` must be from `depth`, in 2⁻¹⁶ slots, before `depth` changes.
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

    /// The load asks for no more than `slots`. Lowers the depth until [`Search::reach`] is about that if the depth is
    /// much too large for the load, or if nothing is known about the depth and the load is not light. A depth that was
    /// found is kept; otherwise it would be lost whenever there is little to do.
    pub(super) fn limit(&mut self, slots: u32) {
        let far = self.depth / Self::REACH >= slots;
        let unknown = self.last_sign == 0 && slots >= Self::REACH_MIN;
        let depth = (slots / Self::REACH).max(1);
        if (far || unknown) && depth < self.depth {
            self.depth = depth;
            self.exact = u64::from(depth) << 16;
        }
    }

    /// The storage or its load has changed.
    pub(super) fn hurry(&mut self) {
        self.speed = self.speed.max(Self::SPEED_FAST);
    }

    /// Further measurements at the depth itself before the next comparison: the smaller the corrections, the more
    /// rarely the storage is disturbed.
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

    /// Moves the depth after throughput at [`Search::reach`] was larger by `gain_ppm`. It at most halves or quadruples
    /// the depth. If fewer than two of the usual requests fit, the step starts from the depth at which two fit, because
    /// below that slots make no difference.
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

    /// Slows down when the error changes its sign, since the target is near then (Kesten's rule), or when the depth
    /// cannot follow; speeds up when the sign has long been the same.
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
