//! TOML files read by tables of tunables, reporting all problems at once.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

use toml::de::{DeTable, DeValue};
use toml::{Spanned, Value};
use vpfs_core::{Bytes, PolicyKind};

use super::tunables::{Absent, Kind, Section, Tunable};
use super::units::{Rate, Size, Span, decimal, quote};
use super::{Context, Problems, did_you_mean, near, units};
use crate::schema;

/// A table of a file that is read by the rows of a [`Section`]. Keys without a row have already been reported.
///
/// Every method returns the row's default for an absent or invalid value; the latter is also reported.
///
/// # Panics
/// All methods panic if the section has no row for the key.
pub struct Table<'a> {
    pub(crate) cx: &'a Context,
    section: &'static Section,
    table: Option<&'a DeTable<'a>>,
    /// The line of the table's header.
    line: usize,
    path: String,
}

/// Reads the text of a file as `root`; `file` is its name for messages.
///
/// # Errors
/// All problems found in the file, at once.
pub fn read_file<T>(
    file: &str,
    text: &str,
    root: &'static Section,
    read: impl FnOnce(&Table<'_>) -> T,
) -> Result<T, Problems> {
    let (cx, table) = schema::parse_toml(file, text, root, &[])?;
    let value = read(&Table::open(&cx, root, "", Some(&table)));
    cx.finish(file).map(|_| value)
}

impl<'a> Table<'a> {
    /// Reads `value` as a table of `section`, and reports unknown keys. A missing or invalid table reads as an empty
    /// one.
    pub(crate) fn open(
        cx: &'a Context,
        section: &'static Section,
        path: impl Into<String>,
        value: Option<&'a Spanned<DeValue<'a>>>,
    ) -> Self {
        let path = path.into();
        let line = value.map_or(0, |value| cx.line_of(value));
        let table = value.and_then(|value| value.get_ref().as_table());
        if let (Some(value), None) = (value, table) {
            let found = describe(value.get_ref());
            cx.refuse(line, path.clone(), format!("found {found}; write it as a table, {}", section.header));
        }
        for (key, value) in table.into_iter().flatten() {
            // One table reads as a list of one, until somebody adds a second one.
            if let (Some(Kind::List(shape)), DeValue::Table(_)) =
                (section.key(key.get_ref()).map(|row| row.kind), value.get_ref())
                && shape.starts_with("[[")
            {
                let message = format!("found one table; there may be several, so write {shape}");
                cx.refuse(cx.line_of(key), join(&path, key.get_ref()), message);
            }
            if section.key(key.get_ref()).is_none() {
                let name: &str = key.get_ref();
                let keys = || section.keys.iter().map(|row| row.key);
                let meant = section.keys.iter().find(|row| row.instead_of.contains(&name));
                let near = near(name, keys()).and_then(|near| section.key(near));
                let hint = match (meant, near) {
                    (Some(row), _) => format!("; see {}: {}", row.key, row.doc),
                    (None, Some(row)) => format!("; did you mean {}?", row.named()),
                    (None, None) => cx.home_of(name).unwrap_or_else(|| did_you_mean(name, keys())),
                };
                cx.refuse(cx.line_of(key), join(&path, key.get_ref()), format!("unknown key{hint}"));
            }
        }
        cx.open(section, &path);
        Self { cx, section, table, line, path }
    }

    /// A table inside this one; an empty one if it is absent.
    pub fn table(&self, key: &str, section: &'static Section) -> Self {
        let value = self.value(key);
        if let (Some(value), Some(meant)) = (value, self.list_of_such_name(key)) {
            let message =
                format!("found a list; did you mean {meant}? There is also {}: {}", section.header, section.doc);
            self.cx.refuse(self.cx.line_of(value), self.path(key), message);
            return Self::open(self.cx, section, self.path(key), None);
        }
        Self::open(self.cx, section, self.path(key), value)
    }

    /// The header of a list of tables whose name is nearly `key`, if the file has a list of tables there.
    fn list_of_such_name(&self, key: &str) -> Option<&'static str> {
        self.value(key)?.get_ref().as_array()?.iter().next()?.get_ref().as_table()?;
        let lists = self.section.keys.iter().filter_map(|row| match row.kind {
            Kind::List(shape) if shape.starts_with("[[") => Some((row.key, shape)),
            _ => None,
        });
        let near = near(key, lists.clone().map(|(list, _)| list))?;
        lists.into_iter().find(|(list, _)| *list == near).map(|(_, shape)| shape)
    }

    /// All tables of a list.
    pub fn tables(&self, key: &str, section: &'static Section) -> Vec<Self> {
        let open = |value| Self::open(self.cx, section, self.path(key), Some(value));
        self.list(key).iter().map(open).collect()
    }

    /// The dotted name of a key of this table.
    pub(crate) fn path(&self, key: &str) -> String {
        join(&self.path, key)
    }

    /// Reports a problem with the key at its line, or at that of the table's header.
    pub fn refuse(&self, key: &str, message: impl Into<String>) {
        self.cx.refuse(self.line_of(key), self.path(key), message);
    }

    /// Reports a problem with the whole table at its header.
    pub fn refuse_whole(&self, message: impl Into<String>) {
        self.cx.refuse(self.line, self.path.clone(), message);
    }

    /// The line of its header.
    pub fn line(&self) -> usize {
        self.line
    }

    pub(crate) fn line_of(&self, key: &str) -> usize {
        self.value(key).map_or(self.line, |value| self.cx.line_of(value))
    }

    /// Whether the key is present.
    pub fn has(&self, key: &str) -> bool {
        self.value(key).is_some()
    }

    /// Whether any problem of the file was found so far.
    pub fn has_problems(&self) -> bool {
        self.cx.has_problems()
    }

    /// Warns about those of `keys` for which the file has another value than the default one.
    pub(crate) fn warn_of(&self, keys: &[&str], message: &str) {
        for key in keys.iter().filter(|key| self.differs(key)) {
            self.cx.warn(self.line_of(key), self.path(key), message);
        }
    }

    pub(crate) fn is_used(&self, key: &str, policy: PolicyKind) -> bool {
        self.row(key).is_used_by(policy)
    }

    /// Whether the file has another value than the default one.
    pub(crate) fn differs(&self, key: &str) -> bool {
        let text = self.value(key).map(|value| match value.get_ref() {
            DeValue::String(text) => Some(text.as_ref()),
            DeValue::Integer(number) => Some(number.as_str()),
            _ => None,
        });
        text.is_some_and(|text| !matches!(self.row(key).absent, Absent::Is(default) if text == Some(default)))
    }

    pub(crate) fn section(&self) -> &'static Section {
        self.section
    }

    /// Records the value in force: a number, or a text with or without a unit.
    pub(crate) fn set(&self, key: &str, text: impl Into<String>) {
        let text = text.into();
        self.set_value(key, written(self.row(key).kind, &text), text);
    }

    /// Records the list in force; `elements` are written as in a file.
    pub(crate) fn set_list(&self, key: &str, elements: &[String], text: impl Into<String>) {
        self.set_value(key, format!("[{}]", elements.join(", ")), text.into());
    }

    fn set_value(&self, key: &str, value: String, text: String) {
        // A row of a list, such as [[scheduler.slot_cost]], is part of the list's value.
        if self.section.name.contains('.') {
            return;
        }
        let (live, given) = (self.row(key).live, self.has(key));
        self.cx.set(self.path(key), Setting { text, value, live, given, implied: None });
    }

    /// Records one of the texts in the table at `key`.
    pub(crate) fn set_member(&self, key: &str, member: &str, text: &str) {
        let (live, value) = (self.row(key).live, quoted(text));
        let setting = Setting { text: text.to_owned(), value, live, given: true, implied: None };
        self.cx.set(format!("{}.{member}", self.path(key)), setting);
    }

    /// The value in force, if the file does not have it, is what follows from others.
    pub(crate) fn imply(&self, key: &str, why: &'static str) {
        self.cx.imply(&self.path(key), why);
    }

    /// A number, a size in bytes, a rate in bytes per second or a duration in nanoseconds, according to the key's row.
    pub fn number(&self, key: &str) -> Option<u64> {
        let row = self.row(key);
        let given = self.required(key).and_then(|value| {
            let number = number_of(row, value.get_ref()).and_then(|number| in_range(row, number));
            number.map_err(|message| self.refuse(key, message)).ok()
        });
        let default = || match row.absent {
            Absent::Is(text) => parse(row.kind, text).ok(),
            _ => None,
        };
        let number = given.or_else(default)?;
        self.set(key, show(row.kind, number));
        Some(number)
    }

    /// A number for a row whose range fits 32 bits.
    pub fn count(&self, key: &str) -> Option<u32> {
        self.number(key).and_then(|number| u32::try_from(number).ok())
    }

    /// A size.
    pub fn size(&self, key: &str) -> Option<Bytes> {
        self.number(key).map(Bytes)
    }

    /// A duration.
    pub fn duration(&self, key: &str) -> Option<Duration> {
        self.number(key).map(Duration::from_nanos)
    }

    /// [`Self::number`] for a row with a default.
    pub(crate) fn number_or_default(&self, key: &str) -> u64 {
        self.number(key).expect("the row has a default, which a test reads")
    }

    /// [`Self::number_or_default`] for a duration.
    pub(crate) fn duration_or_default(&self, key: &str) -> Duration {
        Duration::from_nanos(self.number_or_default(key))
    }

    /// The position of a word in the row's list.
    pub fn choice(&self, key: &str) -> Option<usize> {
        let row = self.row(key);
        let Kind::Choice(words) = row.kind else { return None };
        let index = |text: &str| words.iter().position(|word| *word == text);
        let found = match self.text(key) {
            Some(text) => index(text).or_else(|| {
                let hint = did_you_mean(text, words.iter().copied());
                // What each is for, if the reader cannot know which one is meant.
                let is_explained = words.iter().any(|word| row.doc.contains(&format!("`{word}`")));
                let is_meant = near(text, words.iter().copied()).is_some();
                let doc = if is_explained && !is_meant { format!(". {}", row.doc) } else { String::new() };
                self.refuse(key, format!("unknown value {}{hint}{doc}", quote(text)));
                None
            }),
            None => match row.absent {
                Absent::Is(text) => index(text),
                _ => None,
            },
        }?;
        self.set(key, words[found]);
        Some(found)
    }

    /// A text.
    pub fn text(&self, key: &str) -> Option<&'a str> {
        self.string(key, self.required(key)?)
    }

    /// The strings of a list; a single one counts as a list of one.
    pub fn texts(&self, key: &str) -> Vec<&'a str> {
        self.list(key).iter().filter_map(|value| self.string(key, value)).collect()
    }

    fn string(&self, key: &str, value: &'a Spanned<DeValue<'a>>) -> Option<&'a str> {
        match value.get_ref() {
            DeValue::String(text) => Some(text),
            other => {
                self.refuse(key, self.mismatch(key, other));
                None
            }
        }
    }

    /// The elements of a list; a single value counts as a list of one.
    pub(crate) fn list(&self, key: &str) -> &'a [Spanned<DeValue<'a>>] {
        match self.value(key) {
            None => &[],
            Some(value) => match value.get_ref() {
                DeValue::Array(elements) => elements,
                _ => std::slice::from_ref(value),
            },
        }
    }

    /// Its elements, without those that `read` does not accept, which are reported with what is `expected`.
    pub(crate) fn elements<T>(&self, key: &str, expected: &str, read: impl Fn(&DeValue<'_>) -> Option<T>) -> Vec<T> {
        let mut found = Vec::new();
        for value in self.list(key) {
            match read(value.get_ref()) {
                Some(element) => found.push(element),
                None => self.cx.refuse(self.cx.line_of(value), self.path(key), expected),
            }
        }
        found
    }

    /// The unchecked value of a key.
    pub(crate) fn value(&self, key: &str) -> Option<&'a Spanned<DeValue<'a>>> {
        self.table?.get(key)
    }

    /// The message for a value that does not have the key's kind.
    pub(crate) fn mismatch(&self, key: &str, found: &DeValue<'_>) -> String {
        mismatch(self.row(key), found)
    }

    fn required(&self, key: &str) -> Option<&'a Spanned<DeValue<'a>>> {
        let value = self.value(key);
        if value.is_none() && self.table.is_some() && self.row(key).absent == Absent::Refused {
            self.refuse(key, format!("is missing; add {}", self.row(key).kind.shape()));
        }
        value
    }

    fn row(&self, key: &str) -> &'static Tunable {
        // A key without a row is a bug in this crate that any test which reads a file reveals.
        self.section.key(key).unwrap_or_else(|| panic!("no row for {key} in {}", self.section.header))
    }
}

fn join(path: &str, key: &str) -> String {
    let key: String = key.chars().flat_map(char::escape_debug).take(60).collect();
    if path.is_empty() { key } else { format!("{path}.{key}") }
}

fn number_of(row: &Tunable, value: &DeValue<'_>) -> Result<u64, String> {
    match (row.kind, value) {
        (Kind::Count, DeValue::Integer(number)) => {
            u64::from_str_radix(number.as_str(), number.radix()).map_err(|_| range_message(row, &number.to_string()))
        }
        (Kind::Count, DeValue::String(text)) if text.parse::<u64>().is_ok() => {
            Err(format!("is text; write {text} without quotes"))
        }
        (Kind::Size | Kind::Rate | Kind::Duration, DeValue::Integer(number)) => with_unit(row, number.as_str()),
        (Kind::Size | Kind::Rate | Kind::Duration, DeValue::Float(number)) => with_unit(row, number.as_str()),
        (Kind::Size | Kind::Rate | Kind::Duration, DeValue::String(text)) => with_unit(row, text),
        (_, other) => Err(mismatch(row, other)),
    }
}

/// Reads a number with a unit. The message for one without says which unit is likely for this row.
fn with_unit(row: &Tunable, text: &str) -> Result<u64, String> {
    let text = text.trim();
    let is_number = decimal(text).is_some();
    if !is_number && text.starts_with(|c: char| c.is_ascii_digit()) {
        return parse(row.kind, text);
    }
    let example = likely(row, if is_number { text } else { "10" });
    match (is_number, example) {
        (true, Some(example)) => Err(format!("{} has no unit; write for example {example:?}", quote(text))),
        (false, Some(example)) => {
            Err(format!("{} is not a number with a unit; write for example {example:?}", quote(text)))
        }
        _ => parse(row.kind, text),
    }
}

/// A number with the unit that a person probably means: of those that the row allows the one nearest to its default. If
/// it has none, a large number is one of bytes, and a small one has the unit that is written most.
fn likely(row: &Tunable, number: &str) -> Option<String> {
    let units: &[&str] = match row.kind {
        Kind::Size => &["KiB", "MiB", "GiB", "TiB", "B"],
        Kind::Rate => &["MB/s", "GB/s", "KB/s", "B/s"],
        _ => &["ms", "s", "us", "min", "h", "d"],
    };
    let mut values = units.iter().filter_map(|unit| {
        let text = format!("{number}{unit}");
        let value = parse(row.kind, &text).and_then(|value| in_range(row, value)).ok()?;
        // 131072 bytes are 128 KiB.
        let text = if matches!(*unit, "B" | "B/s") { show(row.kind, value) } else { text };
        Some((value, text))
    });
    let default = match row.absent {
        Absent::Is(text) => parse(row.kind, text).ok(),
        _ => None,
    };
    let factor = |value: u64, default: u64| value.max(default) / value.min(default).max(1);
    let found = match default {
        Some(default) => values.min_by_key(|(value, _)| factor(*value, default)),
        None if number.len() > 4 && row.kind != Kind::Duration => values.next_back(),
        None => values.next(),
    };
    found.map(|(_, text)| text)
}

/// Reads a number from the file, without its quotes.
fn parse(kind: Kind, text: &str) -> Result<u64, String> {
    let number = match kind {
        Kind::Size => units::parse_size(text).map(|size| size.0),
        Kind::Rate => units::parse_rate(text).map(|rate| rate.0),
        Kind::Duration => units::parse_duration(text).map(|span| u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)),
        _ => return text.parse().map_err(|_| format!("{} is not a whole number", quote(text))),
    };
    number.map_err(|error| error.to_string())
}

fn show(kind: Kind, number: u64) -> String {
    match kind {
        Kind::Size => Size(Bytes(number)).to_string(),
        Kind::Rate => Rate(number).to_string(),
        Kind::Duration => Span(Duration::from_nanos(number)).to_string(),
        _ => number.to_string(),
    }
}

fn in_range(row: &Tunable, number: u64) -> Result<u64, String> {
    let Some((low, high)) = row.range else { return Ok(number) };
    if (parse(row.kind, low)?..=parse(row.kind, high)?).contains(&number) {
        return Ok(number);
    }
    Err(range_message(row, &show(row.kind, number)))
}

fn range_message(row: &Tunable, found: &str) -> String {
    let (low, high) = row.range.unwrap_or(("0", "18446744073709551615"));
    format!("{} is out of range; allowed are {low} to {high}", found.chars().take(60).collect::<String>())
}

fn mismatch(row: &Tunable, found: &DeValue<'_>) -> String {
    if let (DeValue::Boolean(value), Kind::Choice(&["off", "on"])) = (found, row.kind) {
        return format!("found {value}; write {:?}", if *value { "on" } else { "off" });
    }
    format!("found {}; write {}", describe(found), row.kind.shape())
}

fn describe(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) => format!("the text {}", quote(text)),
        DeValue::Integer(_) | DeValue::Float(_) => "a number".into(),
        DeValue::Boolean(value) => value.to_string(),
        DeValue::Datetime(_) => "a date".into(),
        DeValue::Array(_) => "a list".into(),
        DeValue::Table(_) => "a table".into(),
    }
}

/// A setting in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Setting {
    /// For people.
    pub(crate) text: String,
    /// As it is written in a file.
    pub(crate) value: String,
    /// Whether a running daemon can apply a new one.
    pub(crate) live: bool,
    /// Whether the file has it.
    pub(crate) given: bool,
    /// Why it does not stand in a file that was not given it, or nothing.
    pub(crate) implied: Option<&'static str>,
}

/// The tables that were read, and their settings by dotted names.
#[derive(Clone, Debug, Default)]
pub(crate) struct Settings {
    pub(crate) by_name: BTreeMap<String, Setting>,
    /// Each with its section and path, in the order of the file.
    pub(crate) tables: Vec<(&'static Section, String)>,
}

/// A text as it is written in a file.
pub(crate) fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

/// A value as it is written in a file, if `text` is all of it.
pub(crate) fn written(kind: Kind, text: &str) -> String {
    if kind == Kind::Count { text.to_owned() } else { quoted(text) }
}

impl Settings {
    /// A file with all settings: what the file that was read has, and what follows without it. What `policy` ignores,
    /// or has a meaning only if it is absent, is a comment.
    pub(crate) fn file(&self, sections: &[&'static Section], policy: PolicyKind) -> String {
        let mut text = "# All settings in force. Comments are those that are not set, or have no effect.\n".to_owned();
        // Rows of tables are written inline.
        for section in sections.iter().filter(|section| !section.name.contains('.')) {
            let tables: Vec<_> = self.tables.iter().filter(|(other, _)| other.name == section.name).collect();
            if tables.is_empty() {
                // Writing to a string cannot fail.
                let _ = write!(text, "\n# There is no {}.\n", section.header);
                section.keys.iter().for_each(|row| text += &format!("# {}\n", nothing(row)));
                continue;
            }
            for (_, path) in tables {
                let _ = write!(text, "\n{}\n", section.header);
                for row in section.keys {
                    text += &self.line(row, &format!("{path}.{}", row.key), policy);
                    text.push('\n');
                }
            }
        }
        text
    }

    fn line(&self, row: &Tunable, path: &str, policy: PolicyKind) -> String {
        let key = row.key;
        let Some(setting) = self.by_name.get(path) else {
            let members = self.members(path);
            return if members.is_empty() { format!("# {}", nothing(row)) } else { format!("{key} = {{ {members} }}") };
        };
        let Setting { text, value, given, implied, .. } = setting;
        match implied {
            _ if *given => format!("{key} = {value}"),
            Some(why) => format!("# {key}: {}, {why}", text.escape_debug()),
            None if !row.is_used_by(policy) => {
                format!("# {key} = {value}, but the policy {} ignores it", policy.name())
            }
            None => format!("{key} = {value}"),
        }
    }

    /// The members of an inline table.
    fn members(&self, path: &str) -> String {
        let path = format!("{path}.");
        let from = self.by_name.range(path.clone()..);
        let members = from.map_while(|(key, setting)| Some((key.strip_prefix(&path)?, setting)));
        members.map(|(key, setting)| format!("{} = {}", quoted(key), setting.value)).collect::<Vec<_>>().join(", ")
    }
}

/// What an absent key means.
fn nothing(row: &Tunable) -> String {
    let key = row.key;
    match row.absent {
        Absent::Refused => format!("{key}: required"),
        Absent::Means(meaning) => format!("{key} is not set: {meaning}"),
        Absent::Is(value) => format!("{key} = {}, but it has no effect here", written(row.kind, value)),
    }
}
