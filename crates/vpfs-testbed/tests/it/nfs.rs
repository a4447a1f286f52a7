//! The embedded NFS server and the client, over loopback.

use std::io::ErrorKind;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use nfs3_types::nfs3::stable_how;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio::time::Instant;
use vpfs_sim::model::device::{DeviceProfile, SsdProfile};
use vpfs_sim::model::plan::{FileMode, Ior, Md, Order, Phase, Plan};
use vpfs_testbed::load::measure::Report;
use vpfs_testbed::load::run::{Connections, Run, RunError, RunOptions, SyncMode};
use vpfs_testbed::nfs::{Client, NfsConfig, NfsError, NfsServer, answers};
use vpfs_testbed::{ClientOptions, CreateOptions, DeviceClock};

async fn client(server: &NfsServer) -> Client {
    Client::connect(&ClientOptions::new(server.url().to_string())).await.unwrap()
}

async fn run(server: &NfsServer, plan: impl Plan + 'static, connections: Connections) -> Result<Report, RunError> {
    let options = RunOptions {
        client: ClientOptions::new(server.url().to_string()),
        local_addresses: vec![Ipv4Addr::new(127, 0, 3, 1).into(), Ipv4Addr::new(127, 0, 3, 2).into()],
        nodes: 2,
        connections,
        directory: "/run".to_owned(),
        create: CreateOptions::default(),
        overwrite: false,
        keep: false,
        sync: SyncMode::Stable,
        seed: 1,
        interval: Duration::from_millis(100),
        trace: None,
        stop: Arc::default(),
    };
    Run::prepare(Arc::new(plan), options).await?.execute().await
}

#[tokio::test]
async fn loads_are_verified_and_leave_nothing() {
    let server = NfsServer::start(NfsConfig::default()).await.unwrap();
    for connections in [Connections::PerNode, Connections::PerProcess] {
        // Calls of more than the server's largest one, in a file that grows from everywhere.
        let (file_mode, order) = (FileMode::Shared, Order::Random);
        let call = (2 << 20) + 10_007;
        let plan = Ior { file_mode, order, read: true, fsync: true, ..Ior::writes(4, call, 3 * u64::from(call)) };
        let total = plan.total_bytes();
        let report = run(&server, plan, connections).await.unwrap();
        assert_eq!(report.phase(Phase::Write).map(|phase| phase.bytes), Some(total));
        assert_eq!(report.verification.checked_bytes, total);
        assert!(report.verification.is_clean(), "{:?}", report.verification);
        let plan = Md { processes: 4, items: 25, listings: 3, shared_directory: true, data: None };
        let report = run(&server, plan, connections).await.unwrap();
        for (phase, operations) in
            [(Phase::Create, 100), (Phase::Stat, 100), (Phase::SetTimes, 100), (Phase::ListDir, 12)]
        {
            assert_eq!(report.phase(phase).map(|phase| phase.operations), Some(operations), "{phase}");
        }
    }
    assert_eq!(client(&server).await.readdir("/").await.unwrap(), 0);
}

#[tokio::test]
async fn long_listings_come_in_parts() {
    let server = NfsServer::start(NfsConfig::default()).await.unwrap();
    let client = client(&server).await;
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
    let client = client(&server).await;
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
async fn refusals_say_why() {
    let server = NfsServer::start(NfsConfig { capacity_bytes: 1 << 20, ..NfsConfig::default() }).await.unwrap();
    let client = client(&server).await;
    let file = client.create("/file").await.unwrap();
    assert!(client.create("/file").await.unwrap_err().is_already_exists());
    assert!(client.open("/other").await.unwrap_err().is_not_found());
    let full = client.write_at(&file, 0, &Bytes::from(vec![0; 2 << 20]), stable_how::FILE_SYNC).await.unwrap_err();
    assert_eq!(full.to_string(), "NFS3ERR_NOSPC");
    let elsewhere = ClientOptions::new(server.url().to_string().replace("/vpfs", "/home"));
    let unknown = Client::connect(&elsewhere).await.unwrap_err();
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
    let ended = Client::connect(&ClientOptions::new(format!("nfs://{address}/vpfs?mountport={}", address.port())))
        .await
        .unwrap_err();
    let kinds = [ErrorKind::UnexpectedEof, ErrorKind::ConnectionReset, ErrorKind::BrokenPipe];
    assert!(matches!(&ended, NfsError::Connection { kind, .. } if kinds.contains(kind)), "{ended:?}");
}
