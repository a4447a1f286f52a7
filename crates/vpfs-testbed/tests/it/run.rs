//! Plans run against embedded servers without a device model, over loopback; the embedded NFS server and its client.

use std::io::ErrorKind;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use nfs3_types::nfs3::stable_how;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;
use vpfs_sim::model::device::{DeviceProfile, SsdProfile};
use vpfs_sim::model::plan::{
    Btio, BtioClass, FileMode, Interactive, Ior, Md, MdData, MpiTileIo, Noncontig, Order, Phase, PioBench, PioPattern,
    Plan, Wrf,
};
use vpfs_testbed::load::measure::{Report, WrongRead};
use vpfs_testbed::load::run::{Connections, Run, RunError, RunOptions, SyncMode};
use vpfs_testbed::nfs::{self, NfsConfig, NfsError, NfsServer, answers};
use vpfs_testbed::{Client, ClientOptions, ClusterConfig, CreateOptions, DeviceClock, EmbeddedCluster};

async fn cluster() -> EmbeddedCluster {
    EmbeddedCluster::start(ClusterConfig::new(4)).await.unwrap()
}

fn options(url: &(impl ToString + ?Sized)) -> RunOptions {
    RunOptions {
        client: ClientOptions::new(url.to_string()),
        local_addresses: vec!["127.0.3.1".parse().unwrap(), "127.0.3.2".parse().unwrap()],
        nodes: 2,
        connections: Connections::PerNode,
        directory: "/run".to_owned(),
        create: CreateOptions::simple_stripe(1000),
        overwrite: false,
        keep: false,
        sync: SyncMode::Stable,
        seed: 1,
        interval: Duration::from_millis(100),
        trace: None,
        stop: Arc::default(),
    }
}

fn ior() -> Ior {
    let (file_mode, order) = (FileMode::Shared, Order::Random);
    Ior { segments: 3, file_mode, order, read: true, read_shift: 1, fsync: true, ..Ior::writes(4, 10_007, 100_070) }
}

async fn run(plan: impl Plan + 'static, options: RunOptions) -> Result<Report, RunError> {
    Run::prepare(Arc::new(plan), options).await?.execute().await
}

/// Reads of files that are filled before, without a pause.
fn interactive(processes: u32, transfer_bytes: u32, file_bytes: u64, time: Duration) -> Interactive {
    let (think, read, fills, seed) = (Duration::ZERO, true, true, 1);
    Interactive { processes, transfer_bytes, file_bytes, think, time, read, fills, seed }
}

/// A run leaves nothing behind.
async fn assert_empty(cluster: &EmbeddedCluster) {
    let client = Client::connect(ClientOptions::new(cluster.url())).await.unwrap();
    let left: Vec<_> = client.readdir("/").await.unwrap().into_iter().map(|entry| entry.name).collect();
    assert!(!left.contains(&"run".to_owned()), "{left:?}");
}

#[tokio::test]
async fn ior_moves_and_verifies_every_byte_in_every_mode() {
    let cluster = cluster().await;
    for file_mode in [FileMode::Shared, FileMode::PerProcess] {
        for connections in [Connections::PerNode, Connections::PerProcess] {
            let plan = Ior { file_mode, ..ior() };
            let total = plan.total_bytes();
            let report = run(plan, RunOptions { connections, ..options(&cluster.url()) }).await.unwrap();
            assert_eq!(report.phase(Phase::Write).map(|phase| (phase.bytes, phase.operations)), Some((total, 120)));
            assert_eq!(report.verification.checked_bytes, total);
            assert!(report.verification.is_clean(), "{:?}", report.verification);
            assert_eq!(report.phase(Phase::Read).map(|phase| phase.latency.count), Some(120));
            assert_eq!(report.timeline.samples.iter().map(|sample| sample.bytes).sum::<u64>(), 2 * total);
        }
    }
    assert_empty(&cluster).await;
}

#[tokio::test]
async fn every_transfer_is_reported_once_but_not_preparation() {
    let cluster = cluster().await;
    let traced = async |plan: Box<dyn Plan>| {
        let (sender, mut receiver) = mpsc::channel(1);
        let run =
            Run::prepare(plan.into(), RunOptions { trace: Some(sender), ..options(&cluster.url()) }).await.unwrap();
        let collect = async {
            let mut all = Vec::new();
            while let Some(transfer) = receiver.recv().await {
                assert!(transfer.began <= transfer.done);
                all.push(transfer);
            }
            all
        };
        tokio::join!(run.execute(), collect)
    };
    let (report, transfers) = traced(Box::new(ior())).await;
    assert!(report.unwrap().verification.is_clean());
    for is_write in [true, false] {
        let mut offsets: Vec<u64> =
            transfers.iter().filter(|one| one.is_write == is_write).map(|one| one.extent.offset).collect();
        offsets.sort_unstable();
        assert_eq!(offsets, (0..120).map(|number| number * 10_007).collect::<Vec<_>>());
    }
    assert!(transfers.iter().all(|one| one.path == "/run/file.0" && one.extent.bytes == 10_007 && one.process < 4));

    // Files are filled before.
    let plan = interactive(2, 100, 1000, Duration::from_millis(20));
    let (report, transfers) = traced(Box::new(plan)).await;
    let calls = report.unwrap().phase(Phase::Read).map_or(0, |phase| phase.operations);
    assert_eq!(transfers.iter().filter(|one| !one.is_write).count() as u64, calls);
    assert_eq!(transfers.len() as u64, calls);
}

#[tokio::test]
async fn wrong_bytes_are_found_and_located() {
    let cluster = cluster().await;
    let write = Ior { read: false, keep: true, ..ior() };
    run(write, RunOptions { keep: true, ..options(&cluster.url()) }).await.unwrap();
    let client = Client::connect(ClientOptions::new(cluster.url())).await.unwrap();
    let file = client.open("/run/file.0").await.unwrap();
    let byte = client.read_at(&file, 123_456, 1).await.unwrap()[0];
    client.write_at(&file, 123_456, Bytes::from(vec![!byte])).await.unwrap();
    let size = client.size(&file).await.unwrap();
    client.truncate(&file, size - 5).await.unwrap();

    let report = run(Ior { write: false, ..ior() }, options(&cluster.url())).await.unwrap();
    let mut examples = report.verification.examples;
    examples.sort_by_key(|example| matches!(example, WrongRead::Length { .. }));
    let path = "/run/file.0".to_owned();
    let expected = [
        WrongRead::Content { path: path.clone(), offset: 123_456, expected: byte, found: !byte, count: 1 },
        WrongRead::Length { path, offset: size - 10_007, expected: 10_007, found: 10_002 },
    ];
    assert_eq!(examples, expected);
    assert_eq!(report.verification.wrong_reads, 2);
}

#[tokio::test]
async fn btio_alternates_io_and_computation() {
    let cluster = cluster().await;
    let plan = Btio {
        processes: 6,
        nodes: 2,
        iterations: 3,
        total_bytes: 6 * 3 * 4 * 320,
        think_write: Duration::from_millis(40),
        think_read: Duration::from_millis(20),
        ..Btio::class(BtioClass::A)
    };
    let report = run(plan, options(&cluster.url())).await.unwrap();
    assert_eq!(report.verification.checked_bytes, 6 * 3 * 4 * 320);
    assert!(report.verification.is_clean());
    assert!(report.think_seconds >= 0.18 && report.run_seconds >= report.think_seconds, "{report:?}");
    let parts = report.io_seconds + report.think_seconds + report.wait_seconds;
    assert!((parts / report.run_seconds - 1.0).abs() < 0.1, "{parts} of {}", report.run_seconds);
    assert_empty(&cluster).await;
}

#[tokio::test]
async fn md_does_every_phase_and_leaves_nothing() {
    let cluster = cluster().await;
    for shared_directory in [false, true] {
        let plan = Md { processes: 4, items: 25, listings: 3, shared_directory, data: None };
        let report = run(plan, options(&cluster.url())).await.unwrap();
        for (phase, operations) in [
            (Phase::Create, 100),
            (Phase::Stat, 100),
            (Phase::SetTimes, 100),
            (Phase::ListDir, 12),
            (Phase::RemoveDir, 100),
        ] {
            assert_eq!(report.phase(phase).map(|phase| phase.operations), Some(operations), "{phase}");
        }
    }
    assert_empty(&cluster).await;
}

/// Every byte read is verified, and the number read is that of the plan.
async fn assert_reads(cluster: &EmbeddedCluster, plan: impl Plan + 'static, bytes: u64) -> Report {
    let report = run(plan, options(&cluster.url())).await.unwrap();
    assert_eq!(report.verification.checked_bytes, bytes);
    assert!(report.verification.is_clean());
    assert_empty(cluster).await;
    report
}

#[tokio::test]
async fn patterns_of_one_shared_file_are_written_and_verified() {
    let cluster = cluster().await;
    for pattern in [PioPattern::Segmented, PioPattern::Strided] {
        let plan = PioBench { request_bytes: 3001, requests: 5, pattern, ..PioBench::paper(4) };
        assert_reads(&cluster, plan, 4 * 5 * 3001).await;
    }
    for collective in [false, true] {
        let plan = MpiTileIo { row_bytes: 701, requests: 2, collective, nodes: 2, ..MpiTileIo::paper(2, 3) };
        assert_reads(&cluster, plan, 6 * 2 * 32 * 701).await;
    }
    let plan = Noncontig { block_bytes: 501, requests: 2, ..Noncontig::paper(4) };
    let report = assert_reads(&cluster, plan, 4 * 2 * 32 * 501).await;
    let writes = report.phase(Phase::Write).map(|phase| phase.operations);
    assert_eq!(writes, Some(4 * 2 * 32), "without list I/O, each block is a call");
}

#[tokio::test]
async fn mixed_phases_are_run_and_verified() {
    let cluster = cluster().await;
    let wrf = Wrf {
        processes: 4,
        input_bytes: 100_000,
        output_bytes: 400_000,
        restart_bytes: 4_000_000,
        forecast_minutes: 2,
        think: Duration::ZERO,
        transfer_min_bytes: 1000,
        transfer_max_bytes: 100_000,
        ..Wrf::PAPER
    };
    let report = assert_reads(&cluster, wrf, 100_000).await;
    assert_eq!(report.phase(Phase::Mixed).map(|phase| phase.bytes), Some(4_400_000));

    let report = run(Ior { mixed: true, read: false, ..ior() }, options(&cluster.url())).await.unwrap();
    assert_eq!(report.phase(Phase::Mixed).map(|phase| phase.bytes), Some(4 * 3 * 100_070));
    assert!(report.verification.checked_bytes > 0 && report.verification.is_clean());
}

#[tokio::test]
async fn md_writes_and_reads_its_data() {
    let cluster = cluster().await;
    let data = Some(MdData { bytes: 10_001, transfer_bytes: 4000 });
    let plan = Md { processes: 4, items: 3, listings: 1, shared_directory: false, data };
    assert_reads(&cluster, plan, 4 * 10_001).await;
}

#[tokio::test]
async fn an_application_with_think_time_reads_what_filled_the_file() {
    let cluster = cluster().await;
    let (file_bytes, time) = ((1 << 20) + 5000, Duration::from_millis(200));
    let plan = Interactive { think: Duration::from_millis(2), ..interactive(4, 3001, file_bytes, time) };
    for (read, phase) in [(true, Phase::Read), (false, Phase::Write)] {
        let report = run(Interactive { read, ..plan.clone() }, options(&cluster.url())).await.unwrap();
        assert_eq!(report.phase(Phase::Setup).map(|phase| phase.bytes), Some(4 * plan.file_bytes));
        let calls = report.phase(phase).unwrap();
        assert!(calls.operations >= 4 && calls.bytes == calls.operations * 3001, "{calls:?}");
        assert!(report.verification.is_clean(), "{:?}", report.verification);
        assert_eq!(report.verification.checked_bytes, if read { calls.bytes } else { 0 });
        assert!(report.think_seconds > 0.0);
    }
    assert_empty(&cluster).await;
}

#[tokio::test]
async fn a_run_that_cannot_continue_reports_what_failed() {
    let cluster = cluster().await;
    let error = run(Ior { write: false, ..ior() }, options(&cluster.url())).await.unwrap_err();
    assert!(matches!(&error, RunError::Call { call: "open", source, .. } if source.is_not_found()), "{error}");

    let kept = || RunOptions { keep: true, ..options(&cluster.url()) };
    run(Ior { keep: true, ..ior() }, kept()).await.unwrap();
    let error = run(ior(), kept()).await.unwrap_err();
    assert!(matches!(&error, RunError::Call { call: "create", source, .. } if source.is_already_exists()), "{error}");
    assert!(run(ior(), RunOptions { overwrite: true, ..kept() }).await.is_ok());
}

#[tokio::test]
async fn a_time_limit_ends_a_run_and_a_handle_watches_it() {
    let cluster = cluster().await;
    let time_limit = Some(Duration::from_millis(300));
    let plan = Ior { block_bytes: 10_007, segments: 1, read: false, time_limit, ..ior() };
    let run = Run::prepare(Arc::new(plan), options(&cluster.url())).await.unwrap();
    let handle = run.handle();
    let run = tokio::spawn(run.execute());
    while handle.progress().is_none_or(|progress| progress.bytes == 0) {
        assert!(!run.is_finished(), "{:?}", handle.progress());
        tokio::task::yield_now().await;
    }
    assert_eq!(handle.progress().map(|progress| progress.phase), Some(Phase::Write));
    let report = run.await.unwrap().unwrap();
    assert!(
        report.run_seconds >= 0.3 && report.phase(Phase::Write).is_some_and(|phase| phase.operations > 4),
        "{report:?}"
    );
    assert_empty(&cluster).await;
}

async fn nfs_client(server: &NfsServer) -> nfs::Client {
    nfs::Client::connect(&ClientOptions::new(server.url().to_string())).await.unwrap()
}

#[tokio::test]
async fn loads_over_nfs_are_verified_and_leave_nothing() {
    let server = NfsServer::start(NfsConfig::default()).await.unwrap();
    for connections in [Connections::PerNode, Connections::PerProcess] {
        // Calls of more than the server's largest one, in a file that grows from everywhere.
        let (file_mode, order) = (FileMode::Shared, Order::Random);
        let call = (2 << 20) + 10_007;
        let plan = Ior { file_mode, order, read: true, fsync: true, ..Ior::writes(4, call, 3 * u64::from(call)) };
        let total = plan.total_bytes();
        let report = run(plan, RunOptions { connections, ..options(&server.url()) }).await.unwrap();
        assert_eq!(report.phase(Phase::Write).map(|phase| phase.bytes), Some(total));
        assert_eq!(report.verification.checked_bytes, total);
        assert!(report.verification.is_clean(), "{:?}", report.verification);
        let plan = Md { processes: 4, items: 25, listings: 3, shared_directory: true, data: None };
        let report = run(plan, RunOptions { connections, ..options(&server.url()) }).await.unwrap();
        for (phase, operations) in
            [(Phase::Create, 100), (Phase::Stat, 100), (Phase::SetTimes, 100), (Phase::ListDir, 12)]
        {
            assert_eq!(report.phase(phase).map(|phase| phase.operations), Some(operations), "{phase}");
        }
    }
    assert_eq!(nfs_client(&server).await.readdir("/").await.unwrap(), 0);
}

#[tokio::test]
async fn long_listings_come_in_parts() {
    let server = NfsServer::start(NfsConfig::default()).await.unwrap();
    let client = nfs_client(&server).await;
    client.mkdir("/d", 0o755).await.unwrap();
    for number in 0..800 {
        client.create(&format!("/d/{number:0200}")).await.unwrap();
    }
    assert_eq!(client.readdir("/d").await.unwrap(), 800);
}

/// What the demo needs: the device decides how long calls take, whichever connection they come from.
#[tokio::test(start_paused = true)]
async fn calls_of_one_connection_wait_for_the_device_at_the_same_time() {
    let device = SsdProfile { read_base: Duration::from_millis(100), ..SsdProfile::PCIE_X4 };
    let stripe = device.stripe_bytes;
    let config = NfsConfig { device: DeviceProfile::Ssd(device), clock: DeviceClock::Tokio, ..NfsConfig::default() };
    let server = NfsServer::start(config).await.unwrap();
    let client = nfs_client(&server).await;
    let file = client.create("/file").await.unwrap();
    client
        .write_at(&file, 0, &Bytes::from(vec![7; 8 * usize::try_from(stripe).unwrap()]), stable_how::FILE_SYNC)
        .await
        .unwrap();
    let begin = Instant::now();
    let mut reads = JoinSet::new();
    for channel in 0..8 {
        let (client, file) = (client.clone(), file.clone());
        reads.spawn(async move { client.read_at(&file, channel * stripe, 4096).await.unwrap() });
    }
    assert!(reads.join_all().await.iter().all(|data| data.len() == 4096));
    let took = begin.elapsed();
    assert!((Duration::from_millis(100)..Duration::from_millis(150)).contains(&took), "{took:?}");
}

#[tokio::test]
async fn refusals_of_nfs_say_why() {
    let server = NfsServer::start(NfsConfig { capacity_bytes: 1 << 20, ..NfsConfig::default() }).await.unwrap();
    let client = nfs_client(&server).await;
    let file = client.create("/file").await.unwrap();
    assert!(client.create("/file").await.unwrap_err().is_already_exists());
    assert!(client.open("/other").await.unwrap_err().is_not_found());
    let full = client.write_at(&file, 0, &Bytes::from(vec![0; 2 << 20]), stable_how::FILE_SYNC).await.unwrap_err();
    assert_eq!(full.to_string(), "NFS3ERR_NOSPC");
    let elsewhere = ClientOptions::new(server.url().to_string().replace("/vpfs", "/home"));
    let unknown = nfs::Client::connect(&elsewhere).await.unwrap_err();
    assert!(matches!(&unknown, NfsError::Mount { export, .. } if export == "/home"), "{unknown}");
    let address = server.address().to_string();
    let both = ["NFSv3", "the mount protocol of NFSv3"];
    assert_eq!(answers(&address, Duration::from_secs(5)).await.unwrap(), both);
}

/// The client of the crate `nfs3_client` reads for ever from a connection that was closed.
#[tokio::test]
async fn a_connection_that_is_closed_ends_its_calls() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { while listener.accept().await.is_ok() {} });
    let ended = nfs::Client::connect(&ClientOptions::new(format!("nfs://{address}/vpfs?mountport={}", address.port())))
        .await
        .unwrap_err();
    let kinds = [ErrorKind::UnexpectedEof, ErrorKind::ConnectionReset, ErrorKind::BrokenPipe];
    assert!(matches!(&ended, NfsError::Connection { kind, .. } if kinds.contains(kind)), "{ended:?}");
}
