//! Removal of objects, and truncation and flushing of datafiles.

use vpfs_wire::pvfs2::auth::op_mask;
use vpfs_wire::pvfs2::{Capability, Errno, Handle, Op, Reply, reply, request};

use super::attributes::status_of;
use super::{Answer, Server};
use crate::server::access;
use crate::server::cluster::errno_of;
use crate::server::namespace::Kind;

impl Server {
    /// Removes one object; the client removes its entry and a file's datafiles.
    pub(super) fn remove(&self, capability: &Capability, body: &request::Remove) -> Answer {
        self.permit(capability, op_mask::REMOVE, body.fs, body.handle)?;
        self.remove_object(body.handle)?;
        Ok(Reply::done(Op::Remove))
    }

    /// Removes many objects, on any server.
    pub(super) fn tree_remove(&self, body: request::TreeRemove) -> Answer {
        self.same_fs(body.fs)?;
        let mut statuses = Vec::with_capacity(body.handles.len());
        for handle in body.handles {
            statuses.push(status_of(self.remove_object(handle)));
        }
        Ok(reply::TreeRemove { caller_index: body.caller_index, statuses }.into())
    }

    fn remove_object(&self, handle: Handle) -> Result<(), Errno> {
        let removed = self.cluster.namespace().remove(handle)?;
        if let Kind::Datafile = removed.kind {
            self.cluster.storage_of(handle)?.store.remove(handle.0);
        }
        Ok(())
    }

    pub(super) fn truncate(&self, capability: &Capability, body: &request::Truncate) -> Answer {
        self.same_fs(body.fs)?;
        access::require(capability, op_mask::WRITE)?;
        self.own_datafile(body.handle)?;
        let (object, size) = (body.handle.0, u64::try_from(body.size).map_err(|_| Errno::EINVAL)?);
        self.storage().store.truncate(object, size).map_err(|error| errno_of(&error))?;
        Ok(Reply::done(Op::Truncate))
    }

    /// Everything is in the store before it is answered.
    pub(super) fn flush(&self, body: &request::Flush) -> Answer {
        self.own_in(body.fs, body.handle)?;
        self.cluster.namespace().get(body.handle)?;
        Ok(Reply::done(Op::Flush))
    }

    /// ENOENT unless `handle` is a datafile of this server.
    pub(in crate::server) fn own_datafile(&self, handle: Handle) -> Result<(), Errno> {
        self.own(handle)?;
        match self.cluster.namespace().get(handle)?.kind {
            Kind::Datafile => Ok(()),
            _ => Err(Errno::EINVAL),
        }
    }
}
