//! Service by application, for the log and for callers.

use std::time::Duration;

use vpfs_core::{AppId, OpKind, Time};

use crate::arrival::Served;

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
pub struct Totals {
    by_app: Vec<AppTotals>,
}

impl Totals {
    pub(crate) fn add(&mut self, app: AppId, now: Time, served: &Served) {
        debug_assert!(
            served.arrived <= served.dispatched && served.dispatched <= now,
            "a request's times are in order"
        );
        if app.index() >= self.by_app.len() {
            self.by_app.resize(app.index() + 1, AppTotals::default());
        }
        let totals = &mut self.by_app[app.index()];
        match served.op {
            OpKind::Read | OpKind::Write => totals.data_requests += 1,
            OpKind::Metadata => totals.metadata_requests += 1,
        }
        totals.bytes += served.bytes;
        totals.failed += u64::from(!served.answered);
        totals.waited += served.dispatched.since(served.arrived);
        totals.served += now.since(served.dispatched);
    }

    /// Applications that had requests, with their service.
    pub fn iter(&self) -> impl Iterator<Item = (AppId, &AppTotals)> {
        let ids = (0..).map(AppId);
        ids.zip(&self.by_app).filter(|(_, totals)| **totals != AppTotals::default())
    }
}
