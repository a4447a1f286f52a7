//! How servers and clients cut their configuration into lines and words (docs/protocols/orangefs.md, the text).

use std::ops::Range;

/// The most bytes that are read as one line; the rest of a longer one is the next line.
pub const LINE_MAX: usize = 4095;

/// The lines of a text, each with those that a backslash at its end joins to it.
#[derive(Clone, Debug)]
pub struct Lines<'a> {
    text: &'a [u8],
    at: usize,
    number: usize,
}

/// A line, without comments' and continuations' special meaning resolved in [`Line::words`].
#[derive(Clone, Debug)]
pub struct Line {
    /// Its number from 1; of joined lines, the first one's.
    pub number: usize,
    /// Where it is in the text, with its line end.
    pub range: Range<usize>,
    /// What is read: up to a zero byte, and without what joins lines.
    pub bytes: Vec<u8>,
    /// Where parts of `bytes` start, in it and in the text.
    parts: Vec<(usize, usize)>,
}

/// The name of an option or a section, or an argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Word {
    /// Without quotes and backslashes.
    pub value: Vec<u8>,
    /// Where it is in the text, with them.
    pub range: Range<usize>,
    /// Whether quotes and backslashes have no meaning in it: so is what follows an empty argument.
    pub is_verbatim: bool,
}

impl<'a> Lines<'a> {
    /// The lines of `text`.
    pub fn new(text: &'a [u8]) -> Self {
        Self { text, at: 0, number: 1 }
    }

    /// Appends the next line of the text to `line`; false at the end of the text.
    fn read(&mut self, line: &mut Line) -> bool {
        let rest = &self.text[self.at..];
        if rest.is_empty() {
            return false;
        }
        let most = rest.len().min(LINE_MAX);
        let len = rest[..most].iter().position(|byte| *byte == b'\n').map_or(most, |at| at + 1);
        let read = rest[..len].split(|byte| *byte == 0).next().unwrap_or_default();
        line.parts.push((line.bytes.len(), self.at));
        line.bytes.extend_from_slice(read);
        self.at += len;
        self.number += usize::from(rest[len - 1] == b'\n');
        line.range.end = self.at;
        true
    }
}

impl Iterator for Lines<'_> {
    type Item = Line;

    /// A line that is to be continued at the end of the text is dropped, as servers do.
    fn next(&mut self) -> Option<Line> {
        let range = self.at..self.at;
        let mut line = Line { number: self.number, range, bytes: Vec::new(), parts: Vec::new() };
        if !self.read(&mut line) {
            return None;
        }
        while let Some(end) = line.cut_continuation() {
            if !self.read(&mut line) {
                return None;
            }
            if end == LineEnd::Windows {
                // Servers put the next line behind the end of the string, and read no further.
                line.bytes.truncate(line.parts.pop().map_or(0, |(start, _)| start));
                break;
            }
        }
        Some(line)
    }
}

#[derive(PartialEq)]
enum LineEnd {
    Unix,
    Windows,
}

impl Line {
    /// Cuts off a backslash before the line end; `None` if no line follows it: two backslashes are one.
    fn cut_continuation(&mut self) -> Option<LineEnd> {
        let bytes = self.bytes.strip_suffix(b"\n")?;
        let (bytes, end) = match bytes.strip_suffix(b"\r") {
            Some(bytes) => (bytes, LineEnd::Windows),
            None => (bytes, LineEnd::Unix),
        };
        let bytes = bytes.strip_suffix(b"\\")?;
        let is_protected = bytes.ends_with(b"\\");
        self.bytes.truncate(bytes.len());
        (!is_protected).then_some(end)
    }

    /// Name and arguments; none of an empty line or a comment.
    pub fn words(&self) -> Vec<Word> {
        let start = self.skip_space(0);
        if self.bytes.get(start).is_none_or(|byte| matches!(byte, b'#' | 0xff)) {
            return Vec::new();
        }
        let len = self.bytes[start..].iter().take_while(|byte| !is_space(**byte)).count();
        let mut at = start + len;
        let mut words = vec![self.verbatim(start..at)];
        at = self.skip_space(at);
        while let Some(word) = self.argument(&mut at) {
            words.push(word);
        }
        let rest = self.skip_space(at);
        if words.len() > 1 && rest < self.bytes.len() {
            words.push(self.verbatim(rest..self.bytes.len()));
        }
        words
    }

    /// What follows the name: a here-document can start there.
    pub fn after_name(&self) -> &[u8] {
        let start = self.skip_space(0);
        let len = self.bytes[start..].iter().take_while(|byte| !is_space(**byte)).count();
        &self.bytes[self.skip_space(start + len)..]
    }

    /// The argument at `at`, which is moved behind it; `None` for an empty one, too. A comment moves `at` to the end.
    fn argument(&self, at: &mut usize) -> Option<Word> {
        let bytes = &self.bytes;
        let start = self.skip_space(*at);
        *at = start;
        let mut value = Vec::new();
        let mut quote = None;
        while let Some(&byte) = bytes.get(*at) {
            match (quote, byte) {
                (_, b'\\') if *at + 1 < bytes.len() => {
                    *at += 1;
                    value.push(bytes[*at]);
                }
                (None, b'#') => {
                    *at = bytes.len();
                    return None;
                }
                (None, byte) if is_space(byte) => break,
                (None, b'"' | b'\'') => quote = Some(byte),
                (Some(open), byte) if byte == open => quote = None,
                (_, byte) => value.push(byte),
            }
            *at += 1;
        }
        let range = self.origin(start..*at);
        (!value.is_empty()).then_some(Word { value, range, is_verbatim: false })
    }

    fn verbatim(&self, range: Range<usize>) -> Word {
        Word { value: self.bytes[range.clone()].to_vec(), range: self.origin(range), is_verbatim: true }
    }

    fn skip_space(&self, at: usize) -> usize {
        at + self.bytes[at..].iter().take_while(|byte| is_space(**byte)).count()
    }

    /// The place in the text of a place in `bytes`.
    fn origin(&self, range: Range<usize>) -> Range<usize> {
        let of = |at: usize| {
            let (start, origin) = self.parts[self.parts.partition_point(|(start, _)| *start <= at).saturating_sub(1)];
            origin + (at - start)
        };
        match range.is_empty() {
            true => of(range.start)..of(range.start),
            false => of(range.start)..of(range.end - 1) + 1,
        }
    }
}

/// As C's `isspace`, which counts the vertical tab.
fn is_space(byte: u8) -> bool {
    byte.is_ascii_whitespace() || byte == 0x0b
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<Vec<String>> {
        let lines = Lines::new(text.as_bytes()).map(|line| line.words()).filter(|words| !words.is_empty());
        let text = |word: Word| String::from_utf8_lossy(&word.value).into_owned();
        lines.map(|words| words.into_iter().map(text).collect()).collect()
    }

    #[test]
    fn words_are_those_of_the_servers() {
        for (text, expected) in [
            ("a b\tc\r\n", &["a", "b", "c"][..]),
            ("\x0ba\x0cb", &["a", "b"]),
            ("a 'b c' \"d 'e\" f\"g h\"i", &["a", "b c", "d 'e", "fg hi"]),
            (r#"a b\ c "d\"e" \#f"#, &["a", "b c", "d\"e", "#f"]),
            ("a b # c", &["a", "b"]),
            // A comment in the middle of an argument takes all of it.
            ("a b c#d", &["a", "b"]),
            ("a '#b' \"#\"", &["a", "#b", "#"]),
            ("a#b c", &["a#b", "c"]),
            ("a b \\\n  c\\\nd\n", &["a", "b", "cd"]),
            ("a b\\\\\n", &["a", "b\\"]),
            ("a \"b\n", &["a", "b\n"]),
            ("a b \"\" 'c' # d\n", &["a", "b", "'c' # d\n"]),
            ("a \"\" b", &["a"]),
            ("a b\0c", &["a", "b"]),
        ] {
            assert_eq!(words(text), [expected], "{text:?}");
        }
    }

    #[test]
    fn lines_are_those_of_the_servers() {
        assert_eq!(words("a\n# b \\\nc\n\nd \\"), [&["a"][..], &["d", "\\"]], "a comment goes on, too");
        assert_eq!(words("a \\\r\nb\r\nc\r\n"), [["a"], ["c"]], "a continued line of Windows is lost");
        assert_eq!(words("a\nb \\\n"), [["a"]], "nothing continues it");
        assert_eq!(words(&format!("#{}b c", "x".repeat(LINE_MAX - 1))), [["b", "c"]]);
        let numbers = |text: &str| Lines::new(text.as_bytes()).map(|line| line.number).collect::<Vec<_>>();
        assert_eq!(numbers("a\nb\\\nc\nd"), [1, 2, 4]);
        assert_eq!(numbers(&format!("{}\nb", "x".repeat(LINE_MAX + 1))), [1, 1, 2]);
    }

    #[test]
    fn words_have_their_places() {
        let text = "\n key 'a b' \\\n  c\\\nd";
        let words: Vec<Word> = Lines::new(text.as_bytes()).flat_map(|line| line.words()).collect();
        let places: Vec<&str> = words.into_iter().map(|word| &text[word.range]).collect();
        assert_eq!(places, ["key", "'a b'", "c\\\nd"]);
    }
}
