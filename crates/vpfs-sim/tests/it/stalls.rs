//! Shares on disks that stand still for moments.

use std::time::Duration;

use vpfs_sim::{Scenario, Simulation};

/// What the second job of `scenarios/stalling-disks.toml` had of its share in each second from the third on, with seeds
/// 1 to 20, where disks stand still for 150 ms each second.
fn parts(policy: usize) -> Vec<f64> {
    let text = include_str!("../../../../scenarios/stalling-disks.toml");
    let stalls = "every = \"5s\", length = \"300ms\"";
    assert!(text.contains(stalls) && text.contains("seed = 1\n"), "what is replaced");
    let text = text.replacen(stalls, "every = \"1s\", length = \"150ms\"", 1);
    let second = Duration::from_secs(1);
    let run = |seed: u64| {
        let text = text.replacen("seed = 1\n", &format!("seed = {seed}\n"), 1);
        let scenario = Scenario::parse("stalling-disks.toml", &text).unwrap();
        let results = Simulation::new(&scenario, &scenario.policies[policy]).unwrap().run().unwrap();
        (2..40).map(move |at: u32| results.shares_between(second * at, second * (at + 1))[1] * 4.0)
    };
    (1..=20).flat_map(run).collect()
}

/// Symptom: on disks that stand still for moments, the smaller of two jobs of 3:1 had twice its share for seconds.
/// Cause: while a job waits at another server it is interactive here, and when it comes back, what it takes showed
/// nothing, because after a standstill costs are learned too high, so all together seemed to take more time than there
/// was. Proof: it has hardly more than with strict order by tags, which gives it 1.029 of its share and at most 1.33 in
/// a second; 1.059 and 2.49 before, 1.048 now.
#[test]
fn a_standstill_does_not_make_bulk_interactive_for_long() {
    let mean = |parts: &[f64]| parts.iter().sum::<f64>() / parts.len() as f64;
    let [strict, ours] = [0, 1].map(parts);
    assert!(mean(&ours) < mean(&strict) + 0.025, "{} and {}", mean(&ours), mean(&strict));
    let most = ours.iter().copied().fold(0.0, f64::max);
    assert!(most < 1.9, "{most}");
}
