//! [HARL Fig. 11]: a file of four regions with requests of their own sizes.
//!
//! Assumed: the sizes of requests, which the paper does not print, and that all processes use the regions one after the
//! other, each its own part of each.

use std::sync::Arc;

use vpfs_harl::Op;
use vpfs_sim::SimError;
use vpfs_sim::model::plan::{Ior, Phase, Plan, Steps};

use crate::Section;

use super::cluster::{self, Job, SCALE, Storage};
use super::compare::{self, Panel};
use super::ior::{OPS, op_name, phase};
use crate::figures::papers::Values;

/// Bytes of each region [HARL §IV-B5], and of a request in it.
const REGIONS: [(u64, u32); 4] =
    [(256 << 20, 128 << 10), (1024 << 20, 256 << 10), (2048 << 20, 512 << 10), (4096 << 20, 1024 << 10)];

/// Runs of IOR to parts of one file, one after the other.
#[derive(Debug)]
struct Parts(Vec<Ior>);

impl Plan for Parts {
    fn processes(&self) -> u32 {
        self.0.first().map_or(1, Plan::processes)
    }

    fn phases(&self) -> Vec<Phase> {
        self.0.first().map_or_else(Vec::new, Plan::phases)
    }

    fn steps(&self, phase: Phase, process: u32) -> Steps {
        let steps: Vec<Steps> = self.0.iter().map(|part| part.steps(phase, process)).collect();
        Box::new(steps.into_iter().flatten())
    }
}

pub(super) fn run() -> Result<(Section, Values), SimError> {
    let intro = Section::new("HARL Fig. 11: a file of four regions")
        .text(
            "IOR with 16 processes reads or writes four regions of 256, 1024, 2048 and 4096 MiB at random offsets, with \
             requests of 128, 256, 512 and 1024 KiB. The paper does not print its sizes of requests. Fixed and random \
             stripes are the same in the whole file; HARL finds the regions in the trace, and stripes for each.",
        )
        .text("Hardware and advice are those of Fig. 7.");
    compare::figure(intro, &panels()?)
}

fn panels() -> Result<Vec<Panel>, SimError> {
    let panel = |op| -> Result<Panel, SimError> { Ok(Panel { name: op_name(op).to_owned(), job: job(op)? }) };
    OPS.into_iter().map(panel).collect()
}

#[cfg(test)]
pub(crate) fn changed(change: &str) -> Result<Values, SimError> {
    compare::changed(&panels()?, change)
}

fn job(op: Op) -> Result<Job, SimError> {
    let (plan, pass) = (parts(op, SCALE)?, parts(op, 1)?);
    Ok(Job {
        storage: Storage::Cached,
        servers: [6, 2],
        plan: Arc::new(plan),
        pass: Arc::new(pass),
        phases: vec![phase(op)],
    })
}

/// The regions at a part of their size.
fn parts(op: Op, scale: u64) -> Result<Parts, SimError> {
    let base = cluster::ior()?;
    let mut start = 0;
    let parts = REGIONS.map(|(bytes, transfer_bytes)| {
        let bytes = bytes / scale;
        start += bytes;
        Ior {
            transfer_bytes,
            block_bytes: bytes / u64::from(base.processes),
            start_offset_bytes: start - bytes,
            read: op == Op::Read,
            write: op == Op::Write,
            ..base.clone()
        }
    });
    Ok(Parts(parts.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regions_are_found_at_their_places() {
        for op in OPS {
            let regions = vpfs_harl::divide(&job(op).unwrap().trace().unwrap(), vpfs_harl::CHUNK);
            let starts = REGIONS.iter().scan(0, |start, (bytes, _)| Some(std::mem::replace(start, *start + bytes)));
            assert!(starts.into_iter().all(|start| regions.iter().any(|region| region.bytes.start == start)));
        }
    }
}
