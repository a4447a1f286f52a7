//! Known file sizes: they limit how much a read can move.

use std::collections::HashMap;

use vpfs_core::{FileKey, OpKind};

use crate::arrival::Arrival;

/// Sizes of the parts of files on this server, of a bounded number of files.
///
/// A copy tool asks for 10 MiB of every file, however small: charged as asked, it would occupy the slots of a large
/// request for nothing. This is an estimate only: the server's answer corrects the cost.
#[derive(Debug, Default)]
pub(crate) struct FileSizes {
    sizes: HashMap<FileKey, u64>,
}

impl FileSizes {
    /// Enough for the files that are open at a time; about 1 MiB of memory.
    const MAX: usize = 1 << 16;

    pub(crate) fn learn(&mut self, file: FileKey, size: u64) {
        if self.sizes.len() >= Self::MAX && !self.sizes.contains_key(&file) {
            // Happens rarely, and only estimates are lost.
            self.sizes.clear();
        }
        self.sizes.insert(file, size);
    }

    /// The most data bytes that a request can move, as far as its file's size is known.
    pub(crate) fn bound(&mut self, arrival: &Arrival) -> u64 {
        let Some(position) = arrival.position.filter(|_| !self.sizes.is_empty()) else { return arrival.bytes };
        if arrival.op == OpKind::Write {
            // The file may grow.
            self.sizes.remove(&position.file);
            return arrival.bytes;
        }
        match self.sizes.get(&position.file) {
            Some(size) => arrival.bytes.min(size.saturating_sub(position.start)),
            None => arrival.bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use vpfs_core::{AppId, FilePosition};

    use super::*;

    const FILE: FileKey = FileKey(7);

    fn access(op: OpKind, start: u64) -> Arrival {
        Arrival { position: Some(FilePosition { file: FILE, start }), ..Arrival::new(AppId(0), op, 10 << 20) }
    }

    #[test]
    fn reads_move_no_more_than_the_file_holds() {
        let mut sizes = FileSizes::default();
        assert_eq!(sizes.bound(&access(OpKind::Read, 0)), 10 << 20);
        sizes.learn(FILE, 100_000);
        assert_eq!(sizes.bound(&access(OpKind::Read, 0)), 100_000);
        assert_eq!(sizes.bound(&access(OpKind::Read, 1 << 30)), 0);
    }

    #[test]
    fn a_write_makes_the_size_unknown() {
        let mut sizes = FileSizes::default();
        sizes.learn(FILE, 0);
        assert_eq!(sizes.bound(&access(OpKind::Write, 0)), 10 << 20);
        assert_eq!(sizes.bound(&access(OpKind::Read, 0)), 10 << 20);
    }

    #[test]
    fn memory_is_bounded() {
        let mut sizes = FileSizes::default();
        (0..3 * FileSizes::MAX as u64).for_each(|file| sizes.learn(FileKey(file), 1));
        assert!(sizes.sizes.len() <= FileSizes::MAX);
    }
}
