//! Patterns of paths.

use glob::{MatchOptions, Pattern};

use crate::schema::reader::Reader;
use crate::schema::settings::quoted;
use crate::schema::tables::Table;

/// Paths, as in a shell: `*` stands for any part of one name, `**` for any directories.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Patterns(Vec<Pattern>);

impl Table<'_> {
    /// A list of patterns, if it is present.
    pub fn patterns(&self, key: &str) -> Option<Patterns> {
        self.has(key).then(|| Patterns::read(self.reader(), key))
    }
}

impl Patterns {
    /// O(patterns and lengths).
    pub fn matches(&self, path: &str) -> bool {
        let (require_literal_separator, require_literal_leading_dot) = (true, false);
        let options = MatchOptions { case_sensitive: true, require_literal_separator, require_literal_leading_dot };
        self.0.iter().any(|pattern| pattern.matches_with(path, options))
    }

    pub(crate) fn read(reader: &Reader<'_>, key: &str) -> Self {
        let mut patterns = Vec::new();
        for value in reader.list(key) {
            match value.get_ref().as_str().map(Pattern::new) {
                Some(Ok(pattern)) => patterns.push(pattern),
                Some(Err(error)) => reader.cx.refuse(reader.cx.line_of(value), reader.path(key), error.to_string()),
                None => {
                    reader.cx.refuse(reader.cx.line_of(value), reader.path(key), reader.mismatch(key, value.get_ref()))
                }
            }
        }
        let texts = patterns.iter().map(Pattern::as_str);
        reader.set_list(key, &texts.clone().map(quoted).collect::<Vec<_>>(), texts.collect::<Vec<_>>().join(", "));
        Self(patterns)
    }
}
