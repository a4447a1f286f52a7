//! `cargo xtask bench isolation --random N --seed S`: a policy in random cases, simulated with the daemon's own nodes,
//! and scored against the best constant of each case.
//!
//! **Score.** U is the mean of ln(kept) over the applications, by weight, where *kept* is what an application does next
//! to the others relative to what it does alone, in the same time on the same storage, the first seconds included. The
//! score is exp(n (U - best U)) for n applications: of two with equal weights, the product of what both keep relative
//! to the same product with the best constant. That is found by a search in that case: no policy at all, a cap
//! on bulk at each server, or a window, which is fewer processes of bulk. It is not the best that is possible: a policy
//! can score more than 1, most of all where storage changes or an application comes late.

mod case;
mod load;
mod score;

use std::time::Duration;

use vpfs_core::{Constants, Depth, PolicyKind, Settings, SlotCostTable};
use vpfs_sim::parallel;

use self::case::Case;
use self::score::{Reference, Scored};

/// How long a case lasts.
const TIME: Duration = Duration::from_secs(30);

/// How many of the worst cases are listed.
const WORST: usize = 10;

/// Random cases, and the best constant of each.
struct Gym {
    policy: PolicyKind,
    seed: u64,
    cases: Vec<(Case, Reference)>,
}

/// Prints how `policy` does in `cases` cases, of which the first has `seed` and each next one the next number; or what
/// each constant of the law does there if it is halved and doubled, but only those whose names begin with `constants`.
///
/// # Errors
/// A simulation broke an invariant; the message names the seed.
#[expect(clippy::print_stdout, reason = "it is what the program is for")]
pub(crate) fn run(policy: PolicyKind, cases: u32, seed: u64, constants: Option<&str>) -> Result<(), String> {
    let gym = Gym::new(policy, cases, seed, TIME)?;
    let Some(constants) = constants else {
        println!("{}", gym.report()?);
        return Ok(());
    };
    let at = |all: Constants| {
        let scores = sorted(&gym.score(all)?, |_| true);
        Ok::<_, String>(format!("{:.3}, {:.3}", percentile(&scores, 50), percentile(&scores, 5)))
    };
    println!("median and p5 with the constants in use: {}\n", at(Constants::DEFAULT)?);
    println!("| constant | value | halved | doubled |\n|---|---|---|---|");
    for (name, place) in Constants::NAMES.iter().filter(|(name, _)| name.starts_with(constants)) {
        let with = |factor: f64| {
            let mut all = Constants::DEFAULT;
            *place(&mut all) *= factor;
            at(all)
        };
        println!("| {name} | {} | {} | {} |", place(&mut Constants::DEFAULT.clone()), with(0.5)?, with(2.0)?);
    }
    Ok(())
}

impl Gym {
    fn new(policy: PolicyKind, cases: u32, seed: u64, time: Duration) -> Result<Self, String> {
        let seeds: Vec<u64> = (0..u64::from(cases)).map(|number| seed.wrapping_add(number)).collect();
        let cases = parallel::map(&seeds, |seed| {
            let case = Case::draw(*seed, time);
            score::reference(&case).map(|reference| (case, reference))
        });
        Ok(Self { policy, seed, cases: cases.into_iter().collect::<Result<_, _>>()? })
    }

    fn score(&self, constants: Constants) -> Result<Vec<Scored>, String> {
        let depth = Depth::new(14).expect("not zero");
        let settings = Settings { constants, ..Settings::new(self.policy, depth, SlotCostTable::default()) };
        let scored = parallel::map(&self.cases, |(case, reference)| score::score(case, reference, &settings));
        scored.into_iter().collect()
    }

    fn report(&self) -> Result<String, String> {
        let Self { policy, seed, ref cases } = *self;
        let mut scored = self.score(Constants::DEFAULT)?;
        let mut lines = vec![
            format!(
                "{} in {} random cases from seed {seed}, relative to the best constant of each case",
                policy.name(),
                cases.len()
            ),
            String::new(),
            "| cases | number | median | p25 | p5 | least |".to_owned(),
            "|---|---|---|---|---|---|".to_owned(),
            row("all", &scored, |_| true),
        ];
        let kinds = case::STORAGE.into_iter().chain(case::WEIGHTS.map(|(name, ..)| name));
        for name in kinds.filter(|name| scored.iter().any(|scored| scored.is(name))) {
            lines.push(row(name, &scored, |scored| scored.is(name)));
        }
        scored.sort_by(|a, b| a.score.total_cmp(&b.score));
        lines.push(String::new());
        lines.push("The worst; `cargo xtask bench isolation --random 1 --seed SEED` replays one:".to_owned());
        lines.extend(scored.iter().take(WORST).map(|scored| scored.text.clone()));
        Ok(lines.join("\n"))
    }
}

/// The scores of the cases that `counts` counts.
fn sorted(scored: &[Scored], counts: impl Fn(&Scored) -> bool) -> Vec<f64> {
    let mut scores: Vec<f64> = scored.iter().filter(|scored| counts(scored)).map(|scored| scored.score).collect();
    scores.sort_by(f64::total_cmp);
    scores
}

fn percentile(sorted: &[f64], percent: usize) -> f64 {
    sorted.get(sorted.len().saturating_sub(1) * percent / 100).copied().unwrap_or(f64::NAN)
}

/// A row of the table: the cases that `counts` counts.
fn row(name: &str, scored: &[Scored], counts: impl Fn(&Scored) -> bool) -> String {
    let scores = sorted(scored, counts);
    let at = |percent| percentile(&scores, percent);
    format!("| {name} | {} | {:.3} | {:.3} | {:.3} | {:.3} |", scores.len(), at(50), at(25), at(5), at(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number of threads and the order in which they finish change nothing.
    #[test]
    fn equal_seeds_give_equal_reports() {
        let report = || {
            Gym::new(PolicyKind::Isolation, 2, 3, Duration::from_millis(500))
                .and_then(|gym| gym.report())
                .expect("no invariant is broken")
        };
        assert_eq!(report(), report());
    }

    #[test]
    fn cases_of_all_kinds_are_drawn() {
        let cases: Vec<Case> = (0..200).map(|seed| Case::draw(seed, TIME)).collect();
        for name in case::STORAGE {
            assert!(cases.iter().any(|case| case.storage == name), "{name}");
        }
        for (name, ..) in case::WEIGHTS {
            assert!(cases.iter().any(|case| case.weights == name), "{name}");
        }
        for word in ["reads", "writes", "bursts", "metadata", "later", "until", "speed", "heavy"] {
            assert!(cases.iter().any(|case| case.text.contains(word)), "{word}");
        }
    }
}
