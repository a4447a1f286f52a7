//! [HARL Fig. 11]: a file of four regions with requests of their own sizes.
//!
//! Assumed: the sizes of requests, which the paper does not print, and that all processes use the regions one after the
//! other, each its own part of each.

use std::sync::Arc;

use vpfs_harl::Op;
use vpfs_model::plan::{Ior, Phase, Plan, Steps};
use vpfs_report::{Check, Kind, Section};
use vpfs_sim::SimError;

use super::cluster::{self, Job, SCALE};
use super::ior::{OPS, phase};
use super::rows::{Against, Range, Stated, op_name, section};

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

pub(super) fn run() -> Result<Section, SimError> {
    let stated = |op| {
        let gains = vec![(Against::Default, if op == Op::Read { 255.6 } else { 116.9 })];
        Ok(Stated { gains, ..Stated::new(format!("four regions, {}", op_name(op)), job(op)?) })
    };
    let stated: Vec<Stated> = OPS.into_iter().map(stated).collect::<Result<_, SimError>>()?;
    let found = stated.iter().map(found).collect::<Result<Vec<_>, _>>()?;
    let intro = Section::new("HARL Fig. 11: a file of four regions")
        .text(
            "IOR with 16 processes reads or writes four regions of 256, 1024, 2048 and 4096 MiB at random offsets, with \
             requests of 128, 256, 512 and 1024 KiB. The paper does not print its sizes of requests. Fixed and random \
             stripes are the same in the whole file; HARL finds the regions in the trace, and stripes for each.",
        )
        .text("Hardware and the two ways to price requests are those of Fig. 7.");
    let ranges = [(Op::Read, 59.4, 265.8), (Op::Write, 17.2, 200.7)];
    let ranges = ranges.map(|(op, least, largest)| Range { op, against: Against::Others, least, largest });
    Ok(found.into_iter().fold(section(intro, "Fig. 11", &stated, &ranges)?, Section::check))
}

fn job(op: Op) -> Result<Job, SimError> {
    let (plan, pass) = (parts(op, SCALE)?, parts(op, 1)?);
    Ok(Job { servers: [6, 2], plan: Arc::new(plan), pass: Arc::new(pass), phases: vec![phase(op)] })
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

/// Whether the regions are found where they are.
fn found(stated: &Stated) -> Result<Check, SimError> {
    let regions = vpfs_harl::divide(&stated.job.trace()?, vpfs_harl::CHUNK);
    let starts = REGIONS.iter().scan(0, |start, (bytes, _)| Some(std::mem::replace(start, *start + bytes)));
    let found = starts.filter(|start| regions.iter().any(|region| region.bytes.start == *start)).count();
    Ok(Check::of("Fig. 11", format!("{}: regions found at their places", stated.what))
        .between(found as f64, 4.0, 4.0)
        .is(Kind::Input, "the sizes of their requests are ours"))
}
