//! Why a text is not TOML: one fault, where it is.
//!
//! The parser recovers from a fault by guessing, and then complains about what follows. After an unclosed bracket that
//! is the rest of the file. This reads the text once more, statement by statement, and stops at the first thing that a
//! person would call wrong. What it does not know is left to the parser's own first message.

use std::collections::HashMap;

use toml::de::DeTable;

use super::tunables::{Kind, Section};
use super::units::quote;

/// The first fault of a text.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    /// Its place, in bytes.
    pub(crate) at: usize,
    /// The key in whose value it is, or an empty text.
    pub(crate) key: String,
    /// What is wrong, and what to write.
    pub(crate) message: String,
}

/// The first fault of a text that the parser has refused, if it is a known one. `root` has the headers of the file;
/// `line` returns the line of a place.
pub(crate) fn explain(text: &str, root: &Section, line: impl Fn(usize) -> usize) -> Option<Fault> {
    if let Some(at) = lone_carriage_return(text) {
        let message = "a line ends with CR alone; convert the file to line ends of LF or CRLF".to_owned();
        return Some(Fault { at, key: String::new(), message });
    }
    let start = if text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
    let mut scan = Scan {
        text,
        at: start,
        root,
        line: &line,
        table: String::new(),
        headers: HashMap::new(),
        keys: HashMap::new(),
    };
    scan.file().err()
}

fn lone_carriage_return(text: &str) -> Option<usize> {
    text.match_indices('\r').map(|(at, _)| at).find(|at| !text[at + 1..].starts_with('\n'))
}

struct Scan<'a> {
    text: &'a str,
    at: usize,
    root: &'a Section,
    line: &'a dyn Fn(usize) -> usize,
    /// The last header's name.
    table: String,
    /// The first header of each name: its place, and whether it has double brackets.
    headers: HashMap<&'a str, (usize, bool)>,
    /// The keys of the last header's table, with their places.
    keys: HashMap<&'a str, usize>,
}

impl<'a> Scan<'a> {
    fn file(&mut self) -> Result<(), Fault> {
        loop {
            self.skip(|c| c.is_ascii_whitespace());
            match self.rest().chars().next() {
                None => return Ok(()),
                Some('#') => self.skip(|c| c != '\n'),
                Some('[') => self.header()?,
                Some(_) => self.assignment()?,
            }
        }
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn skip(&mut self, belongs: impl Fn(char) -> bool) {
        self.at = self.text.len() - self.rest().trim_start_matches(belongs).len();
    }

    /// The rest of the line.
    fn line_left(&self) -> &'a str {
        self.rest().lines().next().unwrap_or_default()
    }

    fn fault<T>(&self, at: usize, key: &str, message: impl Into<String>) -> Result<T, Fault> {
        let dot = if self.table.is_empty() || key.is_empty() { "" } else { "." };
        let table = if key.is_empty() { "" } else { &self.table };
        Err(Fault { at, key: format!("{table}{dot}{key}"), message: message.into() })
    }

    fn header(&mut self) -> Result<(), Fault> {
        let (at, written) = (self.at, self.line_left());
        let is_double = written.starts_with("[[");
        let inner = written.trim_start_matches('[');
        let end = inner.find([']', '#']).unwrap_or(inner.len());
        let (name, after) = (inner[..end].trim(), &inner[end..]);
        let closed = after.chars().take_while(|c| *c == ']').count();
        let opened = written.len() - inner.len();
        if opened > 2 || opened != closed || name.is_empty() {
            let example =
                if name.is_empty() { "a name in it, for example [scheduler]".into() } else { format!("[{name}]") };
            let meant = self.shape(name).unwrap_or(example);
            let shown = quote(&written[..opened + end + closed]);
            return self.fault(at, "", format!("{shown} is not a header; write {meant}"));
        }
        let behind = after[closed..].trim();
        if !behind.is_empty() && !behind.starts_with('#') {
            return self.fault(at, "", format!("{} stands behind a header; begin a new line", quote(behind)));
        }
        self.repeated(at, name, is_double)?;
        name.clone_into(&mut self.table);
        self.keys.clear();
        self.at += written.len();
        Ok(())
    }

    /// How the header of this name is written, if it is one of the file's.
    fn shape(&self, name: &str) -> Option<String> {
        match self.root.key(name)?.kind {
            Kind::List(shape) | Kind::Table(shape) => Some(shape.to_owned()),
            _ => None,
        }
    }

    /// A header that was there before.
    fn repeated(&mut self, at: usize, name: &'a str, is_double: bool) -> Result<(), Fault> {
        let (first, was_double) = *self.headers.entry(name).or_insert((at, is_double));
        if first == at || (is_double && was_double) {
            return Ok(());
        }
        let line = (self.line)(first);
        let message = match self.shape(name) {
            Some(shape) if shape.starts_with("[[") => {
                let first = if was_double { format!("[[{name}]]") } else { format!("[{name}]") };
                format!("line {line} has {first}, too; write {shape} for each")
            }
            _ => format!("line {line} has [{name}], too; put all its keys there"),
        };
        self.fault(at, "", message)
    }

    fn assignment(&mut self) -> Result<(), Fault> {
        let (at, written) = (self.at, self.line_left());
        let Some(end) = end_of_key(written) else { return self.no_assignment(at, written) };
        let key = written[..end].trim_end();
        let fine = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '"' | '\'');
        if key.is_empty() {
            return self.fault(at, "", "there is no key before \"=\"");
        }
        if !fine(key.chars().next().unwrap_or(' ')) || key.chars().any(|c| !fine(c) && !key.contains(['"', '\''])) {
            return self.fault(at, "", format!("{} is not a key{}", quote(key), invisible(key)));
        }
        if let Some(first) = self.keys.insert(key, at) {
            let line = (self.line)(first);
            return self.fault(at, key, format!("line {line} sets it, too; remove one of them"));
        }
        self.at += end + 1;
        self.value(key)
    }

    fn no_assignment<T>(&self, at: usize, written: &str) -> Result<T, Fault> {
        let written = written.split('#').next().unwrap_or_default().trim_end();
        let message = if written.starts_with([']', '}', ')']) {
            format!("\"{}\" closes nothing; remove it", &written[..1])
        } else if let Some((key, value)) = written.split_once([':', ' ', '\t']) {
            let value = value.trim().trim_start_matches(':').trim();
            format!("{} has no \"=\"; write {} = {value}", quote(written), key.trim())
        } else {
            format!("{} has no value; write {written} = ...{}", quote(written), invisible(written))
        };
        self.fault(at, "", message)
    }

    /// Everything up to the end of a value, and of its line.
    fn value(&mut self, key: &str) -> Result<(), Fault> {
        // The brackets that are open, with their places.
        let mut open: Vec<(char, usize)> = Vec::new();
        let mut after_value = false;
        let mut begins_line = false;
        loop {
            self.skip(|c| matches!(c, ' ' | '\t'));
            let at = self.at;
            let Some(c) = self.rest().chars().next() else {
                return self.end_of_value(key, at, &open, after_value);
            };
            match c {
                '#' => {
                    self.skip(|c| c != '\n');
                    continue;
                }
                '\n' | '\r' if open.is_empty() => return self.end_of_value(key, at, &open, after_value),
                '\n' | '\r' => {
                    self.skip(|c| matches!(c, '\n' | '\r'));
                    begins_line = true;
                    continue;
                }
                _ => {}
            }
            if let Some(&(bracket, opened)) = open.last().filter(|_| begins_line)
                && (is_header(self.line_left()) || (bracket == '[' || after_value) && is_assignment(self.line_left()))
            {
                return self.fault(opened, key, unclosed(bracket));
            }
            begins_line = false;
            if after_value && !matches!(c, ',' | ']' | '}') {
                return self.no_separator(key, at, &open);
            }
            match c {
                '[' | '{' => {
                    open.push((c, at));
                    self.at += 1;
                }
                ']' | '}' => {
                    self.close(key, c, &mut open)?;
                    after_value = true;
                }
                ',' if open.is_empty() => {
                    return self.fault(at, key, format!("several values need brackets; write {key} = [..., ...]"));
                }
                ',' | '=' => {
                    after_value = false;
                    self.at += 1;
                }
                _ => after_value = self.scalar(key, &open)?,
            }
        }
    }

    fn end_of_value(&self, key: &str, at: usize, open: &[(char, usize)], after_value: bool) -> Result<(), Fault> {
        match open.last() {
            Some(&(bracket, opened)) => self.fault(opened, key, unclosed(bracket)),
            None if after_value => Ok(()),
            None => self.fault(at, key, "has no value after \"=\""),
        }
    }

    fn no_separator(&self, key: &str, at: usize, open: &[(char, usize)]) -> Result<(), Fault> {
        let found = quote(self.line_left().trim_end());
        if open.is_empty() {
            return self.fault(at, key, format!("{found} stands behind its value; begin a new line"));
        }
        self.fault(at, key, format!("there is no comma before {found}"))
    }

    fn close(&mut self, key: &str, c: char, open: &mut Vec<(char, usize)>) -> Result<(), Fault> {
        let opened = open.pop();
        self.at += 1;
        match opened {
            Some(('[', _)) if c == ']' => Ok(()),
            Some(('{', _)) if c == '}' => Ok(()),
            Some((bracket, opened)) => self.fault(opened, key, unclosed(bracket)),
            None => self.fault(self.at - 1, key, format!("\"{c}\" closes nothing; remove it")),
        }
    }

    /// A text, a number, or a key of an inline table; returns whether it is a value.
    fn scalar(&mut self, key: &str, open: &[(char, usize)]) -> Result<bool, Fault> {
        let (at, rest) = (self.at, self.rest());
        if rest.starts_with(['"', '\'']) {
            let Some(length) = length_of_text(rest) else {
                let quotes =
                    if rest.starts_with("\"\"\"") || rest.starts_with("'''") { &rest[..3] } else { &rest[..1] };
                return self.fault(at, key, format!("the text that begins here has no closing {quotes}"));
            };
            self.at += length;
            return Ok(true);
        }
        let stop = |c: char| matches!(c, '\n' | '\r' | '#' | ',' | '=') || (!open.is_empty() && matches!(c, ']' | '}'));
        let word = rest[..rest.find(stop).unwrap_or(rest.len())].trim_end();
        self.at += word.len().max(1);
        if rest[word.len()..].trim_start_matches([' ', '\t']).starts_with('=') {
            return Ok(false);
        }
        if is_toml(word) {
            return Ok(true);
        }
        if word.starts_with(['\u{201c}', '\u{201d}', '\u{201e}', '\u{2018}', '\u{2019}', '\u{ab}']) {
            return self.fault(at, key, format!("{} has typographic quotes; write plain ones, \"...\"", quote(word)));
        }
        if let Some((first, more)) = word.split_once([' ', '\t']).filter(|(first, _)| is_toml(first)) {
            let message = format!("{} stands behind its value {first}; begin a new line", quote(more.trim_start()));
            return self.fault(at, key, message);
        }
        let shown: String = word.chars().take(60).collect();
        let write = if open.is_empty() { format!("{key} = ") } else { String::new() };
        self.fault(at, key, format!("{shown} needs quotes; write {write}\"{shown}\"{}", invisible(word)))
    }
}

fn unclosed(bracket: char) -> String {
    let closing = if bracket == '[' { ']' } else { '}' };
    format!("the \"{bracket}\" here is not closed; add \"{closing}\"")
}

/// A hint at characters that look like blanks or nothing.
fn invisible(text: &str) -> String {
    let odd = |c: &char| matches!(c, '\u{a0}' | '\u{2000}'..='\u{200f}' | '\u{202f}' | '\u{3000}' | '\u{feff}');
    let found = text.chars().find(odd);
    found
        .map_or_else(String::new, |c| format!("; it has an invisible character, U+{:04X}: type it again", u32::from(c)))
}

/// The place of the `=` behind a key, which may be in quotes.
fn end_of_key(written: &str) -> Option<usize> {
    let mut quoted = None;
    for (at, c) in written.char_indices() {
        match (c, quoted) {
            ('"' | '\'', None) => quoted = Some(c),
            (_, Some(quote)) if c == quote => quoted = None,
            ('=', None) => return Some(at),
            ('#', None) => return None,
            _ => {}
        }
    }
    None
}

fn is_header(line: &str) -> bool {
    let line = line.split('#').next().unwrap_or_default().trim();
    let name = line.trim_matches(['[', ']']);
    line.starts_with('[') && line.ends_with(']') && is_bare_key(name)
}

fn is_assignment(line: &str) -> bool {
    line.split_once('=').is_some_and(|(key, _)| is_bare_key(key.trim()))
}

fn is_bare_key(key: &str) -> bool {
    let bare = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.');
    key.starts_with(|c: char| c.is_ascii_alphabetic()) && key.bytes().all(bare)
}

/// Whether a word is a number, a date or a truth value.
fn is_toml(word: &str) -> bool {
    word.len() < 100 && !word.contains(['"', '\'', '[', '{']) && DeTable::parse(&format!("k = {word}")).is_ok()
}

/// The length of the text at the start, with its quotes; `None` if it is not closed.
fn length_of_text(rest: &str) -> Option<usize> {
    for quotes in ["\"\"\"", "'''"] {
        if let Some(inner) = rest.strip_prefix(quotes) {
            let end = inner.find(quotes)? + 2 * quotes.len();
            return Some(end + rest[end..].bytes().take(2).take_while(|b| *b == quotes.as_bytes()[0]).count());
        }
    }
    let quote = rest.chars().next()?;
    let mut escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        match c {
            '\n' | '\r' => return None,
            _ if escaped => escaped = false,
            '\\' if quote == '"' => escaped = true,
            _ if c == quote => return Some(at + 1),
            _ => {}
        }
    }
    None
}
