//! Prints manuals from tables of tunables.

use std::fmt::Write;

use super::tunables::{Absent, Kind, Section, Tunable};

/// The manual of a file whose keys cannot change at runtime: `introduction`, then a table for each section.
pub fn manual(introduction: &str, sections: &[&Section]) -> String {
    print(introduction, sections, |_| "")
}

/// The manual of a file whose keys can change at runtime: those that cannot say so.
pub(crate) fn print_with_live(introduction: &str, sections: &[&Section]) -> String {
    print(introduction, sections, |row| if row.live { "" } else { "*Restart.* " })
}

/// The fewest keys for which another section is named instead.
const REPEATED: usize = 3;

/// Prints tables, each description after what `mark` returns.
fn print(introduction: &str, sections: &[&Section], mark: impl Fn(&Tunable) -> &'static str) -> String {
    let mut text = introduction.to_owned();
    for (number, section) in sections.iter().enumerate() {
        let printed = sections[..number].iter().map(|earlier| (earlier.header, repeated(section, earlier)));
        let (from, known) = printed.max_by_key(|(_, keys)| keys.len()).unwrap_or_default();
        let known = if known.len() < REPEATED { Vec::new() } else { known };
        // Writing to a string cannot fail.
        let _ = write!(text, "\n## `{}`\n\n{}\n\n", section.header, section.doc);
        if !known.is_empty() {
            let names = known.iter().map(|key| format!("`{key}`")).collect::<Vec<_>>().join(", ");
            let _ = write!(text, "As in `{from}`: {names}.\n\n");
        }
        text.push_str("|key|value|default|description|\n|---|---|---|---|\n");
        for row in section.keys.iter().filter(|row| !known.contains(&row.key)) {
            let paper = if row.paper.is_empty() { String::new() } else { format!(" [{}]", row.paper) };
            let (key, values, absent, mark, policies) = (row.key, values(row), absent(row), mark(row), policies(row));
            let _ = writeln!(text, "|`{key}`|{values}|{absent}|{mark}{policies}{}{paper}|", row.doc);
        }
    }
    text
}

/// The keys of `section` that are the same in `earlier`.
fn repeated(section: &Section, earlier: &Section) -> Vec<&'static str> {
    let same = |row: &&Tunable| {
        earlier
            .key(row.key)
            .is_some_and(|it| (it.doc, it.kind, it.absent, it.range) == (row.doc, row.kind, row.absent, row.range))
    };
    section.keys.iter().filter(same).map(|row| row.key).collect()
}

fn values(row: &Tunable) -> String {
    match (row.kind, row.range) {
        (Kind::Choice(words), _) => words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", "),
        (_, Some((low, high))) => format!("{low} to {high}"),
        // What names may have is in the introduction.
        (kind, None) => kind.shape().split(" of letters").next().unwrap_or_default().to_owned(),
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
