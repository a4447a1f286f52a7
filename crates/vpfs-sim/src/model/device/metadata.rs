//! A metadata server: one store that serves operations one after the other, with a service time for each kind.

use std::time::Duration;

use vpfs_core::Time;

use super::finishing::Finishing;
use super::{Completion, IoId};

/// The kinds of metadata operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MetadataOp {
    /// Finds a name in a directory.
    LookUp,
    /// Reads an object's attributes.
    GetAttr,
    /// Reads some entries of a directory.
    ReadDir,
    /// Changes an object's attributes.
    SetAttr,
    /// Creates an object (a file's metadata, a directory, a datafile).
    Create,
    /// Removes an object.
    Remove,
    /// Adds a name to a directory or removes one.
    ChangeEntry,
}

/// The service times of a metadata server, named after operations, see [`MetadataOp`].
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "each is named after its operation")]
pub struct MetadataProfile {
    /// Operations served in parallel.
    pub parallel: usize,
    pub look_up: Duration,
    pub get_attr: Duration,
    pub read_dir: Duration,
    pub set_attr: Duration,
    pub create: Duration,
    pub remove: Duration,
    pub change_entry: Duration,
}

impl MetadataProfile {
    /// A PVFS2 2.8 metadata server: Berkeley DB on EXT3 on a 7200 rpm disk [vPFS+ §V-A].
    ///
    /// The papers give no service times, so all of these are **assumed**, by order of magnitude:
    ///
    /// - One operation at a time: one thread of the server works on its databases.
    /// - Reads: thousands a second, from the database's cache.
    /// - Updates: hundreds a second. Each is forced to the disk, about half a rotation (4.2 ms) in a sequential
    ///   journal; the server forces several waiting updates at once, which halves that. Attributes are forced less
    ///   often.
    pub const PVFS2_BDB: Self = Self {
        parallel: 1,
        look_up: Duration::from_micros(150),
        get_attr: Duration::from_micros(150),
        read_dir: Duration::from_micros(300),
        set_attr: Duration::from_millis(1),
        create: Duration::from_millis(2),
        remove: Duration::from_millis(2),
        change_entry: Duration::from_millis(2),
    };

    /// The service time of an operation of this kind.
    pub fn service_time(&self, op: MetadataOp) -> Duration {
        match op {
            MetadataOp::LookUp => self.look_up,
            MetadataOp::GetAttr => self.get_attr,
            MetadataOp::ReadDir => self.read_dir,
            MetadataOp::SetAttr => self.set_attr,
            MetadataOp::Create => self.create,
            MetadataOp::Remove => self.remove,
            MetadataOp::ChangeEntry => self.change_entry,
        }
    }
}

/// A metadata server's store as a state machine, driven like a [`Device`](super::Device).
///
/// Operations are served in arrival order by [`MetadataProfile::parallel`] threads.
#[derive(Debug)]
pub struct MetadataServer {
    profile: MetadataProfile,
    /// When each thread becomes free.
    free_from: Vec<Time>,
    finishing: Finishing,
}

impl MetadataServer {
    /// An idle server.
    pub fn new(profile: MetadataProfile) -> Self {
        let threads = profile.parallel.max(1);
        Self { profile, free_from: vec![Time::ZERO; threads], finishing: Finishing::default() }
    }

    /// Submits an operation; callers limit what they submit. O(threads + log n).
    pub fn submit(&mut self, now: Time, op: MetadataOp) -> IoId {
        let thread = self.free_from.iter_mut().min().expect("there is at least one thread");
        *thread = (*thread).max(now) + self.profile.service_time(op);
        self.finishing.submit(*thread)
    }

    /// The next finished operation in order of completion time, `None` when no more have finished by `now`.
    pub fn poll_completed(&mut self, now: Time) -> Option<Completion> {
        self.finishing.poll_completed(now)
    }

    /// When to call [`MetadataServer::poll_completed`] next, `None` while the server is idle.
    pub fn poll_timeout(&self) -> Option<Time> {
        self.finishing.poll_timeout()
    }

    /// Operations submitted and not yet yielded by [`MetadataServer::poll_completed`].
    pub fn outstanding(&self) -> usize {
        self.finishing.len()
    }
}
