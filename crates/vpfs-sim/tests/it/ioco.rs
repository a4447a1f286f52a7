//! What coordination by windows of time needs to know of the time of a request.

use std::collections::BTreeSet;
use std::time::Duration;

use vpfs_core::{Depth, PolicyKind, Settings, SlotCostTable};
use vpfs_sim::model::device::{DeviceProfile, NullAioProfile};
use vpfs_sim::model::plan::{Ior, Phase};
use vpfs_sim::{App, LinkProfile, PolicySpec, RequestTime, Scenario, ServerGroup};

use crate::common::run;

const SERVERS: u32 = 4;
const SERVICE: Duration = Duration::from_secs(1);

/// The orders in which servers serve eight applications that make one call each at the same moment, while a ninth one
/// keeps all servers busy; their parts arrive up to `apart` later.
fn orders(request_time: RequestTime, apart: Duration) -> BTreeSet<Vec<u32>> {
    let once = Ior::writes(1, 256 << 10, 256 << 10);
    let app =
        |(number, start)| App { start, phases: vec![Phase::Write], ..App::new(format!("app-{number}"), once.clone()) };
    let starts = [0, 600, 600, 600, 600, 600, 600, 600, 600].map(Duration::from_millis);
    let device = DeviceProfile::NullAio(NullAioProfile { per_access: SERVICE, bytes_per_second: u64::MAX });
    let scenario = Scenario {
        jitter: apart,
        trace: true,
        servers: vec![ServerGroup { link: LinkProfile::IDEAL, ..ServerGroup::new(SERVERS, device) }],
        apps: (0..).zip(starts).map(app).collect(),
        ..Scenario::default()
    };
    let mut settings = Settings::new(PolicyKind::Ioco, Depth::new(1).unwrap(), SlotCostTable::uniform());
    settings.ioco.window = Duration::from_millis(250);
    let results = run(&scenario, &PolicySpec { request_time, ..PolicySpec::new("ioco", settings) });
    let order = |server| {
        let part = |call: &vpfs_sim::CallTrace| {
            (call.parts.iter().find(|part| part.server == server).unwrap().finished, call.app)
        };
        let mut done: Vec<_> = results.trace.iter().map(part).collect();
        done.sort_unstable();
        done.into_iter().map(|(_, app)| app).collect()
    };
    (0..SERVERS).map(order).collect()
}

/// As long as the parts of a call are apart for less than a window, and no window ends between them, arrival is as good
/// as the time of issue.
#[test]
fn servers_agree_by_arrival_unless_a_window_ends_between_the_parts() {
    assert_eq!(orders(RequestTime::Issue, Duration::from_millis(390)).len(), 1);
    assert_eq!(orders(RequestTime::Arrival, Duration::from_millis(140)).len(), 1);
    assert!(orders(RequestTime::Arrival, Duration::from_millis(390)).len() > 1);
}
