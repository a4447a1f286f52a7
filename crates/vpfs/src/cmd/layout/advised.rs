//! What is known of a file.

use vpfs_harl::{Advice, Trace};

/// A file with the runs that use it and the advice for it.
pub(super) struct Advised {
    pub(super) name: String,
    /// Each with its weight.
    pub(super) runs: Vec<(Trace, u32)>,
    pub(super) advice: Advice,
}

/// A file's name in a line of text. Logs come from anybody, and what is printed may be run by an administrator: a name
/// with a line break must not become a command.
pub(super) fn shown(name: &str) -> String {
    if name.is_empty() {
        return "(a file without a name)".to_owned();
    }
    let escape = |letter: char| if letter.is_control() { letter.escape_default().to_string() } else { letter.into() };
    name.chars().map(escape).collect()
}
