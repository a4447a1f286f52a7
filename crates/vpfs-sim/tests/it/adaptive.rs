//! A depth that changes while requests are in the storage.

use std::time::Duration;

use crate::common::{ior, run};
use vpfs_core::{Depth, PolicyKind, Settings, SlotCostTable};
use vpfs_model::device::DeviceProfile;
use vpfs_model::plan::{Interactive, Ior, Phase};
use vpfs_sim::{App, Layout, PolicySpec, Scenario, ServerGroup};

/// Symptom: "server 0 uses 33 slots, its depth is 14" under `adaptive`. Cause: when a comparison with a larger depth
/// ends, the smaller one applies at once, while requests dispatched before are still in the storage; the check took
/// that for a broken rule. Proof: this run ended with that message.
#[test]
fn a_depth_that_is_lowered_takes_nothing_back() {
    let adaptive = Settings {
        adaptive: true,
        ..Settings::new(PolicyKind::SfqDPlus, Depth::new(14).unwrap(), SlotCostTable::default())
    };
    let layout = Layout::striped(64 << 10);
    let small = Interactive {
        processes: 1,
        transfer_bytes: 8 << 10,
        file_bytes: 256 << 20,
        think: Duration::from_millis(2),
        time: Duration::from_secs(100),
        read: false,
        fills: true,
        seed: 1,
    };
    let scenario = Scenario {
        duration: Some(Duration::from_secs(2)),
        servers: vec![ServerGroup::new(4, DeviceProfile::by_name("one-head").unwrap())],
        apps: vec![
            App { layout: layout.clone(), phases: vec![Phase::Write], ..App::new("small", small) },
            App { layout, phases: vec![Phase::Write], ..App::new("large", Ior { transfer_bytes: 4 << 20, ..ior(12) }) },
        ],
        ..Scenario::default()
    };
    let results = run(&scenario, &PolicySpec::new("adaptive", adaptive));
    assert!(results.apps.iter().all(|app| app.written_bytes > 0));
}
