//! Creation of objects, and placement of their parts.

use vpfs_wire::pvfs2::attr::DirHint;
use vpfs_wire::pvfs2::auth::op_mask;
use vpfs_wire::pvfs2::{Attr, Capability, Credential, Dist, Errno, Handle, Layout, ObjType, Reply, reply, request};

use super::{Answer, Server};
use crate::server::access;
use crate::server::cluster::now;
use crate::server::namespace::{FileLayout, Kind, Namespace, Object, Pool, datafiles};
use vpfs_core::hash::mix;

/// The distribution of files whose creator names none.
const DEFAULT_DIST: Dist = Dist::SimpleStripe { strip_size: 64 << 10 };
/// Largest number of objects in one BATCH_CREATE.
const BATCH_MAX: u32 = 1024;
/// Largest number of datafiles of one file: what fits into a capability.
const DATAFILES_MAX: usize = 1023;

impl Server {
    /// Creates a metafile here and datafiles according to the layout. With a round-robin layout over several servers
    /// the file is stuffed: its first datafile is here too, and clients see only that one until they send UNSTUFF.
    pub(super) fn create(&self, capability: &Capability, body: &request::Create) -> Answer {
        self.same_fs(body.fs)?;
        access::require(capability, op_mask::CREATE)?;
        let wanted = usize::try_from(body.num_dfiles).map_err(|_| Errno::EINVAL)?.max(1);
        let servers = self.place(&body.layout, wanted)?;
        let stuffed = body.layout.algorithm == Layout::ROUND_ROBIN && servers.len() > 1;
        let dist = body.attr.dist.clone().unwrap_or(DEFAULT_DIST);
        dist.stripe(u32::try_from(servers.len()).map_err(|_| Errno::EINVAL)?).map_err(|_| Errno::EINVAL)?;

        let now = now();
        let mut namespace = self.cluster.namespace();
        let metafile = namespace.allocate(self.index, Pool::Meta)?;
        let mut handles = Vec::with_capacity(servers.len());
        for server in servers {
            let handle = namespace.allocate(server, Pool::Data)?;
            let kind = if stuffed && !handles.is_empty() { Kind::Reserved } else { Kind::Datafile };
            namespace.insert(handle, Object::new(&body.attr, kind, now));
            handles.push(handle);
        }
        let layout = FileLayout { dist, datafiles: handles, stuffed, hint_flags: 0 };
        let in_use = datafiles(layout.datafiles_in_use(), 0);
        let object = owned(&body.attr, &body.credential, Kind::File(layout), now);
        let attr = Attr { datafiles: Some(in_use), ..object.common_attr() };
        namespace.insert(metafile, object);
        Ok(reply::Create { metafile, stuffed: u32::from(stuffed), attr }.into())
    }

    /// The servers of a new file's datafiles, by index, in order.
    fn place(&self, layout: &Layout, wanted: usize) -> Result<Vec<usize>, Errno> {
        let config = &self.cluster.config;
        let all = config.servers.len();
        let number = self.cluster.next_placement();
        let rotated = |first: usize| (0..wanted.min(all)).map(move |n| (first + n) % all);
        let servers: Vec<usize> = match layout.algorithm {
            Layout::NONE => rotated(0).collect(),
            // Stuffed files start here; the servers that follow differ from file to file.
            Layout::ROUND_ROBIN if wanted > 1 => {
                let others: Vec<_> = (1..all).map(|n| (self.index + n) % all).collect();
                let first = usize::try_from(number % others.len().max(1) as u64).map_err(|_| Errno::EINVAL)?;
                let rest = (0..others.len()).map(|n| others[(first + n) % others.len()]);
                std::iter::once(self.index).chain(rest).take(wanted).collect()
            }
            Layout::ROUND_ROBIN => rotated(usize::try_from(number % all as u64).map_err(|_| Errno::EINVAL)?).collect(),
            Layout::RANDOM => {
                let mut shuffled: Vec<usize> = (0..all).collect();
                shuffled.sort_by_key(|server| mix(number ^ mix(*server as u64)));
                shuffled.truncate(wanted);
                shuffled
            }
            Layout::LOCAL => vec![self.index],
            Layout::LIST => self.listed(layout)?,
            _ => return Err(Errno::EINVAL),
        };
        if servers.is_empty() || servers.len() > DATAFILES_MAX { Err(Errno::EINVAL) } else { Ok(servers) }
    }

    /// The servers that a layout lists by address; EINVAL for an unknown address.
    fn listed(&self, layout: &Layout) -> Result<Vec<usize>, Errno> {
        let find = |address: &[u8]| {
            let found = self.cluster.config.servers.iter().position(|server| server.address.as_bytes() == address);
            found.ok_or(Errno::EINVAL)
        };
        layout.servers.0.iter().map(|address| find(&address.0)).collect()
    }

    pub(super) fn make_directory(&self, capability: &Capability, body: &request::MkDir) -> Answer {
        self.same_fs(body.fs)?;
        access::require(capability, op_mask::CREATE)?;
        let now = now();
        let mut namespace = self.cluster.namespace();
        let [handle, dirdata] = self.two_handles(&mut namespace)?;
        let hint = body.attr.dir.as_ref().map(|directory| directory.hint.clone());
        let hint = hint.filter(|hint| *hint != DirHint::default());
        let directory = owned(&body.attr, &body.credential, Kind::Directory { dirdata, hint }, now);
        namespace.insert_directory(handle, dirdata, directory, now);
        Ok(reply::MkDir { handle, capability: Capability::default() }.into())
    }

    fn two_handles(&self, namespace: &mut Namespace) -> Result<[Handle; 2], Errno> {
        let mut next = || namespace.allocate(self.index, Pool::Meta);
        Ok([next()?, next()?])
    }

    /// Symbolic links only; their targets are set by a later SETATTR.
    pub(super) fn batch_create(&self, capability: &Capability, body: &request::BatchCreate) -> Answer {
        self.same_fs(body.fs)?;
        match body.count {
            1 => access::require_any(capability, op_mask::CREATE | op_mask::BATCH_CREATE)?,
            _ => access::require(capability, op_mask::BATCH_CREATE)?,
        }
        if body.objtype != ObjType::SYMLINK || body.count > BATCH_MAX {
            return Err(Errno::EINVAL);
        }
        let now = now();
        let mut namespace = self.cluster.namespace();
        let mut one = |_| {
            let handle = namespace.allocate(self.index, Pool::Meta)?;
            namespace.insert(handle, Object::new(&Attr::default(), Kind::Symlink(None), now));
            Ok(handle)
        };
        let handles = (0..body.count).map(&mut one).collect::<Result<_, Errno>>()?;
        Ok(reply::BatchCreate { handles }.into())
    }

    /// Puts all datafiles of a file in use; no change if they already are.
    pub(super) fn unstuff(&self, capability: &Capability, body: &request::Unstuff) -> Answer {
        self.permit(capability, op_mask::WRITE, body.fs, body.handle)?;
        let mut namespace = self.cluster.namespace();
        let reserved = match &namespace.get(body.handle)?.kind {
            Kind::File(FileLayout { stuffed: false, .. }) => Vec::new(),
            Kind::File(layout) => layout.datafiles.clone(),
            _ => return Err(Errno::EINVAL),
        };
        unstuff(&mut namespace, body.handle, &reserved)?;
        let attr = self.attr(&namespace, body.handle, body.mask, Some(&body.credential))?;
        Ok(Reply::from(reply::Unstuff { attr }))
    }
}

/// Puts the reserved datafiles of a file in use; nothing to do if there are none.
fn unstuff(namespace: &mut Namespace, file: Handle, reserved: &[Handle]) -> Result<(), Errno> {
    for datafile in reserved {
        namespace.change(*datafile, |object| {
            object.kind = Kind::Datafile;
            Ok(())
        })?;
    }
    if reserved.is_empty() {
        return Ok(());
    }
    namespace.change(file, |object| match &mut object.kind {
        Kind::File(layout) => {
            layout.stuffed = false;
            Ok(())
        }
        _ => Err(Errno::EINVAL),
    })
}

/// A new object that belongs to the user of `credential`.
fn owned(attr: &Attr, credential: &Credential, kind: Kind, now: u64) -> Object {
    let mut object = Object::new(attr, kind, now);
    object.owner = credential.uid;
    if let Some(group) = credential.gids.first() {
        object.group = *group;
    }
    object
}
