//! The share delivered: how much of what is due to an application it gets.
//!
//! *delivered = got ÷ min(alone, share · alone ÷ occupancy)*
//!
//! - *got* and *alone*: its throughput beside the other, and by itself, in calls or bytes a second.
//! - *share*: its weight ÷ the sum of weights.
//! - *occupancy*: the part of the storage's time that it takes when it is alone and **waited for**, as it must be to go
//!   as fast as then. So `alone ÷ occupancy` is what it would do with all of the storage's time, and `share` of that is
//!   due to it; but nobody can be given more than it asks for, which is what it does alone.
//!
//! Occupancy is
//!
//! - 1 for an application that keeps the storage busy by itself, as the large one does: share · alone is due to it. It
//!   gets more where the small one leaves some of its share unused. That is not demanded, so numbers above 1 are usual.
//! - 1 for the small application where the storage serves one access at a time: while it is thinking, or on its way,
//!   nothing else can be begun without delaying it. Its whole cycle is what it occupies.
//! - for the small application where storage serves in parallel (flash, volumes with limits): what it does alone ÷ what
//!   calls like its own, many at once, do when they are all that the storage serves. Waiting for it costs nothing
//!   there.
//!
//! What is approximate: a disk whose queue is long takes less time for an access than an idle one, which is not
//! counted; storage that is limited in several ways (bytes, I/Os) can give two applications more than its time divided
//! among them; and with several servers, time is counted on all of them together.

/// Part of what is due that was delivered; not a number if nothing is due.
pub(crate) fn delivered(got: f64, alone: f64, share: f64, occupancy: f64) -> f64 {
    got / (alone * (share / occupancy).min(1.0))
}

/// The part of the total that a weight stands for.
pub(crate) fn share(weight: u32, other: u32) -> f64 {
    f64::from(weight) / (f64::from(weight) + f64::from(other))
}

/// Of an application that does `alone` by itself, where calls like its own get `saturated` of storage that serves
/// nothing else; `is_serial`: of storage that serves one access at a time.
pub(crate) fn occupancy(is_serial: bool, alone: f64, saturated: f64) -> f64 {
    if is_serial { 1.0 } else { (alone / saturated).min(1.0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(a: f64, b: f64) {
        assert!((a - b).abs() < 1e-9, "{a} {b}");
    }

    #[test]
    fn on_one_head_the_whole_cycle_counts() {
        // 140 calls a second alone; half of that is due at 1:1, whatever its service takes.
        let occupancy = occupancy(true, 140.0, 200.0);
        near(delivered(70.0, 140.0, share(1, 1), occupancy), 1.0);
        near(delivered(14.0, 140.0, share(1, 4), occupancy), 0.5);
    }

    #[test]
    fn parallel_storage_owes_all_that_fits_in_the_share() {
        // 300 calls of 3,000: a tenth of the time.
        let occupancy = occupancy(false, 300.0, 3_000.0);
        near(occupancy, 0.1);
        near(delivered(300.0, 300.0, share(1, 1), occupancy), 1.0);
        near(delivered(270.0, 300.0, share(1, 4), occupancy), 0.9);
    }

    #[test]
    fn beyond_the_share_its_own_calls_in_that_time_are_due() {
        // 240 of 300: at 1:4, a fifth of the time is 60 calls.
        near(delivered(60.0, 240.0, share(1, 4), occupancy(false, 240.0, 300.0)), 1.0);
    }

    #[test]
    fn chance_makes_no_occupancy_above_one() {
        near(occupancy(false, 301.0, 300.0), 1.0);
    }

    #[test]
    fn the_large_one_may_get_more_than_is_due() {
        near(delivered(54.0, 60.0, share(1, 1), 1.0), 1.8);
        near(delivered(48.0, 60.0, share(4, 1), 1.0), 1.0);
    }
}
