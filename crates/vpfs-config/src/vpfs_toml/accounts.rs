//! Users and groups by name.

use std::fmt;

use toml::de::DeValue;

use crate::schema::settings::quoted;
use crate::schema::table::Table;

/// The names of one list, and the length of each.
const NAMES_MAX: usize = 1024;
const LENGTH_MAX: usize = 256;

/// A user or a group, by the name that the system knows it by. Displays as `user alice` or `group physics`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Account {
    /// A user.
    User(String),
    /// A group.
    Group(String),
}

impl fmt::Display for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::User(name) => write!(f, "user {name}"),
            Self::Group(name) => write!(f, "group {name}"),
        }
    }
}

/// Reads a list of names; `ids` is the key to which numbers belong.
pub(crate) fn read(table: &Table<'_>, key: &str, ids: &str) -> Vec<String> {
    if !table.has(key) {
        return Vec::new();
    }
    let expected = format!(
        "expects names as getent shows them, such as \"alice\"; numbers belong into {ids}. Patterns such as \"svc-*\" \
         cannot be looked up, since directories do not list all their names: write a group"
    );
    let name = |value: &DeValue<'_>| value.as_str().filter(|name| is_name(name)).map(str::to_owned);
    let names = table.elements(key, &expected, name);
    if names.len() > NAMES_MAX {
        table.refuse(key, format!("has {} names; at most {NAMES_MAX} are allowed: name a group", names.len()));
    }
    table.set_list(key, &names.iter().map(|name| quoted(name)).collect::<Vec<_>>(), names.join(", "));
    names
}

/// Directories have names of nearly any form, such as `DOMAIN\alice` and `alice@site.org`.
pub(super) fn is_name(name: &str) -> bool {
    let is_wrong = |c: char| c.is_control() || matches!(c, ':' | ',' | '*' | '?');
    (1..=LENGTH_MAX).contains(&name.len())
        && name.trim() == name
        && !name.contains(is_wrong)
        && !name.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-')
}
