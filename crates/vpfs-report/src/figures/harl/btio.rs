//! [HARL Fig. 12]: BTIO with 4, 16 and 64 processes.
//!
//! Assumed:
//! - Of the 1.69 GB, all are written and then read back. The paper calls this class A, which writes 0.42 GB in the NAS
//!   benchmarks; class B writes 1.70 GB.
//! - Collective buffering: one process on each of the eight client nodes (four, with four processes) writes its part
//!   of a dump in calls of 4 MiB, ROMIO's default buffer. 40 dumps, as in the NAS benchmarks.
//! - Throughput is that of I/O alone, so there is no computation between dumps.

use std::sync::Arc;
use std::time::Duration;

use vpfs_sim::SimError;
use vpfs_sim::model::plan::{Btio, BtioClass, Phase, Subtype};

use crate::Section;

use super::cluster::{Job, SCALE, Storage};
use super::compare::{self, Panel};
use crate::figures::papers::Values;

const PROCESSES: [u32; 3] = [4, 16, 64];
const NODES: u32 = 8;

pub(super) fn run() -> Result<(Section, Values), SimError> {
    let intro = Section::new("HARL Fig. 12: BTIO").text(
        "BTIO, full subtype, writes 1.69 GB in 40 dumps and reads them back. One process on each of eight client nodes \
         does the I/O for the others, in calls of 4 MiB, and all wait for each other after each dump; so 16 and 64 \
         processes have equal requests, unlike in the paper. Hardware and advice are those of Fig. 7.",
    );
    compare::figure(intro, &panels())
}

fn panels() -> [Panel; 3] {
    PROCESSES.map(|processes| Panel { name: processes.to_string(), job: job(processes) })
}

#[cfg(test)]
pub(crate) fn changed(change: &str) -> Result<Values, SimError> {
    compare::changed(&panels(), change)
}

fn job(processes: u32) -> Job {
    let whole = Btio {
        processes,
        nodes: NODES.min(processes),
        subtype: Subtype::Full,
        total_bytes: 1_690_000_000,
        transfer_min_bytes: 4 << 20,
        transfer_max_bytes: 4 << 20,
        think_write: Duration::ZERO,
        think_read: Duration::ZERO,
        ..Btio::class(BtioClass::A)
    };
    let part = Btio {
        total_bytes: whole.total_bytes / SCALE,
        iterations: u32::try_from(u64::from(whole.iterations) / SCALE).unwrap_or(1),
        ..whole.clone()
    };
    let phases = vec![Phase::Write, Phase::Read];
    Job { storage: Storage::Cached, servers: [6, 2], plan: Arc::new(part), pass: Arc::new(whole), phases }
}
