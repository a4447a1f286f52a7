//! Why a configuration cannot be used, for its author.

/// Why a configuration cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages explain the fields")]
pub enum FsConfigError {
    /// No `<FileSystem>` section with this name.
    #[error("no file system is called {}; there {}", quoted(.wanted), listed(.known))]
    UnknownFileSystem { wanted: String, known: Vec<String> },
    /// A line that servers refuse, or that means nothing to a client over TCP.
    #[error("line {line}: {what}")]
    Line { line: usize, what: String },
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
