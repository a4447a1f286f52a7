//! Problems of a configuration: all at once, each with its file, line, key and remedy.

use std::cell::RefCell;
use std::fmt;

use toml::Spanned;
use toml::de::{DeTable, DeValue};
use vpfs_core::Bytes;

use super::file::FILE_LIMIT;
use super::settings::{Setting, Settings};
use super::syntax;
use super::tunables::Section;
use super::units::Size;

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
pub(crate) fn parse<'text>(
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
        let (at, message) = syntax::explain(text, first, root);
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
