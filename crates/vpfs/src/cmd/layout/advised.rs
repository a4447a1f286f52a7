//! What is known of a file.

use vpfs_harl::{Advice, AdviceError, NoSpace, Question, Trace};

use super::size::size;
use crate::exit::Exit;

/// A file with the runs that use it and the advice for it.
pub(super) struct Advised {
    pub(super) name: String,
    /// Each with its weight.
    pub(super) runs: Vec<(Trace, u32)>,
    /// What was asked about it.
    pub(super) question: Question,
    pub(super) advice: Advice,
}

impl Advised {
    /// Bytes that all runs move, each as often as its weight.
    pub(super) fn moved(&self) -> u128 {
        self.advice.regions.iter().map(|region| region.moved).sum()
    }
}

/// Why there is no advice for a file.
pub(super) fn no_advice(name: &str, error: &AdviceError) -> Exit {
    let name = shown(name);
    Exit::Failed(match error {
        AdviceError::NoSpace(NoSpace { class, needed, free }) => format!(
            "{name}: no layout fits the space of class {class:?}: each of its servers would hold {}, but {} are free; free \
             some space, or add servers",
            size(*needed),
            size(*free)
        ),
        error => format!("{name}: {error}"),
    })
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
