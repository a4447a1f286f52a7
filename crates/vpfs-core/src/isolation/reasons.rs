//! For which rule requests wait, for people who ask why.

use super::dispatching::{Hold, Turn};
use super::meter::Kind;
use crate::request::Rule;
use crate::units::AppId;

/// What held requests back last. A request counts as held by what held its kind when it was last looked at.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reasons {
    bulk: Rule,
    /// The application whose minimum came before the others since the last dispatch by shares.
    preferred: Option<AppId>,
}

impl Reasons {
    /// Nothing more goes now; `solo` is the flow that goes alone.
    pub(super) fn on_hold(&mut self, hold: Hold, solo: Option<AppId>) {
        self.bulk = match hold {
            Hold::Solo(_) => Rule::Cost,
            _ if solo.is_some() => Rule::Cost,
            Hold::BulkBound | Hold::Pace(_) => Rule::Pace,
            Hold::Bound => Rule::Share,
        };
    }

    pub(super) fn on_dispatch(&mut self, app: AppId, why: Turn) {
        self.preferred = (why == Turn::Minimum).then_some(app);
    }

    /// The rule that held a request of `app` until now.
    pub(super) fn of(self, app: AppId, kind: Kind, solo: Option<AppId>) -> Rule {
        match kind {
            _ if self.preferred.is_some_and(|preferred| preferred != app) => Rule::Minimum,
            // What it waits for while it goes alone is its own.
            Kind::Bulk if self.bulk == Rule::Cost && solo == Some(app) => Rule::Share,
            Kind::Bulk => self.bulk,
            Kind::Interactive => Rule::Share,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Time;

    const A: AppId = AppId(0);
    const B: AppId = AppId(1);

    #[test]
    fn each_hold_has_its_rule() {
        let mut reasons = Reasons::default();
        let holds = [
            (Hold::Bound, None, Rule::Share),
            (Hold::BulkBound, None, Rule::Pace),
            (Hold::Pace(Time::ZERO), None, Rule::Pace),
            (Hold::Solo(None), None, Rule::Cost),
            (Hold::Bound, Some(B), Rule::Cost),
        ];
        for (hold, solo, rule) in holds {
            reasons.on_hold(hold, solo);
            assert_eq!(reasons.of(A, Kind::Bulk, solo), rule, "{hold:?}");
            assert_eq!(reasons.of(A, Kind::Interactive, solo), Rule::Share, "{hold:?}");
        }
        assert_eq!(reasons.of(B, Kind::Bulk, Some(B)), Rule::Share, "it is the one that goes alone");
        reasons.on_dispatch(B, Turn::Minimum);
        assert_eq!([A, B].map(|app| reasons.of(app, Kind::Interactive, None)), [Rule::Minimum, Rule::Share]);
        reasons.on_dispatch(A, Turn::Share);
        assert_eq!(reasons.of(A, Kind::Interactive, None), Rule::Share);
    }
}
