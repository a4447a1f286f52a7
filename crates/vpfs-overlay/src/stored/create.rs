//! New maps.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;

use rustix::fs::{
    AtFlags, Mode, OFlags, RenameFlags, XattrFlags, fsetxattr, fsync, openat, renameat, renameat_with, statat, unlinkat,
};
use rustix::io::{Errno, Result};

use super::ATTRIBUTE;
use crate::fd::{errno, sync_directory};
use crate::map::RegionMap;
use crate::names::{Rule, unfinished};

/// A new map for a rule.
pub(crate) fn new_map(rule: &Rule) -> Result<RegionMap> {
    RegionMap::new(new_id()?, rule.classes.clone(), rule.table.clone()).map_err(|_| Errno::INVAL)
}

/// 32 hexadecimal digits that nobody else has.
pub(crate) fn new_id() -> Result<String> {
    let mut bytes = [0_u8; 16];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Gives a new file of regions its name, durably: it exists with its whole map or not at all. Steps that are checked
/// for the caller's rights go through `rights`.
///
/// # Errors
/// If there is such a file, among others.
pub(crate) fn create(
    directory: &OwnedFd,
    name: &OsStr,
    map: &RegionMap,
    mode: Mode,
    rights: impl Fn(&mut dyn FnMut() -> Result<()>) -> Result<()>,
) -> Result<OwnedFd> {
    let new = unfinished(map.id());
    let mut created = None;
    rights(&mut || {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        created = Some(openat(directory, &new, flags, mode)?);
        Ok(())
    })?;
    let file = File::from(created.ok_or(Errno::IO)?);
    let finish = || -> Result<()> {
        (&file).write_all(map.to_string().as_bytes()).map_err(|error| errno(&error))?;
        fsetxattr(&file, ATTRIBUTE, b"1", XattrFlags::CREATE)?;
        fsync(&file)?;
        rights(&mut || rename_to_new(directory, new.as_ref(), name))?;
        sync_directory(directory)
    };
    if let Err(error) = finish() {
        let _ = unlinkat(directory, &new, AtFlags::empty());
        return Err(error);
    }
    Ok(file.into())
}

/// Renames within a directory, but never over a file, as far as the file system can guarantee that.
fn rename_to_new(directory: &OwnedFd, from: &OsStr, to: &OsStr) -> Result<()> {
    match renameat_with(directory, from, directory, to, RenameFlags::NOREPLACE) {
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => match statat(directory, to, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => renameat(directory, from, directory, to),
            found => found.and(Err(Errno::EXIST)),
        },
        renamed => renamed,
    }
}
