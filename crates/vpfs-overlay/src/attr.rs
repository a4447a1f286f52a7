//! Attributes as the kernel asks for them.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fuser::{FileAttr, INodeNo};
use rustix::fs::{FileType, Stat, Timespec, fstat};
use rustix::io::Result;

use crate::inodes::Inode;

/// What the source says, and for a file of regions what its region files say.
pub(crate) fn of(inode: &Inode) -> Result<FileAttr> {
    let stat = fstat(&inode.fd)?;
    let (mut modified, mut changed) =
        ((stat.st_mtime, stat.st_mtime_nsec.cast_signed()), (stat.st_ctime, stat.st_ctime_nsec.cast_signed()));
    let (mut size, mut blocks) = (stat.st_size.cast_unsigned(), stat.st_blocks.cast_unsigned());
    if let Some(stored) = &inode.stored {
        let usage = stored.usage()?;
        (size, blocks) = (usage.size, usage.blocks);
        (modified, changed) = (modified.max(usage.modified), changed.max(usage.changed));
    }
    Ok(FileAttr {
        ino: INodeNo(inode.number),
        size,
        blocks,
        atime: time((stat.st_atime, stat.st_atime_nsec.cast_signed())),
        mtime: time(modified),
        ctime: time(changed),
        crtime: UNIX_EPOCH,
        kind: kind(inode.kind),
        perm: u16::try_from(stat.st_mode & 0o7777).unwrap_or(0),
        nlink: u32::try_from(stat.st_nlink).unwrap_or(u32::MAX),
        uid: stat.st_uid,
        gid: stat.st_gid,
        rdev: device(&stat),
        blksize: u32::try_from(stat.st_blksize).unwrap_or(4096),
        flags: 0,
    })
}

/// The kernel's and the C library's numbers of devices have the same lower half.
#[expect(clippy::cast_possible_truncation, reason = "the lower half is what is wanted")]
fn device(stat: &Stat) -> u32 {
    stat.st_rdev as u32
}

/// What is neither known nor regular does not occur in file systems that we can mount over.
pub(crate) fn kind(kind: FileType) -> fuser::FileType {
    match kind {
        FileType::Directory => fuser::FileType::Directory,
        FileType::Symlink => fuser::FileType::Symlink,
        FileType::Fifo => fuser::FileType::NamedPipe,
        FileType::Socket => fuser::FileType::Socket,
        FileType::CharacterDevice => fuser::FileType::CharDevice,
        FileType::BlockDevice => fuser::FileType::BlockDevice,
        FileType::RegularFile | FileType::Unknown => fuser::FileType::RegularFile,
    }
}

fn time((seconds, nanoseconds): (i64, i64)) -> SystemTime {
    let fraction = Duration::from_nanos(nanoseconds.unsigned_abs());
    let whole = Duration::from_secs(seconds.unsigned_abs());
    if seconds < 0 { UNIX_EPOCH - whole + fraction } else { UNIX_EPOCH + whole + fraction }
}

/// The time of a request. Before 1970, fuser 0.18 subtracts the fraction of the second, too, instead of adding it.
pub(crate) fn timespec(time: SystemTime) -> Timespec {
    let (seconds, fraction) = match time.duration_since(UNIX_EPOCH) {
        Ok(after) => (after.as_secs().cast_signed(), after.subsec_nanos()),
        Err(before) => (-before.duration().as_secs().cast_signed(), before.duration().subsec_nanos()),
    };
    Timespec { tv_sec: seconds, tv_nsec: fraction.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_before_1970_are_those_that_were_asked_for() {
        let as_fuser_says = UNIX_EPOCH - Duration::new(2, 500);
        let asked = timespec(as_fuser_says);
        assert_eq!((asked.tv_sec, asked.tv_nsec), (-2, 500));
        assert_eq!(UNIX_EPOCH.duration_since(time((-2, 500))).unwrap(), Duration::new(1, 999_999_500));
        assert_eq!(time((5, 7)), UNIX_EPOCH + Duration::new(5, 7));
    }
}
