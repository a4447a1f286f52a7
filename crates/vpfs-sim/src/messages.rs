//! The requests that a call causes.
//!
//! A read or write is one request at each server that holds a part of it. Metadata calls are sequences of requests, as
//! OrangeFS's client sends them (counted in `vpfs-testbed`, which speaks the protocol; names of parents are cached).

use vpfs_core::hash::mix;

use crate::model::device::MetadataOp;
use crate::model::plan::{Call, Dir, FileId};

/// The receiver of a metadata request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Recipient {
    /// The server with the directory that contains the name.
    Parent,
    /// The server with the object itself.
    Object,
    /// Every server with data of the file, at once.
    DataServers,
}

/// One metadata request.
pub(crate) type Message = (Recipient, MetadataOp);

/// The requests of a metadata call, one after the other; none for calls that move data.
pub(crate) fn requests(call: Call) -> &'static [Message] {
    use MetadataOp::{ChangeEntry, Create, GetAttr, LookUp, ReadDir, Remove, SetAttr};
    use Recipient::{DataServers, Object, Parent};
    match call {
        Call::Create(_) => &[(Object, Create), (Parent, ChangeEntry)],
        Call::Open(_) => &[(Parent, LookUp), (Object, GetAttr)],
        // The second one collects the sizes of the datafiles.
        Call::Stat(_) => &[(Parent, LookUp), (Object, GetAttr), (Object, GetAttr)],
        Call::SetTimes(_) => &[(Parent, LookUp), (Object, GetAttr), (Object, SetAttr)],
        // The server removes the datafiles for the client, then the file itself.
        Call::Remove(_) => {
            &[(Parent, LookUp), (Object, GetAttr), (Parent, ChangeEntry), (Object, Remove), (Object, Remove)]
        }
        // The directory, the object that holds its entries, its attributes.
        Call::MakeDir(_) => &[(Object, Create), (Object, Create), (Object, SetAttr), (Parent, ChangeEntry)],
        Call::RemoveDir(_) => {
            &[(Parent, LookUp), (Object, GetAttr), (Parent, ChangeEntry), (Object, Remove), (Object, Remove)]
        }
        Call::ListDir(_) => &[(Parent, LookUp), (Object, GetAttr), (Object, ReadDir)],
        // Costs the same as a forced change of attributes.
        Call::Sync(_) => &[(DataServers, SetAttr)],
        Call::Write(_) | Call::Read(_) | Call::WriteStrided(_) | Call::ReadStrided(_) => &[],
    }
}

/// The object of a metadata call, as a number.
pub(crate) fn object(salt: u64, call: Call) -> u64 {
    match call {
        Call::MakeDir(dir) | Call::RemoveDir(dir) | Call::ListDir(dir) => directory(salt, dir),
        Call::Create(id) | Call::Open(id) | Call::Stat(id) | Call::SetTimes(id) | Call::Remove(id) | Call::Sync(id) => {
            file(salt, id)
        }
        Call::Write(extent) | Call::Read(extent) => file(salt, extent.file),
        Call::WriteStrided(strided) | Call::ReadStrided(strided) => file(salt, strided.file),
    }
}

/// The directory that contains the name of a call's object.
pub(crate) fn parent(salt: u64, call: Call) -> u64 {
    match call {
        Call::MakeDir(dir) | Call::RemoveDir(dir) | Call::ListDir(dir) => match dir {
            // The run's own directory lies in one that all applications share.
            Dir::Base => 0,
            Dir::Sub(_) => directory(salt, Dir::Base),
            Dir::Nested(outer, _) => directory(salt, Dir::Sub(outer)),
        },
        Call::Create(id) | Call::Open(id) | Call::Stat(id) | Call::SetTimes(id) | Call::Remove(id) | Call::Sync(id) => {
            directory(salt, id.dir)
        }
        Call::Write(extent) | Call::Read(extent) => directory(salt, extent.file.dir),
        Call::WriteStrided(strided) | Call::ReadStrided(strided) => directory(salt, strided.file.dir),
    }
}

fn directory(salt: u64, dir: Dir) -> u64 {
    let (outer, inner) = match dir {
        Dir::Base => (0, 0),
        Dir::Sub(outer) => (u64::from(outer) + 1, 0),
        Dir::Nested(outer, inner) => (u64::from(outer) + 1, u64::from(inner) + 1),
    };
    mix(mix(salt ^ outer) ^ (inner << 1))
}

/// A file as a number; equal for equal files of one application.
pub(crate) fn file(salt: u64, id: FileId) -> u64 {
    mix(directory(salt, id.dir) ^ ((u64::from(id.number) << 1) | 1))
}
