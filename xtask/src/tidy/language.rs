//! English that native readers stumble over, in documents, and the worst of it in code: help texts, messages, comments.
//!
//! A phrase is listed only if it can be recognised without a parser. What a word means where it is right after all goes
//! into [`EXCEPTIONS`], with the reason.

use super::markdown::Paragraph;

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
pub(super) fn check(file: &str, paragraph: &Paragraph) -> Vec<(usize, String)> {
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

    fn breaches(text: &str) -> usize {
        super::super::markdown::paragraphs(text).iter().map(|one| check("a.md", one).len()).sum()
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
