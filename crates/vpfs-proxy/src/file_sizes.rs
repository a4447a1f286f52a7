//! What servers told about the sizes of datafiles, to better the estimated cost of reads.

use std::collections::HashMap;

use vpfs_core::{Bytes, OpKind};
use vpfs_interpose::{MIN_DATA_COST, Submission};
use vpfs_wire::pvfs2::Handle;

/// Sizes by datafile handle, a bounded number of them.
///
/// A copy tool asks for 10 MiB of every file, however small: charged as asked, it would take the slots of a large
/// request for nothing. An estimate only: the acknowledgement corrects the cost.
#[derive(Debug, Default)]
pub(crate) struct FileSizes {
    sizes: HashMap<Handle, u64>,
}

impl FileSizes {
    /// Enough for the files that are open at one time; 1 MiB of memory.
    const MAX: usize = 1 << 16;

    pub(crate) fn learn(&mut self, handle: Handle, size: u64) {
        if self.sizes.len() >= Self::MAX && !self.sizes.contains_key(&handle) {
            // Rare, and all that is lost is estimates.
            self.sizes.clear();
        }
        self.sizes.insert(handle, size);
    }

    /// The cost of a request in the light of what is known of its file.
    pub(crate) fn estimate(&mut self, submission: &Submission) -> Bytes {
        let Some(extent) = submission.extent else { return submission.cost };
        if submission.kind == OpKind::Write {
            // It may grow.
            self.sizes.remove(&extent.handle);
            return submission.cost;
        }
        match self.sizes.get(&extent.handle) {
            Some(size) => submission.cost.min(Bytes(size.saturating_sub(extent.start))).max(MIN_DATA_COST),
            None => submission.cost,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vpfs_interpose::Extent;

    fn access(kind: OpKind, start: u64) -> Submission {
        Submission { kind, cost: Bytes::mib(10), extent: Some(Extent { handle: Handle(7), start }), elsewhere: None }
    }

    #[test]
    fn reads_cost_no_more_than_the_file_holds() {
        let mut sizes = FileSizes::default();
        assert_eq!(sizes.estimate(&access(OpKind::Read, 0)), Bytes::mib(10));
        sizes.learn(Handle(7), 100_000);
        assert_eq!(sizes.estimate(&access(OpKind::Read, 0)), Bytes(100_000));
        assert_eq!(sizes.estimate(&access(OpKind::Read, 1 << 30)), MIN_DATA_COST);
    }

    #[test]
    fn a_write_makes_the_size_unknown() {
        let mut sizes = FileSizes::default();
        sizes.learn(Handle(7), 0);
        assert_eq!(sizes.estimate(&access(OpKind::Write, 0)), Bytes::mib(10));
        assert_eq!(sizes.estimate(&access(OpKind::Read, 0)), Bytes::mib(10));
    }
}
