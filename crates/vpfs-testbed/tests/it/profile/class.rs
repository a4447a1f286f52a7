//! The parameters of HARL's cost model, found again in models that have them, and measured in a directory.

use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use vpfs_core::Bytes;
use vpfs_sim::model::device::{DeviceProfile, UniformAccess, UniformProfile};
use vpfs_testbed::profile::{
    AccessFit, ClassLabels, ClassPlan, Figure, ModelStorage, NetworkPath, Options, Probe, RealStorage, TimedStorage,
    Timing, answer_network, class_toml, fit_class, network_summary, network_toml,
};

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
    let options = Options {
        size: Bytes::mib(2),
        largest_access: plan.largest(),
        fill_time: Duration::from_secs(60),
        buffered: true,
        destroy_data: None,
    };
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
