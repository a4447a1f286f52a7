//! Reads the logs of several runs.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use vpfs_harl::{Log, LogReader, Trace};

use crate::exit::Exit;

/// The longest line that is read; names of files have up to 4 KiB.
const LINE_MAX: u64 = 64 << 10;

/// The runs that use a file, each with its weight.
pub(super) type Runs = Vec<(Trace, u32)>;

/// The runs of each file, or only of the one called `only`.
pub(super) fn read(paths: &[PathBuf], weights: &[u32], only: Option<&str>) -> Result<BTreeMap<String, Runs>, Exit> {
    let mut files: BTreeMap<String, Runs> = BTreeMap::new();
    for (path, weight) in paths.iter().zip(weights) {
        let log = read_log(path)?;
        warn(path, &log);
        for (name, requests) in log.files.into_iter().filter(|(name, _)| only.is_none_or(|only| only == name)) {
            let trace = Trace::new(requests).map_err(|error| failed(path, &error))?;
            files.entry(name).or_default().push((trace, *weight));
        }
    }
    match only {
        Some(only) if files.is_empty() => Err(Exit::Usage(format!("no log has a request to {only:?}"))),
        _ if files.is_empty() => Err(Exit::Failed("the logs have no request that moves bytes".into())),
        _ => Ok(files),
    }
}

fn warn(path: &Path, log: &Log) {
    if log.left_out > 0 {
        eprintln!("vpfs: {}: {} requests move nothing and are left out", path.display(), log.left_out);
    }
    if log.is_incomplete {
        let remedy = "raise MODMEM and MAX_RECORDS of Darshan for a complete one";
        eprintln!("vpfs: {}: the log says that requests are missing; {remedy}", path.display());
    }
}

fn failed(path: &Path, error: &dyn std::fmt::Display) -> Exit {
    Exit::Failed(format!("{}: {error}", path.display()))
}

fn read_log(path: &Path) -> Result<Log, Exit> {
    let file = File::open(path).map_err(|error| failed(path, &error))?;
    // Errors of the reader begin with the line.
    let at = |error: vpfs_harl::LogError| Exit::Failed(format!("{}:{error}", path.display()));
    let (mut lines, mut line, mut reader) = (BufReader::new(file), Vec::new(), LogReader::default());
    loop {
        line.clear();
        let length = (&mut lines).take(LINE_MAX).read_until(b'\n', &mut line).map_err(|error| failed(path, &error))?;
        if length == 0 {
            return reader.finish().map_err(at);
        }
        // The rest of a line that is too long is read as a line of its own, and refused as such.
        reader.line(line.strip_suffix(b"\n").unwrap_or(&line)).map_err(at)?;
    }
}
