//! Access control: capabilities are granted by owner and mode, and checked against the bits that an operation needs.

use vpfs_wire::pvfs2::auth::op_mask;
use vpfs_wire::pvfs2::{Capability, Credential, Errno, ObjType};

use super::namespace::Object;

/// The permissions needed to change a directory's entries.
pub(super) const CHANGE_ENTRIES: u32 = op_mask::WRITE | op_mask::EXEC;

/// The operations that a user may perform on an object. User 0 may do everything.
pub(super) fn allowed(object: &Object, credential: &Credential) -> u32 {
    let is_directory = object.objtype() == ObjType::DIRECTORY;
    let directory_only = op_mask::CREATE | op_mask::REMOVE;
    if credential.uid == 0 {
        return if is_directory { u32::MAX } else { !directory_only };
    }
    let class = match () {
        () if credential.uid == object.owner => 6,
        () if credential.gids.contains(&object.group) => 3,
        () => 0,
    };
    let bit = |perm: u32, allows: u32| if object.perms >> class & perm != 0 { allows } else { 0 };
    let mut allowed = bit(4, op_mask::READ) | bit(2, op_mask::WRITE) | bit(1, op_mask::EXEC);
    if credential.uid == object.owner {
        allowed |= op_mask::SETATTR;
    }
    if is_directory && allowed & CHANGE_ENTRIES == CHANGE_ENTRIES {
        allowed |= directory_only;
    }
    allowed
}

/// EACCES unless the capability has all bits of `needed`. Capabilities are not signed, as in default builds of
/// OrangeFS.
pub(super) fn require(capability: &Capability, needed: u32) -> Result<(), Errno> {
    if capability.op_mask & needed == needed { Ok(()) } else { Err(Errno::EACCES) }
}

/// EACCES unless the capability has at least one bit of `sufficient`.
pub(super) fn require_any(capability: &Capability, sufficient: u32) -> Result<(), Errno> {
    if capability.op_mask & sufficient != 0 { Ok(()) } else { Err(Errno::EACCES) }
}

#[cfg(test)]
mod tests {
    use vpfs_wire::pvfs2::{Attr, Handle};

    use super::*;
    use crate::server::namespace::Kind;

    fn user(uid: u32, gid: u32) -> Credential {
        Credential { uid, gids: vec![gid], ..Credential::default() }
    }

    #[test]
    fn bits_follow_owner_group_and_mode() {
        let attr = Attr { owner: 5, group: 50, perms: 0o751, ..Attr::default() };
        let directory = Object::new(&attr, Kind::Directory { dirdata: Handle(9), hint: None }, 0);
        let file = Object::new(&attr, Kind::Datafile, 0);
        assert_eq!(allowed(&directory, &user(0, 0)), 0xffff_ffff);
        assert_eq!(allowed(&file, &user(0, 0)), 0xffff_ffaf);
        assert_eq!(allowed(&file, &user(5, 1)), op_mask::READ | op_mask::WRITE | op_mask::EXEC | op_mask::SETATTR);
        assert_eq!(allowed(&directory, &user(5, 1)) & op_mask::CREATE, op_mask::CREATE);
        assert_eq!(allowed(&directory, &user(6, 50)), op_mask::READ | op_mask::EXEC);
        assert_eq!(allowed(&directory, &user(6, 51)), op_mask::EXEC);
    }
}
