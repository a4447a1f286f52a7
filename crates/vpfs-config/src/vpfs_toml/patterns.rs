//! Patterns of paths.

use glob::{MatchOptions, Pattern};

use crate::schema::settings::quoted;
use crate::schema::table::Table;

/// Paths, as in a shell: `*` stands for any part of one name, `**` for any directories.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Patterns(Vec<Pattern>);

impl Table<'_> {
    /// A list of patterns, if it is present.
    pub fn patterns(&self, key: &str) -> Option<Patterns> {
        self.has(key).then(|| Patterns::read(self, key))
    }
}

impl Patterns {
    /// O(patterns and lengths).
    pub fn matches(&self, path: &str) -> bool {
        let (require_literal_separator, require_literal_leading_dot) = (true, false);
        let options = MatchOptions { case_sensitive: true, require_literal_separator, require_literal_leading_dot };
        self.0.iter().any(|pattern| pattern.matches_with(path, options))
    }

    /// Each pattern as it was written.
    pub fn texts(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(Pattern::as_str)
    }

    pub(crate) fn read(table: &Table<'_>, key: &str) -> Self {
        let mut patterns = Vec::new();
        for value in table.list(key) {
            match value.get_ref().as_str().map(Pattern::new) {
                Some(Ok(pattern)) => patterns.push(pattern),
                Some(Err(error)) => table.cx.refuse(table.cx.line_of(value), table.path(key), error.to_string()),
                None => table.cx.refuse(table.cx.line_of(value), table.path(key), table.mismatch(key, value.get_ref())),
            }
        }
        let texts = patterns.iter().map(Pattern::as_str);
        table.set_list(key, &texts.clone().map(quoted).collect::<Vec<_>>(), texts.collect::<Vec<_>>().join(", "));
        Self(patterns)
    }
}
