//! The servers of which the proxies are written, from their own configuration.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use vpfs_config::read_bytes;
use vpfs_testbed::fsconfig::{Configuration, FsConfigError, FsServer};

use crate::exit::Exit;

/// What was found, with the file in which it was found.
#[derive(Debug)]
pub(super) struct Found<'a> {
    from: &'a Path,
    configuration: Configuration,
    /// The name of the first file system, which is on the first of the servers.
    pub(super) file_system: String,
    /// All that clients use, in the order of their handles.
    pub(super) servers: Vec<FsServer>,
    /// What an administrator should know.
    pub(super) notes: Vec<String>,
}

/// Reads the configuration `from` for one file system, or for all if none is named: a proxy serves whatever its server
/// does.
pub(super) fn read<'a>(from: &'a Path, file_system: Option<&str>) -> Result<Found<'a>, Exit> {
    let failed = |error: std::io::Error| Exit::Usage(format!("{}: {error}", from.display()));
    let text = read_bytes(from).map_err(failed)?;
    let refused = |error| refused(from, error);
    let configuration = Configuration::parse(&text).map_err(refused)?;
    let names: Vec<&str> = match file_system {
        Some(name) => vec![name],
        None => configuration.file_systems.iter().map(|fs| fs.name.as_str()).collect(),
    };
    let (mut servers, mut written) = (Vec::new(), HashSet::new());
    for name in &names {
        let of_one = &configuration.file_system(name).map_err(refused)?.servers;
        servers.extend(of_one.iter().filter(|server| written.insert(server.alias.as_str())).cloned());
    }
    distinct(&configuration, &servers).map_err(refused)?;
    let notes = notes(&configuration, &written, &names);
    let file_system = names.first().copied().unwrap_or_default().to_owned();
    Ok(Found { from, configuration, file_system, servers, notes })
}

/// A proxy stands in front of one server.
fn distinct(configuration: &Configuration, servers: &[FsServer]) -> Result<(), FsConfigError> {
    let mut seen = HashMap::new();
    for server in servers {
        if let Some(other) = seen.insert(server.host_and_port().to_ascii_lowercase(), &server.alias) {
            let line = configuration.alias(&server.alias).map_or(0, |alias| alias.line);
            let what = format!("Alias {:?} has the address of {other:?}; each server needs its own", server.alias);
            return Err(FsConfigError::Line { line, what });
        }
    }
    Ok(())
}

fn refused(from: &Path, error: FsConfigError) -> Exit {
    let file = from.display();
    Exit::Usage(match error {
        FsConfigError::Line { line, what } => format!("{file}:{line}: {what}"),
        FsConfigError::UnknownFileSystem { .. } => {
            format!("{file}: {error}; give one with --file-system, or leave that out for all")
        }
        FsConfigError::Whole(what) => format!("{file}: {what}"),
    })
}

fn notes(configuration: &Configuration, written: &HashSet<&str>, names: &[&str]) -> Vec<String> {
    let mut notes = Vec::new();
    if names.len() > 1 {
        notes.push(format!("the proxies serve all {} file systems: {}", names.len(), names.join(", ")));
    }
    for alias in &configuration.aliases {
        let others: Vec<&str> = alias.others().collect();
        if !written.contains(alias.name.as_str()) {
            notes.push(format!(
                "{} (line {}) is left out, since it has no handles in {}; clients reach it without a proxy",
                alias.name,
                alias.line,
                names.join(", ")
            ));
        } else if !others.is_empty() {
            notes.push(format!(
                "{} is also at {}; clients that use that transport pass by the proxy",
                alias.name,
                others.join(", ")
            ));
        }
    }
    if configuration.storage.answers_from_memory() {
        notes.push(
            "the servers answer a write when it is in memory (TroveMethod is not directio, TroveSyncData is no): vpfs \
             limits what is not on disk yet, where a proxy runs on its server's host and the kernel has 6.2 or later \
             (limits.write_back)"
                .to_owned(),
        );
    }
    notes
}

impl Found<'_> {
    /// The place of a server in the file that it was read from.
    pub(super) fn place(&self, server: &FsServer) -> String {
        let line = self.configuration.alias(&server.alias).map_or(0, |alias| alias.line);
        format!("{}:{line}", self.from.display())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_that_answer_from_memory_are_noted() {
        let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/fs_conf/same_backslashes");
        let text = std::fs::read_to_string(corpus).unwrap();
        assert!(text.contains("TroveSyncData no"));
        let dir = tempfile::tempdir().unwrap();
        for (text, is_noted) in [(text.replace("alt-aio", "directio"), false), (text, true)] {
            let file = dir.path().join("fs.conf");
            std::fs::write(&file, text).unwrap();
            let notes = read(&file, None).unwrap().notes;
            assert_eq!(notes.iter().any(|note| note.contains("in memory")), is_noted, "{notes:?}");
        }
    }
}
