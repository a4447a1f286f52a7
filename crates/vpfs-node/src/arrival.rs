//! What a driver passes to a node when a request arrives and when it ends, and what requests cost: decided in one place
//! for the daemon and the simulator.

use std::collections::HashMap;

use vpfs_core::{AppId, Bytes, FileKey, FilePosition, MIN_DATA_COST, Objects, OpKind, Time};

/// A request that is to be scheduled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// The application that it belongs to.
    pub app: AppId,
    /// Read, write or metadata.
    pub op: OpKind,
    /// Data bytes that it moves at this server; for a read an upper bound until the server reveals the file's size. Not
    /// used for metadata, whose cost is configured [vPFS+ §IV].
    pub bytes: u64,
    /// For metadata: how many objects it works on.
    pub objects: Objects,
    /// For data: its start in the file, if known.
    pub position: Option<FilePosition>,
    /// For data: bytes that the same access moves at other servers, if the request reveals that.
    pub elsewhere: Option<Bytes>,
    /// When the application issued it, if known.
    pub issued_at: Option<Time>,
    /// For a write: the smallest piece in which its data can be sent; `None` if it can only be sent as a whole.
    pub piece: Option<Bytes>,
}

impl Arrival {
    /// A request of which only the size is known, for metadata on one object, that can only be sent as a whole.
    pub fn new(app: AppId, op: OpKind, bytes: u64) -> Self {
        Self { app, op, bytes, objects: Objects::ONE, position: None, elsewhere: None, issued_at: None, piece: None }
    }
}

/// How a dispatched request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Served {
    /// Read, write or metadata.
    pub op: OpKind,
    /// Data bytes that passed, without headers.
    pub bytes: u64,
    /// When it arrived.
    pub arrived: Time,
    /// When it was dispatched.
    pub dispatched: Time,
    /// Whether the server answered it; otherwise it timed out or a connection was lost.
    pub answered: bool,
}

impl Served {
    /// An answered request that moved nothing.
    pub fn new(op: OpKind, arrived: Time, dispatched: Time) -> Self {
        Self { op, bytes: 0, arrived, dispatched, answered: true }
    }
}

/// The cost of a request, and of the rest of its access at other servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cost {
    pub(crate) here: Bytes,
    pub(crate) elsewhere: Option<Bytes>,
}

#[derive(Debug)]
pub(crate) struct Costs {
    /// Cost of a metadata request for each object: its real size is not known before it is served, and is similar for
    /// all [vPFS+ §IV].
    pub(crate) metadata: Bytes,
    sizes: FileSizes,
}

impl Costs {
    pub(crate) fn new(metadata: Bytes) -> Self {
        Self { metadata, sizes: FileSizes::default() }
    }

    pub(crate) fn learn_size(&mut self, file: FileKey, size: u64) {
        self.sizes.learn(file, size);
    }

    pub(crate) fn metadata_cost(&self, objects: Objects) -> Bytes {
        objects.cost(self.metadata)
    }

    pub(crate) fn of(&mut self, arrival: &Arrival) -> Cost {
        if arrival.op == OpKind::Metadata {
            return Cost { here: self.metadata_cost(arrival.objects), elsewhere: None };
        }
        let asked = Bytes(arrival.bytes).max(MIN_DATA_COST);
        let here = Bytes(self.sizes.bound(arrival)).max(MIN_DATA_COST);
        assert!(here <= asked, "what is known of a file makes an access no larger");
        Cost { here, elsewhere: arrival.elsewhere.map(|elsewhere| in_proportion(elsewhere, here, asked)) }
    }
}

/// The cost of the parts at other servers if the one here costs `here` instead of `asked`: all parts of an access
/// shrink in proportion.
fn in_proportion(elsewhere: Bytes, here: Bytes, asked: Bytes) -> Bytes {
    let scaled = u128::from(elsewhere.0) * u128::from(here.0) / u128::from(asked.0);
    Bytes(u64::try_from(scaled).unwrap_or(u64::MAX))
}

/// Sizes of the parts of files on this server, of a bounded number of files.
///
/// A copy tool asks for 10 MiB of every file, however small: charged as asked, it would occupy the slots of a large
/// request for nothing. This is an estimate only: the server's answer corrects the cost.
#[derive(Debug, Default)]
struct FileSizes {
    sizes: HashMap<FileKey, u64>,
}

impl FileSizes {
    /// Enough for the files that are open at a time; about 1 MiB of memory.
    const MAX: usize = 1 << 16;

    fn learn(&mut self, file: FileKey, size: u64) {
        if self.sizes.len() >= Self::MAX && !self.sizes.contains_key(&file) {
            // Happens rarely, and only estimates are lost.
            self.sizes.clear();
        }
        self.sizes.insert(file, size);
    }

    /// The most data bytes that a request can move, as far as its file's size is known.
    fn bound(&mut self, arrival: &Arrival) -> u64 {
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
    use super::*;

    fn read(bytes: u64) -> Arrival {
        let position = Some(FilePosition { file: FileKey(7), start: 0 });
        Arrival { position, elsewhere: Some(Bytes(3 * bytes)), ..Arrival::new(AppId(0), OpKind::Read, bytes) }
    }

    #[test]
    fn all_parts_of_an_access_shrink_alike() {
        let mut costs = Costs::new(Bytes::kib(8));
        let mib = 1 << 20;
        assert_eq!(costs.of(&read(mib)), Cost { here: Bytes::mib(1), elsewhere: Some(Bytes::mib(3)) });
        costs.learn_size(FileKey(7), mib / 4);
        assert_eq!(costs.of(&read(mib)), Cost { here: Bytes::kib(256), elsewhere: Some(Bytes::kib(768)) });
    }

    /// Symptom: attributes of 2,000 files were charged as those of one. Cause: every metadata request had the same
    /// cost.
    #[test]
    fn metadata_costs_what_its_objects_cost() {
        for one in [1, 10_240, 1 << 30] {
            let mut costs = Costs::new(Bytes(one));
            let mut cost = |objects| costs.of(&Arrival { objects, ..Arrival::new(AppId(0), OpKind::Metadata, 0) }).here;
            for count in 1..=u64::from(Objects::MAX) {
                assert_eq!(cost(Objects::new(count)), Bytes(cost(Objects::ONE).0 * count));
            }
            assert_eq!([cost(Objects::new(0)), cost(Objects::new(u64::MAX))], [Bytes(one), Bytes(one * 8192)]);
        }
    }

    #[test]
    fn no_data_request_is_free_and_metadata_has_a_fixed_cost() {
        let mut costs = Costs::new(Bytes::kib(8));
        assert_eq!(costs.of(&read(0)).here, MIN_DATA_COST);
        assert_eq!(costs.of(&Arrival::new(AppId(0), OpKind::Metadata, 1 << 30)).here, Bytes::kib(8));
    }

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
