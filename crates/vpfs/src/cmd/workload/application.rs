//! An application of an isolation experiment: alone, or beside another one.

use std::sync::Arc;

use vpfs_model::plan::Plan;
use vpfs_testbed::load::measure::Report;
use vpfs_testbed::load::run::{Run, RunError, RunOptions};

use super::progress::{ProgressLine, describe};

/// A plan, with the target and identity of its run; ready to run as often as needed.
#[derive(Clone, Debug)]
pub(crate) struct Application<P> {
    pub(crate) plan: P,
    pub(crate) options: RunOptions,
}

impl<P: Plan + Clone + 'static> Application<P> {
    /// Connects.
    pub(crate) async fn prepare(&self) -> Result<Run, RunError> {
        Run::prepare(Arc::new(self.plan.clone()), self.options.clone()).await
    }

    /// Runs it, with its progress.
    pub(crate) async fn alone(&self, title: &str, line: &ProgressLine) -> Result<Report, RunError> {
        run(self.prepare().await?, title, line).await
    }

    /// The same at another server or proxy.
    pub(crate) fn at(&self, url: &str) -> Self {
        let mut other = self.clone();
        url.clone_into(&mut other.options.client.url);
        other
    }
}

/// Follows a run to its end.
pub(crate) async fn run(run: Run, title: &str, line: &ProgressLine) -> Result<Report, RunError> {
    let handle = run.handle();
    line.follow(run.execute(), || format!("{title}: {}", describe(&handle))).await
}
