//! The memory that advice takes: login nodes leave a user little. It is measured in a process of its own,
//! because the highest use counts for all tests of a process.

use std::fs;
use std::process::Command;
use std::time::Duration;

use vpfs_harl::{Access, Cluster, Model, Op, Question, Request, ServerClass, Trace, advise};

/// Set in the process that runs only this test.
const ALONE: &str = "VPFS_TEST_ALONE";

const MIB: u64 = 1 << 20;

fn cluster() -> Cluster {
    let class = |name: &str, millis, rate| {
        let access = Access::new(Duration::ZERO, Duration::from_millis(millis), rate).unwrap();
        ServerClass { name: name.into(), servers: 4, read: access, write: access, free: Some(1 << 50) }
    };
    Cluster::new(vec![class("disk", 10, 200_000_000), class("flash", 1, 2_000_000_000)], 1_000_000_000).unwrap()
}

/// The most memory that this process has had, in bytes.
fn highest() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap() << 10
}

fn advised(requests: u64, size: impl Fn(u64) -> u64, budget: u64) {
    let request = |index: u64| {
        let start = index * 1000;
        let size = size(index);
        Request {
            rank: u32::try_from(index % 64).unwrap(),
            op: Op::Read,
            offset: index * 16 * MIB,
            size,
            start,
            end: start + 900,
        }
    };
    let runs = [(Trace::new((0..requests).map(request).collect()).unwrap(), 1)];
    let question = Question::new(Model::Concurrent, budget);
    assert!(!advise(&cluster(), &runs, &question).unwrap().regions.is_empty());
}

#[test]
fn memory_grows_with_the_number_of_requests_and_not_with_their_size() {
    if std::env::var_os(ALONE).is_none() {
        let name = "memory::memory_grows_with_the_number_of_requests_and_not_with_their_size";
        let alone = Command::new(std::env::current_exe().unwrap()).args([name, "--exact"]).env(ALONE, "1").output();
        let alone = alone.unwrap();
        let report = String::from_utf8_lossy(&alone.stdout);
        assert!(alone.status.success() && report.contains("1 passed"), "{report}");
        return;
    }
    // 1.3 GiB before combinations of stripes were bounded.
    advised(8, |_| 16 * MIB, 20_000_000);
    advised(8, |index| 1 << (30 + index % 7), 20_000_000);
    assert!(highest() < 100 * MIB, "{} bytes for 16 requests", highest());
    let few = highest();
    let requests = 400_000;
    advised(requests, |index| 4096 * (1 + index % 50), 500_000);
    // A request itself has 40 bytes, and its share of what is sorted and grouped 80.
    let each = (highest() - few) / requests;
    assert!(each < 150, "{each} bytes for each request");
}
