//! Counters of a running simulation.

use std::time::Duration;

use vpfs_core::{OpKind, Time};

use crate::model::Latencies;

const DAY: Duration = Duration::from_secs(86_400);

/// Latencies of an application's calls and their parts.
pub(crate) struct AppMeasures {
    pub(crate) began: Option<Time>,
    pub(crate) finished: Option<Time>,
    pub(crate) asked_bytes: u64,
    pub(crate) read_bytes: u64,
    pub(crate) written_bytes: u64,
    pub(crate) metadata_requests: u64,
    pub(crate) calls: u64,
    /// Sums over its calls in nanoseconds: of their times, and of what is in [`Spent`].
    pub(crate) called: u128,
    pub(crate) queued: u128,
    pub(crate) stored: u128,
    pub(crate) rounds: u64,
    pub(crate) read: Latencies,
    pub(crate) write: Latencies,
    pub(crate) metadata: Latencies,
    /// From the proxy to the server.
    pub(crate) queue: Latencies,
    /// From dispatch to completion.
    pub(crate) service: Latencies,
    pub(crate) bytes_series: Series,
    pub(crate) metadata_series: Series,
    /// By server, if the scenario asks for it.
    pub(crate) by_server: Vec<AtServer>,
}

/// What the time of a call was spent on, in nanoseconds, except its way through the network: of its requests, it waits
/// for the one that is complete last.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Spent {
    /// In the scheduler.
    pub(crate) queued: u64,
    /// At the device or the service for metadata.
    pub(crate) stored: u64,
}

impl Spent {
    pub(crate) fn add(&mut self, other: Self) {
        self.queued += other.queued;
        self.stored += other.stored;
    }
}

/// An application's service at one server.
#[derive(Clone, Debug, Default)]
pub(crate) struct AtServer {
    pub(crate) requests: u64,
    pub(crate) bytes: u64,
    pub(crate) last: Time,
    pub(crate) bytes_series: Series,
    pub(crate) metadata_series: Series,
    /// Requests sent to it and not complete.
    underway: u32,
    pub(crate) underway_series: Vec<u32>,
}

impl AppMeasures {
    /// Keeps `servers` servers separately.
    pub(crate) fn new(servers: usize) -> Self {
        let latencies = || Latencies::new(2, DAY);
        Self {
            began: None,
            finished: None,
            asked_bytes: 0,
            read_bytes: 0,
            written_bytes: 0,
            metadata_requests: 0,
            calls: 0,
            called: 0,
            queued: 0,
            stored: 0,
            rounds: 0,
            read: latencies(),
            write: latencies(),
            metadata: latencies(),
            queue: latencies(),
            service: latencies(),
            bytes_series: Series::default(),
            metadata_series: Series::default(),
            by_server: vec![AtServer::default(); servers],
        }
    }

    /// A call has returned.
    pub(crate) fn call(&mut self, op: OpKind, latency: Duration, spent: Spent) {
        self.calls += 1;
        self.called += latency.as_nanos();
        self.queued += u128::from(spent.queued);
        self.stored += u128::from(spent.stored);
        let latencies = match op {
            OpKind::Read => &mut self.read,
            OpKind::Write => &mut self.write,
            OpKind::Metadata => &mut self.metadata,
        };
        latencies.record(latency);
    }

    /// A request was sent.
    pub(crate) fn send(&mut self, server: u32) {
        if let Some(at) = self.by_server.get_mut(server as usize) {
            at.underway += 1;
        }
    }

    /// One request is complete.
    pub(crate) fn complete(&mut self, now: Time, server: u32, op: OpKind, bytes: u64) {
        match op {
            OpKind::Read => self.read_bytes += bytes,
            OpKind::Write => self.written_bytes += bytes,
            OpKind::Metadata => self.metadata_requests += 1,
        }
        self.bytes_series.add(bytes);
        self.metadata_series.add(u64::from(op == OpKind::Metadata));
        if let Some(at) = self.by_server.get_mut(server as usize) {
            at.requests += 1;
            at.underway -= 1;
            at.bytes += bytes;
            at.last = now;
            at.bytes_series.add(bytes);
            at.metadata_series.add(u64::from(op == OpKind::Metadata));
        }
    }

    /// An interval of the time series ends.
    pub(crate) fn sample(&mut self) {
        self.bytes_series.close();
        self.metadata_series.close();
        for at in &mut self.by_server {
            at.bytes_series.close();
            at.metadata_series.close();
            at.underway_series.push(at.underway);
        }
    }

    pub(crate) fn served_bytes(&self) -> u64 {
        self.read_bytes + self.written_bytes
    }
}

/// A sum for each sampling interval.
#[derive(Clone, Debug, Default)]
pub(crate) struct Series {
    pub(crate) values: Vec<u64>,
    current: u64,
}

impl Series {
    pub(crate) fn add(&mut self, amount: u64) {
        self.current += amount;
    }

    /// The interval is over.
    pub(crate) fn close(&mut self) {
        self.values.push(std::mem::take(&mut self.current));
    }
}
