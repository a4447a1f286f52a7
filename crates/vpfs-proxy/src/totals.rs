//! Service by application, for the log and for whoever asks.

use std::time::Duration;

use vpfs_config::units::Span;
use vpfs_core::{AppId, OpKind, Time};
use vpfs_interpose::{Finished, Outcome};

/// What one application got from one server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AppTotals {
    /// Data requests that ended.
    pub data_requests: u64,
    /// Metadata requests that ended.
    pub metadata_requests: u64,
    /// Data bytes that passed.
    pub bytes: u64,
    /// Requests that ended in time-out or disconnection.
    pub failed: u64,
    /// Sum of the times from arrival to dispatch.
    pub waited: Duration,
    /// Sum of the times from dispatch to the end.
    pub served: Duration,
}

impl AppTotals {
    /// Writes a line to the log, with mean times.
    pub(crate) fn log(&self, app: &str) {
        let requests = self.data_requests + self.metadata_requests;
        let mean = |sum: Duration| Span(sum / u32::try_from(requests.max(1)).unwrap_or(u32::MAX));
        tracing::info!(
            %app,
            data_requests = self.data_requests,
            metadata_requests = self.metadata_requests,
            bytes = self.bytes,
            failed = self.failed,
            mean_wait = %format_args!("{:.1}", mean(self.waited)),
            mean_service = %format_args!("{:.1}", mean(self.served)),
            "served"
        );
    }
}

impl std::ops::AddAssign for AppTotals {
    fn add_assign(&mut self, other: Self) {
        self.data_requests += other.data_requests;
        self.metadata_requests += other.metadata_requests;
        self.bytes += other.bytes;
        self.failed += other.failed;
        self.waited += other.waited;
        self.served += other.served;
    }
}

/// [`AppTotals`] of every application at one server.
#[derive(Clone, Debug, Default)]
pub(crate) struct Totals {
    by_app: Vec<AppTotals>,
}

impl Totals {
    pub(crate) fn add(&mut self, app: AppId, now: Time, finished: &Finished) {
        if app.index() >= self.by_app.len() {
            self.by_app.resize(app.index() + 1, AppTotals::default());
        }
        let totals = &mut self.by_app[app.index()];
        match finished.kind {
            Some(OpKind::Read | OpKind::Write) => totals.data_requests += 1,
            Some(OpKind::Metadata) | None => totals.metadata_requests += 1,
        }
        totals.bytes += finished.moved;
        totals.failed += u64::from(!matches!(finished.outcome, Outcome::Answered { .. }));
        totals.waited += finished.dispatched.since(finished.arrived);
        totals.served += now.since(finished.dispatched);
    }

    /// Applications that asked for something, with what they got.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (AppId, &AppTotals)> {
        let ids = (0..).map(AppId);
        ids.zip(&self.by_app).filter(|(_, totals)| **totals != AppTotals::default())
    }
}
