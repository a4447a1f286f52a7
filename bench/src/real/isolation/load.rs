//! The two applications, and what each did in a window of time.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, sleep_until};
use vpfs_sim::model::plan::{
    Amount, Call, Dir, Extent, FileId, Interactive, Ior, Limit, Phase, Plan, PlanError, Step, Steps,
};
use vpfs_testbed::client::{ClientOptions, CreateOptions};
use vpfs_testbed::load::run::{Connections, Run, RunOptions, SyncMode, Transfer};

use super::site::Kind;

/// What each process of the small application does, with one call outstanding and time to think before each.
#[derive(Clone, Copy, Debug)]
pub(super) struct Small {
    pub(super) name: &'static str,
    pub(super) bytes: u32,
    pub(super) reads: bool,
    pub(super) sync: SyncMode,
}

/// When the large application is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// From five seconds after the small one on.
    SmallFirst,
    /// For twenty seconds before the small one comes.
    LargeFirst,
    /// As `LargeFirst`, with files that are new, whose places are in the file system's journal.
    NewFiles,
    /// As `SmallFirst`, with 512 MiB each 13 seconds.
    Bursts,
}

impl Order {
    pub(super) const ALL: [(Self, &str); 4] = [
        (Self::SmallFirst, "small first"),
        (Self::LargeFirst, "large first"),
        (Self::NewFiles, "large first, new files"),
        (Self::Bursts, "bursts"),
    ];

    fn is_large_first(self) -> bool {
        matches!(self, Self::LargeFirst | Self::NewFiles)
    }
}

/// The large application: each process writes its own file from start to end, again and again.
#[derive(Clone, Copy, Debug)]
struct Large {
    processes: u32,
    transfer_bytes: u32,
    order: Order,
    time: Duration,
}

impl Large {
    /// Of all processes together: more than the kernel keeps in memory, so that nothing is written twice before it is
    /// stored.
    const BYTES: u64 = 4608 << 20;
    const BURST_BYTES: u64 = 512 << 20;
    const BURST_EVERY: Duration = Duration::from_secs(13);

    fn new(kind: Kind, order: Order, time: Duration) -> Self {
        let (processes, transfer_bytes) = match kind {
            Kind::Nfs => (8, 1 << 20),
            Kind::Orangefs => (12, 4 << 20),
        };
        Self { processes, transfer_bytes, order, time }
    }

    fn file_bytes(&self) -> u64 {
        Self::BYTES / u64::from(self.processes)
    }
}

impl Plan for Large {
    fn validate(&self) -> Result<(), PlanError> {
        Ok(())
    }

    fn processes(&self) -> u32 {
        self.processes
    }

    fn phases(&self) -> Vec<Phase> {
        if self.order == Order::NewFiles { vec![Phase::Create, Phase::Write] } else { vec![Phase::Write] }
    }

    fn steps(&self, phase: Phase, process: u32) -> Steps {
        let file = FileId { dir: Dir::Base, number: process };
        if phase == Phase::Create {
            return Box::new([Step::Call(Call::Create(file))].into_iter());
        }
        let Self { transfer_bytes: bytes, order, .. } = *self;
        let (calls, processes) = (self.file_bytes() / u64::from(bytes), u64::from(self.processes));
        let in_burst = Self::BURST_BYTES / processes / u64::from(bytes);
        Box::new((0..u64::MAX).flat_map(move |call| {
            let pause = (order == Order::Bursts && call > 0 && call % in_burst == 0).then(|| {
                let burst = u32::try_from(call / in_burst).unwrap_or(u32::MAX);
                Step::Until(Self::BURST_EVERY.saturating_mul(burst))
            });
            let write = Call::Write(Extent { file, offset: call % calls * u64::from(bytes), bytes });
            pause.into_iter().chain([Step::Call(write)])
        }))
    }

    fn limit(&self, phase: Phase) -> Option<Limit> {
        (phase == Phase::Write).then_some(Limit { time: self.time, at_least_steps: 0 })
    }

    fn amount(&self, _: Phase) -> Option<Amount> {
        None
    }
}

/// How long one is there before the other.
const LEAD: Duration = Duration::from_secs(20);
const SMALL_LEAD: Duration = Duration::from_secs(5);
/// What the promise leaves for finding a rate.
pub(super) const SETTLING: Duration = Duration::from_secs(5);
const FILE_BYTES: u64 = 16 << 20;
const THINK: Duration = Duration::from_millis(2);

/// What an application did in a window.
#[derive(Clone, Copy, Debug, Default, serde::Serialize)]
pub(super) struct Done {
    pub(super) calls_per_second: f64,
    pub(super) bytes_per_second: f64,
    /// Of the calls that ended; `None` if none did.
    pub(super) mean_seconds: Option<f64>,
    pub(super) p99_seconds: Option<f64>,
}

/// The calls of a running application.
#[derive(Clone, Default)]
struct Calls(Arc<Mutex<Vec<(Instant, Duration, u32)>>>);

impl Calls {
    /// Collects what a run reports.
    fn collect(&self) -> mpsc::Sender<Transfer> {
        let (sender, mut receiver) = mpsc::channel::<Transfer>(1024);
        let calls = self.clone();
        tokio::spawn(async move {
            while let Some(transfer) = receiver.recv().await {
                let took = transfer.done - transfer.began;
                calls.0.lock().unwrap_or_else(PoisonError::into_inner).push((
                    transfer.done,
                    took,
                    transfer.extent.bytes,
                ));
            }
        });
        sender
    }

    fn between(&self, from: Instant, to: Instant) -> Done {
        let calls = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let within = calls.iter().filter(|(done, ..)| (from..to).contains(done));
        let (mut times, mut bytes) = (Vec::new(), 0.0);
        for (_, took, moved) in within {
            times.push(took.as_secs_f64());
            bytes += f64::from(*moved);
        }
        times.sort_by(f64::total_cmp);
        let (count, seconds) = (times.len() as f64, (to - from).as_secs_f64());
        Done {
            calls_per_second: count / seconds,
            bytes_per_second: bytes / seconds,
            mean_seconds: (!times.is_empty()).then(|| times.iter().sum::<f64>() / count),
            p99_seconds: times.get(times.len() * 99 / 100).copied(),
        }
    }
}

fn options(url: &str, directory: &str, sync: SyncMode) -> RunOptions {
    RunOptions {
        client: ClientOptions::new(url),
        local_addresses: Vec::new(),
        nodes: 1,
        connections: Connections::PerProcess,
        directory: directory.to_owned(),
        create: CreateOptions::simple_stripe(64 << 10),
        overwrite: true,
        keep: true,
        sync,
        seed: 1,
        interval: Duration::from_secs(1),
        trace: None,
        stop: Arc::default(),
    }
}

async fn prepare(plan: impl Plan + 'static, options: RunOptions) -> Result<Run, String> {
    Run::prepare(Arc::new(plan), options).await.map_err(|error| error.to_string())
}

/// The small application's processes: alone they must not be all that the disks can do.
fn processes(kind: Kind) -> u32 {
    match kind {
        Kind::Nfs => 1,
        Kind::Orangefs => 4,
    }
}

/// Writes the files of both, and stores them.
pub(super) async fn fill(kind: Kind, url: &str) -> Result<(), String> {
    let Large { processes: larges, .. } = Large::new(kind, Order::LargeFirst, Duration::ZERO);
    for (directory, processes, bytes) in
        [("/small", processes(kind), FILE_BYTES), ("/large", larges, Large::BYTES / u64::from(larges))]
    {
        let plan = Ior { fsync: true, keep: true, ..Ior::writes(processes, 1 << 20, bytes) };
        let run = prepare(plan, options(url, directory, SyncMode::Unstable)).await?;
        run.execute().await.map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// Starts the small application; it ends with the runtime.
async fn small(kind: Kind, url: &str, small: Small) -> Result<Calls, String> {
    let plan = Interactive {
        processes: processes(kind),
        transfer_bytes: small.bytes,
        file_bytes: FILE_BYTES,
        think: THINK,
        time: Duration::from_secs(86_400),
        read: small.reads,
        fills: false,
        seed: 1,
    };
    let calls = Calls::default();
    start(plan, options(url, "/small", small.sync), &calls).await?;
    Ok(calls)
}

/// Starts the large application, which calls for `time`.
async fn large(kind: Kind, url: &str, order: Order, time: Duration) -> Result<Calls, String> {
    let calls = Calls::default();
    start(Large::new(kind, order, time), options(url, "/large", SyncMode::Unstable), &calls).await?;
    Ok(calls)
}

async fn start(plan: impl Plan + 'static, options: RunOptions, calls: &Calls) -> Result<(), String> {
    let run = prepare(plan, RunOptions { trace: Some(calls.collect()), ..options }).await?;
    tokio::spawn(async move {
        if let Err(error) = run.execute().await {
            eprintln!("an application ended: {error}");
        }
    });
    Ok(())
}

/// The small application alone.
pub(super) async fn small_alone(kind: Kind, url: &str, what: Small, time: Duration) -> Result<Done, String> {
    let calls = small(kind, url, what).await?;
    sleep(SETTLING).await;
    let from = Instant::now();
    sleep(time).await;
    Ok(calls.between(from, from + time))
}

/// The large one alone, at the time at which it is measured beside the small one.
pub(super) async fn large_alone(kind: Kind, url: &str, order: Order, time: Duration) -> Result<Done, String> {
    let lead = if order.is_large_first() { LEAD } else { Duration::ZERO };
    let from = Instant::now() + lead + SETTLING;
    let calls = large(kind, url, order, lead + SETTLING + time).await?;
    sleep_until(from + time).await;
    Ok(calls.between(from, from + time))
}

/// Both, from five seconds after the later one's arrival on.
pub(super) async fn both(
    kind: Kind,
    urls: &[String; 2],
    what: Small,
    order: Order,
    time: Duration,
) -> Result<[Done; 2], String> {
    let began = Instant::now();
    let lead = if order.is_large_first() { LEAD } else { SMALL_LEAD };
    let from = began + lead + SETTLING;
    let (smalls, larges) = if order.is_large_first() {
        let larges = large(kind, &urls[1], order, lead + SETTLING + time).await?;
        sleep_until(began + lead).await;
        (small(kind, &urls[0], what).await?, larges)
    } else {
        let smalls = small(kind, &urls[0], what).await?;
        sleep_until(began + lead).await;
        (smalls, large(kind, &urls[1], order, SETTLING + time).await?)
    };
    sleep_until(from + time).await;
    Ok([smalls, larges].map(|calls| calls.between(from, from + time)))
}
