//! The operations that are one request and one reply (docs/protocols/orangefs.md, bodies).

mod admin;
mod attributes;
mod create;
mod names;
mod remove;
mod xattrs;

use std::sync::Arc;

use vpfs_wire::pvfs2::{Capability, Errno, Handle, Op, Reply, Request, RequestBody, Status};

use super::access;
use super::cluster::{Cluster, Storage};

/// One server of a cluster, as its connections see it.
#[derive(Clone, Debug)]
pub(super) struct Server {
    /// Index in the configuration.
    pub(super) index: usize,
    pub(super) cluster: Arc<Cluster>,
}

type Answer = Result<Reply, Errno>;

impl Server {
    /// Answers all requests except IO and SMALL_IO. A reply means that the change's device time has passed.
    pub(super) async fn answer(&self, request: Request) -> Reply {
        let op = request.body.op();
        let answer = self.perform(request);
        if answer.is_ok() && changes_metadata(op) {
            self.storage().log_metadata().await;
        }
        answer.unwrap_or_else(|errno| Reply::error(op, Status::error(errno)))
    }

    fn perform(&self, request: Request) -> Answer {
        let capability = &request.capability;
        match request.body {
            RequestBody::GetConfig => Ok(self.get_config()),
            RequestBody::MgmtNoop => Ok(Reply::done(Op::MgmtNoop)),
            RequestBody::MgmtSetParam(body) => self.set_param(&body),
            RequestBody::StatFs(body) => self.stat_fs(&body),
            RequestBody::MgmtIterateHandles(body) => self.iterate_handles(&body),
            RequestBody::GetAttr(body) => self.get_attr(&body),
            RequestBody::SetAttr(body) => self.set_attr(capability, &body),
            RequestBody::ListAttr(body) => self.list_attr(&body),
            RequestBody::TreeGetFileSize(body) => self.tree_get_file_size(&body),
            RequestBody::TreeSetAttr(body) => self.tree_set_attr(&body),
            RequestBody::LookupPath(body) => self.lookup_path(capability, &body),
            RequestBody::CrDirent(body) => self.create_dirent(capability, &body),
            RequestBody::RmDirent(body) => self.remove_dirent(capability, &body),
            RequestBody::ChDirent(body) => self.change_dirent(capability, &body),
            RequestBody::ReadDir(body) => self.read_dir(capability, &body),
            RequestBody::Create(body) => self.create(capability, &body),
            RequestBody::MkDir(body) => self.make_directory(capability, &body),
            RequestBody::BatchCreate(body) => self.batch_create(capability, &body),
            RequestBody::Unstuff(body) => self.unstuff(capability, &body),
            RequestBody::Remove(body) => self.remove(capability, &body),
            RequestBody::TreeRemove(body) => self.tree_remove(body),
            RequestBody::Truncate(body) => self.truncate(capability, &body),
            RequestBody::Flush(body) => self.flush(&body),
            RequestBody::GetEattr(body) => self.get_xattrs(body),
            RequestBody::SetEattr(body) => self.set_xattrs(capability, body),
            RequestBody::DelEattr(body) => self.remove_xattr(capability, &body),
            RequestBody::ListEattr(body) => self.list_xattrs(&body),
            _ => Err(Errno::ENOSYS),
        }
    }

    /// This server's own storage.
    pub(super) fn storage(&self) -> &Storage {
        &self.cluster.storage[self.index]
    }

    /// Returns ENOENT for objects of other servers, as if they did not exist.
    pub(super) fn own(&self, handle: Handle) -> Result<(), Errno> {
        let owner = &self.cluster.config.servers[self.index];
        if owner.owns(handle.0) { Ok(()) } else { Err(Errno::ENOENT) }
    }

    /// [`Self::own`] for a request to the file system `fs`.
    pub(super) fn own_in(&self, fs: i32, handle: Handle) -> Result<(), Errno> {
        self.same_fs(fs)?;
        self.own(handle)
    }

    /// The same for a request that must be allowed to do this.
    fn permit(&self, capability: &Capability, needed: u32, fs: i32, handle: Handle) -> Result<(), Errno> {
        self.own_in(fs, handle)?;
        access::require(capability, needed)
    }

    /// EINVAL for another file system's requests.
    pub(super) fn same_fs(&self, fs: i32) -> Result<(), Errno> {
        if fs == self.cluster.config.fs_id { Ok(()) } else { Err(Errno::EINVAL) }
    }
}

/// Whether success changes names or attributes, or requires earlier changes to be stored.
fn changes_metadata(op: Op) -> bool {
    matches!(
        op,
        Op::Create
            | Op::Remove
            | Op::SetAttr
            | Op::CrDirent
            | Op::RmDirent
            | Op::ChDirent
            | Op::Truncate
            | Op::MkDir
            | Op::Flush
            | Op::SetEattr
            | Op::DelEattr
            | Op::BatchCreate
            | Op::Unstuff
            | Op::TreeRemove
            | Op::TreeSetAttr
    )
}
