//! Owner, mode, times and extended attributes.

use std::ffi::{CStr, CString};
use std::fs::{File, FileTimes, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;

use rustix::fs::{Gid, Mode, Uid, XattrFlags, fchmod, fchown, fgetxattr, flistxattr, fsetxattr};
use rustix::io::Errno;

/// Attributes that describe the old layout or belong to the file system's implementation.
const OF_LAYOUTS: [&str; 10] = [
    "lustre.",
    "trusted.lov",
    "trusted.lma",
    "trusted.link",
    "trusted.fid",
    "ceph.",
    "user.pvfs2.",
    "system.pvfs2.",
    "user.beegfs.",
    "trusted.vpfs.",
];

/// The kernel's limit for a list of names and for a value.
const LARGEST: usize = 64 << 10;

/// Gives `to` what `from` has: owner, mode, times, and extended attributes that are not of the layout.
///
/// # Errors
/// The first that the file system refuses.
pub fn copy_attributes(from: &File, to: &File) -> io::Result<()> {
    let refused = copy(from, to, &from.metadata()?)?.into_iter().next();
    refused.map_or(Ok(()), |(what, why)| Err(io::Error::new(why.kind(), format!("{what}: {why}"))))
}

/// Gives `to` what `from` has; `old` is the source's metadata when it was opened, before it was read. Returns what the
/// file system refuses, and its error.
pub(crate) fn copy(from: &File, to: &File, old: &Metadata) -> io::Result<Vec<(String, io::Error)>> {
    let mut lost = Vec::new();
    let mut keep = |what: &str, result: io::Result<()>| {
        if let Err(error) = result {
            lost.push((what.to_owned(), error));
        }
    };
    let now = from.metadata()?;
    let own = to.metadata()?;
    if (own.uid(), own.gid()) != (now.uid(), now.gid()) {
        let owner = fchown(to, Some(Uid::from_raw(now.uid())), Some(Gid::from_raw(now.gid())));
        keep("owner", owner.map_err(io::Error::from));
    }
    for name in names(from)? {
        keep(&format!("extended attribute {}", name.to_string_lossy()), attribute(from, to, &name));
    }
    // After the owner, whose change clears the set-user-ID bit, and after access lists, which change the mode.
    keep("mode", fchmod(to, Mode::from_raw_mode(now.mode() & 0o7777)).map_err(io::Error::from));
    let times = FileTimes::new().set_accessed(old.accessed()?).set_modified(now.modified()?);
    keep("times", to.set_times(times));
    Ok(lost)
}

fn names(file: &File) -> io::Result<Vec<CString>> {
    let mut list = vec![0; LARGEST];
    let len = match flistxattr(file, &mut list[..]) {
        Err(Errno::NOTSUP | Errno::NOSYS) => 0,
        result => result?,
    };
    let names = list[..len].split_inclusive(|byte| *byte == 0).filter_map(|name| CStr::from_bytes_with_nul(name).ok());
    let of_layout = |name: &CStr| OF_LAYOUTS.iter().any(|prefix| name.to_bytes().starts_with(prefix.as_bytes()));
    Ok(names.filter(|name| !of_layout(name)).map(CStr::to_owned).collect())
}

fn attribute(from: &File, to: &File, name: &CStr) -> io::Result<()> {
    let mut value = vec![0; LARGEST];
    let len = fgetxattr(from, name, &mut value[..])?;
    let mut own = vec![0; LARGEST];
    if fgetxattr(to, name, &mut own[..]).is_ok_and(|own_len| own[..own_len] == value[..len]) {
        return Ok(()); // such as a security label that the new file got by itself
    }
    Ok(fsetxattr(to, name, &value[..len], XattrFlags::empty())?)
}
