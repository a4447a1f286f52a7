//! Measures of fairness, for tests, metrics and simulation alike.

use crate::units::{Bytes, Depth, Weight};

/// Jain's index of the service that applications got over some time: 1 if it is in proportion to their weights, down to
/// 1/n if one of n got everything [vPFS+ §V-D]. 1 if nobody got anything.
pub fn jain_index(services: &[(Bytes, Weight)]) -> f64 {
    let normalized = services.iter().map(|&(service, weight)| per_weight(service, weight));
    let (sum, squares) = normalized.fold((0.0, 0.0), |(sum, squares), x| (sum + x, squares + x * x));
    if squares == 0.0 { 1.0 } else { sum * sum / (services.len() as f64 * squares) }
}

/// How much service went to applications beyond their shares, counted at both the winner and the loser: from 0 to 2
/// (200 %) [vPFS §IV-C2]. 0 if nobody got anything.
pub fn unfairness(services: &[(Bytes, Weight)]) -> f64 {
    let total: f64 = services.iter().map(|(service, _)| service.0 as f64).sum();
    let weights: f64 = services.iter().map(|(_, weight)| f64::from(weight.get())).sum();
    if total == 0.0 {
        return 0.0;
    }
    let off = |&(service, weight): &(Bytes, Weight)| service.0 as f64 / total - f64::from(weight.get()) / weights;
    services.iter().map(|application| off(application).abs()).sum()
}

/// The largest difference in service per weight between two applications under SFQ(D), over any time in which both are
/// backlogged, in bytes: (D + 1) · (c₁/φ₁ + c₂/φ₂), with the largest request and the weight of each.
pub fn service_gap_bound(depth: Depth, largest: [(Bytes, Weight); 2]) -> f64 {
    let sum: f64 = largest.iter().map(|&(cost, weight)| per_weight(cost, weight)).sum();
    (f64::from(depth.get()) + 1.0) * sum
}

/// Service divided by weight, in bytes.
pub fn per_weight(service: Bytes, weight: Weight) -> f64 {
    service.0 as f64 / f64::from(weight.get())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn app(kib: u64, weight: u32) -> (Bytes, Weight) {
        (Bytes::kib(kib), Weight::new(weight).unwrap())
    }

    fn close(left: f64, right: f64) -> bool {
        (left - right).abs() < 1e-9
    }

    #[test]
    fn proportional_service_is_fair() {
        let services = [app(200, 2), app(100, 1), app(800, 8)];
        assert!(close(jain_index(&services), 1.0));
        assert!(close(unfairness(&services), 0.0));
    }

    #[test]
    fn one_takes_all() {
        let services = [app(100, 1), app(0, 1), app(0, 1), app(0, 1)];
        assert!(close(jain_index(&services), 0.25));
        assert!(close(unfairness(&services), 1.5));
    }

    #[test]
    fn no_service_is_fair() {
        assert!(close(jain_index(&[app(0, 1), app(0, 5)]), 1.0));
        assert!(close(unfairness(&[]), 0.0));
    }

    #[test]
    fn the_bound_grows_with_depth_and_request_size() {
        let depth = Depth::new(14).unwrap();
        assert!(close(service_gap_bound(depth, [app(2, 2), app(3, 1)]), 15.0 * 4.0 * 1024.0));
    }
}
