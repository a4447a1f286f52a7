//! Executes a plan: one task for each process, each with one call outstanding, over a client for each node.

use std::collections::{BTreeSet, HashMap};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::future::{BoxFuture, FutureExt};
use nfs3_types::nfs3::stable_how;
use tokio::sync::{Barrier, mpsc};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use vpfs_sim::model::plan::{
    Call, Dir, Extent, FileId, Limit, Phase, Plan, Step, first_process_of_node, node_of_process,
};

use super::Content;
use super::measure::{Progress, Recorder, Report, WrongRead};
use crate::client::{Client, ClientError, ClientOptions, CreateOptions, File};
use crate::nfs;
use crate::nfs::NfsError;

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
    /// Once this is set, phases with a time limit are over.
    pub stop: Arc<AtomicBool>,
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
    #[error("node {node} cannot connect: {source}")]
    Connect { node: u32, source: FileSystemError },
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
    stop: Arc<AtomicBool>,
}

impl Shared {
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
    pub fn prepare(
        plan: Arc<dyn Plan>,
        options: RunOptions,
    ) -> BoxFuture<'static, std::result::Result<Self, RunError>> {
        Box::pin(async move {
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
                stop: options.stop,
            };
            Ok(Self { shared: Arc::new(shared), clients, nodes, made_directory, keep: options.keep })
        })
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
    pub fn execute(self) -> BoxFuture<'static, std::result::Result<Report, RunError>> {
        Box::pin(async move {
            let processes = self.shared.plan.processes();
            let mut tasks = JoinSet::new();
            for number in 0..processes {
                let client = self.clients[number as usize].clone();
                tasks.spawn(Process::new(number, client, Arc::clone(&self.shared)).run().boxed());
            }
            while let Some(ended) = tasks.join_next().await {
                ended??;
            }
            if self.made_directory && !self.keep {
                let path = self.shared.names.base();
                self.clients[0].rmdir(path).await.map_err(|source| directory_error("rmdir", path, source))?;
            }
            Ok(self.shared.recorder.report(processes, self.nodes))
        })
    }
}

async fn connect(options: &RunOptions, nodes: u32, processes: u32) -> std::result::Result<Vec<FileSystem>, RunError> {
    let mut clients: Vec<FileSystem> = Vec::new();
    for process in 0..processes {
        let node = node_of_process(process, nodes, processes);
        let first = first_process_of_node(node, nodes, processes);
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
async fn make_directory(client: &FileSystem, path: &str) -> std::result::Result<bool, RunError> {
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

/// The value that files' times are set to, in seconds since 1970: a constant, so that runs are repeatable.
const SET_TIME: u64 = 1_000_000_000;

struct Process {
    number: u32,
    client: FileSystem,
    shared: Arc<Shared>,
    files: HashMap<FileId, OpenFile>,
    /// Lent to a write and reclaimed after it, so that large writes do not allocate each time.
    buffer: BytesMut,
    /// What the buffer contains, so that repeated writes to one place need not generate the data again.
    buffered: Option<Extent>,
}

impl Process {
    fn new(number: u32, client: FileSystem, shared: Arc<Shared>) -> Self {
        Self { number, client, shared, files: HashMap::new(), buffer: BytesMut::new(), buffered: None }
    }

    async fn run(mut self) -> std::result::Result<(), RunError> {
        // All processes start together; this first wait is not part of the run.
        self.shared.barrier.wait().await;
        for phase in self.shared.plan.phases() {
            self.phase(phase).await?;
            self.wait_for_others().await;
        }
        Ok(())
    }

    async fn phase(&mut self, phase: Phase) -> std::result::Result<(), RunError> {
        let shared = Arc::clone(&self.shared);
        let begin = Instant::now();
        shared.recorder.begin_phase(phase, begin);
        let limit = shared.plan.limit(phase);
        for (done, step) in (0..).zip(shared.plan.steps(phase, self.number)) {
            let is_over = |limit: Limit| begin.elapsed() >= limit.time || shared.stop.load(Ordering::Relaxed);
            if limit.is_some_and(|limit| done >= limit.at_least_steps && is_over(limit)) {
                break;
            }
            self.step(phase, begin, step).await?;
        }
        shared.recorder.end_phase(phase, Instant::now());
        Ok(())
    }

    async fn step(&mut self, phase: Phase, phase_began: Instant, step: Step) -> std::result::Result<(), RunError> {
        match step {
            Step::Call(call) => self.call(phase, call).await.map_err(|source| self.error(call, source)),
            Step::Barrier => {
                self.wait_for_others().await;
                Ok(())
            }
            Step::Think(time) => {
                self.think(time).await;
                Ok(())
            }
            Step::Until(at) => {
                self.think(at.saturating_sub(phase_began.elapsed())).await;
                Ok(())
            }
        }
    }

    async fn think(&self, time: Duration) {
        let begin = Instant::now();
        sleep(time).await;
        self.shared.recorder.think(begin.elapsed());
    }

    async fn wait_for_others(&self) {
        let begin = Instant::now();
        self.shared.barrier.wait().await;
        self.shared.recorder.wait(begin.elapsed());
    }

    async fn call(&mut self, phase: Phase, call: Call) -> std::result::Result<(), FileSystemError> {
        match call {
            Call::Write(extent) => self.write(phase, extent).await,
            Call::Read(extent) => self.read(phase, extent).await,
            // The client has no list I/O: each block is a call, measured as one.
            Call::WriteStrided(strided) => {
                for extent in strided.extents() {
                    self.write(phase, extent).await?;
                }
                Ok(())
            }
            Call::ReadStrided(strided) => {
                for extent in strided.extents() {
                    self.read(phase, extent).await?;
                }
                Ok(())
            }
            other => {
                let begin = Instant::now();
                self.metadata(other).await?;
                self.shared.recorder.call(phase, begin, Instant::now(), 0);
                Ok(())
            }
        }
    }

    /// Generating the data is not work of the file system, so it is not measured.
    async fn write(&mut self, phase: Phase, extent: Extent) -> std::result::Result<(), FileSystemError> {
        let data = self.content(extent);
        let file = self.file(extent.file).await?;
        let begin = Instant::now();
        file.write_at(extent.offset, &data, self.shared.sync).await?;
        self.shared.transfer(phase, self.number, true, extent, begin).await;
        // Fails, at the cost of one allocation, if the client still holds a reference to the data.
        if let Ok(buffer) = data.try_into_mut() {
            (self.buffer, self.buffered) = (buffer, Some(extent));
        }
        Ok(())
    }

    async fn read(&mut self, phase: Phase, extent: Extent) -> std::result::Result<(), FileSystemError> {
        let file = self.file(extent.file).await?;
        let begin = Instant::now();
        let data = file.read_at(extent.offset, extent.bytes as usize).await?;
        let moved = Extent { bytes: u32::try_from(data.len()).unwrap_or(u32::MAX), ..extent };
        self.shared.transfer(phase, self.number, false, moved, begin).await;
        match self.verify(extent, &data) {
            Ok(()) => self.shared.recorder.checked(data.len() as u64),
            Err(wrong) => self.shared.recorder.wrong(wrong),
        }
        Ok(())
    }

    async fn metadata(&mut self, call: Call) -> std::result::Result<(), FileSystemError> {
        let path = self.shared.names.of(call);
        match call {
            Call::MakeDir(_) => self.client.mkdir(&path).await,
            Call::RemoveDir(_) => self.client.rmdir(&path).await,
            Call::ListDir(_) => self.client.readdir(&path).await,
            Call::Create(id) => {
                let file = self.create(&path).await?;
                self.files.insert(id, file);
                Ok(())
            }
            Call::Open(id) => {
                let file = self.client.open(&path).await?;
                self.files.insert(id, file);
                Ok(())
            }
            Call::Stat(_) => self.client.stat(&path).await,
            Call::SetTimes(_) => self.client.set_times(&path, SET_TIME).await,
            Call::Remove(_) => self.client.remove(&path).await,
            Call::Sync(id) => {
                let file = self.file(id).await?;
                file.fsync().await
            }
            Call::Write(_) | Call::Read(_) | Call::WriteStrided(_) | Call::ReadStrided(_) => {
                unreachable!("data calls have functions of their own")
            }
        }
    }

    async fn create(&self, path: &str) -> std::result::Result<OpenFile, FileSystemError> {
        match self.client.create(path, &self.shared.create).await {
            Err(error) if error.is_already_exists() && self.shared.overwrite => {
                self.client.remove(path).await?;
                self.client.create(path, &self.shared.create).await
            }
            result => result,
        }
    }

    fn content(&mut self, extent: Extent) -> Bytes {
        let mut buffer = std::mem::take(&mut self.buffer);
        if self.buffered.take() != Some(extent) {
            buffer.resize(extent.bytes as usize, 0);
            self.shared.content.fill(extent.file, extent.offset, &mut buffer);
        }
        buffer.freeze()
    }

    fn verify(&self, extent: Extent, data: &[u8]) -> std::result::Result<(), WrongRead> {
        let path = || self.shared.names.file(extent.file);
        if data.len() as u64 != u64::from(extent.bytes) {
            let (expected, found) = (u64::from(extent.bytes), data.len() as u64);
            return Err(WrongRead::Length { path: path(), offset: extent.offset, expected, found });
        }
        self.shared.content.check(extent.file, extent.offset, data).map_err(|wrong| WrongRead::Content {
            path: path(),
            offset: wrong.offset,
            expected: wrong.expected,
            found: wrong.found,
            count: wrong.count,
        })
    }

    /// The open file; plans open the files that they use, so this is only a look-up.
    async fn file(&mut self, id: FileId) -> std::result::Result<OpenFile, FileSystemError> {
        if let Some(file) = self.files.get(&id) {
            return Ok(file.clone());
        }
        let file = self.client.open(&self.shared.names.file(id)).await?;
        self.files.insert(id, file.clone());
        Ok(file)
    }

    fn error(&self, call: Call, source: FileSystemError) -> RunError {
        RunError::Call { process: self.number, call: call.name(), path: self.shared.names.of(call), source }
    }
}

/// Why an operation failed.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub enum FileSystemError {
    /// On OrangeFS.
    OrangeFs(#[from] ClientError),
    /// On NFS.
    Nfs(#[from] NfsError),
}

impl FileSystemError {
    /// Whether a name or object does not exist.
    pub fn is_not_found(&self) -> bool {
        match self {
            Self::OrangeFs(error) => error.is_not_found(),
            Self::Nfs(error) => error.is_not_found(),
        }
    }

    /// Whether a name exists already.
    pub fn is_already_exists(&self) -> bool {
        match self {
            Self::OrangeFs(error) => error.is_already_exists(),
            Self::Nfs(error) => error.is_already_exists(),
        }
    }

    /// Why there is no connection, if that is the reason.
    pub fn connection(&self) -> Option<std::io::ErrorKind> {
        match self {
            Self::OrangeFs(ClientError::Connection { kind, .. }) | Self::Nfs(NfsError::Connection { kind, .. }) => {
                Some(*kind)
            }
            _ => None,
        }
    }
}

#[derive(Clone)]
enum FileSystem {
    OrangeFs(Client),
    Nfs(nfs::Client),
}

#[derive(Clone)]
enum OpenFile {
    OrangeFs(Client, File),
    Nfs(nfs::Client, nfs::File),
}

/// The same call to either client.
macro_rules! either {
    ($self:expr, $client:ident => $call:expr) => {
        match $self {
            FileSystem::OrangeFs($client) => $call.await?,
            FileSystem::Nfs($client) => $call.await?,
        }
    };
}

impl FileSystem {
    /// The scheme of the URL says which it is.
    async fn connect(options: ClientOptions) -> Result<Self, FileSystemError> {
        Ok(match options.url.starts_with("nfs://") {
            true => Self::Nfs(nfs::Client::connect(&options).await?),
            false => Self::OrangeFs(Client::connect(options).await?),
        })
    }

    /// The address that each open connection comes from, and that of the server or proxy at its other end.
    fn ends(&self) -> Vec<(IpAddr, SocketAddr)> {
        match self {
            Self::OrangeFs(client) => client.ends().collect(),
            Self::Nfs(client) => vec![client.ends()],
        }
    }

    async fn open(&self, path: &str) -> Result<OpenFile, FileSystemError> {
        Ok(match self {
            Self::OrangeFs(client) => OpenFile::OrangeFs(client.clone(), client.open(path).await?),
            Self::Nfs(client) => OpenFile::Nfs(client.clone(), client.open(path).await?),
        })
    }

    /// The layout is OrangeFS's: an export of NFS has one server.
    async fn create(&self, path: &str, layout: &CreateOptions) -> Result<OpenFile, FileSystemError> {
        Ok(match self {
            Self::OrangeFs(client) => OpenFile::OrangeFs(client.clone(), client.create(path, layout).await?),
            Self::Nfs(client) => OpenFile::Nfs(client.clone(), client.create(path).await?),
        })
    }

    async fn mkdir(&self, path: &str) -> Result<(), FileSystemError> {
        either!(self, client => client.mkdir(path, 0o755));
        Ok(())
    }

    async fn rmdir(&self, path: &str) -> Result<(), FileSystemError> {
        either!(self, client => client.rmdir(path));
        Ok(())
    }

    async fn remove(&self, path: &str) -> Result<(), FileSystemError> {
        either!(self, client => client.remove(path));
        Ok(())
    }

    async fn readdir(&self, path: &str) -> Result<(), FileSystemError> {
        either!(self, client => async { client.readdir(path).await.map(drop) });
        Ok(())
    }

    async fn stat(&self, path: &str) -> Result<(), FileSystemError> {
        either!(self, client => async { client.stat(path).await.map(drop) });
        Ok(())
    }

    /// Sets both times of a file, in seconds since 1970.
    async fn set_times(&self, path: &str, time: u64) -> Result<(), FileSystemError> {
        either!(self, client => client.set_times(path, time, time));
        Ok(())
    }
}

impl OpenFile {
    async fn write_at(&self, offset: u64, data: &Bytes, sync: SyncMode) -> Result<(), FileSystemError> {
        let stable = if sync == SyncMode::Stable { stable_how::FILE_SYNC } else { stable_how::UNSTABLE };
        match self {
            Self::OrangeFs(client, file) => client.write_at(file, offset, data.clone()).await?,
            Self::Nfs(client, file) => client.write_at(file, offset, data, stable).await?,
        };
        if sync == SyncMode::Each { self.fsync().await } else { Ok(()) }
    }

    async fn read_at(&self, offset: u64, len: usize) -> Result<Bytes, FileSystemError> {
        Ok(match self {
            Self::OrangeFs(client, file) => client.read_at(file, offset, len).await?,
            Self::Nfs(client, file) => client.read_at(file, offset, len).await?,
        })
    }

    async fn fsync(&self) -> Result<(), FileSystemError> {
        match self {
            Self::OrangeFs(client, file) => client.fsync(file).await?,
            Self::Nfs(client, file) => client.fsync(file).await?,
        }
        Ok(())
    }
}

#[derive(Debug)]
struct Names {
    base: String,
}

impl Names {
    fn new(base: String) -> Self {
        Self { base }
    }

    fn base(&self) -> &str {
        &self.base
    }

    fn dir(&self, dir: Dir) -> String {
        let base = self.base.trim_end_matches('/');
        match dir {
            Dir::Base => self.base.clone(),
            Dir::Sub(a) => format!("{base}/dir.{a}"),
            Dir::Nested(a, b) => format!("{base}/dir.{a}/dir.{b}"),
        }
    }

    fn file(&self, file: FileId) -> String {
        format!("{}/{file}", self.base.trim_end_matches('/'))
    }

    fn of(&self, call: Call) -> String {
        match call {
            Call::MakeDir(dir) | Call::RemoveDir(dir) | Call::ListDir(dir) => self.dir(dir),
            Call::Create(file) | Call::Open(file) | Call::Stat(file) => self.file(file),
            Call::SetTimes(file) | Call::Remove(file) | Call::Sync(file) => self.file(file),
            Call::Write(extent) | Call::Read(extent) => self.file(extent.file),
            Call::WriteStrided(strided) | Call::ReadStrided(strided) => self.file(strided.file),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_a_run() {
        let names = Names::new("/a/b".to_owned());
        assert_eq!(names.dir(Dir::Nested(3, 4)), "/a/b/dir.3/dir.4");
        assert_eq!(names.file(FileId { dir: Dir::Sub(3), number: 7 }), "/a/b/dir.3/file.7");
        assert_eq!(Names::new("/".to_owned()).file(FileId { dir: Dir::Base, number: 7 }), "/file.7");
    }
}
