//! What one application does to another beside it: the measures of every isolation experiment, simulated or real. Each
//! application runs alone first, then both beside each other.
//!
//! *kept = got ÷ alone*: the part of its throughput alone that an application keeps.
//!
//! The share delivered is an application's throughput divided by the throughput that it is entitled to:
//!
//! *delivered = got ÷ min(alone, share · alone ÷ occupancy)*
//!
//! - *got* and *alone*: its throughput beside the other application and alone, in calls or bytes a second.
//! - *share*: its weight ÷ the sum of weights.
//! - *occupancy*: the part of the storage's time that the application occupies alone, including time in which the
//!   storage is **kept idle for it**, without which it would be slower. So `alone ÷ occupancy` is its throughput with
//!   all of the storage's time, and it is entitled to `share` of that, but never to more than it demands, which is its
//!   throughput alone.
//!
//! The occupancy is
//!
//! - 1 for an application that keeps the storage busy by itself, as the large one does: it is entitled to share ·
//!   alone. It gets more if the small one leaves some of its share unused, so values above 1 are usual.
//! - 1 for the small application on storage that serves one access at a time: while the application thinks, or its call
//!   is in transit, no other access can start without delaying it. It occupies its whole cycle.
//! - for the small application on storage that serves accesses in parallel (flash, volumes with limits): its throughput
//!   alone ÷ the throughput of many such calls at once without other load. There, waiting for it costs nothing.
//!
//! Approximations: a disk with a long queue takes less time for an access than an idle one, which is not considered;
//! storage with several limits (bytes, I/Os) can serve two applications at once better than in turn; and with several
//! servers, time is summed over all of them.

/// The part of its throughput alone that an application keeps; not a number if it moved nothing alone.
pub fn kept(got: f64, alone: f64) -> f64 {
    delivered(got, alone, 1.0, 1.0)
}

/// The part of its entitlement that an application got; not a number if it is entitled to nothing.
pub fn delivered(got: f64, alone: f64, share: f64, occupancy: f64) -> f64 {
    got / (alone * (share / occupancy).min(1.0))
}

/// The share of `weight` beside `other`.
pub fn share(weight: u32, other: u32) -> f64 {
    f64::from(weight) / (f64::from(weight) + f64::from(other))
}

/// The occupancy of an application with the throughput `alone`; `saturated` is the throughput of many such calls at
/// once without other load. `is_serial`: the storage serves one access at a time.
pub fn occupancy(is_serial: bool, alone: f64, saturated: f64) -> f64 {
    if is_serial { 1.0 } else { (alone / saturated).min(1.0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(a: f64, b: f64) {
        assert!((a - b).abs() < 1e-9, "{a} {b}");
    }

    #[test]
    fn on_serial_storage_the_whole_cycle_counts() {
        // 140 calls a second alone; it is entitled to half of that at 1:1, whatever the service time.
        let occupancy = occupancy(true, 140.0, 200.0);
        near(delivered(70.0, 140.0, share(1, 1), occupancy), 1.0);
        near(delivered(14.0, 140.0, share(1, 4), occupancy), 0.5);
    }

    #[test]
    fn on_parallel_storage_a_demand_within_the_share_is_due_in_full() {
        // 300 calls of 3,000: a tenth of the time.
        let occupancy = occupancy(false, 300.0, 3_000.0);
        near(occupancy, 0.1);
        near(delivered(300.0, 300.0, share(1, 1), occupancy), 1.0);
        near(delivered(270.0, 300.0, share(1, 4), occupancy), 0.9);
    }

    #[test]
    fn a_demand_beyond_the_share_is_due_up_to_the_share() {
        // 240 of 300: at 1:4, a fifth of the time is 60 calls.
        near(delivered(60.0, 240.0, share(1, 4), occupancy(false, 240.0, 300.0)), 1.0);
    }

    #[test]
    fn noise_does_not_raise_the_occupancy_above_one() {
        near(occupancy(false, 301.0, 300.0), 1.0);
    }

    #[test]
    fn the_large_one_may_get_more_than_is_due() {
        near(delivered(54.0, 60.0, share(1, 1), 1.0), 1.8);
        near(delivered(48.0, 60.0, share(4, 1), 1.0), 1.0);
    }
}
