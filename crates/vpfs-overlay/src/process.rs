//! What the process may do, and how much.

use std::io;

use rustix::fs::Mode;
use rustix::process::{Resource, Rlimit, geteuid, getrlimit, setrlimit, umask};
use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities};

/// The most files that the kernel should know of: what it keeps of them takes about 1 KiB each in the source's file
/// system.
const INODES_MAX: usize = 1 << 18;

/// What root needs for a mount. With more, data would be written that its user may not write: CAP_SYS_RESOURCE is for
/// space that is reserved, and beyond quotas.
const NEEDED: CapabilitySet = CapabilitySet::SYS_ADMIN // to mount, for the kernel's own reads and writes, for maps
    // To be the caller, whose groups /proc may show to few.
    .union(CapabilitySet::SETUID)
    .union(CapabilitySet::SETGID)
    .union(CapabilitySet::SYS_PTRACE)
    // To look up names, and for region files.
    .union(CapabilitySet::DAC_READ_SEARCH)
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::CHOWN)
    .union(CapabilitySet::FOWNER)
    // What callers with user 0 may do to files.
    .union(CapabilitySet::FSETID)
    .union(CapabilitySet::MKNOD)
    .union(CapabilitySet::SETFCAP)
    // For ports of `[peers]`, `[metrics]` and such.
    .union(CapabilitySet::NET_BIND_SERVICE);

/// Prepares the process for a mount: as many descriptors as there may be, modes exactly as programs ask for them, and
/// no more capabilities than it needs. To be called before there are threads, which would keep theirs.
///
/// # Errors
/// If capabilities cannot be dropped.
pub fn prepare_process() -> io::Result<()> {
    umask(Mode::empty());
    let wanted = INODES_MAX as u64 * 2;
    let limit = getrlimit(Resource::Nofile);
    // Root may have more than the limit that it was given.
    for most in [Some(wanted).max(limit.maximum), limit.maximum] {
        if setrlimit(Resource::Nofile, Rlimit { current: most, maximum: most }).is_ok() {
            break;
        }
    }
    if geteuid().is_root() {
        let permitted = capabilities(None)?.permitted & NEEDED;
        let inheritable = CapabilitySet::empty();
        set_capabilities(None, CapabilitySets { effective: permitted, permitted, inheritable })?;
    }
    Ok(())
}

/// How many files the kernel should know of, each of which needs a descriptor.
pub(crate) fn inodes_max() -> usize {
    let half =
        getrlimit(Resource::Nofile).current.map_or(INODES_MAX, |most| usize::try_from(most / 2).unwrap_or(INODES_MAX));
    half.min(INODES_MAX)
}
