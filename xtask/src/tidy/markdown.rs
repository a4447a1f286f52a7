//! The prose and the links of documents.

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

#[cfg(test)]
mod tests {
    use super::*;

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
}
