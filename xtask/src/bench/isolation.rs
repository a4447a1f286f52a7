//! How much of its speed a small application keeps beside large writers.

mod orangefs;

/// Measures before real servers; `--orangefs` says which.
pub(crate) fn run(args: &[&str]) -> Result<(), String> {
    if args.contains(&"--orangefs") { orangefs::run(args) } else { Err(orangefs::USAGE.to_owned()) }
}
