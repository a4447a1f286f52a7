//! Calls that move a list of blocks.

use crate::common;
use std::sync::Arc;

use vpfs_model::device::DeviceProfile;
use vpfs_model::plan::{Noncontig, Phase};
use vpfs_sim::{App, Layout, PolicySpec, Scenario, ServerGroup, Workload};

#[test]
fn all_blocks_of_a_strided_call_are_moved_by_one_call() {
    let plan = Noncontig { requests: 8, ..Noncontig::paper(4) };
    let phases = vec![Phase::Write, Phase::Read];
    let app = App { phases, layout: Layout::striped(4 << 10), ..App::new("noncontig", Workload::Plan(Arc::new(plan))) };
    let servers = vec![ServerGroup::new(4, DeviceProfile::hdd())];
    let scenario = Scenario { servers, apps: vec![app], policies: vec![PolicySpec::fifo()], ..Scenario::default() };
    let results = common::run(&scenario, &scenario.policies[0]);
    let app = &results.apps[0];
    assert_eq!((app.written_bytes, app.read_bytes), (4 * 8 * (128 << 10), 4 * 8 * (128 << 10)));
    assert_eq!(app.calls, 2 * 4 * 8);
}
