//! Steps that wait for a time.

use std::sync::Arc;
use std::time::Duration;

use crate::common;

use vpfs_sim::model::device::{DeviceProfile, NullAioProfile};
use vpfs_sim::model::plan::{Call, Dir, Extent, FileId, Phase, Plan, Step, Steps};
use vpfs_sim::{App, LinkProfile, PolicySpec, Scenario, ServerGroup, Workload};

/// Writes at the given seconds of the phase.
#[derive(Debug)]
struct Paced(&'static [u64]);

impl Plan for Paced {
    fn processes(&self) -> u32 {
        1
    }

    fn phases(&self) -> Vec<Phase> {
        vec![Phase::Write]
    }

    fn steps(&self, _: Phase, _: u32) -> Steps {
        let call = Call::Write(Extent { file: FileId { dir: Dir::Base, number: 0 }, offset: 0, bytes: 1 });
        Box::new(self.0.iter().flat_map(move |&at| [Step::Until(Duration::from_secs(at)), Step::Call(call)]))
    }
}

/// Each call takes three seconds.
#[test]
fn a_process_waits_for_its_time_and_does_not_if_it_is_late() {
    let device = NullAioProfile { per_access: Duration::from_secs(3), bytes_per_second: u64::MAX };
    let link = LinkProfile::IDEAL;
    let app = App { start: Duration::from_secs(10), ..App::new("a", Workload::Plan(Arc::new(Paced(&[1, 2, 20])))) };
    let scenario = Scenario {
        trace: true,
        servers: vec![ServerGroup { link, ..ServerGroup::new(1, DeviceProfile::NullAio(device)) }],
        apps: vec![app],
        ..Scenario::default()
    };
    let results = common::run(&scenario, &PolicySpec::fifo());
    let issued: Vec<u64> = results.trace.iter().map(|call| call.issued.as_secs()).collect();
    assert_eq!(issued, [11, 14, 30], "the second one is late, the third one is not");
}
