//! The pauses between attempts to connect.

use std::time::Duration;

use vpfs_core::hash::stable_hash;

/// The pause after the first failure.
const FIRST: Duration = Duration::from_millis(100);

/// The pause after `failures` attempts: doubled each time up to `longest`, then up to a quarter more or less, so that
/// processes that lost a peer at the same time do not return at the same time. `name` tells processes apart.
pub(super) fn pause(name: &str, failures: u32, longest: Duration) -> Duration {
    let doubled = FIRST.saturating_mul(1 << failures.min(16)).min(longest);
    let hash = stable_hash(&format!("{failures} {name}"));
    let parts = 75 + u32::try_from(hash % 51).unwrap_or(0);
    doubled / 100 * parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_the_longest_and_differ() {
        let longest = Duration::from_secs(2);
        let pauses: Vec<Duration> = (0..100).map(|failures| pause("s1", failures, longest)).collect();
        assert!(pauses[0] <= FIRST * 5 / 4 && pauses[0] >= FIRST * 3 / 4);
        assert!(pauses[5..].iter().all(|pause| *pause >= longest * 3 / 4 && *pause <= longest * 5 / 4));
        assert_ne!(pause("s1", 9, longest), pause("s2", 9, longest));
    }
}
