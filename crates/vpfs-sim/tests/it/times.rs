//! What the time of an application is spent on.

use vpfs_sim::{AppResults, Scenario, Simulation};

/// The parts of the calls' time in scheduler, storage and network, of all processes on one server.
fn parts(server: &str, scheduler: &str, ior: &str) -> [f64; 3] {
    let text = format!(
        "[[servers]]\n{server}\n[[policy]]\nname = \"p\"\nscheduler = {{ {scheduler} }}\n\
         [[app]]\nname = \"a\"\nior = {{ block = \"8MiB\", file = \"per-process\", {ior} }}\n"
    );
    let scenario = Scenario::parse("my.toml", &text).unwrap();
    let results = Simulation::new(&scenario, &scenario.policies[0]).unwrap().run().unwrap();
    let AppResults { io_time, scheduler_time, storage_time, .. } = &results.apps[0];
    let network = io_time.checked_sub(*scheduler_time + *storage_time).unwrap();
    [*scheduler_time, *storage_time, network].map(|time| time.as_secs_f64() / io_time.as_secs_f64())
}

const ONE: &str = "policy = \"sfq-d\", depth = 1, slot_cost = []";

#[test]
fn calls_wait_where_the_bottleneck_is() {
    let hdd = "device = \"hdd\"";
    let [scheduler, storage, network] = parts(hdd, ONE, "processes = 8");
    assert!(scheduler > 0.7 && storage < 0.3 && network < 0.1, "{scheduler} {storage} {network}");
    let [scheduler, storage, network] = parts(hdd, "policy = \"fifo\"", "processes = 8");
    assert!(scheduler == 0.0 && storage > 0.9, "{scheduler} {storage} {network}");
    for rw in ["read = \"off\"", "read = \"on\", write = \"off\""] {
        let slow = "device = \"none\"\nlink_rate = \"1MB/s\"";
        let [scheduler, storage, network] = parts(slow, "policy = \"fifo\"", &format!("processes = 2, {rw}"));
        assert!(scheduler == 0.0 && storage < 0.01 && network > 0.99, "{rw}: {scheduler} {storage} {network}");
    }
}

/// Once, it was said to have waited for its own processes for the whole run.
#[test]
fn an_application_that_never_starts_spends_no_time() {
    let text = "duration = \"2s\"\n[[servers]]\n[[policy]]\nname = \"p\"\nscheduler = { policy = \"fifo\" }\n\
                [[app]]\nname = \"now\"\nior = { block = \"1MiB\" }\n[[app]]\nname = \"never\"\nstart = \"3s\"\nior = {}\n";
    let scenario = Scenario::parse("my.toml", text).unwrap();
    let results = Simulation::new(&scenario, &scenario.policies[0]).unwrap().run().unwrap();
    let [now, never] = [0, 1].map(|app| results.active(&results.apps[app]));
    assert!(!now.is_zero() && never.is_zero(), "{now:?} {never:?}");
}

/// Eight calls at a time, one of which is served: each waits while seven others move data and are stored.
#[test]
fn with_one_slot_each_waits_for_all_others() {
    let [scheduler, storage, network] = parts("device = \"one-head\"", ONE, "processes = 8, transfer = \"64KiB\"");
    let waits = scheduler / (storage + network);
    assert!((6.5..7.1).contains(&waits), "{waits}");
}
