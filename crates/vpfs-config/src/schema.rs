//! Reading TOML files by tables of tunables, with all problems reported at once. Nothing here knows the keys of any
//! file.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::time::Duration;
use std::{fmt, io};

use toml::de::{DeTable, DeValue};
use toml::{Spanned, Value};
use vpfs_core::{Bytes, PolicyKind};

use crate::tunables::{Absent, Kind, Section, Tunable};
use crate::units::{Rate, Size, Span, decimal, parse_duration, parse_rate, parse_size, quote};

/// The largest file that is read: configurations, scenarios and profiles.
pub const FILE_LIMIT: usize = 1 << 20;

/// The text of a file. Fails as [`read_bytes`] does, and if it is not UTF-8.
pub fn read_text(path: &Path) -> io::Result<String> {
    let bytes = read_bytes(path)?;
    String::from_utf8(bytes)
        .map_err(|error| io::Error::other(not_text(error.as_bytes(), error.utf8_error().valid_up_to())))
}

/// Why `bytes` are not text, which are valid up to `valid`.
fn not_text(bytes: &[u8], valid: usize) -> String {
    if bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]) {
        return "it is UTF-16 text; convert it, for example with `iconv -f UTF-16 -t UTF-8`".into();
    }
    let line = bytes[..valid].iter().filter(|byte| **byte == b'\n').count() + 1;
    format!("it is not UTF-8 text: line {line} has the byte 0x{:02x}", bytes[valid])
}

/// The content of a file. Fails if it is larger than [`FILE_LIMIT`]; at most one byte more than that is read.
pub fn read_bytes(path: &Path) -> io::Result<Vec<u8>> {
    let file = File::open(path)?;
    let size = file.metadata()?.len();
    let mut bytes = Vec::new();
    file.take(FILE_LIMIT as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() > FILE_LIMIT {
        return Err(too_large(size.max(bytes.len() as u64)));
    }
    Ok(bytes)
}

fn too_large(size: u64) -> io::Error {
    let limit = Size(Bytes(FILE_LIMIT as u64));
    io::Error::other(format!("its {size} bytes are more than the limit of {limit}; is it the right file?"))
}

/// The maximum number of problems kept; a file with more is probably not a configuration at all.
const PROBLEMS_KEPT: usize = 50;

/// One problem to fix.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// Line in the file, from 1; 0 if the problem concerns the file as a whole.
    pub line: usize,
    /// Dotted path of the key, for example `scheduler.depth`; empty if there is none.
    pub key: String,
    /// The problem and how to fix it.
    pub message: String,
}

/// All problems of one file, in the order of its lines. Displays as one line each, `vpfs.toml:12: scheduler.polcy:
/// unknown key; did you mean "policy"?`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problems {
    /// The file as the user named it.
    pub file: String,
    /// Never empty in an error, but may be empty as a list of warnings.
    pub list: Vec<Problem>,
    /// The number of further problems.
    pub left_out: usize,
}

impl Problems {
    pub(crate) fn none(file: &str) -> Self {
        Self { file: file.to_owned(), list: Vec::new(), left_out: 0 }
    }

    pub(crate) fn of_file(file: &str, message: &str) -> Self {
        Self { file: file.to_owned(), list: vec![problem(0, "", message)], left_out: 0 }
    }
}

impl std::error::Error for Problems {}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.list.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            f.write_str(&printable(&self.file))?;
            if problem.line > 0 {
                write!(f, ":{}", problem.line)?;
            }
            if !problem.key.is_empty() {
                write!(f, ": {}", problem.key)?;
            }
            write!(f, ": {}", problem.message)?;
        }
        if self.left_out > 0 {
            write!(f, "\n{}: and {} more problems", printable(&self.file), self.left_out)?;
        }
        Ok(())
    }
}

/// The results of reading: problems, warnings and the settings in force.
#[derive(Debug)]
pub(crate) struct Context {
    /// The starts of all lines but the first.
    line_starts: Vec<usize>,
    sections: &'static [&'static Section],
    problems: RefCell<Vec<Problem>>,
    warnings: RefCell<Vec<Problem>>,
    settings: RefCell<InForce>,
}

/// Parses the text of a file into a table, and creates the collection for its problems. If it is not valid TOML, only
/// the first fault is reported: what follows from it would be misleading. `sections` are those whose keys the file may
/// have, to tell where a misplaced one belongs.
pub(crate) fn parse_toml<'text>(
    file: &str,
    text: &'text str,
    root: &Section,
    sections: &'static [&'static Section],
) -> Result<(Context, Spanned<DeValue<'text>>), Problems> {
    if text.len() > FILE_LIMIT {
        let limit = Size(Bytes(FILE_LIMIT as u64));
        return Err(Problems::of_file(file, &format!("is larger than {limit}; is it the right file?")));
    }
    let cx = Context::of(text, sections);
    let (table, errors) = DeTable::parse_recoverable(text);
    let place = |error: &toml::de::Error| error.span().map_or(0, |span| span.start);
    if let Some(first) = errors.iter().min_by_key(|error| place(error)) {
        let (at, message) = explain(text, first, root);
        cx.refuse(cx.line(at), "", message);
        return Err(cx.finish(file).expect_err("there is one"));
    }
    let span = table.span();
    Ok((cx, Spanned::new(span, DeValue::Table(table.into_inner()))))
}

impl Context {
    fn of(text: &str, sections: &'static [&'static Section]) -> Self {
        Self {
            sections,
            line_starts: text.match_indices('\n').map(|(at, _)| at + 1).collect(),
            problems: RefCell::default(),
            warnings: RefCell::default(),
            settings: RefCell::default(),
        }
    }

    /// The line of a byte offset, from 1.
    pub(crate) fn line(&self, at: usize) -> usize {
        self.line_starts.partition_point(|&start| start <= at) + 1
    }

    pub(crate) fn line_of<T>(&self, value: &Spanned<T>) -> usize {
        self.line(value.span().start)
    }

    pub(crate) fn refuse(&self, line: usize, key: impl Into<String>, message: impl Into<String>) {
        self.problems.borrow_mut().push(problem(line, &key.into(), &message.into()));
    }

    fn has_problems(&self) -> bool {
        !self.problems.borrow().is_empty()
    }

    pub(crate) fn warn(&self, line: usize, key: impl Into<String>, message: impl Into<String>) {
        self.warnings.borrow_mut().push(problem(line, &key.into(), &message.into()));
    }

    pub(crate) fn set(&self, key: String, setting: Setting) {
        self.settings.borrow_mut().by_name.insert(key, setting);
    }

    /// Marks a setting as one that follows from others, so that a file need not have it.
    pub(crate) fn imply(&self, key: &str, why: &'static str) {
        if let Some(setting) = self.settings.borrow_mut().by_name.get_mut(key) {
            setting.implied = Some(why);
        }
    }

    pub(crate) fn open(&self, section: &'static Section, path: &str) {
        self.settings.borrow_mut().tables.push((section, path.to_owned()));
    }

    /// `; it belongs to [scheduler]` for the key of another section.
    fn home_of(&self, key: &str) -> Option<String> {
        let homes = self.sections.iter().filter(|section| section.key(key).is_some());
        let homes = homes.map(|section| section.header).collect::<Vec<_>>().join(" or ");
        Some(format!("; it belongs to {homes}")).filter(|_| !homes.is_empty())
    }

    /// The settings and warnings, unless there are problems.
    pub(crate) fn finish(self, file: &str) -> Result<(InForce, Problems), Problems> {
        let problems = collected(file, self.problems.into_inner());
        if !problems.list.is_empty() {
            return Err(problems);
        }
        Ok((self.settings.into_inner(), collected(file, self.warnings.into_inner())))
    }
}

fn problem(line: usize, key: &str, message: &str) -> Problem {
    Problem { line, key: printable(key), message: printable(message) }
}

/// The text without characters that a terminal acts on or does not show: keys and values of a file may contain any.
fn printable(text: &str) -> String {
    let escaped = |c: char| match c {
        '\'' | '"' | '\\' => c.to_string(),
        c => c.escape_debug().to_string(),
    };
    text.chars().map(escaped).collect()
}

fn collected(file: &str, mut list: Vec<Problem>) -> Problems {
    list.sort();
    list.dedup();
    let left_out = list.len().saturating_sub(PROBLEMS_KEPT);
    list.truncate(PROBLEMS_KEPT);
    Problems { file: file.to_owned(), list, left_out }
}

/// `; did you mean "x"?` with the allowed name most similar to `name`, or the list of all.
pub(crate) fn did_you_mean<'a>(name: &str, allowed: impl IntoIterator<Item = &'a str>) -> String {
    let allowed: Vec<&str> = allowed.into_iter().collect();
    match near(name, allowed.iter().copied()) {
        Some(near) => format!("; did you mean {near:?}?"),
        None if allowed.is_empty() => String::new(),
        None => format!("; allowed are {}", some_of(&allowed)),
    }
}

/// The allowed name of which `name` is a misspelling: one letter in four may be wrong, since a different word that
/// looks similar, such as `local` for `global`, misleads.
pub(crate) fn near<'a>(name: &str, allowed: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    /// Names are short; comparing a long one would only take time.
    const COMPARED: usize = 40;
    let distance = |other: &&str| strsim::osa_distance(&name.to_lowercase(), &other.to_lowercase());
    let near = if name.len() > COMPARED { None } else { allowed.into_iter().min_by_key(distance) };
    near.filter(|near| match name.len().max(near.len()) {
        // Every other name of two letters looks similar.
        ..3 => false,
        longest => distance(near) <= (longest / 4).max(1),
    })
}

/// A list for a message, shortened if it is long.
pub(crate) fn some_of(names: &[&str]) -> String {
    const SHOWN: usize = 16;
    let shown = names.iter().take(SHOWN).copied().collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

// Why a text is not TOML: one fault, at the place where a person would look.
//
// The parser says it, except for two faults: a bracket that is not closed, which it notices where the next statement
// begins, and a table that stands twice because its header has too few brackets.

/// The place of the fault in bytes, and what is wrong, where the parser found the first error. `root` has the headers
/// of the file.
fn explain(text: &str, error: &toml::de::Error, root: &Section) -> (usize, String) {
    let at = error.span().map_or(0, |span| span.start);
    let begin = text[..at].rfind('\n').map_or(0, |end| end + 1);
    let line = text[begin..].lines().next().unwrap_or_default();
    let is_next = line.trim().is_empty() || header(line).is_some() || is_assignment(line);
    if let Some((opened, bracket)) = unclosed(&text[..begin]).filter(|_| is_next) {
        let closing = if bracket == '[' { ']' } else { '}' };
        return (opened, format!("the \"{bracket}\" here is not closed; add \"{closing}\""));
    }
    let repeated = repeated(&text[..begin], line, root).filter(|_| error.message() == "duplicate key");
    (at, repeated.unwrap_or_else(|| format!("{}: {}", error.message(), quote(line.trim()))))
}

/// What to do if a header stands above already.
fn repeated(before: &str, line: &str, root: &Section) -> Option<String> {
    let name = header(line)?;
    let (above, first) = before.lines().enumerate().find(|(_, first)| header(first) == Some(name))?;
    let instead = match root.key(name)?.kind {
        Kind::List(shape) => format!("write {shape} for each"),
        _ => "put all its keys there".to_owned(),
    };
    Some(format!("line {} has {}, too; {instead}", above + 1, without_comment(first)))
}

/// The name in a header.
fn header(line: &str) -> Option<&str> {
    let inner = without_comment(line).strip_prefix('[')?.strip_suffix(']')?;
    let inner = inner.strip_prefix('[').map_or(Some(inner), |inner| inner.strip_suffix(']'))?;
    Some(inner.trim()).filter(|name| is_bare_key(name))
}

fn is_assignment(line: &str) -> bool {
    line.split_once('=').is_some_and(|(key, _)| is_bare_key(key.trim()))
}

fn is_bare_key(key: &str) -> bool {
    let bare = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.');
    key.starts_with(|c: char| c.is_ascii_alphabetic()) && key.bytes().all(bare)
}

fn without_comment(line: &str) -> &str {
    line.split('#').next().unwrap_or_default().trim()
}

/// The last bracket that is open at the end of a text, with its place.
fn unclosed(text: &str) -> Option<(usize, char)> {
    let (mut open, mut at) = (Vec::new(), 0);
    while let Some(c) = text[at..].chars().next() {
        match c {
            '[' | '{' => open.push((at, c)),
            ']' | '}' => _ = open.pop(),
            _ => {}
        }
        at += match c {
            '#' => text[at..].find('\n').unwrap_or(text.len() - at),
            '"' | '\'' => length_of_text(&text[at..])?,
            _ => c.len_utf8(),
        };
    }
    open.pop()
}

/// The length of the text at the start, with its quotes; `None` if it is not closed.
fn length_of_text(rest: &str) -> Option<usize> {
    for quotes in ["\"\"\"", "'''"] {
        if let Some(inner) = rest.strip_prefix(quotes) {
            return Some(inner.find(quotes)? + 2 * quotes.len());
        }
    }
    let quote = rest.chars().next()?;
    let mut escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' if quote == '"' => escaped = true,
            _ if c == quote => return Some(at + 1),
            _ => {}
        }
    }
    None
}

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

/// Reads the text of a file as `root`; `file` is its name for messages. An error has all problems at once.
pub fn read_file<T>(
    file: &str,
    text: &str,
    root: &'static Section,
    read: impl FnOnce(&Table<'_>) -> T,
) -> Result<T, Problems> {
    let (cx, table) = parse_toml(file, text, root, &[])?;
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

    pub(crate) fn number_or_default(&self, key: &str) -> u64 {
        self.number(key).expect("the row has a default, which a test reads")
    }

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

    /// The same, recorded as it is.
    pub(crate) fn shown_text(&self, key: &str) -> Option<&'a str> {
        let text = self.text(key);
        text.iter().for_each(|text| self.set(key, *text));
        text
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

    pub(crate) fn value(&self, key: &str) -> Option<&'a Spanned<DeValue<'a>>> {
        self.table?.get(key)
    }

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

fn parse(kind: Kind, text: &str) -> Result<u64, String> {
    let number = match kind {
        Kind::Size => parse_size(text).map(|size| size.0),
        Kind::Rate => parse_rate(text).map(|rate| rate.0),
        Kind::Duration => parse_duration(text).map(|span| u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)),
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
pub(crate) struct InForce {
    pub(crate) by_name: BTreeMap<String, Setting>,
    /// Each with its section and path, in the order of the file.
    pub(crate) tables: Vec<(&'static Section, String)>,
}

pub(crate) fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

pub(crate) fn written(kind: Kind, text: &str) -> String {
    if kind == Kind::Count { text.to_owned() } else { quoted(text) }
}

impl InForce {
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

fn nothing(row: &Tunable) -> String {
    let key = row.key;
    match row.absent {
        Absent::Refused => format!("{key}: required"),
        Absent::Means(meaning) => format!("{key} is not set: {meaning}"),
        Absent::Is(value) => format!("{key} = {}, but it has no effect here", written(row.kind, value)),
    }
}
