//! A cap for the sum over all servers.

use vpfs_sim::Scenario;

use crate::common;

/// MB/s of an application with a total cap of 4 MB/s that writes to `servers` of four, as much as it can.
fn rate(servers: &str) -> f64 {
    let text = format!(
        r#"
        duration = "15s"
        [[servers]]
        count = 4
        device = "two-level-server"
        [[policy]]
        name = "p"
        scheduler = {{ policy = "sfq-d", depth = 4, sharing = "local" }}
        [[app]]
        name = "one"
        cap = "4MB/s"
        burst = "64KiB"
        servers = "{servers}"
        phases = ["write"]
        paced = {{ processes = 16, rate = "18MB/s", time = "15s" }}
        "#
    );
    let scenario = Scenario::parse("totals.toml", &text).unwrap();
    common::run(&scenario, &scenario.policies[0]).apps[0].written_bytes as f64 / 15e6
}

/// Symptom: in the simulator, a total cap gave each server its even part only. Cause: nodes exchanged messages only if
/// shares required it. Proof: with local shares one server has all of it.
#[test]
fn a_cap_is_where_the_requests_are() {
    for servers in ["0", "0-3"] {
        let rate = rate(servers);
        assert!((3.7..4.1).contains(&rate), "{servers}: {rate:.2} MB/s");
    }
}
