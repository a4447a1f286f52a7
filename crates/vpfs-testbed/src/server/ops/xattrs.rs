//! Extended attributes.

use vpfs_wire::pvfs2::auth::op_mask;
use vpfs_wire::pvfs2::{Capability, Columns, Errno, Handle, KeyVal, Op, Reply, reply, request};

use super::{Answer, Server};
use crate::server::namespace::Namespace;

/// SETEATTR flags.
const MUST_BE_NEW: i32 = 1;
const MUST_EXIST: i32 = 2;
/// Limits on the length of keys and values, and on the number of attributes of one object.
const KEY_MAX: usize = 256;
const VALUE_MAX: usize = 8192;
const ATTRIBUTES_MAX: usize = 64;
/// The most keys that are listed at once [OrangeFS: include/pvfs2-types.h, PVFS_MAX_XATTR_LISTLEN].
const LISTED_MAX: usize = 16;

impl Server {
    /// All values, or ENOENT if one of the keys does not exist.
    pub(super) fn get_xattrs(&self, body: request::GetEattr) -> Answer {
        self.own_in(body.fs, body.handle)?;
        let namespace = self.cluster.namespace();
        let xattrs = &namespace.get(body.handle)?.xattrs;
        let value = |(key, room): (KeyVal, i64)| {
            let value = xattrs.get(&key).ok_or(Errno::ENOENT)?;
            fits(value, room).map(|()| (value.clone(), 0))
        };
        let values = body.keys.0.into_iter().map(value).collect::<Result<_, Errno>>()?;
        Ok(reply::GetEattr { values: Columns(values) }.into())
    }

    pub(super) fn set_xattrs(&self, capability: &Capability, body: request::SetEattr) -> Answer {
        self.permit(capability, op_mask::SETATTR, body.fs, body.handle)?;
        let mut namespace = self.cluster.namespace();
        for (key, value) in body.entries.0 {
            check(&namespace, body.handle, &key, &value, body.flags)?;
            namespace.set_xattr(body.handle, key, value)?;
        }
        Ok(Reply::done(Op::SetEattr))
    }

    pub(super) fn remove_xattr(&self, capability: &Capability, body: &request::DelEattr) -> Answer {
        self.permit(capability, op_mask::SETATTR, body.fs, body.handle)?;
        self.cluster.namespace().remove_xattr(body.handle, &body.key)?;
        Ok(Reply::done(Op::DelEattr))
    }

    /// A page of keys in order; the token is the index of the first key not returned yet.
    pub(super) fn list_xattrs(&self, body: &request::ListEattr) -> Answer {
        self.own_in(body.fs, body.handle)?;
        let too_long = |room: &i64| usize::try_from(*room).is_ok_and(|room| room > KEY_MAX);
        if body.key_sizes.len() > LISTED_MAX || body.key_sizes.iter().any(too_long) {
            return Err(Errno::EINVAL);
        }
        let namespace = self.cluster.namespace();
        let xattrs = &namespace.get(body.handle)?.xattrs;
        let first = match body.token {
            request::TOKEN_START => 0,
            request::TOKEN_END => return Err(Errno::EINVAL),
            token => usize::try_from(token).map_err(|_| Errno::EINVAL)?,
        };
        let page = xattrs.keys().skip(first).zip(&body.key_sizes);
        let keys: Vec<KeyVal> =
            page.map(|(key, room)| fits(key, *room).map(|()| key.clone())).collect::<Result<_, _>>()?;
        let next = first + keys.len();
        let token = if next < xattrs.len() { next as u64 } else { request::TOKEN_END };
        Ok(reply::ListEattr { token, keys }.into())
    }
}

/// EOVERFLOW for a key or value that does not fit the requester's buffer.
fn fits(bytes: &KeyVal, room: i64) -> Result<(), Errno> {
    let room = usize::try_from(room).unwrap_or(0);
    if bytes.0.len() <= room { Ok(()) } else { Err(Errno::EOVERFLOW) }
}

/// Whether `flags` permit an attribute to be set.
fn check(namespace: &Namespace, handle: Handle, key: &KeyVal, value: &KeyVal, flags: i32) -> Result<(), Errno> {
    if key.0.is_empty() || key.0.len() > KEY_MAX || value.0.len() > VALUE_MAX {
        return Err(Errno::EINVAL);
    }
    let xattrs = &namespace.get(handle)?.xattrs;
    match xattrs.contains_key(key) {
        true if flags & MUST_BE_NEW != 0 => Err(Errno::EEXIST),
        false if flags & MUST_EXIST != 0 => Err(Errno::ENOENT),
        false if xattrs.len() >= ATTRIBUTES_MAX => Err(Errno::ENOSPC),
        _ => Ok(()),
    }
}
