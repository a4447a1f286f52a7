//! For which rule requests wait, for people who ask why.

use super::dispatching::{Hold, Turn};
use super::meter::Kind;
use crate::request::Rule;
use crate::units::{AppId, Time};

/// What held requests back last. A request counts as held by what held its kind when it was last looked at; or by the
/// flow that went alone, if that was for most of its wait.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reasons {
    bulk: Rule,
    alone: Option<Alone>,
    /// The application whose minimum came before the others since the last dispatch of one of these.
    preferred: Option<AppId>,
}

/// A flow that goes alone, or was the last to do so.
#[derive(Clone, Copy, Debug)]
struct Alone {
    app: AppId,
    since: Time,
    until: Time,
    is_over: bool,
}

impl Reasons {
    /// Nothing more goes now; `solo` is the flow that goes alone.
    pub(super) fn on_hold(&mut self, now: Time, hold: Hold, solo: Option<AppId>) {
        self.bulk = match hold {
            Hold::BulkBound | Hold::Pace(_) => Rule::Pace,
            Hold::Bound | Hold::Solo(_) => Rule::Share,
        };
        match (solo, &mut self.alone) {
            (Some(app), Some(alone)) if alone.app == app && !alone.is_over => alone.until = now,
            (Some(app), alone) => *alone = Some(Alone { app, since: now, until: now, is_over: false }),
            (None, Some(alone)) if !alone.is_over => (alone.until, alone.is_over) = (now, true),
            (None, _) => {}
        }
    }

    pub(super) fn on_dispatch(&mut self, app: AppId, why: Turn) {
        self.preferred = match why {
            Turn::Minimum => Some(app),
            // As far as it is another one, it is no longer held by the minimum.
            Turn::Share => self.preferred.filter(|preferred| *preferred == app),
        };
    }

    /// The rule that held a request of `app` from `since` to `now`.
    pub(super) fn of(&self, now: Time, since: Time, app: AppId, kind: Kind) -> Rule {
        let was_alone = |alone: &Alone| {
            let overlap = alone.until.min(now).since(alone.since.max(since));
            alone.app != app && !overlap.is_zero() && 2 * overlap >= now.since(since)
        };
        match kind {
            _ if self.preferred.is_some_and(|preferred| preferred != app) => Rule::Minimum,
            Kind::Bulk if self.alone.as_ref().is_some_and(was_alone) => Rule::Cost,
            Kind::Bulk => self.bulk,
            Kind::Interactive => Rule::Share,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: AppId = AppId(0);
    const B: AppId = AppId(1);

    #[test]
    fn each_hold_has_its_rule() {
        let (now, mut reasons) = (Time::from_millis(9), Reasons::default());
        let of = |reasons: &Reasons, app, kind| reasons.of(now, Time::ZERO, app, kind);
        for (hold, rule) in
            [(Hold::Bound, Rule::Share), (Hold::BulkBound, Rule::Pace), (Hold::Pace(Time::ZERO), Rule::Pace)]
        {
            reasons.on_hold(now, hold, None);
            assert_eq!(of(&reasons, A, Kind::Bulk), rule, "{hold:?}");
            assert_eq!(of(&reasons, A, Kind::Interactive), Rule::Share, "{hold:?}");
        }
        reasons.on_dispatch(B, Turn::Minimum);
        assert_eq!([A, B].map(|app| of(&reasons, app, Kind::Interactive)), [Rule::Minimum, Rule::Share]);
        reasons.on_dispatch(A, Turn::Share);
        assert_eq!(of(&reasons, A, Kind::Interactive), Rule::Share);
    }

    #[test]
    fn a_flow_that_went_alone_is_the_reason_for_those_that_waited_mostly_for_it() {
        let (at, mut reasons) = (Time::from_millis, Reasons::default());
        [(10, Some(B)), (20, Some(B)), (30, None), (40, None)]
            .into_iter()
            .for_each(|(ms, solo)| reasons.on_hold(at(ms), Hold::Bound, solo));
        let of = |since, now, app| reasons.of(at(now), at(since), app, Kind::Bulk);
        assert_eq!(
            [of(5, 40, A), of(25, 40, A), of(29, 40, A), of(10, 30, B)],
            [Rule::Cost, Rule::Share, Rule::Share, Rule::Share]
        );
        assert_eq!(of(40, 40, A), Rule::Share);
    }
}
