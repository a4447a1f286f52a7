//! Sweeps of a directory, of device models and of scripted storage, and refusals.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use vpfs_core::{Bytes, OpKind};
use vpfs_sim::model::device::DeviceProfile;
use vpfs_testbed::profile::{
    Measurement, Measurements, ModelStorage, Options, Point, ProfileError, RealStorage, Storage, Sweep, records,
    to_toml,
};

fn tiny() -> Sweep {
    Sweep { sizes: vec![Bytes::kib(4), Bytes::kib(64)], fine_depths: vec![1, 2, 3], depths: vec![1, 2] }
}

fn options() -> Options {
    Options {
        size: Bytes::mib(2),
        largest_access: Bytes::kib(64),
        fill_time: Duration::from_secs(60),
        buffered: true,
        destroy_data: None,
    }
}

#[test]
fn a_directory_is_measured_and_left_as_it_was() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("mine"), "stays").unwrap();
    let mut storage = RealStorage::open(directory.path(), &options()).unwrap();
    let names = || fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name());
    // Also during the measurement: an interrupted run leaves nothing behind.
    assert_eq!(names().collect::<Vec<_>>(), ["mine"]);
    assert_eq!(storage.span(), Bytes::mib(2));
    let measured = tiny().run(&mut storage, Some(Duration::ZERO), |_| {}).unwrap();
    let shape: Vec<_> = records(&measured).iter().map(|one| (one.op, one.size_bytes >> 10, one.outstanding)).collect();
    let of = |op| [(op, 4, 1), (op, 4, 2), (op, 4, 3), (op, 64, 1), (op, 64, 2)];
    assert_eq!(shape, [of("read"), of("write")].concat());
    assert!(records(&measured).iter().all(|one| one.bytes_per_second > 0 && one.mean_latency_ns > 0));
    drop(storage);
    assert_eq!(names().collect::<Vec<_>>(), ["mine"]);
}

fn refused(path: &std::path::Path, options: &Options) -> ProfileError {
    RealStorage::open(path, options).expect_err("it must be refused")
}

#[test]
fn what_cannot_be_measured_is_refused_and_says_why() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let file = path.join("file");
    fs::write(&file, "precious").unwrap();
    assert!(matches!(refused(&file, &options()), ProfileError::Unsuitable(_)));
    assert!(matches!(refused(&path.join("none"), &options()), ProfileError::Io { action: "look at", .. }));
    let size = Bytes(u64::MAX / 2);
    let error = refused(path, &Options { size, ..options() });
    assert!(matches!(error, ProfileError::NoSpace { .. }) && error.to_string().contains("--size"), "{error}");
    assert!(matches!(
        refused(path, &Options { size: Bytes::kib(64), largest_access: Bytes::mib(1), ..options() }),
        ProfileError::TooSmall { .. }
    ));
    for target in [path, &file] {
        let options = Options { destroy_data: Some(target.to_owned()), ..options() };
        assert!(matches!(refused(target, &options), ProfileError::NotADevice(_)));
    }
    assert_eq!(fs::read_to_string(&file).unwrap(), "precious");
    let left: Vec<PathBuf> = fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(left, [file]);
}

fn model(name: &str) -> Measurements {
    let mut storage = ModelStorage(DeviceProfile::by_name(name).unwrap());
    Sweep::default().run(&mut storage, None, |_| {}).unwrap()
}

/// D about 14, small up to 128 KiB and 5 slots for 2 MiB [vPFS+ §III-B], as the daemon reads it.
#[test]
fn the_papers_disk_gives_the_papers_scheduler() {
    let expected = r#"# model hdd
[scheduler]
depth = 14
small_threshold = "128KiB"
slot_cost = [
    { up_to = "256KiB", slots = 1 },
    { up_to = "512KiB", slots = 2 },
    { up_to = "1MiB", slots = 3 },
    { up_to = "2MiB", slots = 5 },
    { up_to = "4MiB", slots = 8 },
]
"#;
    assert_eq!(to_toml(&model("hdd").fit().unwrap(), "model hdd"), expected);
}

#[test]
fn flash_gets_rows_of_its_own_for_writes() {
    let toml = to_toml(&model("ssd").fit().unwrap(), "model ssd");
    assert!(
        toml.contains("small_threshold = \"1B\"") && toml.contains("{ op = \"write\", up_to = \"4KiB\", slots = 3 }"),
        "{toml}"
    );
}

/// Takes 1 ms for each outstanding KiB, and records what was requested.
struct Script {
    asked: Vec<(Point, Duration)>,
}

impl Storage for Script {
    fn is_writable(&self) -> bool {
        false
    }

    fn measure(&mut self, point: Point, time: Duration) -> Result<Measurement, ProfileError> {
        self.asked.push((point, time));
        let Point { size, outstanding, .. } = point;
        let kib = u32::try_from(size.0 >> 10).unwrap();
        let mean_latency = Duration::from_millis(1) * kib * outstanding;
        Ok(Measurement { size, outstanding, throughput: Bytes(1_024_000), mean_latency })
    }
}

#[test]
fn only_reads_where_writing_is_not_allowed_and_both_get_their_costs() {
    let mut storage = Script { asked: Vec::new() };
    let measured = Sweep::default().run(&mut storage, None, |_| {}).unwrap();
    assert!(measured.writes.is_empty() && storage.asked.iter().all(|(point, _)| point.op == OpKind::Read));
    let fit = measured.fit().unwrap();
    assert_eq!(fit.slot_costs.rows(OpKind::Read), fit.slot_costs.rows(OpKind::Write));
    // Never more than the threads may keep in memory.
    assert!(storage.asked.iter().all(|(point, _)| point.size.0 * u64::from(point.outstanding) <= 64 << 20));
}

#[test]
fn slow_points_are_left_out_when_time_is_short() {
    let mut storage = Script { asked: Vec::new() };
    let mut told = 0;
    let measured = Sweep::default().run(&mut storage, Some(Duration::from_secs(10)), |_| told += 1).unwrap();
    assert_eq!(told, storage.asked.len());
    let depths = |kib: u64| measured.reads.iter().filter(|one| one.size == Bytes::kib(kib)).count();
    // 14 of the smallest size and 7, 7, 7, 7, 7, 7, 6 and 5 of the others share the time in 81 parts, of which the
    // smallest size takes 28.
    let first = storage.asked[0].1;
    assert!((Duration::from_millis(240)..Duration::from_millis(248)).contains(&first), "{first:?}");
    assert_eq!((depths(4), depths(4096)), (14, 2));
    assert!((2..7).contains(&depths(64)), "{}", depths(64));
}
