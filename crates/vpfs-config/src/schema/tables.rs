//! TOML files read by tables of tunables, reporting all problems at once.

use std::time::Duration;

use toml::Spanned;
use toml::de::DeValue;
use vpfs_core::Bytes;

use super::problem::{self, Problems};
use super::reader::Reader;
use super::tunables::Section;

/// A table of a file that is read by the rows of a [`Section`]. Keys without a row have already been reported.
///
/// Every method returns the row's default for an absent or invalid value; the latter is also reported.
///
/// # Panics
/// All methods panic if the section has no row for the key.
pub struct Table<'a>(Reader<'a>);

/// Reads the text of a file as `root`; `file` is its name for messages.
///
/// # Errors
/// All problems found in the file, at once.
pub fn read_file<T>(
    file: &str,
    text: &str,
    root: &'static Section,
    read: impl FnOnce(&Table<'_>) -> T,
) -> Result<T, Problems> {
    let (cx, table) = problem::parse(file, text, root, &[])?;
    let value = read(&Table(Reader::open(&cx, root, "", Some(&table))));
    cx.finish(file).map(|_| value)
}

impl<'a> Table<'a> {
    pub(crate) fn reader(&self) -> &Reader<'a> {
        &self.0
    }

    /// Whether the key is present.
    pub fn has(&self, key: &str) -> bool {
        self.0.has(key)
    }

    /// Reports a problem with the key at its line, or at that of the table's header.
    pub fn refuse(&self, key: &str, message: impl Into<String>) {
        self.0.refuse(key, message);
    }

    /// Whether any problem of the file was found so far.
    pub fn has_problems(&self) -> bool {
        self.0.cx.has_problems()
    }

    /// A table inside this one; an empty one if it is absent.
    pub fn table(&self, key: &str, section: &'static Section) -> Self {
        Self(Reader::open(self.0.cx, section, self.0.path(key), self.0.value(key)))
    }

    /// All tables of a list.
    pub fn tables(&self, key: &str, section: &'static Section) -> Vec<Self> {
        let open = |value| Self(Reader::open(self.0.cx, section, self.0.path(key), Some(value)));
        self.0.list(key).iter().map(open).collect()
    }

    /// A number, a size in bytes, a rate in bytes per second or a duration in nanoseconds, according to the key's row.
    pub fn number(&self, key: &str) -> Option<u64> {
        self.0.number(key)
    }

    /// A number for a row whose range fits 32 bits.
    pub fn count(&self, key: &str) -> Option<u32> {
        self.0.count(key)
    }

    /// A size.
    pub fn size(&self, key: &str) -> Option<Bytes> {
        self.0.number(key).map(Bytes)
    }

    /// A duration.
    pub fn duration(&self, key: &str) -> Option<Duration> {
        self.0.number(key).map(Duration::from_nanos)
    }

    /// The position of a word in the row's list.
    pub fn choice(&self, key: &str) -> Option<usize> {
        self.0.choice(key)
    }

    /// A text.
    pub fn text(&self, key: &str) -> Option<&'a str> {
        self.0.text(key).map(|found| found.text)
    }

    /// The strings of a list; a single one counts as a list of one.
    pub fn texts(&self, key: &str) -> Vec<&'a str> {
        let text = |value: &'a Spanned<DeValue<'a>>| match value.get_ref() {
            DeValue::String(text) => Some(text.as_ref()),
            other => {
                self.0.refuse(key, self.0.mismatch(key, other));
                None
            }
        };
        self.0.list(key).iter().filter_map(text).collect()
    }
}
