//! Documents: their language, their links, and how much there is to read.

use std::path::{Component, Path, PathBuf};
use std::process::Command;

use super::read;

/// The most words in all documents together. A longer text is shortened, or replaces another one.
const MAX_WORDS: usize = 45_000;

/// The same for one decision,
const MAX_DECISION_WORDS: usize = 700;

/// and for the first page, in lines.
const MAX_README_LINES: usize = 120;

/// Breaches of all documents in the repository.
pub(super) fn check(root: &Path) -> Result<Vec<String>, String> {
    let mut breaches = Vec::new();
    let mut words = 0;
    for file in files(root)? {
        let text = read(&root.join(&file))?;
        let name = file.display().to_string();
        let count = text.split_whitespace().count();
        words += count;
        if name.starts_with("docs/decisions") && count > MAX_DECISION_WORDS {
            breaches.push(format!("{name}: {count} words, at most {MAX_DECISION_WORDS}"));
        }
        if name == "README.md" && text.lines().count() > MAX_README_LINES {
            breaches.push(format!("{name}: more than {MAX_README_LINES} lines"));
        }
        for paragraph in paragraphs(&text) {
            let found = check_language(&name, &paragraph).into_iter();
            breaches.extend(found.map(|(line, what)| format!("{name}:{line}: {what}")));
        }
        for (line, target) in links(&text) {
            breaches.extend(broken(root, &file, &target).map(|what| format!("{name}:{line}: {what}")));
        }
    }
    if words > MAX_WORDS {
        breaches.push(format!("documents: {words} words, at most {MAX_WORDS}"));
    }
    Ok(breaches)
}

/// All documents that Git knows.
fn files(root: &Path) -> Result<Vec<PathBuf>, String> {
    let output = Command::new("git").args(["ls-files", "*.md"]).current_dir(root).output();
    let output = output.map_err(|error| format!("cannot run git: {error}"))?;
    let list = String::from_utf8_lossy(&output.stdout).into_owned();
    Ok(list.lines().map(PathBuf::from).filter(|file| root.join(file).exists()).collect())
}

/// What is wrong with a link of `file`. Those to other sites are not followed.
fn broken(root: &Path, file: &Path, target: &str) -> Option<String> {
    if target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
    let linked = if path.is_empty() { file.to_owned() } else { normal(&file.parent()?.join(path)) };
    let place = root.join(&linked);
    if !place.exists() {
        return Some(format!("the link leads to {}, which is not there", linked.display()));
    }
    let found =
        anchor.is_empty() || read(&place).is_ok_and(|text| anchors(&text).iter().any(|heading| heading == anchor));
    (!found).then(|| format!("{} has no heading for #{anchor}", linked.display()))
}

/// The path without `..`.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                normal.pop();
            }
            part => normal.push(part),
        }
    }
    normal
}

/// A paragraph, item or row without its code.
pub(super) struct Paragraph {
    /// Lines joined by blanks; code is blank.
    pub(super) text: String,
    /// Where in `text` each line of the file begins, and its number from 1.
    lines: Vec<(usize, usize)>,
}

impl Paragraph {
    pub(super) fn line_of(&self, at: usize) -> usize {
        self.lines.iter().take_while(|(start, _)| *start <= at).last().map_or(1, |(_, number)| *number)
    }
}

/// All paragraphs of a text. Fenced blocks and comments are left out.
pub(super) fn paragraphs(text: &str) -> Vec<Paragraph> {
    let mut all = vec![Paragraph { text: String::new(), lines: Vec::new() }];
    for (number, line) in prose(text) {
        let starts = line.trim_start().starts_with(['#', '|', '-', '*', '>']) || line.trim().is_empty();
        if starts && all.last().is_some_and(|last| !last.text.is_empty()) {
            all.push(Paragraph { text: String::new(), lines: Vec::new() });
        }
        if let Some(last) = all.last_mut() {
            last.lines.push((last.text.len(), number));
            last.text.push_str(line.trim());
            last.text.push(' ');
        }
    }
    for paragraph in &mut all {
        paragraph.text = without_code(&paragraph.text);
    }
    all
}

/// Targets of links, with their lines.
pub(super) fn links(text: &str) -> Vec<(usize, String)> {
    let targets = |line: &str| -> Vec<String> {
        let line = without_code(line);
        let parts = line.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
        parts.map(|(target, _)| target.to_owned()).collect()
    };
    prose(text).flat_map(|(number, line)| targets(line).into_iter().map(move |target| (number, target))).collect()
}

/// The anchors of all headings, as GitHub makes them.
pub(super) fn anchors(text: &str) -> Vec<String> {
    let headings = prose(text).filter(|(_, line)| line.starts_with('#'));
    headings.map(|(_, line)| anchor(line.trim_start_matches('#').trim())).collect()
}

fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|letter| letter.is_alphanumeric() || matches!(letter, ' ' | '-' | '_'));
    kept.map(|letter| if letter == ' ' { '-' } else { letter }).flat_map(char::to_lowercase).collect()
}

/// Lines outside of fenced blocks, numbered from 1.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    text.lines().zip(1..).filter_map(move |(line, number)| {
        let is_fence = line.trim_start().starts_with("```");
        fenced ^= is_fence;
        let is_prose = !fenced && !is_fence && !line.starts_with("<!--");
        is_prose.then_some((number, line))
    })
}

/// The text with blanks instead of inline code, so that places stay the same.
fn without_code(text: &str) -> String {
    let mut code = false;
    let blank = |letter: char| {
        code ^= letter == '`';
        if code || letter == '`' { " ".repeat(letter.len_utf8()) } else { letter.to_string() }
    };
    text.chars().map(blank).collect()
}

// English that native readers stumble over, in documents, and the worst of it in code: help texts, messages, comments.
//
// A phrase is listed only if it can be recognised without a parser. What a word means where it is right after all goes
// into [`EXCEPTIONS`], with the reason.

/// What is not to be written, and what instead. Words, in any case; between them there may be the end of a line.
const PHRASES: &[(&str, &str)] = &[
    ("whoever", "name the person, or \"anyone who\""),
    ("nobody who", "\"no one\" with a verb, or name who may"),
    ("but for", "\"except\" or \"apart from\""),
    ("mend", "\"fix\""),
    ("mends", "\"fixes\""),
    ("mended", "\"fixed\""),
    ("lays", "\"writes\" or \"places\""),
    ("anew", "\"again\" or \"new\""),
    ("of late", "\"recently\""),
    ("beside", "\"next to\" or \"alongside\""),
    ("in turn with", "\"in alternating runs with\""),
    ("for each server", "\"per server\""),
    ("for each client", "\"per client\""),
    ("for each application", "\"per application\""),
    ("for each request", "\"per request\""),
    ("kept 0", "a percentage and of what: \"kept 84 % of its speed\""),
    ("keeps 0", "a percentage and of what: \"keeps 84 % of its speed\""),
];

/// Those that are not to be in code, either.
const IN_CODE: [&str; 7] = ["whoever", "nobody who", "but for", "mend", "mends", "mended", "lays"];

/// Part of a file's path, the phrase, and why it is right there.
const EXCEPTIONS: &[(&str, &str, &str)] = &[];

/// Breaches in one paragraph of `file`: line and message.
pub(super) fn check_language(file: &str, paragraph: &Paragraph) -> Vec<(usize, String)> {
    let found = phrases(file, &paragraph.text);
    let mut breaches: Vec<_> =
        found.map(|(at, phrase, instead)| (paragraph.line_of(at), format!("{phrase:?}: write {instead}"))).collect();
    for at in who_sentences(&paragraph.text) {
        breaches.push((paragraph.line_of(at), "a sentence that begins with \"Who\": name the subject".to_owned()));
    }
    breaches
}

/// The breach in one line of code, if it has one.
pub(super) fn check_code(file: &str, line: &str) -> Option<String> {
    let (_, phrase, instead) = phrases(file, line).find(|(_, phrase, _)| IN_CODE.contains(phrase))?;
    Some(format!("{phrase:?}: write {instead}"))
}

/// Places of phrases in a text, with what to write instead.
fn phrases(file: &str, text: &str) -> impl Iterator<Item = (usize, &'static str, &'static str)> {
    let words = words(text);
    let permitted = |phrase: &str| EXCEPTIONS.iter().any(|(path, what, _)| file.contains(path) && *what == phrase);
    let mut all = Vec::new();
    for (phrase, instead) in PHRASES.iter().filter(|(phrase, _)| !permitted(phrase)) {
        let wanted: Vec<&str> = phrase.split(' ').collect();
        let is_it =
            |found: &&[Word<'_>]| found.iter().zip(&wanted).all(|(word, it)| word.text.eq_ignore_ascii_case(it));
        all.extend(words.windows(wanted.len()).filter(is_it).map(|found| (found[0].at, *phrase, *instead)));
    }
    all.into_iter()
}

struct Word<'a> {
    at: usize,
    text: &'a str,
}

/// Words are letters, digits and hyphens, so that names such as `small-beside-large` are one.
fn words(text: &str) -> Vec<Word<'_>> {
    let is_part = |letter: char| letter.is_alphanumeric() || letter == '-' || letter == '_';
    let parts = text.split(|letter: char| !is_part(letter)).filter(|part| !part.is_empty());
    parts.map(|part| Word { at: part.as_ptr() as usize - text.as_ptr() as usize, text: part }).collect()
}

/// Where sentences begin with "Who" that do not ask.
fn who_sentences(text: &str) -> impl Iterator<Item = usize> {
    let starts = text.match_indices("Who ").filter(|(at, _)| {
        let before = text[..*at].trim_end_matches([' ', '*', '"', '(']);
        before.is_empty() || before.ends_with(['.', ':', '|', '!', '?'])
    });
    let asks = |at: usize| text[at..].find(['.', '?', '|']).is_some_and(|end| text[at + end..].starts_with('?'));
    starts.map(|(at, _)| at).filter(move |at| !asks(*at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_followed_from_their_file() {
        assert_eq!(normal(Path::new("docs/guide/../config.md")), Path::new("docs/config.md"));
    }

    #[test]
    fn anchors_are_those_of_github() {
        assert_eq!(
            anchors("# Is it for me?\n```\n# no\n```\n## `status`, top: why\n"),
            ["is-it-for-me", "status-top-why"]
        );
    }

    #[test]
    fn links_have_their_lines() {
        assert_eq!(links("a\n[b](c.md) and [d](e.md#f) `[x](y)`"), [(2, "c.md".to_owned()), (2, "e.md#f".to_owned())]);
    }

    fn breaches(text: &str) -> usize {
        paragraphs(text).iter().map(|one| check_language("a.md", one).len()).sum()
    }

    #[test]
    fn phrases_are_found_over_ends_of_lines_and_only_in_prose() {
        assert_eq!(breaches("All pass, but\nfor one. It was Mended."), 2);
        assert_eq!(breaches("`vpfs x --mend`, small-beside-large, amend\n\n```sh\nmend\n```\n"), 0);
    }

    #[test]
    fn the_worst_is_found_in_code() {
        assert!(check_code("a.rs", "/// How to mend it.").is_some());
        assert!(check_code("a.rs", "let is_mended = beside; // for each request").is_none());
    }

    #[test]
    fn only_questions_begin_with_who() {
        assert_eq!(breaches("Who waits is slow. So *Who pays* waits."), 1);
        assert_eq!(breaches("Who waits for whom? The table tells. People who wait."), 0);
    }
}
