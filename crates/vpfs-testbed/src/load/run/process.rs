//! One process: its steps, one after the other.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::time::{Instant, sleep};

use super::file_system::{FileSystem, FileSystemError, OpenFile};
use super::{RunError, Shared};
use vpfs_model::plan::{Call, Extent, FileId, Phase, Step};

use crate::load::measure::WrongRead;

/// The value that files' times are set to, in seconds since 1970: a constant, so that runs are repeatable.
const SET_TIME: u64 = 1_000_000_000;

pub(super) struct Process {
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
    pub(super) fn new(number: u32, client: FileSystem, shared: Arc<Shared>) -> Self {
        Self { number, client, shared, files: HashMap::new(), buffer: BytesMut::new(), buffered: None }
    }

    pub(super) async fn run(mut self) -> Result<(), RunError> {
        // All processes start together; this first wait is not part of the run.
        self.shared.barrier.wait().await;
        for phase in self.shared.plan.phases() {
            self.phase(phase).await?;
            self.wait_for_others().await;
        }
        Ok(())
    }

    async fn phase(&mut self, phase: Phase) -> Result<(), RunError> {
        let shared = Arc::clone(&self.shared);
        let begin = Instant::now();
        shared.recorder.begin_phase(phase, begin);
        let limit = shared.plan.limit(phase);
        for (done, step) in (0..).zip(shared.plan.steps(phase, self.number)) {
            if limit.is_some_and(|limit| begin.elapsed() >= limit.time && done >= limit.at_least_steps) {
                break;
            }
            self.step(phase, begin, step).await?;
        }
        shared.recorder.end_phase(phase, Instant::now());
        Ok(())
    }

    async fn step(&mut self, phase: Phase, phase_began: Instant, step: Step) -> Result<(), RunError> {
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

    async fn call(&mut self, phase: Phase, call: Call) -> Result<(), FileSystemError> {
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
    async fn write(&mut self, phase: Phase, extent: Extent) -> Result<(), FileSystemError> {
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

    async fn read(&mut self, phase: Phase, extent: Extent) -> Result<(), FileSystemError> {
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

    async fn metadata(&mut self, call: Call) -> Result<(), FileSystemError> {
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

    async fn create(&self, path: &str) -> Result<OpenFile, FileSystemError> {
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

    fn verify(&self, extent: Extent, data: &[u8]) -> Result<(), WrongRead> {
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
    async fn file(&mut self, id: FileId) -> Result<OpenFile, FileSystemError> {
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
