//! What requests cost, decided in one place for the daemon and the simulator.

use vpfs_core::{Bytes, FileKey, MIN_DATA_COST, Objects, OpKind};

use crate::arrival::Arrival;
use crate::file_sizes::FileSizes;

/// The cost of a request, and of the rest of its access at other servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cost {
    pub(crate) here: Bytes,
    pub(crate) elsewhere: Option<Bytes>,
}

/// Parameters and knowledge from which costs follow.
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

    /// The cost of metadata of so many objects.
    pub(crate) fn metadata_cost(&self, objects: Objects) -> Bytes {
        objects.cost(self.metadata)
    }

    /// The cost of a request as far as it is known on arrival.
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

#[cfg(test)]
mod tests {
    use vpfs_core::{AppId, FilePosition};

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
}
