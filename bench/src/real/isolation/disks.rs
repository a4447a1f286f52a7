//! Bytes written and read by the servers' disks. This is the only complete count, since copies take long compared with
//! a run.

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::super::cluster::Cluster;
use super::Access;

/// Counters of disks, each a file in the format of /sys/block/DISK/stat. None if the servers are elsewhere.
#[derive(Debug)]
pub(super) struct Disks {
    counters: BTreeSet<PathBuf>,
}

impl Disks {
    /// Takes the counters that a file `disks` in the cluster's directory lists, if a start script left one, else those
    /// of the block devices that hold the servers' data.
    pub(super) fn of(cluster: &Cluster) -> Self {
        let counters = match std::fs::read_to_string(cluster.dir.join("disks")) {
            Ok(list) => list.lines().map(PathBuf::from).collect(),
            Err(_) => block_devices(&cluster.data_dirs).unwrap_or_default(),
        };
        Self { counters }
    }

    /// Bytes written or read since the disks appeared.
    pub(super) fn moved(&self, access: Access) -> Option<u64> {
        if self.counters.is_empty() {
            return None;
        }
        self.counters.iter().map(|file| moved(&std::fs::read_to_string(file).ok()?, access)).sum()
    }

    /// Waits until nothing is being written any more, so that one case does not affect the next one.
    pub(super) fn await_quiet(&self) {
        const CALM: Duration = Duration::from_secs(2);
        const PATIENCE: Duration = Duration::from_secs(90);
        let start = Instant::now();
        let (mut last, mut since) = (self.moved(Access::Write), start);
        while since.elapsed() < CALM && start.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(200));
            let now = self.moved(Access::Write);
            if now != last {
                (last, since) = (now, Instant::now());
            }
        }
    }
}

/// All or none: a part of the disks would look like a slow cluster.
fn block_devices(dirs: &[PathBuf]) -> Option<BTreeSet<PathBuf>> {
    dirs.iter().map(|dir| block_device(dir)).collect()
}

fn block_device(dir: &Path) -> Option<PathBuf> {
    let device = std::fs::metadata(dir).ok()?.dev();
    // Like the C library's gnu_dev_major and gnu_dev_minor.
    let major = (device >> 8) & 0xfff | (device >> 32) & !0xfff;
    let minor = device & 0xff | (device >> 12) & !0xff;
    Some(PathBuf::from(format!("/sys/dev/block/{major}:{minor}/stat"))).filter(|file| file.exists())
}

/// The third and the seventh number of such a file: sectors of 512 bytes read and written.
fn moved(stat: &str, access: Access) -> Option<u64> {
    let number = match access {
        Access::Read => 2,
        Access::Write => 6,
    };
    Some(stat.split_whitespace().nth(number)?.parse::<u64>().ok()? * 512)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sectors_read_and_written_are_the_third_and_the_seventh_number() {
        let stat = "  59 1 2178 22 4 90 752 12 0 28 35 0 0\n";
        assert_eq!(moved(stat, Access::Read), Some(2178 * 512));
        assert_eq!(moved(stat, Access::Write), Some(752 * 512));
        assert_eq!(moved("", Access::Write), None);
    }

    #[test]
    fn servers_elsewhere_have_no_counters() {
        assert_eq!(block_devices(&["/nonexistent".into()]), None);
        assert_eq!(Disks { counters: BTreeSet::new() }.moved(Access::Write), None);
    }
}
