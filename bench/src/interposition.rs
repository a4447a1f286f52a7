//! The cost of a proxy: the same work directly on embedded servers and through proxies, alternating within one run.
//!
//! On the disk model the device is the bottleneck, as it is in production: there the ratio to direct is the goal.
//! Without a device model the processors are the bottleneck: clients, proxies and servers share those of this machine,
//! so the ratios show the processor time of the hop, not what users would see.

use std::fmt::Write;
use std::net::{Ipv4Addr, TcpListener};
use std::time::Instant;

use bytes::Bytes;
use tokio::runtime::Runtime;
use tokio::task::JoinSet;
use vpfs_config::Config;
use vpfs_model::device::DeviceProfile;
use vpfs_proxy::Daemon;
use vpfs_testbed::client::{Client, ClientOptions, CreateOptions, File};
use vpfs_testbed::{ClusterConfig, EmbeddedCluster};

use crate::Effort;
use crate::report::Measurement;

const SERVERS: usize = 4;
/// Ways to the servers; the others are compared with the first one.
const WAYS: [&str; 3] = ["direct", "fifo", "sfq-d-plus"];
const TRANSFER: usize = 4 << 20;

type Failure = Box<dyn std::error::Error + Send + Sync>;

#[derive(Clone, Copy, PartialEq)]
enum Work {
    Write,
    Read,
    Metadata,
}

impl Work {
    const ALL: [Self; 3] = [Self::Write, Self::Read, Self::Metadata];

    fn title(self) -> &'static str {
        match self {
            Self::Write => "16 x write 4 MiB",
            Self::Read => "16 x read 4 MiB",
            Self::Metadata => "12 x create, remove",
        }
    }

    /// The goal for the ratio to direct where the device is the bottleneck.
    fn target(self) -> f64 {
        if self == Self::Metadata { 0.95 } else { 0.97 }
    }

    /// Requests in flight. Metadata stays below the depth: requests held back on purpose by a scheduler are not part of
    /// the cost of the hop.
    fn tasks(self) -> usize {
        if self == Self::Metadata { 12 } else { 16 }
    }
}

/// Ratios to direct, round by round, for each kind of work and way.
pub(crate) fn ratios(effort: Effort) -> Vec<Measurement> {
    let runtime = Runtime::new().expect("threads can be started");
    let devices = [("disk model", DeviceProfile::hdd()), ("no device", DeviceProfile::None)];
    let mut measurements = Vec::new();
    for (title, device) in devices {
        let bed = runtime.block_on(Bed::start(device)).expect("servers and proxies on loopback");
        for work in Work::ALL {
            let bounded = title == "disk model";
            let rounds = runtime.block_on(bed.rounds(work, bounded, effort)).expect("loopback traffic does not fail");
            for (way, subject) in WAYS.iter().enumerate().skip(1) {
                measurements.push(Measurement {
                    benchmark: "through a proxy",
                    subject,
                    input: format!("{}, {title}", work.title()),
                    unit: "of direct",
                    samples: rounds.iter().map(|seconds| seconds[0] / seconds[way]).collect(),
                    target: bounded.then_some(work.target()),
                    shares_max_min: None,
                });
            }
        }
    }
    measurements
}

/// Servers, and one client for each way to them.
struct Bed {
    clients: Vec<(Client, File)>,
    _proxies: Vec<Daemon>,
    _servers: EmbeddedCluster,
}

impl Bed {
    async fn start(device: DeviceProfile) -> Result<Self, Failure> {
        let servers =
            EmbeddedCluster::start(ClusterConfig { devices: vec![device], ..ClusterConfig::new(SERVERS) }).await?;
        let mut proxies = Vec::new();
        let mut urls = vec![servers.url()];
        for policy in &WAYS[1..] {
            let (text, port) = configuration(policy, &servers)?;
            let config = Config::parse("bench", &text).map_err(|problems| problems.to_string())?;
            let ids: Vec<_> = config.servers().map(|(id, _)| id).collect();
            proxies.push(Daemon::start(config, &ids).await?);
            urls.push(format!("tcp://127.0.0.1:{port}/{}", servers.fs_config().name));
        }
        let mut clients = Vec::new();
        for (way, url) in WAYS.iter().zip(urls) {
            let client = Client::connect(ClientOptions::new(url)).await?;
            let file = client.create(&format!("/{way}"), &CreateOptions::default()).await?;
            clients.push((client, file));
        }
        Ok(Self { clients, _proxies: proxies, _servers: servers })
    }

    /// Seconds of each way, round by round; the order changes from round to round.
    async fn rounds(&self, work: Work, bounded: bool, effort: Effort) -> Result<Vec<[f64; WAYS.len()]>, Failure> {
        let repeat = match (effort.quick, bounded, work) {
            (true, ..) => 1,
            (_, true, Work::Metadata) => 60,
            (_, true, _) => 6,
            (_, false, Work::Metadata) => 100,
            (_, false, _) => 40,
        };
        let mut rounds = Vec::new();
        // One additional round: the first one fills caches and is not counted.
        for round in 0..=effort.runs as usize {
            let mut seconds = [0.0; WAYS.len()];
            for turn in 0..WAYS.len() {
                let way = (round + turn) % WAYS.len();
                let (client, file) = &self.clients[way];
                seconds[way] = run(client, file, work, repeat).await?;
            }
            rounds.push(seconds);
        }
        Ok(rounds.split_off(1))
    }
}

async fn run(client: &Client, file: &File, work: Work, repeat: usize) -> Result<f64, Failure> {
    let data = Bytes::from(vec![0x5a; TRANSFER]);
    let start = Instant::now();
    let mut tasks: JoinSet<Result<(), Failure>> = JoinSet::new();
    for task in 0..work.tasks() {
        let (client, file, data) = (client.clone(), file.clone(), data.clone());
        tasks.spawn(async move {
            for step in 0..repeat {
                let offset = (TRANSFER * (task + step % 4 * work.tasks())) as u64;
                match work {
                    Work::Write => client.write_at(&file, offset, data.clone()).await?,
                    Work::Read => drop(client.read_at(&file, offset, TRANSFER).await?),
                    Work::Metadata => {
                        let path = format!("/m{}.{task}.{step}", file.handle());
                        client.create(&path, &CreateOptions::default()).await?;
                        client.remove(&path).await?;
                    }
                }
            }
            Ok(())
        });
    }
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    Ok(start.elapsed().as_secs_f64())
}

/// A configuration with proxies at free ports, and the first of these.
fn configuration(policy: &str, servers: &EmbeddedCluster) -> Result<(String, u16), Failure> {
    let listeners: Vec<TcpListener> =
        (0..SERVERS).map(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0))).collect::<Result<_, _>>()?;
    let mut text = format!("[scheduler]\npolicy = \"{policy}\"\n");
    let mut told = Vec::new();
    for (number, (address, listener)) in servers.addresses().iter().zip(&listeners).enumerate() {
        writeln!(text, "[[server]]\nname = \"s{number}\"\naddress = \"tcp://{address}\"")?;
        told.push(format!("s{number} = \"tcp://{}\"", listener.local_addr()?));
    }
    writeln!(text, "[[listener]]\naddresses = {{ {} }}", told.join(", "))?;
    Ok((text, listeners[0].local_addr()?.port()))
}
