//! Runs the small application, alone or while the other one keeps the storage busy.

use std::time::Duration;

use tokio::task::{JoinError, JoinHandle};
use tokio::time::{Instant, sleep};
use vpfs_model::plan::{Btio, Ior};
use vpfs_testbed::load::measure::{Report, per_second};
use vpfs_testbed::load::run::RunError;

use crate::cmd::workload::application::{Application, run};
use crate::cmd::workload::progress::ProgressLine;

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

/// Returns how many bytes of the writer have reached the servers so far. The writer's own calls are too coarse for
/// this: each is large, takes long, and ends only with its last server.
pub(crate) type Meter<'a> = &'a dyn Fn() -> u64;

impl Experiment {
    /// Runs the writer alone for `time`; returns its bytes per second.
    pub(crate) async fn writer_alone(
        &self,
        url: &str,
        meter: Meter<'_>,
        time: Duration,
        title: &str,
        line: &ProgressLine,
    ) -> Result<f64, RunError> {
        let measured = async || {
            let begin = Instant::now();
            let progress = || format!("{title}: {:.0} of {:.0} s", begin.elapsed().as_secs_f64(), time.as_secs_f64());
            let before = meter();
            line.follow(sleep(time), progress).await;
            // A busy machine may need longer for the first calls, and all else is relative to this.
            while meter() == before && begin.elapsed() < time * 20 {
                line.follow(sleep(time), progress).await;
            }
            Ok(begin.elapsed())
        };
        let (elapsed, bytes) = self.beside_writer(url, meter, measured).await?;
        Ok(per_second(bytes, elapsed.as_secs_f64()))
    }

    /// Runs the small application beside the writer, then stops the writer wherever it is.
    pub(crate) async fn both(
        &self,
        url: &str,
        meter: Meter<'_>,
        title: &str,
        line: &ProgressLine,
    ) -> Result<Trial, RunError> {
        // Connect before the writer starts, so that connecting is not part of the contention.
        let small = self.small.at(url).prepare().await?;
        let (small, bytes) = self.beside_writer(url, meter, || run(small, title, line)).await?;
        Ok(Trial { writer_bytes_per_second: per_second(bytes, small.run_seconds), small })
    }

    /// What `work` returns, and the bytes of the writer that reached the servers meanwhile.
    async fn beside_writer<T>(
        &self,
        url: &str,
        meter: Meter<'_>,
        work: impl AsyncFnOnce() -> Result<T, RunError>,
    ) -> Result<(T, u64), RunError> {
        let writer = self.writer.at(url).prepare().await?;
        let mut writer = Background(tokio::spawn(writer.execute()));
        writer.unless_failed(sleep(self.warm_up)).await?;
        let before = meter();
        let done = writer.unless_failed(work()).await??;
        Ok((done, meter() - before))
    }
}

/// A run that continues until it is dropped.
struct Background(JoinHandle<Result<Report, RunError>>);

impl Background {
    /// Waits for `other`; returns early with the run's error if it fails meanwhile.
    async fn unless_failed<T>(&mut self, other: impl Future<Output = T>) -> Result<T, RunError> {
        tokio::select! {
            value = other => Ok(value),
            ended = &mut self.0 => Err(failure(ended)),
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
        self.0.abort();
    }
}
