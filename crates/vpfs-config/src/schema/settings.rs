//! The settings in force, and a file that has all of them.

use std::collections::BTreeMap;
use std::fmt::Write;

use toml::Value;
use vpfs_core::PolicyKind;

use super::tunables::{Absent, Kind, Section, Tunable};

/// A setting in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Setting {
    /// For people.
    pub(crate) text: String,
    /// As it is written in a file.
    pub(crate) value: String,
    /// Whether a running daemon can apply a new one.
    pub(crate) live: bool,
    /// Whether the file has it.
    pub(crate) given: bool,
    /// Why it does not stand in a file that was not given it, or nothing.
    pub(crate) implied: Option<&'static str>,
}

/// The tables that were read, and their settings by dotted names.
#[derive(Clone, Debug, Default)]
pub(crate) struct Settings {
    pub(crate) by_name: BTreeMap<String, Setting>,
    /// Each with its section and path, in the order of the file.
    pub(crate) tables: Vec<(&'static Section, String)>,
}

/// A text as it is written in a file.
pub(crate) fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

/// A value as it is written in a file, if `text` is all of it.
pub(crate) fn written(kind: Kind, text: &str) -> String {
    if kind == Kind::Count { text.to_owned() } else { quoted(text) }
}

impl Settings {
    /// A file with all settings: what the file that was read has, and what follows without it. What `policy` ignores,
    /// or has a meaning only if it is absent, is a comment.
    pub(crate) fn file(&self, sections: &[&'static Section], policy: PolicyKind) -> String {
        let mut text = "# All settings in force. Comments are those that are not set, or have no effect.\n".to_owned();
        // Rows of tables are written inline.
        for section in sections.iter().filter(|section| !section.name.contains('.')) {
            let tables: Vec<_> = self.tables.iter().filter(|(other, _)| other.name == section.name).collect();
            if tables.is_empty() {
                // Writing to a string cannot fail.
                let _ = write!(text, "\n# There is no {}.\n", section.header);
                section.keys.iter().for_each(|row| text += &format!("# {}\n", nothing(row)));
                continue;
            }
            for (_, path) in tables {
                let _ = write!(text, "\n{}\n", section.header);
                for row in section.keys {
                    text += &self.line(row, &format!("{path}.{}", row.key), policy);
                    text.push('\n');
                }
            }
        }
        text
    }

    fn line(&self, row: &Tunable, path: &str, policy: PolicyKind) -> String {
        let key = row.key;
        let Some(setting) = self.by_name.get(path) else {
            let members = self.members(path);
            return if members.is_empty() { format!("# {}", nothing(row)) } else { format!("{key} = {{ {members} }}") };
        };
        let Setting { text, value, given, implied, .. } = setting;
        match implied {
            _ if *given => format!("{key} = {value}"),
            Some(why) => format!("# {key}: {}, {why}", text.escape_debug()),
            None if !row.is_used_by(policy) => {
                format!("# {key} = {value}, but the policy {} ignores it", policy.name())
            }
            None => format!("{key} = {value}"),
        }
    }

    /// The members of an inline table.
    fn members(&self, path: &str) -> String {
        let path = format!("{path}.");
        let from = self.by_name.range(path.clone()..);
        let members = from.map_while(|(key, setting)| Some((key.strip_prefix(&path)?, setting)));
        members.map(|(key, setting)| format!("{} = {}", quoted(key), setting.value)).collect::<Vec<_>>().join(", ")
    }
}

/// What an absent key means.
fn nothing(row: &Tunable) -> String {
    let key = row.key;
    match row.absent {
        Absent::Refused => format!("{key}: required"),
        Absent::Means(meaning) => format!("{key} is not set: {meaning}"),
        Absent::Is(value) => format!("{key} = {}, but it has no effect here", written(row.kind, value)),
    }
}
