//! The constants of isolation, all of them; docs/isolation.md says what halving and doubling each of them does.

use crate::request::{OpKind, Request};

/// Defines [`Constants`] and its table of names.
macro_rules! constants {
    ($($(#[doc = $text:literal])+ $name:ident: $value:literal,)+) => {
        /// All constants. Times are in seconds, costs in bytes.
        #[derive(Clone, Copy, Debug, PartialEq)]
        pub struct Constants {
            $($(#[doc = $text])+ pub $name: f64,)+
        }

        impl Constants {
            /// The values in use.
            pub const DEFAULT: Self = Self { $($name: $value,)+ };

            /// Each one's name and place.
            pub const NAMES: &[(&str, fn(&mut Self) -> &mut f64)] =
                &[$((stringify!($name), |all| &mut all.$name),)+];
        }
    };
}

constants! {
    /// Cost of an access in addition to its bytes, and of an object of metadata.
    fixed: 65536.0,
    /// From one classification of applications to the next, with a decision for one server.
    tick: 0.05,
    /// An application without requests for this long is gone, if its pauses are not usually a little longer.
    absent: 0.5,
    /// Bulk has this part of the largest footprint.
    large: 0.5,
    /// The pace holds over this time.
    burst: 0.01,
    /// The window of bulk over the rate times the time of a request that is alone; one is always allowed.
    beta: 0.9,
    /// The window is at most so many times as large.
    widest: 64.0,
    /// The least slot.
    slot: 0.2,
    /// The longest slot.
    slot_max: 1.0,
    /// A slot is as long as so many of the longest waits.
    longest: 2.0,
    /// After this, half of what was seen is forgotten.
    half: 6.0,
    /// Rates per doubling.
    grid: 8.0,
    /// Slots from one trial to the next, once those near by are known to be no better.
    rest: 6.0,
    /// The most slots of a trial.
    trial_max: 8.0,
    /// The longest time that the storage is given to work off what it has.
    settle: 2.0,
    /// To the next look at half of the rate, another window, or a rate that was too high: at first; it doubles.
    retry: 5.0,
    /// Standard errors from which on another rate is better; twice as many, and it is worse.
    z: 1.5,
    /// The variance of U over a second, as long as it is not known.
    noise: 0.01,
    /// A difference of U that does not matter.
    margin: 0.01,
    /// A difference of U that means that things have changed, if it is there twice in a row.
    news: 0.4,
    /// Bulk that gets less than this part of its rate cannot follow it.
    follow: 0.8,
    /// U that is lost if all requests with a promise are late.
    broken: 10.0,
    /// The part of requests that may be later than promised.
    late: 0.1,
    /// A piece of a long write takes so many times as long as the quickest interactive request: it may need a seek.
    piece: 6.0,
    /// The longest time over which pieces are spread: the client and its later requests wait for the last one.
    spread: 8.0,
}

impl Constants {
    /// What a request costs, which only divides the rate of bulk among its applications.
    pub(crate) fn cost(&self, request: &Request) -> u64 {
        #[expect(clippy::cast_possible_truncation, reason = "it is far below")]
        let fixed = self.fixed as u64;
        match request.op {
            OpKind::Read | OpKind::Write => request.cost.0.saturating_add(fixed),
            OpKind::Metadata => fixed * u64::from(request.objects.get()),
        }
    }
}

/// None of them is a NaN.
impl Eq for Constants {}

impl Default for Constants {
    fn default() -> Self {
        Self::DEFAULT
    }
}
