//! Sweeps of a directory, of device models and of scripted storage, and refusals.

use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::time::Duration;
use std::{fs, thread};

use vpfs_core::{Bytes, OpKind};
use vpfs_sim::model::device::{DeviceProfile, UniformAccess, UniformProfile};
use vpfs_testbed::profile::{
    AccessFit, ClassLabels, ClassPlan, Figure, Measurement, Measurements, ModelStorage, NetworkPath, Options, Point,
    Probe, ProfileError, RealStorage, Storage, Sweep, TimedStorage, Timing, answer_network, class_toml, fit_class,
    network_summary, network_toml, records, to_toml,
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

// The parameters of HARL's cost model, found again in models that have them, and measured in a directory.

fn timed(storage: &mut dyn TimedStorage, plan: &ClassPlan, time: Option<Duration>) -> Vec<Timing> {
    plan.run(storage, time, |_| {}).unwrap()
}

fn assert_found(fit: &AccessFit, model: UniformAccess) {
    let nanos = |time: Duration| time.as_nanos() as f64;
    let range = nanos(model.startup_max) - nanos(model.startup_min);
    let off = |found: f64, expected: f64, scale: f64| (found - expected).abs() / scale;
    // A start-up time is found within a part of the range that it is drawn from.
    assert!(off(fit.startup_min_ns.mean, nanos(model.startup_min), range) < 0.02, "{fit:?}, {model:?}");
    assert!(off(fit.startup_max_ns.mean, nanos(model.startup_max), range) < 0.02, "{fit:?}, {model:?}");
    let per_byte = 1e9 / model.bytes_per_second as f64;
    assert!(off(fit.ns_per_byte.mean, per_byte, per_byte) < 0.02, "{fit:?}, {model:?}");
}

#[test]
fn models_of_servers_are_found_again() {
    let slow_writes = UniformProfile { write: UniformProfile::HARL_DISK.write, ..UniformProfile::HARL_FLASH };
    for model in [UniformProfile::HARL_DISK, UniformProfile::HARL_FLASH, slow_writes] {
        let mut storage = ModelStorage(DeviceProfile::Uniform(model));
        let fit = fit_class(&timed(&mut storage, &ClassPlan::default(), None), None).unwrap();
        assert_found(&fit.read, model.read);
        assert_found(&fit.write, model.write);
        assert!(fit.read.off_the_line < 0.1, "{fit:?}");
    }
}

#[test]
fn a_directory_is_timed_and_left_as_it_was() {
    let directory = tempfile::tempdir().unwrap();
    let plan = ClassPlan { sizes: vec![Bytes::kib(4), Bytes::kib(256)], repetitions: 2, most: 5 };
    let options = Options { largest_access: plan.largest(), ..options() };
    let mut storage = RealStorage::open(directory.path(), &options).unwrap();
    let timings = timed(&mut storage, &plan, Some(Duration::ZERO));
    let shape: Vec<_> = timings.iter().map(|one| (one.repetition, one.probe, one.size_bytes >> 10)).collect();
    let of = |repetition| [Probe::Read, Probe::Write].map(|probe| [4, 256].map(|kib| (repetition, probe, kib)));
    assert_eq!(shape, [of(0), of(1)].concat().concat());
    // Without time, the least number of accesses.
    assert!(
        timings.iter().all(|one| one.accesses == 3 && one.p1_ns > 0 && one.p99_ns >= one.p1_ns && one.mean_ns > 0),
        "{timings:?}"
    );
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
}

#[test]
fn a_connection_is_timed_and_others_are_refused() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let server = thread::spawn(move || answer_network(listener.accept().unwrap().0));
    let mut path = NetworkPath::connect(&address).unwrap();
    let plan = ClassPlan { sizes: vec![Bytes::kib(4), Bytes::mib(3)], repetitions: 3, most: 5 };
    let timings = timed(&mut path, &plan, None);
    let is_timed = |one: &Timing| (one.probe, one.accesses) == (Probe::Network, 5) && one.mean_ns > 0;
    assert!(timings.len() == 6 && timings.iter().all(is_timed), "{timings:?}");
    drop(path);
    server.join().unwrap().unwrap();
    // Nobody listens there any more.
    assert!(NetworkPath::connect(&address).unwrap_err().to_string().starts_with("cannot connect to 127.0.0.1:"));
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = other.local_addr().unwrap().to_string();
    let server = thread::spawn(move || std::io::Write::write_all(&mut other.accept().unwrap().0, b"SSH-2.0-"));
    let refused = NetworkPath::connect(&address).unwrap_err().to_string();
    assert!(refused.contains("is not `vpfs profile network --listen`"), "{refused}");
    server.join().unwrap().unwrap();
}

#[test]
fn a_server_of_transfers_refuses_absurd_ones() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let server = thread::spawn(move || answer_network(listener.accept().unwrap().0));
    std::io::Write::write_all(&mut client, &u64::MAX.to_le_bytes()).unwrap();
    assert!(server.join().unwrap().unwrap_err().to_string().contains("no `vpfs profile network`"));
}

#[test]
fn the_networks_file_has_its_rate_and_spread() {
    let network = Figure { mean: 8.0, deviation: 0.08 };
    let expected =
        "# Here.\n# Mean and standard deviation of all repetitions: 125.00MB/s ± 1.0 %\nnetwork = \"125.00MB/s\"\n";
    assert_eq!(network_toml(network, "Here."), expected);
    assert_eq!(network_summary(network), "network: 125.00MB/s ± 1.0 %\n");
    let unsteady = network_summary(Figure { deviation: 2.0, ..network });
    assert!(unsteady.contains("network: repetitions differ much"), "{unsteady}");
}

#[test]
fn the_file_has_the_keys_of_classes() {
    let steady = |millis, rate| UniformAccess {
        startup_min: Duration::from_millis(millis),
        startup_max: Duration::from_millis(millis),
        bytes_per_second: rate,
    };
    let model = UniformProfile { read: steady(1, 100_000_000), write: steady(2, 500_000) };
    let mut storage = ModelStorage(DeviceProfile::Uniform(model));
    let plan = ClassPlan { most: 10, ..ClassPlan::default() };
    let fit = fit_class(&timed(&mut storage, &plan, None), None).unwrap();
    let mut labels = ClassLabels { name: "disk".into(), servers: 3, addresses: Vec::new(), network: None, free: None };
    let expected = r#"# Written for a test.
# Mean and standard deviation of all repetitions:
#   read: startup_min 1000.0us ± 0.0us, startup_max 1000.0us ± 0.0us, rate 100.00MB/s ± 0.0 %
#   write: startup_min 2000.0us ± 0.0us, startup_max 2000.0us ± 0.0us, rate 500KB/s ± 0.0 %

[[class]]
name = "disk"
servers = 3
read = { startup_min = "1000.0us", startup_max = "1000.0us", rate = "100.00MB/s" }
write = { startup_min = "2000.0us", startup_max = "2000.0us", rate = "500KB/s" }
"#;
    assert_eq!(class_toml(&fit, &labels, "Written for a test."), expected);
    labels.addresses = vec!["tcp://a:1".into(), "tcp://b:1".into()];
    (labels.network, labels.free) = (Some("125MB/s".into()), Some("1GiB".into()));
    let full = class_toml(&fit, &labels, "Written for a test.");
    assert!(full.contains("\nnetwork = \"125MB/s\"\n"), "{full}");
    assert!(full.contains("\naddresses = [\"tcp://a:1\", \"tcp://b:1\"]\nread = "), "{full}");
    assert!(full.ends_with("\nfree = \"1GiB\"\n"), "{full}");
}
