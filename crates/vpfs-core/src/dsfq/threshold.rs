//! Service requested here that has not been reported to other servers yet [vPFS §III-B1].
//!
//! One threshold for all flows of a scheduler, as the paper simplifies it: it limits how much any other server does not
//! know about this one. Refunds count by their absolute value, otherwise a refund to one flow would hide the requests
//! of another.

use alloc::vec::Vec;

use crate::request::ServiceClass;
use crate::units::AppId;

/// Service of one class by flow, since the last report.
#[derive(Debug)]
pub(super) struct Accumulation {
    class: ServiceClass,
    /// By application.
    amounts: Vec<Amount>,
    /// The applications that have an amount.
    changed: Vec<AppId>,
    /// The sum of the absolute values of all amounts.
    unreported: u128,
    /// The threshold was reached or a message goes out anyway, and not all amounts have been drained yet.
    due: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Amount {
    bytes: i64,
    operations: i64,
    /// It is in the list `changed`.
    listed: bool,
}

impl Amount {
    /// The amount that counts against the threshold: bytes for data, operations for metadata [vPFS+ §IV], one for
    /// each object.
    fn size(&self, class: ServiceClass) -> u64 {
        match class {
            ServiceClass::Data => self.bytes.unsigned_abs(),
            ServiceClass::Metadata => self.operations.unsigned_abs(),
        }
    }
}

impl Accumulation {
    pub(super) const fn new(class: ServiceClass) -> Self {
        Self { class, amounts: Vec::new(), changed: Vec::new(), unreported: 0, due: false }
    }

    /// Counts `bytes` of cost and a number of operations, both below zero for a refund. O(1).
    pub(super) fn add(&mut self, app: AppId, bytes: i128, operations: i64) {
        if app.index() >= self.amounts.len() {
            self.amounts.resize(app.index() + 1, Amount::default());
        }
        let amount = &mut self.amounts[app.index()];
        let before = amount.size(self.class);
        amount.bytes = saturate(i128::from(amount.bytes) + bytes);
        amount.operations += operations;
        self.unreported = self.unreported - u128::from(before) + u128::from(amount.size(self.class));
        if !core::mem::replace(&mut amount.listed, true) {
            self.changed.push(app);
        }
    }

    /// The next amount to report if the sum of all has reached `threshold` or all must be reported; call until `None`.
    /// O(1) for each flow that changed.
    pub(super) fn poll(&mut self, threshold: u64) -> Option<(AppId, i64)> {
        self.due |= self.unreported >= u128::from(threshold);
        while self.due {
            let Some(app) = self.changed.pop() else {
                self.due = false;
                break;
            };
            let amount = core::mem::take(&mut self.amounts[app.index()]);
            self.unreported -= u128::from(amount.size(self.class));
            if amount.bytes != 0 {
                return Some((app, amount.bytes));
            }
        }
        None
    }

    /// The next calls of [`Accumulation::poll`] drain all amounts, whatever their sum is. O(1).
    pub(super) fn report_all(&mut self) {
        self.due = true;
    }
}

fn saturate(bytes: i128) -> i64 {
    i64::try_from(bytes).unwrap_or(if bytes < 0 { i64::MIN } else { i64::MAX })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drain(counted: &mut Accumulation, threshold: u64) -> Vec<(u32, i64)> {
        let mut all: Vec<_> =
            core::iter::from_fn(|| counted.poll(threshold)).map(|(app, bytes)| (app.0, bytes)).collect();
        all.sort_unstable();
        all
    }

    #[test]
    fn all_flows_are_reported_once_their_sum_reaches_the_threshold() {
        let mut counted = Accumulation::new(ServiceClass::Data);
        counted.add(AppId(3), 60, 1);
        counted.add(AppId(0), 39, 1);
        assert_eq!(drain(&mut counted, 100), []);
        counted.add(AppId(0), 1, 1);
        assert_eq!(drain(&mut counted, 100), [(0, 40), (3, 60)]);
        counted.add(AppId(0), 99, 1);
        assert_eq!(drain(&mut counted, 100), [], "it starts again");
        assert_eq!(drain(&mut counted, 99), [(0, 99)], "the threshold can change");
    }

    #[test]
    fn a_message_that_goes_out_anyway_takes_all_amounts_with_it() {
        let mut counted = Accumulation::new(ServiceClass::Data);
        counted.add(AppId(0), 60, 1);
        counted.report_all();
        assert_eq!(drain(&mut counted, 100), [(0, 60)]);
        counted.add(AppId(0), 99, 1);
        assert_eq!(drain(&mut counted, 100), [], "only what was there");
    }

    #[test]
    fn refunds_are_reported() {
        let mut counted = Accumulation::new(ServiceClass::Data);
        counted.add(AppId(0), 70, 1);
        counted.add(AppId(1), -30, -1);
        assert_eq!(drain(&mut counted, 100), [(0, 70), (1, -30)]);
        counted.add(AppId(0), 99, 1);
        counted.add(AppId(0), -99, -1);
        counted.add(AppId(1), 100, 1);
        assert_eq!(drain(&mut counted, 100), [(1, 100)]);
    }

    /// Symptom: an overflow panics. Cause: the sum of all sizes stopped at 64 bits, but was then reduced by each of
    /// them.
    #[test]
    fn sums_beyond_64_bits_drain() {
        let mut counted = Accumulation::new(ServiceClass::Data);
        (0..4).for_each(|app| counted.add(AppId(app), u64::MAX.into(), 1));
        assert_eq!(drain(&mut counted, 1).len(), 4);
        assert_eq!(drain(&mut counted, 1), []);
    }

    #[test]
    fn metadata_is_counted_in_operations() {
        let mut counted = Accumulation::new(ServiceClass::Metadata);
        for operation in 0..4 {
            assert_eq!(drain(&mut counted, 4), [], "{operation}");
            counted.add(AppId(operation % 2), 10_240, 1);
        }
        assert_eq!(drain(&mut counted, 4), [(0, 20_480), (1, 20_480)]);
    }
}
