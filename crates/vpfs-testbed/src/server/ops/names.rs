//! Directories: looking up, listing and changing entries.

use vpfs_wire::pvfs2::auth::op_mask;
use vpfs_wire::pvfs2::{Capability, Credential, Errno, Handle, Op, Reply, Text, reply, request};

use super::{Answer, Server};
use crate::server::access::{self, CHANGE_ENTRIES};
use crate::server::cluster::now;
use crate::server::namespace::{Kind, Namespace};

/// Largest number of entries in one listing reply.
const READDIR_MAX: u32 = 512;
/// Longest name in bytes.
const NAME_MAX: usize = 255;

impl Server {
    /// Resolves components as long as they are in directories of this server, up to the first that is not a directory.
    pub(super) fn lookup_path(&self, capability: &Capability, body: &request::LookupPath) -> Answer {
        self.permit(capability, op_mask::EXEC, body.fs, body.parent)?;
        let namespace = self.cluster.namespace();
        let (mut handles, mut attrs) = (Vec::new(), Vec::new());
        let mut directory = body.parent;
        for component in body.path.0.split(|byte| *byte == b'/').filter(|component| !component.is_empty()) {
            let Some(dirdata) = self.enter(&namespace, directory, handles.is_empty(), &body.credential)? else { break };
            let handle = namespace.entries(dirdata)?.get(&Text::from(component)).ok_or(Errno::ENOENT)?;
            handles.push(handle);
            // Like a real server, which does not know other servers' objects.
            attrs.extend(self.own(handle).and_then(|()| namespace.get(handle)).map(|object| self.common_attr(object)));
            directory = handle;
        }
        if handles.is_empty() { Err(Errno::ENOENT) } else { Ok(reply::LookupPath { handles, attrs }.into()) }
    }

    /// The dirdata object to continue in; `None` if the path leads to another server or through an object that is not a
    /// directory.
    fn enter(
        &self,
        namespace: &Namespace,
        directory: Handle,
        is_first: bool,
        credential: &Credential,
    ) -> Result<Option<Handle>, Errno> {
        if self.own(directory).is_err() {
            return Ok(None);
        }
        let object = namespace.get(directory)?;
        match object.kind {
            Kind::Directory { .. } if !is_first && access::allowed(object, credential) & op_mask::EXEC == 0 => {
                Err(Errno::EACCES)
            }
            Kind::Directory { dirdata, .. } => Ok(Some(dirdata)),
            _ if is_first => Err(Errno::ENOTDIR),
            _ => Ok(None),
        }
    }

    pub(super) fn create_dirent(&self, capability: &Capability, body: &request::CrDirent) -> Answer {
        self.check_entry(capability, body.fs, body.dirdata, &body.name)?;
        self.cluster.namespace().add_entry(body.dirdata, &body.name, body.new_handle, now())?;
        Ok(Reply::done(Op::CrDirent))
    }

    pub(super) fn remove_dirent(&self, capability: &Capability, body: &request::RmDirent) -> Answer {
        self.check_entry(capability, body.fs, body.dirdata, &body.name)?;
        let handle = self.cluster.namespace().remove_entry(body.dirdata, &body.name, now())?;
        Ok(reply::RmDirent { handle }.into())
    }

    pub(super) fn change_dirent(&self, capability: &Capability, body: &request::ChDirent) -> Answer {
        self.check_entry(capability, body.fs, body.dirdata, &body.name)?;
        let old_handle = self.cluster.namespace().change_entry(body.dirdata, &body.name, body.new_handle, now())?;
        Ok(reply::ChDirent { old_handle }.into())
    }

    fn check_entry(&self, capability: &Capability, fs: i32, dirdata: Handle, name: &Text) -> Result<(), Errno> {
        self.permit(capability, CHANGE_ENTRIES, fs, dirdata)?;
        match name.0.as_slice() {
            b"" | b"." | b".." => Err(Errno::EINVAL),
            name if name.contains(&b'/') || name.contains(&0) => Err(Errno::EINVAL),
            name if name.len() > NAME_MAX => Err(Errno::ENAMETOOLONG),
            _ => Ok(()),
        }
    }

    /// A page of a listing. Entries added or removed meanwhile may be listed or not; all others are listed exactly
    /// once.
    pub(super) fn read_dir(&self, capability: &Capability, body: &request::ReadDir) -> Answer {
        self.permit(capability, op_mask::READ, body.fs, body.dirdata)?;
        let namespace = self.cluster.namespace();
        let entries = namespace.entries(body.dirdata)?;
        let (page, directory_version) = match body.token {
            request::TOKEN_END => return Err(Errno::EINVAL),
            token => (entries.page(token, body.count.min(READDIR_MAX) as usize), entries.version()),
        };
        let token = page.next.unwrap_or(request::TOKEN_END);
        Ok(reply::ReadDir { token, directory_version, entries: page.entries }.into())
    }
}
