//! What a simulation ends with in a terminal: who got what over time, as a picture, and the result in a sentence.

use std::fmt::Write;
use std::time::Duration;

use vpfs_sim::{AppResults, Results};

use super::report::{rate, throughput};
use crate::blocks::Blocks;

/// Columns of the picture.
const WIDTH: usize = 48;
/// More rows would not be looked at.
const ROWS: usize = 16;

/// Picture and sentence; nothing if no application moved data.
pub(super) fn of(results: &[Results], blocks: Blocks) -> Option<String> {
    let sentence = sentence(results)?;
    Some(format!("{}\n{sentence}", picture(results, blocks)))
}

/// For each application one row under each policy, so that what the policies change is side by side.
fn picture(results: &[Results], blocks: Blocks) -> String {
    let longest = results.iter().map(|results| results.elapsed).max().unwrap_or_default();
    let mut text = format!(
        "Who got what in {:.0} s (a row is full where the application got the most of all its rows):\n",
        longest.as_secs_f64()
    );
    let names: Vec<&str> = results[0].apps.iter().map(|app| app.name.as_str()).collect();
    let app_width = widest(names.iter().copied());
    let policy_width = widest(results.iter().map(|results| results.policy.as_str()));
    let rows = names.iter().flat_map(|name| results.iter().map(move |results| (*name, results)));
    let shown = ROWS.max(results.len());
    for (number, (name, results_of)) in rows.clone().take(shown).enumerate() {
        let most = results.iter().flat_map(|results| columns(results, name, longest)).fold(0.0, f64::max);
        let first = if number % results.len() == 0 { name } else { "" };
        let columns = blocks.columns(columns(results_of, name, longest), most);
        let app = results_of.app(name).map_or(0.0, |app| throughput(app, results_of));
        // Writing to a string cannot fail.
        let policy = &results_of.policy;
        let _ = writeln!(text, "  {first:app_width$}  {policy:policy_width$}  {columns:WIDTH$}  {:>10}", rate(app));
    }
    match rows.count().saturating_sub(shown) {
        0 => {}
        more => _ = writeln!(text, "  and {more} more rows, which --html shows"),
    }
    text
}

fn widest<'a>(names: impl Iterator<Item = &'a str>) -> usize {
    names.map(|name| name.chars().count()).max().unwrap_or(0)
}

/// The bytes of an application in each part of the longest run.
fn columns(results: &Results, app: &str, longest: Duration) -> Vec<f64> {
    let mut columns = vec![0.0; WIDTH];
    let Some(app) = results.app(app) else { return columns };
    let per_column = longest.as_secs_f64() / WIDTH as f64;
    let interval = results.interval.as_secs_f64();
    for (index, bytes) in app.bytes_series.iter().enumerate() {
        // An interval may be longer or shorter than a column.
        let (mut at, end) = (index as f64 * interval / per_column, (index + 1) as f64 * interval / per_column);
        let density = *bytes as f64 / (end - at).max(f64::MIN_POSITIVE);
        while at < end {
            let next = (at.floor() + 1.0).min(end);
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is a column")]
            if let Some(column) = columns.get_mut(at as usize) {
                *column += density * (next - at);
            }
            at = next;
        }
    }
    columns
}

/// What the last policy changes, compared with the first one.
fn sentence(results: &[Results]) -> Option<String> {
    let (first, last) = (results.first()?, results.last()?);
    let moves = |app: &&AppResults| app.bytes() > 0;
    if results.len() < 2 {
        let (from, to) = first.common_time();
        let shares = first.apps.iter().zip(first.shares_between(from, to)).filter(|(app, _)| moves(app));
        let shares: Vec<String> =
            shares.map(|(app, share)| format!("{} got {:.0} % of the bytes", app.name, share * 100.0)).collect();
        return (!shares.is_empty()).then(|| format!("Under {}: {}.", first.policy, shares.join(", ")));
    }
    let ratio =
        |app: &AppResults| Some((app.name.clone(), throughput(last.app(&app.name)?, last) / throughput(app, first)));
    let mut ratios: Vec<(String, f64)> = first.apps.iter().filter(moves).filter_map(ratio).collect();
    ratios.sort_by(|one, other| other.1.total_cmp(&one.1));
    let parts: Vec<String> = ratios.iter().take(4).map(|(name, ratio)| change(name, *ratio)).collect();
    (!parts.is_empty()).then(|| format!("With {} instead of {}: {}.", last.policy, first.policy, parts.join("; ")))
}

/// Less than this is the same.
const SAME: f64 = 0.03;

fn change(name: &str, ratio: f64) -> String {
    match ratio {
        1.5.. => format!("{name} is {ratio:.1} times as fast"),
        _ if ratio >= 1.0 + SAME => format!("{name} is {:.0} % faster", (ratio - 1.0) * 100.0),
        _ if ratio > 1.0 - SAME => format!("{name} is as fast"),
        _ => format!("{name} keeps {:.0} % of its throughput", ratio * 100.0),
    }
}

#[cfg(test)]
mod tests {
    use vpfs_sim::{Scenario, Simulation};

    use super::*;

    fn results() -> Vec<Results> {
        let scenario = Scenario::parse(super::super::DEFAULT.0, super::super::DEFAULT.1).expect("it is valid");
        let scenario = Scenario { duration: Some(Duration::from_secs(5)), ..scenario };
        let both = [&scenario.policies[0], scenario.policies.last().expect("some")];
        both.map(|policy| Simulation::new(&scenario, policy).and_then(Simulation::run).expect("it runs")).into()
    }

    #[test]
    fn a_simulation_ends_with_a_picture_and_a_sentence() {
        let results = results();
        let text = of(&results, Blocks::Unicode).expect("data was moved");
        assert!(text.contains("With isolation instead of fifo: small is ") && text.contains("large "), "{text}");
        assert!(text.lines().take(5).all(|line| line.chars().count() <= 90) && text.contains('█'), "{text}");
        let text = of(&results, Blocks::Ascii).expect("data was moved");
        assert!(text.is_ascii() && text.contains('#'), "{text}");
        let one = of(&results[..1], Blocks::Ascii).expect("data was moved");
        assert!(one.contains("Under fifo: small got ") && one.contains("% of the bytes"), "{one}");
        assert_eq!(of(&[], Blocks::Ascii), None);
    }

    #[test]
    fn every_byte_is_in_a_column() {
        let results = results();
        for app in &results[0].apps {
            let all: f64 = columns(&results[0], &app.name, results[0].elapsed.max(Duration::from_secs(9))).iter().sum();
            let bytes = app.bytes_series.iter().sum::<u64>() as f64;
            assert!((all - bytes).abs() <= bytes * 1e-6, "{all} of {bytes}");
        }
    }

    #[test]
    fn changes_are_said_in_words() {
        let said = [5.2, 1.2, 1.01, 0.82].map(|ratio| change("a", ratio));
        let expected = ["a is 5.2 times as fast", "a is 20 % faster", "a is as fast", "a keeps 82 % of its throughput"];
        assert_eq!(said, expected);
    }
}
