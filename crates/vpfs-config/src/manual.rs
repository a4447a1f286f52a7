//! Prints manuals from tables of tunables: `docs/config.md`, and those of other files with the same format.

use std::fmt::Write;

use crate::tunables::{Absent, Kind, SECTIONS, Section, Tunable};

const INTRODUCTION: &str = r#"# vpfs.toml

<!-- Printed from crates/vpfs-config/src/tunables.rs; do not edit. UPDATE=1 cargo test -p vpfs-config rewrites it. -->

One file for the whole cluster: every proxy reads the same file, and `vpfs proxy --server NAME` selects the servers
that a process serves. [`examples/`](../examples) has files to start from; the smallest is

```toml
[[server]]
name = "s1"
address = "tcp://127.0.0.1:3334"

[[listener]]
addresses = { s1 = "tcp://127.0.0.1:5334" }
```

- Sizes are `64KiB` (1024) or `64KB` (1000), rates `100MB/s` or `800Mbit/s`, durations `250ms`, `30s`, `5min`, `1h`.
  A number without its unit is refused.
- An unknown key is an error. All problems of a file are reported at once, each with its line.
- *Live* settings are applied when a running proxy reads the file again; changes of all others need a restart.
- Host lists are those of LLNL and Slurm: `c[001-064,070]`, `r[1-2]n[01-16]`; at most 65536 hosts in a file. Host names
  are resolved when the file is read.
"#;

/// The text of `docs/config.md`.
pub fn config_manual() -> String {
    let live = |row: &Tunable| if row.live { "yes | " } else { "no | " };
    print(INTRODUCTION, SECTIONS, "live | ", live)
}

/// The manual of a file whose keys cannot change at runtime: `introduction`, then a table for each section.
pub fn manual(introduction: &str, sections: &[&Section]) -> String {
    print(introduction, sections, "", |_| "")
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
            let _ = writeln!(text, "| `{key}` | {values} | {absent} | {more}{}{paper} |", row.doc);
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

fn absent(row: &Tunable) -> String {
    match row.absent {
        Absent::Refused => "required".into(),
        Absent::Means(meaning) => meaning.into(),
        Absent::Is(value) => format!("`{value}`"),
    }
}
