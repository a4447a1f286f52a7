//! Executes a plan: one task for each process, each with one call outstanding, over a client for each node.

mod file_system;
mod names;
mod process;

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Barrier, mpsc};
use tokio::task::JoinSet;
use tokio::time::Instant;

pub use file_system::FileSystemError;

use file_system::FileSystem;
use names::Names;
use process::Process;
use vpfs_model::plan::{Extent, Phase, Plan, node};

use crate::client::{ClientOptions, CreateOptions};
use crate::load::content::Content;
use crate::load::measure::{Progress, Recorder, Report};

/// Which processes share connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Connections {
    /// One client for each node, as the processes of a host share its client module.
    #[default]
    PerNode,
    /// One client for each process, as with a user-space library.
    PerProcess,
}

/// When what a process writes is on stable storage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SyncMode {
    /// When the server says so: on OrangeFS by its configuration, on NFS with each write.
    #[default]
    Stable,
    /// Some time later, or when the plan says so; the same as `Stable` on OrangeFS.
    Unstable,
    /// After each write, which the process asks for.
    Each,
}

/// The target and identity of a plan's run.
#[derive(Clone, Debug)]
pub struct RunOptions {
    /// Target, user and time-outs; the local address comes from `local_addresses`. The target is NFS if its URL begins
    /// with `nfs://`.
    pub client: ClientOptions,
    /// Node n connects from address n modulo the number of addresses; empty: the system chooses.
    pub local_addresses: Vec<IpAddr>,
    /// Number of nodes, at most the number of processes; filled in blocks.
    pub nodes: u32,
    /// Which processes share connections.
    pub connections: Connections,
    /// Absolute path of the run's directory: created if it does not exist, and then also removed.
    pub directory: String,
    /// Layout of new files, on OrangeFS.
    pub create: CreateOptions,
    /// Whether to replace an existing file instead of failing.
    pub overwrite: bool,
    /// Whether the directory is kept.
    pub keep: bool,
    /// When writes are on stable storage.
    pub sync: SyncMode,
    /// Seed of file contents.
    pub seed: u64,
    /// Length of an interval of the timeline.
    pub interval: Duration,
    /// Where each transfer is reported, except those that prepare files ([`Phase::Setup`]). A process waits for room
    /// before its next call.
    pub trace: Option<mpsc::Sender<Transfer>>,
}

/// A call that moved data.
#[derive(Clone, Debug)]
pub struct Transfer {
    /// Number of the process.
    pub process: u32,
    /// Whether it wrote.
    pub is_write: bool,
    /// What it moved.
    pub extent: Extent,
    /// The path of the file.
    pub path: String,
    /// When the call began.
    pub began: Instant,
    /// When it returned.
    pub done: Instant,
}

/// Why a run ended before its plan was done.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages explain the fields")]
pub enum RunError {
    /// A node could not connect.
    #[error("node {node} cannot connect: {source}")]
    Connect { node: u32, source: FileSystemError },
    /// A call failed after the retries the protocol allows.
    #[error("process {process}: {call} {path}: {source}")]
    Call { process: u32, call: &'static str, path: String, source: FileSystemError },
    /// A background run ended before the measurement did.
    #[error("the load ended before the measurement did; its time limit is too short")]
    EndedEarly,
    /// A process panicked: a bug.
    #[error("a process ended abnormally: {0}")]
    Process(#[from] tokio::task::JoinError),
}

/// A plan with its clients connected and its directory created, ready to run.
pub struct Run {
    shared: Arc<Shared>,
    /// One for each process; those of a node are clones, unless each process has its own.
    clients: Vec<FileSystem>,
    nodes: u32,
    made_directory: bool,
    keep: bool,
}

/// Watches a run.
#[derive(Clone)]
pub struct RunHandle(Arc<Shared>);

/// State shared by all processes of a run.
struct Shared {
    plan: Arc<dyn Plan>,
    names: Names,
    content: Content,
    create: CreateOptions,
    overwrite: bool,
    sync: SyncMode,
    recorder: Recorder,
    barrier: Barrier,
    trace: Option<mpsc::Sender<Transfer>>,
}

impl Shared {
    /// Measures a call that moved data, and reports it.
    async fn transfer(&self, phase: Phase, process: u32, is_write: bool, extent: Extent, began: Instant) {
        let done = Instant::now();
        self.recorder.call(phase, began, done, u64::from(extent.bytes));
        if let Some(trace) = self.trace.as_ref().filter(|_| phase != Phase::Setup) {
            let path = self.names.file(extent.file);
            // A receiver that has gone wants no more.
            let _ = trace.send(Transfer { process, is_write, extent, path, began, done }).await;
        }
    }
}

impl Run {
    /// Connects and creates the directory. Nothing is measured yet.
    ///
    /// # Errors
    /// A node cannot connect, or the directory can be neither found nor created.
    pub async fn prepare(plan: Arc<dyn Plan>, options: RunOptions) -> Result<Self, RunError> {
        let processes = plan.processes();
        let nodes = options.nodes.clamp(1, processes);
        let clients = connect(&options, nodes, processes).await?;
        let made_directory = make_directory(&clients[0], &options.directory).await?;
        let shared = Shared {
            plan,
            names: Names::new(options.directory),
            content: Content::new(options.seed),
            create: options.create,
            overwrite: options.overwrite,
            sync: options.sync,
            recorder: Recorder::new(options.interval),
            barrier: Barrier::new(processes as usize),
            trace: options.trace,
        };
        Ok(Self { shared: Arc::new(shared), clients, nodes, made_directory, keep: options.keep })
    }

    /// The addresses that its connections come from, each with those of the servers or proxies that it connects to.
    pub fn ends(&self) -> BTreeSet<(IpAddr, SocketAddr)> {
        self.clients.iter().flat_map(FileSystem::ends).collect()
    }

    /// Stays valid while [`Self::execute`] runs and after it.
    pub fn handle(&self) -> RunHandle {
        RunHandle(Arc::clone(&self.shared))
    }

    /// Runs the plan until it is done.
    ///
    /// # Errors
    /// The first call that failed; the other processes are stopped at once, and files are kept.
    pub async fn execute(self) -> Result<Report, RunError> {
        let processes = self.shared.plan.processes();
        let mut tasks = JoinSet::new();
        for number in 0..processes {
            let client = self.clients[number as usize].clone();
            tasks.spawn(Process::new(number, client, Arc::clone(&self.shared)).run());
        }
        while let Some(ended) = tasks.join_next().await {
            ended??;
        }
        if self.made_directory && !self.keep {
            let path = self.shared.names.base();
            self.clients[0].rmdir(path).await.map_err(|source| directory_error("rmdir", path, source))?;
        }
        Ok(self.shared.recorder.report(processes, self.nodes))
    }
}

/// The client of each process.
async fn connect(options: &RunOptions, nodes: u32, processes: u32) -> Result<Vec<FileSystem>, RunError> {
    let mut clients: Vec<FileSystem> = Vec::new();
    for process in 0..processes {
        let node = node::of_process(process, nodes, processes);
        let first = node::first_process(node, nodes, processes);
        if process != first && options.connections == Connections::PerNode {
            clients.push(clients[first as usize].clone());
            continue;
        }
        let local_address = options.local_addresses.iter().cycle().nth(node as usize).copied();
        let client = ClientOptions { local_address, ..options.client.clone() };
        clients.push(FileSystem::connect(client).await.map_err(|source| RunError::Connect { node, source })?);
    }
    Ok(clients)
}

/// Whether the directory had to be created.
async fn make_directory(client: &FileSystem, path: &str) -> Result<bool, RunError> {
    match client.mkdir(path).await {
        Ok(()) => Ok(true),
        Err(error) if error.is_already_exists() => Ok(false),
        Err(source) => Err(directory_error("mkdir", path, source)),
    }
}

fn directory_error(call: &'static str, path: &str, source: FileSystemError) -> RunError {
    RunError::Call { process: 0, call, path: path.to_owned(), source }
}

impl RunHandle {
    /// How far the run is; `None` before its first phase.
    pub fn progress(&self) -> Option<Progress> {
        self.0.recorder.progress(Instant::now())
    }

    /// What it does.
    pub fn plan(&self) -> &dyn Plan {
        &*self.0.plan
    }
}
