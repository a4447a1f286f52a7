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

use vpfs_core::PolicyKind;
use vpfs_sim::parallel;

use self::case::Case;
use self::score::Scored;

/// How long a case lasts.
const TIME: Duration = Duration::from_secs(30);

/// How many of the worst cases are listed.
const WORST: usize = 10;

/// Prints how `policy` does in `cases` cases, of which the first has `seed` and each next one the next number.
///
/// # Errors
/// A simulation broke an invariant; the message names the seed.
#[expect(clippy::print_stdout, reason = "it is what the program is for")]
pub(crate) fn run(policy: PolicyKind, cases: u32, seed: u64) -> Result<(), String> {
    println!("{}", report(policy, cases, seed, TIME)?);
    Ok(())
}

fn report(policy: PolicyKind, cases: u32, seed: u64, time: Duration) -> Result<String, String> {
    let seeds: Vec<u64> = (0..u64::from(cases)).map(|number| seed.wrapping_add(number)).collect();
    let scored = parallel::map(&seeds, |seed| score::score(&Case::draw(*seed, time), policy));
    let mut scored = scored.into_iter().collect::<Result<Vec<_>, _>>()?;
    let mut lines = vec![
        format!(
            "{} in {cases} random cases from seed {seed}, relative to the best constant of each case",
            policy.name()
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

/// A row of the table: the cases that `counts` counts.
fn row(name: &str, scored: &[Scored], counts: impl Fn(&Scored) -> bool) -> String {
    let mut scores: Vec<f64> = scored.iter().filter(|scored| counts(scored)).map(|scored| scored.score).collect();
    scores.sort_by(f64::total_cmp);
    let at = |percent: usize| scores.get(scores.len().saturating_sub(1) * percent / 100).copied().unwrap_or(f64::NAN);
    format!("| {name} | {} | {:.3} | {:.3} | {:.3} | {:.3} |", scores.len(), at(50), at(25), at(5), at(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number of threads and the order in which they finish change nothing.
    #[test]
    fn equal_seeds_give_equal_reports() {
        let report =
            || report(PolicyKind::Isolation, 2, 3, Duration::from_millis(500)).expect("no invariant is broken");
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
