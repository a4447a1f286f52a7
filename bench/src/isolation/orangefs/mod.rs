//! In front of a running OrangeFS cluster: stock clients, real servers, `vpfs proxy` between them.

mod case;
mod config;
mod copies;
mod disks;
mod fio;
mod mounts;
mod table;
mod vpfs;

use std::path::{Path, PathBuf};

use super::{Options, policies};
use case::Bench;

use crate::real::cluster::Cluster;
use crate::real::program;
use crate::real::scratch::Scratch;

/// External programs that are needed.
const PROGRAMS: [&str; 4] = ["pvfs2fuse", "pvfs2-cp", "fio", "fusermount"];

/// Runs all cases that the options select and prints them as a table; if programs are missing, skips with a message.
#[expect(clippy::print_stdout, reason = "it is what the program is for")]
pub(super) fn run(cluster: &Path, options: &Options) -> Result<(), String> {
    let missing: Vec<&str> = PROGRAMS.into_iter().filter(|program| on_path(program).is_none()).collect();
    if !missing.is_empty() {
        println!("SKIPPED: not on PATH: {}; install OrangeFS 2.10, fio and fuse to measure", missing.join(", "));
        return Ok(());
    }
    let cluster = Cluster::read(cluster)?;
    let program = program::build(options.real.vpfs.as_deref())?;
    let scratch = Scratch::new()?;
    let bench = Bench {
        options: &options.real,
        policies: &policies(options),
        seconds: options.seconds,
        cluster: &cluster,
        program: &program,
        scratch: &scratch,
    };
    let outcomes = bench.run()?;
    println!("{}", table::sheet(&options.real, &outcomes).markdown());
    match &options.json {
        Some(file) => std::fs::write(file, table::json(options, &outcomes))
            .map_err(|error| format!("cannot write {}: {error}; give --json a writable file", file.display())),
        None => Ok(()),
    }
}

fn on_path(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|dir| dir.join(program)).find(|file| file.is_file())
}
