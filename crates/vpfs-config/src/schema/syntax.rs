//! Why a text is not TOML: one fault, at the place where a person would look.
//!
//! The parser says it, except for two faults: a bracket that is not closed, which it notices where the next statement
//! begins, and a table that stands twice because its header has too few brackets.

use super::tunables::{Kind, Section};
use super::units::quote;

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
