//! The gain of coordination, by calculation [IOCO §3.2].
//!
//! `apps` applications (m in the paper) access `servers` servers (n) at once; each server needs the time t for its part
//! of each. Results are in units of t. Both counts must be at least 1.

/// Mean completion time where every server takes the applications in a random order of its own, formula (1):
/// m − Σ k^n / m^n for k from 1 to m − 1. O(apps · log servers).
pub(super) fn independent_completion(apps: u32, servers: u32) -> f64 {
    let below = |k: u32| power(f64::from(k) / f64::from(apps), servers);
    f64::from(apps) - (1..apps).map(below).sum::<f64>()
}

/// Mean completion time where all servers take the applications in the same order, formula (2): (m + 1)/2, whatever the
/// number of servers.
pub(super) fn coordinated_completion(apps: u32) -> f64 {
    (f64::from(apps) + 1.0) / 2.0
}

/// By how much coordination shortens the mean completion time, formula (3).
pub(super) fn completion_reduction(apps: u32, servers: u32) -> f64 {
    independent_completion(apps, servers) - coordinated_completion(apps)
}

/// Formula (3) as a fraction of the completion time without coordination; approaches (m − 1)/(2m) for many servers.
pub(super) fn relative_reduction(apps: u32, servers: u32) -> f64 {
    completion_reduction(apps, servers) / independent_completion(apps, servers)
}

/// `base` to the power of `exponent`, by squaring: `powi` may round differently on other machines, and equal runs give
/// equal bytes.
fn power(base: f64, exponent: u32) -> f64 {
    match exponent {
        0 => 1.0,
        _ => {
            let root = power(base * base, exponent / 2);
            if exponent % 2 == 1 { root * base } else { root }
        }
    }
}

#[cfg(test)]
mod tests {
    use vpfs_core::testing::Random;

    use super::*;

    fn close(left: f64, right: f64) -> bool {
        (left - right).abs() < 1e-9
    }

    /// All combinations of the places that one application's parts can have.
    fn enumerated(apps: u32, servers: u32) -> f64 {
        let combinations = apps.pow(servers);
        let latest = |combination: u32| (0..servers).map(|server| combination / apps.pow(server) % apps + 1).max();
        (0..combinations).filter_map(latest).map(f64::from).sum::<f64>() / f64::from(combinations)
    }

    /// The mean completion time when each server draws an order for all applications.
    fn simulated(apps: u32, servers: u32, runs: u32, random: &mut Random) -> f64 {
        let mut sum = 0;
        for _ in 0..runs {
            let mut completion = vec![0; apps as usize];
            for _ in 0..servers {
                let mut order: Vec<u32> = (1..=apps).collect();
                for last in (1..apps).rev() {
                    order.swap(last as usize, random.below(last + 1) as usize);
                }
                completion.iter_mut().zip(order).for_each(|(latest, place)| *latest = place.max(*latest));
            }
            sum += completion.iter().sum::<u32>();
        }
        f64::from(sum) / f64::from(runs) / f64::from(apps)
    }

    #[test]
    fn formula_1_is_the_mean_over_all_orders() {
        for (apps, servers) in [(1, 1), (1, 7), (2, 1), (2, 3), (3, 4), (5, 5), (8, 3), (10, 4)] {
            assert!(close(independent_completion(apps, servers), enumerated(apps, servers)), "{apps} {servers}");
        }
    }

    #[test]
    fn formula_1_is_what_random_orders_give() {
        let mut random = Random::new(5);
        for (apps, servers) in [(2, 8), (4, 4), (8, 8), (16, 64)] {
            let (ours, simulated) =
                (independent_completion(apps, servers), simulated(apps, servers, 4000, &mut random));
            assert!((ours / simulated - 1.0).abs() < 0.01, "{apps} {servers}: {ours} {simulated}");
        }
    }

    #[test]
    fn with_one_server_there_is_nothing_to_gain() {
        assert!((1..20).all(|apps| close(completion_reduction(apps, 1), 0.0)));
    }

    #[test]
    fn the_reduction_grows_with_applications_and_servers_up_to_its_limit() {
        for apps in 2..40 {
            let limit = (f64::from(apps) - 1.0) / (2.0 * f64::from(apps));
            assert!(close(relative_reduction(apps, 100_000), limit));
            for servers in 1..40 {
                let here = relative_reduction(apps, servers);
                assert!(here < relative_reduction(apps, servers + 1) && here < limit);
                assert!(servers == 1 || here < relative_reduction(apps + 1, servers));
            }
        }
    }
}
