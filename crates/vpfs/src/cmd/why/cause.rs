//! What most of the time of an application's requests was for, and what would change that.

use serde::Serialize;
use vpfs_admin::api::OBSERVED;
use vpfs_config::units::Rate;

use super::breakdown::Breakdown;
use crate::print::{percent, plain};

/// What most of the time was for.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "kind", content = "app")]
pub(in super::super) enum Cause {
    /// Its cap.
    Cap,
    /// The pace of bulk.
    Pace,
    /// It is not known yet what others cost.
    Cost,
    /// The minimum of another application.
    Minimum,
    /// The turns of others in vpfs, of which this one took most.
    Share(Option<String>),
    /// Requests of others in the storage, of which this one had most.
    Neighbour(String),
    /// Its own requests.
    Itself,
    /// The storage, which is slower than at best.
    Storage,
    /// The processors of the proxy's host.
    Processor,
    /// The storage, which takes as long at best.
    Nothing,
}

impl Cause {
    pub(in super::super) fn of(breakdown: &Breakdown) -> Self {
        let Breakdown { app, waits, behind, behind_in_storage, .. } = breakdown;
        let whole: f64 = behind.values().sum();
        let own = if whole > 0.0 { behind.get(app).copied().unwrap_or(0.0) / whole } else { 0.0 };
        let others = |list: &std::collections::BTreeMap<String, f64>| {
            let others = list.iter().filter(|(name, _)| *name != app);
            others.clone().max_by(|one, other| one.1.total_cmp(other.1)).map(|(name, _)| name.clone())
        };
        let own_in_storage = behind_in_storage.get(app).copied().unwrap_or(0.0);
        let in_storage = behind_in_storage.values().sum::<f64>() - own_in_storage;
        let causes = [
            (Some(Self::Nothing), breakdown.quiet_seconds),
            (Some(Self::Cap), waits.cap_seconds),
            (Some(Self::Pace), waits.pace_seconds),
            (Some(Self::Cost), waits.cost_seconds),
            (Some(Self::Minimum), waits.minimum_seconds),
            (Some(Self::Share(others(behind))), waits.share_seconds * (1.0 - own)),
            (Some(Self::Itself), waits.share_seconds * own + own_in_storage),
            (others(behind_in_storage).map(Self::Neighbour), in_storage),
            (Some(Self::Storage), breakdown.storage_itself_seconds),
            (Some(Self::Processor), breakdown.processor_seconds),
        ];
        let known = causes.into_iter().filter_map(|(cause, seconds)| Some((cause?, seconds)));
        known.max_by(|one, other| one.1.total_cmp(&other.1)).map_or(Self::Nothing, |(cause, _)| cause)
    }

    /// In three words, for a column.
    pub(in super::super) fn short(&self) -> String {
        match self {
            Self::Cap => "its cap".to_owned(),
            Self::Pace => "pace of bulk".to_owned(),
            Self::Cost => "costs unknown".to_owned(),
            Self::Minimum => "another's minimum".to_owned(),
            Self::Share(None) => "turns of others".to_owned(),
            Self::Share(Some(app)) | Self::Neighbour(app) => format!("behind {}", plain(app)),
            Self::Itself => "its own requests".to_owned(),
            Self::Storage => "slow storage".to_owned(),
            Self::Processor => "processors".to_owned(),
            Self::Nothing => "-".to_owned(),
        }
    }

    /// A sentence for the cause, and one for what would change it.
    pub(super) fn sentences(&self, breakdown: &Breakdown) -> [String; 2] {
        let Breakdown { policy, .. } = breakdown;
        let said = |cause: &str, change: &str| [cause.to_owned(), change.to_owned()];
        match self {
            Self::Cap => {
                let rate = Rate(breakdown.cap_bytes_per_second.unwrap_or(0));
                let cause = format!("Its own cap of {rate} holds it.");
                [cause, "A higher cap, or none; neither its weight nor more requests in flight.".to_owned()]
            }
            Self::Pace => said(
                "It takes all that it can get, and is held so that others, who ask for less than their share, have a \
                 short way to the storage.",
                "A larger weight; or those others end.",
            ),
            Self::Cost => said(
                "Others go alone for a moment, because it is not known yet what their requests cost.",
                "Nothing is needed: it is over in seconds.",
            ),
            Self::Minimum => said(
                "The minimum of another application comes first.",
                "A smaller min_rate for that one, or a min_rate for this one.",
            ),
            Self::Share(other) => {
                let other = other.as_deref().unwrap_or("others");
                let has_less = breakdown.has_less_than_entitled();
                let cause = match has_less {
                    false => format!("It asks for more than its share; it is mostly the turn of {other}."),
                    true => format!("It is mostly the turn of {other}, although its own share is larger than it used."),
                };
                let change = match has_less {
                    false => "A larger weight. More requests in flight only wait longer.",
                    true => "More requests in flight, so that one waits whenever it is its turn; or larger ones.",
                };
                [cause, change.to_owned()]
            }
            Self::Neighbour(other) => {
                let cause = format!("Its requests wait in the storage behind those of {other}.");
                let change = match (policy.strip_suffix(OBSERVED), policy.as_str()) {
                    (Some(observed), _) => format!(
                        "mode = \"manage\" in [scheduler] (now: \"observe\"), with which \"{observed}\" holds back what \
                         {other} has in the storage."
                    ),
                    (None, "isolation") => {
                        "A larger weight, or a `latency` for it; `isolation` bounds what others have \
                                            there as far as throughput allows."
                            .to_owned()
                    }
                    (None, _) => format!(
                        "policy = \"isolation\" bounds what others have in the storage (now: \"{policy}\"); or a cap \
                         for {other}."
                    ),
                };
                [cause, change]
            }
            Self::Itself => said(
                "Its requests wait behind its own: it has more in flight than the storage serves at a time.",
                "Fewer in flight take less time each; more do not make it faster.",
            ),
            Self::Storage => said(
                "The storage itself is slow.",
                "Nothing in vpfs: look for a failing disk, a rebuild, a full cache, the network to it, or load that \
                 bypasses vpfs.",
            ),
            Self::Processor => said(
                "Messages wait for a processor of the proxy's host, and not for the storage.",
                "Less other work on that host, more processors, or a proxy on another host (`top` there shows what is \
                 busy).",
            ),
            Self::Nothing => {
                let cause = match breakdown.slowed_most_by() {
                    Some((app, part)) => format!(
                        "No cause is larger than the time that the storage takes at best; the largest is {}, with {} of \
                         its time.",
                        plain(app),
                        percent(part)
                    ),
                    None => "Nobody makes it wait for longer than the storage takes at best.".to_owned(),
                };
                [cause, faster_alone(breakdown)]
            }
        }
    }
}

/// What makes an application faster that waits for nobody.
fn faster_alone(breakdown: &Breakdown) -> String {
    const SMALL: u64 = 256 << 10;
    let size = breakdown.bytes / breakdown.data_requests.max(1);
    match breakdown.data_requests > 0 && size < SMALL {
        true => format!("More requests in flight, or larger ones (now {:.0} KiB each).", size as f64 / 1024.0),
        false => "More requests in flight.".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::breakdown::tests::{app, span};
    use super::*;

    fn cause(times: [f64; 3], other: &str) -> Cause {
        Cause::of(&Breakdown::of(&span(vec![app("small", times, other)]), "small").unwrap())
    }

    #[test]
    fn the_largest_part_is_the_cause() {
        assert_eq!(cause([0.0, 1.0, 1.0], "large"), Cause::Nothing);
        assert_eq!(cause([0.0, 20.0, 1.0], "large"), Cause::Neighbour("large".into()));
        assert_eq!(cause([0.0, 20.0, 1.0], "small"), Cause::Itself);
        assert_eq!(cause([20.0, 1.0, 1.0], "large"), Cause::Share(Some("large".into())));
        assert_eq!(cause([20.0, 1.0, 1.0], "small"), Cause::Itself);
        assert_eq!(cause([0.0, 4.0, 4.0], "small"), Cause::Storage);
        assert_eq!(cause([0.0, 4.0, 3.0], "large"), Cause::Neighbour("large".into()), "it is not alone");
    }

    /// Symptom: in front of real servers, "nobody makes it wait" stood below "behind genomics 33%".
    #[test]
    fn a_smaller_cause_is_named_as_such() {
        let breakdown = Breakdown::of(&span(vec![app("small", [0.0, 1.8, 1.0], "large")]), "small").unwrap();
        assert_eq!(Cause::of(&breakdown), Cause::Nothing);
        let [said, _] = Cause::Nothing.sentences(&breakdown);
        assert!(said.ends_with("the largest is large, with 44% of its time."), "{said}");
    }

    #[test]
    fn advice_fits_the_configuration() {
        let change = |policy: &str| {
            let mut span = span(vec![app("small", [0.0, 20.0, 1.0], "large")]);
            policy.clone_into(&mut span.servers[0].policy);
            let breakdown = Breakdown::of(&span, "small").unwrap();
            Cause::of(&breakdown).sentences(&breakdown)[1].clone()
        };
        assert!(change("fifo").starts_with("policy = \"isolation\""), "{}", change("fifo"));
        assert!(change("isolation (observed)").starts_with("mode = \"manage\""), "{}", change("isolation (observed)"));
        assert!(change("isolation").starts_with("A larger weight"), "{}", change("isolation"));
    }

    #[test]
    fn a_cap_is_named_with_its_rate() {
        let mut capped = app("small", [0.0, 1.0, 1.0], "large");
        (capped.waits.cap_seconds, capped.cap_bytes_per_second) = (9.0, Some(2_000_000));
        let breakdown = Breakdown::of(&span(vec![capped]), "small").unwrap();
        assert_eq!(Cause::of(&breakdown), Cause::Cap);
        assert!(Cause::Cap.sentences(&breakdown)[0].contains("cap of 2MB/s"));
    }
}
