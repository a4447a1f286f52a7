//! Prints manuals from tables of tunables.

use std::fmt::Write;

use super::tunables::{Absent, Kind, Section, Tunable};

/// The manual of a file whose keys cannot change at runtime: `introduction`, then a table for each section.
pub fn manual(introduction: &str, sections: &[&Section]) -> String {
    print(introduction, sections, "", |_| "")
}

/// The manual of a file whose keys can change at runtime: a column shows which ones can.
pub(crate) fn print_with_live(introduction: &str, sections: &[&Section]) -> String {
    let live = |row: &Tunable| if row.live { "yes | " } else { "no | " };
    print(introduction, sections, "live | ", live)
}

/// Prints tables, optionally with an additional column before the last one.
fn print(
    introduction: &str,
    sections: &[&Section],
    heading: &str,
    column: impl Fn(&Tunable) -> &'static str,
) -> String {
    let mut text = introduction.to_owned();
    let rule = "|---".repeat(4 + heading.matches('|').count());
    for section in sections {
        // Writing to a string cannot fail.
        let _ = write!(text, "\n## `{}`\n\n{}\n\n", section.header, section.doc);
        let _ = write!(text, "| key | value | default | {heading}description |\n{rule}|\n");
        for row in section.keys {
            let paper = if row.paper.is_empty() { String::new() } else { format!(" [{}]", row.paper) };
            let (key, values, absent, more) = (row.key, values(row), absent(row), column(row));
            let policies = policies(row);
            let _ = writeln!(text, "| `{key}` | {values} | {absent} | {more}{policies}{}{paper} |", row.doc);
        }
    }
    text
}

fn values(row: &Tunable) -> String {
    match (row.kind, row.range) {
        (Kind::Choice(words), _) => words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", "),
        (_, Some((low, high))) => format!("{low} to {high}"),
        (kind, None) => kind.shape(),
    }
}

fn policies(row: &Tunable) -> String {
    let names = row.policies.iter().map(|policy| format!("`{}`", policy.name())).collect::<Vec<_>>().join(", ");
    if names.is_empty() { names } else { format!("({names}) ") }
}

fn absent(row: &Tunable) -> String {
    match row.absent {
        Absent::Refused => "required".into(),
        Absent::Means(meaning) => meaning.into(),
        Absent::Is(value) => format!("`{value}`"),
    }
}
