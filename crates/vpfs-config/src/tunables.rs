//! Tables of settings. The reader takes names, defaults and ranges from them, and manuals are printed from them.

use std::fmt::Write;

use vpfs_core::PolicyKind;

/// The form of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A whole number without a unit.
    Count,
    /// A number of bytes with its unit, such as `64KiB`.
    Size,
    /// Bytes per second with their unit, such as `100MB/s`.
    Rate,
    /// A time with its unit, such as `5min`.
    Duration,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// A string of the described form.
    Text(&'static str),
    /// A list, or a single element of it, of the described form.
    List(&'static str),
    /// A table of the described form.
    Table(&'static str),
}

impl Kind {
    /// What to write, for messages and the manual.
    pub fn shape(&self) -> String {
        match self {
            Self::Count => "a whole number".into(),
            Self::Size => "a size such as \"64KiB\"".into(),
            Self::Rate => "a rate such as \"100MB/s\"".into(),
            Self::Duration => "a duration such as \"5min\"".into(),
            Self::Choice(words) => words.iter().map(|word| format!("{word:?}")).collect::<Vec<_>>().join(", "),
            Self::Text(shape) | Self::List(shape) | Self::Table(shape) => (*shape).into(),
        }
    }
}

/// The effect of an absent key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Absent {
    /// An error.
    Refused,
    /// Nothing is set, which has this meaning.
    Means(&'static str),
    /// This value, written as in a file.
    Is(&'static str),
}

/// One setting.
#[derive(Clone, Copy, Debug)]
pub struct Tunable {
    /// Its name in its section.
    pub key: &'static str,
    /// Unknown keys whose problem says what this one is for.
    pub instead_of: &'static [&'static str],
    /// The form of its value.
    pub kind: Kind,
    /// The effect if it is absent.
    pub absent: Absent,
    /// Smallest and largest value, for numbers.
    pub range: Option<(&'static str, &'static str)>,
    /// The policies that use it; empty if all of them do.
    pub policies: &'static [PolicyKind],
    /// Whether a running daemon applies a new value when it reads the file again.
    pub live: bool,
    /// The paper and section that it comes from.
    pub paper: &'static str,
    /// Its description.
    pub doc: &'static str,
}

impl Tunable {
    /// A setting that is required, accepts any value, and is live.
    pub const fn new(key: &'static str, kind: Kind, doc: &'static str) -> Self {
        Self {
            key,
            instead_of: &[],
            kind,
            absent: Absent::Refused,
            range: None,
            policies: &[],
            live: true,
            paper: "",
            doc,
        }
    }

    /// The same, which is what these keys may be meant for.
    pub const fn instead_of(mut self, keys: &'static [&'static str]) -> Self {
        self.instead_of = keys;
        self
    }

    /// The same with a default, written as in a file.
    pub const fn default(mut self, value: &'static str) -> Self {
        self.absent = Absent::Is(value);
        self
    }

    /// The same, but optional, with the meaning of its absence.
    pub const fn absent_means(mut self, meaning: &'static str) -> Self {
        self.absent = Absent::Means(meaning);
        self
    }

    /// The same, restricted to values from `low` to `high`.
    pub const fn range(mut self, low: &'static str, high: &'static str) -> Self {
        self.range = Some((low, high));
        self
    }

    pub(crate) const fn used_by(mut self, policies: &'static [PolicyKind]) -> Self {
        self.policies = policies;
        self
    }

    pub(crate) fn is_used_by(&self, policy: PolicyKind) -> bool {
        self.policies.is_empty() || self.policies.contains(&policy)
    }

    /// How it is named where it is suggested: a table by its header.
    pub(crate) fn named(&self) -> String {
        match self.kind {
            Kind::List(shape) | Kind::Table(shape) if shape.starts_with('[') => shape.to_owned(),
            _ => format!("{:?}", self.key),
        }
    }

    pub(crate) const fn at_restart(mut self) -> Self {
        self.live = false;
        self
    }

    pub(crate) const fn paper(mut self, tag: &'static str) -> Self {
        self.paper = tag;
        self
    }
}

/// A table of the file.
#[derive(Clone, Copy, Debug)]
pub struct Section {
    /// Its name, `scheduler` for `[scheduler]`.
    pub name: &'static str,
    /// How it is written.
    pub header: &'static str,
    /// Its description.
    pub doc: &'static str,
    /// Its keys.
    pub keys: &'static [Tunable],
}

impl Section {
    /// The row of a key.
    pub fn key(&self, key: &str) -> Option<&'static Tunable> {
        self.keys.iter().find(|tunable| tunable.key == key)
    }
}

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
