//! How files are open: who reads and writes, and what is recorded.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use fuser::{BackingId, FopenFlags};
use rustix::fs::{OFlags, fstat, fstatfs};
use vpfs_harl::Op;

use crate::handles::{Content, Handle};
use crate::inodes::{Inode, lock};
use crate::overlay::{Options, Overlay};
use crate::trace::Recorder;

/// A request that is recorded when it is done, if there is a record: which file, which process, and when it began.
pub(crate) struct Recorded(Option<(Arc<Options>, Arc<str>, u32, u64)>);

impl Recorded {
    pub(crate) fn done(self, op: Op, offset: u64, size: usize) {
        let Some((options, file, pid, start)) = self.0 else { return };
        if let Some(recorder) = options.recorder.as_ref().filter(|_| size > 0) {
            recorder.add(&file, op, pid, (offset, size as u64), start);
        }
    }
}

impl Overlay {
    /// Lets the kernel read and write by itself, if it can and may.
    pub(crate) fn backing(
        &self,
        handle: &mut Handle,
        open: impl FnOnce(&Inode) -> std::io::Result<BackingId>,
    ) -> Option<Arc<BackingId>> {
        let mut opens = lock(&handle.inode.opens);
        handle.backing = opens.backing.upgrade();
        let is_free = handle.backing.is_none() && opens.ours == 0;
        if is_free
            && self.may_pass.load(Relaxed)
            && matches!(handle.content, Content::Plain(_))
            && !is_privileged(&handle.inode)
            && is_local(&handle.inode)
        {
            // All programs that have the file open share it, so it must not give any of them more rights, such as to
            // reserved space.
            match self.rights.of_nobody(|| open(&handle.inode)) {
                Ok(new) => handle.backing = Some(Arc::new(new)),
                Err(error) => {
                    tracing::info!(%error, "the kernel cannot read and write this source by itself");
                    self.may_pass.store(false, Relaxed);
                }
            }
        }
        match &handle.backing {
            Some(backing) => opens.backing = Arc::downgrade(backing),
            None => opens.ours += 1,
        }
        handle.backing.clone()
    }

    pub(crate) fn recorded(&self, pid: u32, handle: &Handle) -> Recorded {
        let Some(file) = &handle.label else { return Recorded(None) };
        let start = self.options.recorder.as_ref().map_or(0, Recorder::now);
        Recorded(Some((Arc::clone(&self.options), Arc::clone(file), pid, start)))
    }

    /// Bypasses the page cache if requests are recorded, so that they are those of programs.
    pub(crate) fn how(&self, flags: i32, passes: bool) -> FopenFlags {
        let direct = FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES;
        let cache = if self.options.recorder.is_some() && !passes { direct } else { FopenFlags::empty() };
        let is_read_only = flags.cast_unsigned() & OFlags::RWMODE.bits() == OFlags::RDONLY.bits();
        cache | if is_read_only { FopenFlags::FOPEN_NOFLUSH } else { FopenFlags::empty() }
    }
}

/// Whether a file loses set-user-ID or set-group-ID when it is written, which the kernel leaves to us.
fn is_privileged(inode: &Inode) -> bool {
    fstat(&inode.fd).is_ok_and(|stat| stat.st_mode & 0o6000 != 0)
}

/// Whether the file is on a file system of this host. The kernel opens it a second time then. Other file systems may
/// refuse that: a server or another program decides, by the caller and by the mode that the file has by now.
fn is_local(inode: &Inode) -> bool {
    const BCACHEFS: u64 = 0xCA45_1A4E;
    const BTRFS: u64 = 0x9123_683E;
    const EXT4: u64 = 0xEF53;
    const F2FS: u64 = 0xF2F5_2010;
    const TMPFS: u64 = 0x0102_1994;
    const XFS: u64 = 0x5846_5342;
    const ZFS: u64 = 0x2FC1_2FC1;
    let kind = fstatfs(&inode.fd).ok().and_then(|status| u64::try_from(status.f_type).ok());
    matches!(kind, Some(BCACHEFS | BTRFS | EXT4 | F2FS | TMPFS | XFS | ZFS))
}
