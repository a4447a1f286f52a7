//! Runs the small application, alone or while the other one keeps the storage busy.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::{JoinError, JoinHandle};
use tokio::time::{Instant, sleep};
use vpfs_model::plan::{Btio, Ior, Plan};
use vpfs_testbed::load::measure::{Report, per_second};
use vpfs_testbed::load::run::{Run, RunError, RunHandle, RunOptions};

/// A plan, with the target and identity of its run.
#[derive(Clone, Debug)]
pub(crate) struct Application<P> {
    /// What it does.
    pub(crate) plan: P,
    /// Target and identity.
    pub(crate) options: RunOptions,
}

impl<P: Plan + Clone + 'static> Application<P> {
    async fn prepare(&self, url: &str) -> Result<Run, RunError> {
        let mut options = self.options.clone();
        options.client.url = url.to_owned();
        Run::prepare(Arc::new(self.plan.clone()), options).await
    }
}

/// The two applications of the experiment.
#[derive(Clone, Debug)]
pub(crate) struct Experiment {
    /// Bursts of tiny calls; its run time is to be protected.
    pub(crate) small: Application<Btio>,
    /// Large writes back to back. Its plan needs a time limit that is longer than any run.
    pub(crate) writer: Application<Ior>,
    /// How long the writer writes before anything is measured, so that all its processes have calls outstanding.
    pub(crate) warm_up: Duration,
}

/// The outcome of one run.
#[derive(Clone, Debug)]
pub(crate) struct Trial {
    /// The small application's measurements.
    pub(crate) small: Report,
    /// What the writer wrote while the small application ran.
    pub(crate) writer_bytes_per_second: f64,
}

/// Called from time to time with the run of the measured application.
pub(crate) type Watch<'a> = &'a dyn Fn(&RunHandle);

/// Returns how many bytes of the writer have reached the servers so far. The writer's own calls are too coarse for
/// this: each is large, takes long, and ends only with its last server.
pub(crate) type Meter<'a> = &'a dyn Fn() -> u64;

const WATCH_EVERY: Duration = Duration::from_millis(200);

impl Experiment {
    /// Runs the small application alone.
    ///
    /// # Errors
    /// A call that failed.
    pub(crate) async fn small_alone(&self, url: &str, watch: Watch<'_>) -> Result<Report, RunError> {
        let small = self.small.prepare(url).await?;
        watched(small, watch).await
    }

    /// Runs the writer alone for `time`; returns its bytes per second.
    ///
    /// # Errors
    /// A call that failed.
    pub(crate) async fn writer_alone(
        &self,
        url: &str,
        time: Duration,
        meter: Meter<'_>,
        watch: Watch<'_>,
    ) -> Result<f64, RunError> {
        let mut writer = Background::start(self.writer.prepare(url).await?);
        writer.unless_failed(sleep(self.warm_up)).await?;
        let before = meter();
        let begin = Instant::now();
        while begin.elapsed() < time {
            writer.unless_failed(sleep(WATCH_EVERY)).await?;
            watch(&writer.handle);
        }
        Ok(per_second(meter() - before, begin.elapsed().as_secs_f64()))
    }

    /// Runs the small application beside the writer, then stops the writer wherever it is.
    ///
    /// # Errors
    /// A call of either that failed.
    pub(crate) async fn both(&self, url: &str, meter: Meter<'_>, watch: Watch<'_>) -> Result<Trial, RunError> {
        // Connect before the writer starts, so that connecting is not part of the contention.
        let small = self.small.prepare(url).await?;
        let mut writer = Background::start(self.writer.prepare(url).await?);
        writer.unless_failed(sleep(self.warm_up)).await?;
        let before = meter();
        let small = writer.unless_failed(watched(small, watch)).await??;
        let writer_bytes_per_second = per_second(meter() - before, small.run_seconds);
        Ok(Trial { small, writer_bytes_per_second })
    }
}

async fn watched(run: Run, watch: Watch<'_>) -> Result<Report, RunError> {
    let handle = run.handle();
    let mut run = std::pin::pin!(run.execute());
    loop {
        tokio::select! {
            report = &mut run => return report,
            () = sleep(WATCH_EVERY) => watch(&handle),
        }
    }
}

/// A run that continues until it is dropped.
struct Background {
    handle: RunHandle,
    task: JoinHandle<Result<Report, RunError>>,
}

impl Background {
    fn start(run: Run) -> Self {
        Self { handle: run.handle(), task: tokio::spawn(run.execute()) }
    }

    /// Waits for `other`; returns early with the run's error if it fails meanwhile.
    async fn unless_failed<T>(&mut self, other: impl Future<Output = T>) -> Result<T, RunError> {
        tokio::select! {
            value = other => Ok(value),
            ended = &mut self.task => Err(failure(ended)),
        }
    }
}

fn failure(ended: Result<Result<Report, RunError>, JoinError>) -> RunError {
    match ended {
        Ok(Err(error)) => error,
        Err(error) => error.into(),
        Ok(Ok(_)) => RunError::EndedEarly,
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.task.abort();
    }
}
