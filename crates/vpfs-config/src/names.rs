//! What applications, sets and other things with a name may be called.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::schema::units::quote;

/// The name of a set: that of its owner, or its owner's and a part of its own after a dot, such as `admin.ior`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SetName(String);

impl SetName {
    /// Owners whose applications would have the names of automatic ones.
    const RESERVED: [&str; 3] = ["host", "uid", "auto"];

    /// Reads a name of 1 to 64 letters, digits, `-`, `_` and `.`.
    ///
    /// # Errors
    /// Why it is none, and what would be.
    pub fn parse(text: &str) -> Result<Self, String> {
        if !is_name(text) || text.starts_with('.') {
            return Err(format!("{} is not the name of a set; {NAME_RULE}", quote(text)));
        }
        let name = Self(text.to_owned());
        match Self::RESERVED.contains(&name.owner()) {
            true => Err(format!("{} is what automatic applications are called; choose another owner", quote(text))),
            false => Ok(name),
        }
    }

    /// The owner: what stands before the first dot.
    pub fn owner(&self) -> &str {
        self.0.split('.').next().unwrap_or_default()
    }

    /// The whole name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SetName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for SetName {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Self::parse(&text)
    }
}

impl From<SetName> for String {
    fn from(name: SetName) -> Self {
        name.0
    }
}

/// What names consist of.
pub(crate) const NAME_RULE: &str = "use 1 to 64 letters, digits, \"-\", \"_\" and \".\"";

/// Whether `text` follows [`NAME_RULE`].
pub(crate) fn is_name(text: &str) -> bool {
    let legal = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    (1..=64).contains(&text.len()) && text.bytes().all(legal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_an_owner() {
        let owner = |text: &str| SetName::parse(text).map(|name| name.owner().to_owned());
        assert_eq!(owner("slurm"), Ok("slurm".to_owned()));
        assert_eq!(owner("admin.ior.2"), Ok("admin".to_owned()));
        for wrong in ["", ".x", "a/b", "a b", "host", "uid.7", "auto", "é", &"a".repeat(65)] {
            assert!(owner(wrong).is_err(), "{wrong}");
        }
    }
}
