//! Divides service elsewhere when a request arrives: it is absorbed, charged, deferred or waived.

use crate::units::Bytes;

/// Service elsewhere to be accounted when a request of its flow arrives. The sum fits in 64 bits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Owed {
    pending: u64,
    stated: u64,
    /// What can stay pending.
    pending_max: u64,
}

/// The result of the division; the four parts, in this order, make up the whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Division {
    /// It only brings the flow up to virtual time, where the request would start anyway.
    pub(super) absorbed: u64,
    /// It delays the request.
    pub(super) charged: u64,
    /// It stays pending, up to the limit.
    pub(super) deferred: u64,
    /// It is dropped.
    pub(super) waived: u64,
}

impl Owed {
    /// `pending`, at most `pending_max`, and the cost of the other parts that the request reveals.
    ///
    /// No access has parts of nearly 2⁶⁴ bytes, so that cost is limited to leave room for `pending`.
    pub(super) fn new(pending: Bytes, stated: Bytes, pending_max: Bytes) -> Self {
        assert!(pending <= pending_max, "`pending` is bounded");
        Self { pending: pending.0, stated: stated.0.min(u64::MAX - pending_max.0), pending_max: pending_max.0 }
    }

    /// Divides the service elsewhere while the flow lags behind virtual time by `lag` and the guard allows a delay of
    /// `room`. O(1).
    pub(super) fn divide(self, lag: Bytes, room: Bytes) -> Division {
        // Each part is at most the remainder, so nothing is taken twice.
        let left = self.pending + self.stated;
        let absorbed = left.min(lag.0);
        let left = left - absorbed;
        let charged = left.min(room.0);
        let left = left - charged;
        let deferred = left.min(self.pending_max);
        Division { absorbed, charged, deferred, waived: left - deferred }
    }

    /// The part of `stated` that was charged or deferred, and can be refunded.
    ///
    /// `pending` came first, so it is absorbed first; `stated` came last, so it is waived first. The absorbed and
    /// waived parts of `stated` never exceed it:
    /// - if all of `pending` is absorbed, the waived part belongs to the rest of `stated`;
    /// - otherwise no part of `stated` is absorbed, and at most stated + pending − `pending_max` is waived.
    pub(super) fn refundable(self, division: Division) -> Bytes {
        let stated_absorbed = division.absorbed - division.absorbed.min(self.pending);
        let rest = self.stated.checked_sub(stated_absorbed).and_then(|rest| rest.checked_sub(division.waived));
        Bytes(rest.expect("the absorbed and waived parts of `stated` never exceed it"))
    }
}

impl Division {
    /// By how much service the request's tag moves from the flow's last finish tag.
    pub(super) fn delay(self) -> Bytes {
        Bytes(self.absorbed + self.charged)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MAX: u64 = 1 << 30;

    fn parts(pending: u64, stated: u64, lag: u64, room: u64) -> ([u64; 4], u64) {
        let owed = Owed::new(Bytes(pending), Bytes(stated), Bytes(MAX));
        let division = owed.divide(Bytes(lag), Bytes(room));
        let Division { absorbed, charged, deferred, waived } = division;
        ([absorbed, charged, deferred, waived], owed.refundable(division).0)
    }

    #[test]
    fn each_part_has_its_limit() {
        assert_eq!(parts(0, 0, 7, 9), ([0, 0, 0, 0], 0));
        assert_eq!(parts(5, 0, 7, 9), ([5, 0, 0, 0], 0));
        assert_eq!(parts(5, 10, 7, 9), ([7, 8, 0, 0], 8), "two of the bytes in `stated` are absorbed");
        assert_eq!(parts(5, 20, 7, 9), ([7, 9, 9, 0], 18));
        assert_eq!(parts(MAX, 20, 0, 9), ([0, 9, MAX, 11], 9), "`stated` is waived first");
        assert_eq!(parts(0, MAX + 20, 7, 9), ([7, 9, MAX, 4], MAX + 9));
    }

    /// Sizes at which sums overflow and limits are reached, and some between.
    fn size(max: u64) -> impl Strategy<Value = u64> {
        prop_oneof![0..20_u64, (MAX - 20..MAX + 20), (u64::MAX - 20..=u64::MAX), any::<u64>()]
            .prop_map(move |size| size.min(max))
    }

    proptest! {
        #[test]
        fn parts_make_up_the_whole(
            pending in size(MAX),
            stated in size(u64::MAX),
            lag in size(u64::MAX),
            room in size(u64::MAX),
        ) {
            let (parts, refundable) = parts(pending, stated, lag, room);
            let stated = stated.min(u64::MAX - MAX);
            let sum: u128 = parts.into_iter().map(u128::from).sum();
            prop_assert_eq!(sum, u128::from(pending) + u128::from(stated));
            prop_assert!(refundable <= stated);
            let [_, charged, deferred, _] = parts.map(u128::from);
            prop_assert!(u128::from(refundable) <= charged + deferred, "more than was kept");
        }
    }
}
