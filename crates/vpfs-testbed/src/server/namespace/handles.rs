//! The handles that each server owns, how many of them are in use, and the next one.

use std::ops::RangeInclusive;

use vpfs_wire::pvfs2::{Errno, Handle};

use crate::fsconfig::{FsConfig, FsServer};

/// The handle range of a server from which an object takes its handle.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Pool {
    Meta,
    Data,
}

/// The handles of all servers.
#[derive(Debug)]
pub(super) struct Handles(Vec<Owner>);

#[derive(Debug)]
struct Owner {
    server: FsServer,
    next_meta: u64,
    next_data: u64,
    used: usize,
}

impl Handles {
    /// No handles in use.
    pub(super) fn new(config: &FsConfig) -> Self {
        let first = |ranges: &[RangeInclusive<u64>]| ranges.first().map_or(0, |range| *range.start());
        let owner = |server: &FsServer| Owner {
            next_meta: first(&server.meta_handles),
            next_data: first(&server.data_handles),
            used: 0,
            server: server.clone(),
        };
        Self(config.servers.iter().map(owner).collect())
    }

    /// Number of handles of `server` in use.
    pub(super) fn used(&self, server: usize) -> usize {
        self.0[server].used
    }

    /// The next free handle of `server`; ENOSPC if none is left.
    pub(super) fn allocate(
        &mut self,
        server: usize,
        pool: Pool,
        is_taken: impl Fn(Handle) -> bool,
    ) -> Result<Handle, Errno> {
        let Owner { server, next_meta, next_data, .. } = self.0.get_mut(server).ok_or(Errno::EINVAL)?;
        let (next, ranges) = match pool {
            Pool::Meta => (next_meta, &server.meta_handles),
            Pool::Data => (next_data, &server.data_handles),
        };
        while is_taken(Handle(*next)) {
            *next += 1;
        }
        if !ranges.iter().any(|range| range.contains(next)) {
            return Err(Errno::ENOSPC);
        }
        *next += 1;
        Ok(Handle(*next - 1))
    }

    /// Counts a newly used handle.
    pub(super) fn count_up(&mut self, handle: Handle) {
        self.owner_mut(handle).into_iter().for_each(|owner| owner.used += 1);
    }

    /// Counts a handle that is no longer used.
    pub(super) fn count_down(&mut self, handle: Handle) {
        self.owner_mut(handle).into_iter().for_each(|owner| owner.used -= 1);
    }

    fn owner_mut(&mut self, handle: Handle) -> Option<&mut Owner> {
        self.0.iter_mut().find(|owner| owner.server.owns(handle.0))
    }
}
