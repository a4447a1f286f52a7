//! Why a configuration cannot be used, for whoever wrote it.

/// Why a configuration cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FsConfigError {
    /// No `<FileSystem>` section with this name.
    #[error("no file system is called {}; there {}", quoted(.wanted), listed(.known))]
    UnknownFileSystem {
        /// The name.
        wanted: String,
        /// Those that there are.
        known: Vec<String>,
    },
    /// A line that servers refuse, or that means nothing to a client over TCP.
    #[error("line {line}: {what}")]
    Line {
        /// Line number from 1.
        line: usize,
        /// What is wrong, and what to do.
        what: String,
    },
    /// No line of it, but the whole.
    #[error("{0}")]
    Whole(&'static str),
}

fn listed(names: &[String]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| quoted(name)).collect();
    match quoted.as_slice() {
        [one] => format!("is {one}"),
        many => format!("are {}", many.join(", ")),
    }
}

/// Text of others that a terminal can show.
pub(super) fn quoted(text: &str) -> String {
    const SHOWN: usize = 60;
    let cut = if text.chars().nth(SHOWN).is_some() { "…" } else { "" };
    format!("`{}{cut}`", text.chars().take(SHOWN).flat_map(char::escape_debug).collect::<String>())
}
