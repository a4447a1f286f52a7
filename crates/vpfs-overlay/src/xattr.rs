//! Extended attributes, except the one that is ours.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use rustix::fs::{XattrFlags, getxattr, listxattr, removexattr, setxattr};
use rustix::io::{Errno, Result};

use crate::caller::Caller;
use crate::overlay::Overlay;
use crate::stored::ATTRIBUTE;

/// The largest extended attribute of the kernel.
const ATTRIBUTE_MAX: usize = 64 << 10;

impl Overlay {
    pub(crate) fn set_attribute(
        &self,
        caller: Caller,
        inode: u64,
        name: &OsStr,
        value: &[u8],
        flags: i32,
    ) -> Result<()> {
        if is_hidden(name.as_bytes()) {
            return Err(Errno::PERM);
        }
        let inode = self.inode(inode)?;
        let flags = XattrFlags::from_bits_retain(flags.cast_unsigned());
        self.rights.of(caller, || setxattr(inode.path(), name, value, flags))
    }

    pub(crate) fn attribute(&self, caller: Caller, inode: u64, name: &OsStr) -> Result<Vec<u8>> {
        if is_hidden(name.as_bytes()) {
            return Err(Errno::NODATA);
        }
        let (inode, mut value) = (self.inode(inode)?, vec![0; ATTRIBUTE_MAX]);
        match self.rights.of(caller, || getxattr(inode.path(), name, &mut value[..])) {
            // The kernel takes "not supported" for an access list that denies all.
            Err(Errno::NOTSUP) if name.as_bytes().starts_with(b"system.posix_acl_") => Err(Errno::NODATA),
            size => {
                value.truncate(size?);
                Ok(value)
            }
        }
    }

    pub(crate) fn attribute_names(&self, caller: Caller, inode: u64) -> Result<Vec<u8>> {
        let (inode, mut list) = (self.inode(inode)?, vec![0; ATTRIBUTE_MAX]);
        let size = self.rights.of(caller, || listxattr(inode.path(), &mut list[..]))?;
        let names = list[..size].split_inclusive(|byte| *byte == 0);
        Ok(names.filter(|name| !is_hidden(name.strip_suffix(b"\0").unwrap_or(name))).flatten().copied().collect())
    }

    pub(crate) fn remove_attribute(&self, caller: Caller, inode: u64, name: &OsStr) -> Result<()> {
        if is_hidden(name.as_bytes()) {
            return Err(Errno::NODATA);
        }
        let inode = self.inode(inode)?;
        self.rights.of(caller, || removexattr(inode.path(), name))
    }
}

/// Whether an extended attribute is ours.
fn is_hidden(name: &[u8]) -> bool {
    name == ATTRIBUTE.as_bytes()
}
