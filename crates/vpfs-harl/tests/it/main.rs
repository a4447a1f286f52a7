//! The integration tests of vpfs-harl, in one program: linking dozens takes longer than running them.

#![allow(
    clippy::cast_possible_truncation,
    clippy::unwrap_used,
    reason = "a panic is the report of a test, sizes are small, and measurements are for people"
)]

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use vpfs_harl::{Access, Cluster, ServerClass};

mod advise;
mod darshan;
#[path = "../../../../fuzz/src/harl.rs"]
#[expect(unreachable_pub, reason = "public in the crate of the fuzz targets")]
mod fuzz;
mod log;
mod memory;
mod rules;
mod search;

/// Hardware that fits the paper's results, which does not state any.
fn paper(disks: u32, flash: u32, flash_free: Option<u64>) -> Cluster {
    let micros = Duration::from_micros;
    let disk = Access::new(micros(300), micros(1200), 25_000_000).unwrap();
    let read = Access::new(micros(50), micros(100), 133_333_333).unwrap();
    let write = Access::new(micros(80), micros(200), 107_526_882).unwrap();
    let disk = ServerClass { name: "disk".into(), servers: disks, read: disk, write: disk, free: None };
    let flash = ServerClass { name: "flash".into(), servers: flash, read, write, free: flash_free };
    Cluster::new(vec![disk, flash], 112_359_551).unwrap()
}

fn corpus(target: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target)
}

/// The inputs of a fuzz target, and what remains of each with one byte changed.
fn replay(target: &str, run: fn(&[u8]), changes: &[u8]) {
    let inputs: Vec<PathBuf> = fs::read_dir(corpus(target)).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(inputs.len() >= 4);
    for input in inputs {
        let input = fs::read(input).unwrap();
        run(&input);
        for (at, change) in (0..input.len()).flat_map(|at| changes.iter().map(move |change| (at, change))) {
            run(&input[..at]);
            let mut changed = input.clone();
            changed[at] ^= change;
            run(&changed);
        }
    }
}
