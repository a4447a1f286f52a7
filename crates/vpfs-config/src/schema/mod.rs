//! Reading TOML files by tables of what can be set. Nothing here knows the keys of any file.

pub(crate) mod table;
pub mod tunables;
pub mod units;

use std::cell::RefCell;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::{fmt, io};

use toml::Spanned;
use toml::de::{DeTable, DeValue};
use vpfs_core::Bytes;

use table::{Setting, Settings};
use tunables::{Kind, Section};
use units::{Size, quote};

/// The largest file that is read: configurations, scenarios and profiles.
pub const FILE_LIMIT: usize = 1 << 20;

/// The text of a file.
///
/// # Errors
/// As [`read_bytes`], and if it is not UTF-8.
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

/// The content of a file.
///
/// # Errors
/// If it cannot be read or is larger than [`FILE_LIMIT`]; at most one byte more than that is read.
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

/// The error for a file of at least `size` bytes.
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

    /// A problem of the file as a whole.
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
    settings: RefCell<Settings>,
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

    pub(crate) fn has_problems(&self) -> bool {
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

    /// Records a table.
    pub(crate) fn open(&self, section: &'static Section, path: &str) {
        self.settings.borrow_mut().tables.push((section, path.to_owned()));
    }

    /// `; it belongs to [scheduler]` for the key of another section.
    pub(crate) fn home_of(&self, key: &str) -> Option<String> {
        let homes = self.sections.iter().filter(|section| section.key(key).is_some());
        let homes = homes.map(|section| section.header).collect::<Vec<_>>().join(" or ");
        Some(format!("; it belongs to {homes}")).filter(|_| !homes.is_empty())
    }

    /// The settings and warnings, unless there are problems.
    pub(crate) fn finish(self, file: &str) -> Result<(Settings, Problems), Problems> {
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
pub(crate) fn explain(text: &str, error: &toml::de::Error, root: &Section) -> (usize, String) {
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
