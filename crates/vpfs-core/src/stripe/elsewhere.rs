//! The cost of the other parts of an access, derived from how its file is striped [vPFS §III-B2].
//!
//! Every server of the layout must be able to derive the same total, otherwise some would charge what others report. So
//! only accesses count of which *each* server of the layout gets a part. A layout of one server reveals nothing about
//! others.
//!
//! Servers outside the layout do not learn of such accesses. Like the paper, this expects an application to use one
//! layout for its data; if it keeps different files on different servers, share by threshold.
//!
//! A layout is the client's claim. A client that invents a layout whose other parts are tiny is not charged for the
//! service that it gets elsewhere, so its shares hold at each server separately, and it gains no more than that. If
//! clients are not trusted, share by threshold.

use core::ops::Range;

use super::Stripe;
use crate::units::Bytes;

/// The cost elsewhere of an access to the bytes `range` of a file, as seen by server number `server` of the file: the
/// value of [`Request::elsewhere`](crate::Request::elsewhere).
///
/// `None` unless every server of the layout gets a part, and there are at least two. O(1) for accesses of a round or
/// more and for simple stripes, else O(n) in servers of the layout.
pub fn elsewhere(stripe: &Stripe, server: u32, range: &Range<u64>) -> Option<Bytes> {
    let local = stripe.bytes_in(server, range);
    let total = range.end.saturating_sub(range.start);
    (local > 0 && local < total && stripe.reaches_all(range)).then(|| Bytes(total - local))
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use proptest::prelude::*;

    use super::*;
    use crate::stripe::{Distribution, VarStrip};

    /// [`elsewhere`] as the paper estimates it: from the cost of the local part alone, as if the access covered whole
    /// rounds.
    ///
    /// The paper's rules are cases of this one, (round − own)/own · local with the server's own bytes in a round: for a
    /// simple stripe over n servers (n − 1) · local; for a two-dimensional one the same, as the group factor gives each
    /// server of each group equal parts of a round; for variable strips the ratio of the strips. `None` if the server
    /// has no part of a round, or all of it.
    fn elsewhere_of_local(stripe: &Stripe, server: u32, local: Bytes) -> Option<Bytes> {
        let round = stripe.round()?;
        let own = stripe.bytes_before(server, round);
        if own == round {
            return None;
        }
        let elsewhere = (u128::from(local.0) * u128::from(round - own)).checked_div(own.into())?;
        Some(Bytes(u64::try_from(elsewhere).unwrap_or(u64::MAX)))
    }

    fn stripe() -> impl Strategy<Value = Stripe> {
        prop_oneof![
            (1u64..9, 1u32..6).prop_map(|(strip, servers)| (Distribution::SimpleStripe { strip }, servers)),
            Just((Distribution::Basic, 1)),
            proptest::collection::vec((0u32..4, 1u64..7), 1..6).prop_map(|strips| {
                let text: Vec<_> = strips.iter().map(|(server, size)| alloc::format!("{server}:{size}")).collect();
                (Distribution::VarStrip(VarStrip::parse(&text.join(";")).unwrap()), 4)
            }),
            (1u32..5, 1u64..6, 1u32..4, 1u32..6).prop_map(|(groups, strip, factor, servers)| (
                Distribution::TwoDStripe { groups, strip, factor },
                servers
            )),
        ]
        .prop_map(|(distribution, servers)| Stripe::new(distribution, servers).unwrap())
    }

    proptest! {
        /// Either all servers of the layout derive the same total, or none derives any.
        #[test]
        fn all_servers_tell_the_same(stripe in stripe(), start in 0u64..200, len in 1u64..200) {
            let range = start..start + len;
            let holders: Vec<u32> = (0..8).filter(|&server| stripe.bytes_before(server, 1000) > 0).collect();
            let told: Vec<_> = holders.iter().map(|&server| elsewhere(&stripe, server, &range)).collect();
            let local = |server| stripe.bytes_in(server, &range);
            if holders.len() > 1 && holders.iter().all(|&server| local(server) > 0) {
                for (&server, told) in holders.iter().zip(told) {
                    prop_assert_eq!(told, Some(Bytes(len - local(server))));
                }
            } else {
                prop_assert!(told.iter().all(Option::is_none), "{:?}", told);
            }
        }

        #[test]
        fn whole_rounds_follow_the_closed_form(stripe in stripe(), start in 0u64..200, rounds in 1u64..20) {
            if let Some(round) = stripe.round() {
                let range = start..start + round * rounds;
                for server in 0..8 {
                    let local = Bytes(stripe.bytes_in(server, &range));
                    prop_assert_eq!(elsewhere_of_local(&stripe, server, local), elsewhere(&stripe, server, &range));
                }
            }
        }

        /// The paper's rules as it states them.
        #[test]
        fn the_papers_rules_are_cases(strip in 1u64..1 << 20, servers in 2u32..100, groups in 1u32..9, factor in 1u32..9,
                                      sizes in prop::collection::vec(1u64..1 << 20, 2..9), local in 0u64..1 << 40) {
            let of = |distribution, servers| Stripe::new(distribution, servers).unwrap();
            let simple = of(Distribution::SimpleStripe { strip }, servers);
            let others = Some(Bytes(local * u64::from(servers - 1)));
            prop_assert_eq!(elsewhere_of_local(&simple, servers - 1, Bytes(local)), others);
            let two = of(Distribution::TwoDStripe { groups, strip, factor }, servers);
            prop_assert_eq!(elsewhere_of_local(&two, 0, Bytes(local)), others);
            let text: Vec<_> = sizes.iter().enumerate().map(|(server, size)| alloc::format!("{server}:{size}")).collect();
            let var = of(Distribution::VarStrip(VarStrip::parse(&text.join(";")).unwrap()), 9);
            let ratio = u128::from(local) * u128::from(sizes[1..].iter().sum::<u64>()) / u128::from(sizes[0]);
            prop_assert_eq!(elsewhere_of_local(&var, 0, Bytes(local)).map(|bytes| u128::from(bytes.0)), Some(ratio));
        }
    }

    #[test]
    fn a_small_access_reveals_nothing() {
        let stripe = Stripe::new(Distribution::SimpleStripe { strip: 64 << 10 }, 4).unwrap();
        assert_eq!(elsewhere(&stripe, 0, &(0..4096)), None);
        assert_eq!(elsewhere(&stripe, 0, &(0..256 << 10)), Some(Bytes::kib(192)));
        assert_eq!(elsewhere(&stripe, 4, &(0..256 << 10)), None, "not a server of the file");
    }
}
