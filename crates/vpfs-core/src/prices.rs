//! What service at other servers would cost here.
//!
//! Servers report bytes, but an access costs more than its bytes. So an application is charged for service elsewhere
//! what that would have cost here, as if its requests revealed it by their layout.

use alloc::vec::Vec;

use crate::app_policy::ShareId;
use crate::request::ServiceClass;
use crate::units::{AppId, Bytes};

/// The recent price of each application's requests, and of those in each share, by class.
#[derive(Debug)]
pub(crate) struct Prices {
    /// Of applications that have not been here yet.
    guess: Price,
    of_apps: Vec<[Price; 2]>,
    of_shares: Vec<[Price; 2]>,
}

/// What was charged for a number of bytes; both are sums of which each request forgets an eighth.
#[derive(Clone, Copy, Debug, Default)]
struct Price {
    charged: u64,
    bytes: u64,
}

impl Prices {
    /// An application that has not been here yet is charged `charged` for `bytes`.
    pub(crate) fn new(charged: u64, bytes: u64) -> Self {
        Self { guess: Price { charged, bytes }, of_apps: Vec::new(), of_shares: Vec::new() }
    }

    /// A request of `bytes` is charged here. O(1).
    pub(crate) fn note(
        &mut self,
        (app, share): (AppId, Option<ShareId>),
        class: ServiceClass,
        charged: Bytes,
        bytes: Bytes,
    ) {
        note(&mut self.of_apps, app.index(), class, charged, bytes);
        if let Some(share) = share {
            note(&mut self.of_shares, share.index(), class, charged, bytes);
        }
    }

    /// What `bytes` of service elsewhere cost here: by the price of the application, or of its share, or by a guess if
    /// neither has been here yet. O(1).
    pub(crate) fn here(&self, (app, share): (Option<AppId>, Option<ShareId>), class: ServiceClass, bytes: i64) -> i64 {
        let of = |prices: &[[Price; 2]], number: Option<usize>| {
            prices.get(number?).map(|prices| prices[index(class)]).filter(|price| price.bytes > 0)
        };
        let known = of(&self.of_apps, app.map(AppId::index));
        let known = known.or_else(|| of(&self.of_shares, share.map(ShareId::index)));
        let Price { charged, bytes: of } = known.unwrap_or(self.guess);
        let here = i128::from(bytes) * i128::from(charged) / i128::from(of);
        i64::try_from(here).unwrap_or(if here < 0 { i64::MIN } else { i64::MAX })
    }
}

fn note(prices: &mut Vec<[Price; 2]>, number: usize, class: ServiceClass, charged: Bytes, bytes: Bytes) {
    if number >= prices.len() {
        prices.resize(number + 1, [Price::default(); 2]);
    }
    let price = &mut prices[number][index(class)];
    let add = |sum: u64, new: Bytes| (sum - sum / 8).saturating_add(new.0);
    *price = Price { charged: add(price.charged, charged), bytes: add(price.bytes, bytes) };
}

fn index(class: ServiceClass) -> usize {
    match class {
        ServiceClass::Data => 0,
        ServiceClass::Metadata => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn service_elsewhere_costs_what_it_would_cost_here() {
        let mut prices = Prices::new(10, 1);
        let share = Some(ShareId(0));
        prices.note((AppId(1), share), ServiceClass::Data, Bytes(300), Bytes(100));
        let here = |app, class, bytes| prices.here((Some(AppId(app)), None), class, bytes);
        assert_eq!(here(1, ServiceClass::Data, 50), 150);
        assert_eq!(here(1, ServiceClass::Data, -50), -150, "refunds too");
        assert_eq!(here(1, ServiceClass::Metadata, 2), 20, "a guess");
        assert_eq!(here(7, ServiceClass::Data, 2), 20, "a guess");
        assert_eq!(here(1, ServiceClass::Data, i64::MAX), i64::MAX);
        for app in [None, Some(AppId(7))] {
            assert_eq!(prices.here((app, share), ServiceClass::Data, 50), 150, "its share's");
        }
    }
}
