//! Total-service fairness over servers, DSFQ [vPFS §III-B]: shares hold for the sum of service that an application gets
//! from all servers, also when applications use different ones.
//!
//! The start tag of a request becomes S = max(v, F of the flow's previous request + delay/φ), where the delay is the
//! service that the flow requested elsewhere and was not charged for here yet. There are two ways to know it:
//!
//! - **By threshold** ([`Threshold`](crate::SharingMode::Threshold)): schedulers count arriving requests
//!   and report the sums. A report from another server waits for the flow's next request here and delays that one, as
//!   in the paper. Queued requests are not moved, although a flow with a long queue is ahead by delay/φ until that
//!   queue is served. If the queue were moved back instead, its requests would be only their own cost apart, a flow's
//!   queue would be served in one piece, and each server would start with another flow: calls that need all servers
//!   would wait for the last one. With 96 servers that costs half of the throughput [vPFS Table 2].
//! - **By layout** ([`Layout`](crate::SharingMode::Layout), [`elsewhere`](crate::stripe::elsewhere)): a request itself
//!   reveals the cost of its other parts ([`Request::elsewhere`](crate::Request::elsewhere)), so it is not counted.
//!   Requests that do not reveal it are counted and reported as above.
//!
//! # How service elsewhere is accounted
//!
//! Service that a flow was given elsewhere is *pending* until its next request arrives here. Then it is divided,
//! together with the cost of the other parts that this request reveals, in this order (`ledger`):
//!
//! 1. *absorbed*: a flow that had nothing queued may lag behind virtual time v. It starts at v anyway, so service that
//!    only brings it up to v delays nothing.
//! 2. *charged*: it delays the request. The starvation guard limits this for each request.
//! 3. *deferred*: it stays pending for the next request, up to [`PENDING_MAX`], or more in a large cluster.
//! 4. *waived*: the rest is dropped, so that no application is in debt for ever.
//!
//! Refunds of service elsewhere first reduce what is pending. The rest moves tags back, but never below v, as with all
//! refunds, and by no more than such service had moved them since the flow last lagged: absorbed or waived service is
//! not refunded. Otherwise an application could request a lot of service at one server, cancel it, and so get ahead of
//! all others at every other server. With this rule it is never better off than with local shares.
//!
//! Applications in a share are accounted for one by one, and the share pays for what its members get elsewhere without
//! being here (`ledger`).
//!
//! # An example
//!
//! Server A serves applications x and y of weight 1, one request of 1 MiB after the other. Server B serves y only, and
//! reports to A. All numbers are MiB; F is a flow's last finish tag. The ledger of A does the following (the test
//! `the_example_in_the_documentation` runs it):
//!
//! | what happens | v | F of x | F of y | y: pending | y: charged |
//! |---|---|---|---|---|---|
//! | x and y each send a request to A: S = 0, F = 0 + 1 | 0 | 1 | 1 | 0 | 0 |
//! | B reports 3 for y | 0 | 1 | 1 | 3 | 0 |
//! | y sends: its first request is queued, so nothing is absorbed; S = 1 + 3, F = 5 | 0 | 1 | 5 | 0 | 3 |
//! | x sends four requests: S = 1, 2, 3, 4, all but the last precede that of y | 0 | 5 | 5 | 0 | 3 |
//! | by S = 4, A has served x 4 and y 1, to which B adds 3: 4 for each | 4 | 5 | 5 | 0 | 3 |
//! | y cancels 1 at B, which reports −1: y's tags go back by 1, to F = 4 | 4 | 5 | 4 | 0 | 2 |
//! | y is idle until x has taken v to 9; B reports 2 | 9 | 10 | 4 | 2 | 2 |
//! | y sends: it lags by 5, so all 2 are absorbed; S = max(9, 4 + 2), F = 10 | 9 | 10 | 10 | 0 | 0 |
//! | B reports −2: nothing is pending or charged, so nothing moves | 9 | 10 | 10 | 0 | 0 |

mod ledger;

use alloc::vec::Vec;

use crate::app_policy::ShareId;
use crate::request::{ServiceClass, ServiceReport};
use crate::settings::Sharing;
use crate::units::{AppId, Bytes, Time};
pub(crate) use ledger::{Change, Ledger, Standing};

/// Shares for the sum over all servers, at one of them.
pub trait SharedService {
    /// Other servers gave `report.app` this much service: delays its next requests [vPFS §III-B1].
    fn handle_peer(&mut self, now: Time, report: ServiceReport);

    /// Other servers gave this much service to members of `share` that this server does not know.
    fn handle_strangers(&mut self, now: Time, share: ShareId, class: ServiceClass, bytes: i64);

    /// The next amount to report to other servers. Call until `None`, after every input, as with dispatches.
    fn poll_report(&mut self, now: Time) -> Option<ServiceReport>;

    /// A message to the other servers goes out anyway: the next calls of [`SharedService::poll_report`] return all
    /// amounts, also while they are below the threshold. O(1).
    fn report_all(&mut self);
}

/// Service elsewhere of one flow that can be pending at one server.
pub const PENDING_MAX: Bytes = Bytes::mib(1024);

/// It can be as much as this for each server, if that is more: all servers of a large cluster together give more than
/// [`PENDING_MAX`] between two requests at one of them.
const PENDING_MAX_OF_EACH: Bytes = Bytes::mib(64);

/// Service elsewhere of one flow that can be pending at one of these servers.
pub(crate) fn pending_max(sharing: &Sharing) -> Bytes {
    PENDING_MAX.max(Bytes(PENDING_MAX_OF_EACH.0 * u64::from(sharing.servers)))
}

// Service requested here that has not been reported to other servers yet [vPFS §III-B1].
//
// One threshold for all flows of a scheduler, as the paper simplifies it: it limits how much any other server does not
// know about this one. Refunds count by their absolute value, otherwise a refund to one flow would hide the requests
// of another.

/// Service of one class by flow, since the last report.
#[derive(Debug)]
struct Accumulation {
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
    const fn new(class: ServiceClass) -> Self {
        Self { class, amounts: Vec::new(), changed: Vec::new(), unreported: 0, due: false }
    }

    /// Counts `bytes` of cost and a number of operations, both below zero for a refund. O(1).
    fn add(&mut self, app: AppId, bytes: i128, operations: i64) {
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
    fn poll(&mut self, threshold: u64) -> Option<(AppId, i64)> {
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
    fn report_all(&mut self) {
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
