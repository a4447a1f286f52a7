//! [HARL Fig. 7 to 10]: IOR with fixed, random and HARL's stripes.

use std::sync::Arc;

use vpfs_harl::Op;
use vpfs_model::plan::{Ior, Phase};
use vpfs_report::Section;
use vpfs_sim::SimError;

use super::cluster::{self, Job, SCALE};
use super::rows::{Against, Range, Stated, Uses, op_name, section};

pub(super) const OPS: [Op; 2] = [Op::Read, Op::Write];

/// An experiment with IOR.
#[derive(Clone, Copy, Debug)]
pub(super) struct Case {
    pub(super) op: Op,
    pub(super) servers: [u32; 2],
    pub(super) processes: u32,
    pub(super) request: u32,
}

impl Case {
    /// Sixteen processes, 512 KiB, six disk and two flash servers.
    pub(super) const fn default(op: Op) -> Self {
        Self { op, servers: [6, 2], processes: 16, request: 512 << 10 }
    }

    pub(super) fn job(&self) -> Result<Job, SimError> {
        let base = cluster::ior()?;
        let ior = Ior {
            processes: self.processes,
            block_bytes: base.block_bytes * u64::from(base.processes) / u64::from(self.processes),
            transfer_bytes: self.request,
            read: self.op == Op::Read,
            write: self.op == Op::Write,
            ..base
        };
        let pass = Arc::new(Ior { block_bytes: ior.block_bytes * SCALE, ..ior.clone() });
        let phases = vec![phase(self.op)];
        Ok(Job { servers: self.servers, plan: Arc::new(ior), pass, phases })
    }

    fn stated(&self, what: &str) -> Result<Stated, SimError> {
        Ok(Stated::new(format!("{what}, {}", op_name(self.op)), self.job()?))
    }
}

pub(super) fn phase(op: Op) -> Phase {
    match op {
        Op::Read => Phase::Read,
        Op::Write => Phase::Write,
    }
}

pub(super) fn layouts() -> Result<Section, SimError> {
    let stated = |op| {
        let (gains, stripes) = match op {
            Op::Read => ([73.4, 138.6, 154.5], [32, 160]),
            Op::Write => ([176.7, 177.6, 215.4], [36, 148]),
        };
        let gains = [Against::Default, Against::Fixed, Against::Random].into_iter().zip(gains).collect();
        Ok(Stated { gains, stripes: Some(stripes), ..Case::default(op).stated("16 processes")? })
    };
    let stated: Vec<Stated> = OPS.into_iter().map(stated).collect::<Result<_, SimError>>()?;
    section(introduced("HARL Fig. 7: IOR with different layouts"), "Fig. 7", &stated, &[])
}

pub(super) fn processes() -> Result<Section, SimError> {
    let gains = [
        (8, [144.1, 104.8], [144.1, 116.4]),
        (32, [138.1, 182.2], [141.8, 182.7]),
        (128, [182.3, 168.5], [202.7, 192.8]),
        (256, [120.2, 235.1], [274.1, 268.3]),
    ];
    let stated = |((processes, default, fixed), op): ((u32, [f64; 2], [f64; 2]), usize)| {
        let case = Case { processes, ..Case::default(OPS[op]) };
        let gains = vec![(Against::Default, default[op]), (Against::Fixed, fixed[op])];
        Ok(Stated { gains, ..case.stated(&format!("{processes} processes"))? })
    };
    let all = gains.into_iter().flat_map(|gains| [(gains, 0), (gains, 1)]);
    let stated: Vec<Stated> = all.map(stated).collect::<Result<_, SimError>>()?;
    section(introduced("HARL Fig. 8: IOR by number of processes"), "Fig. 8", &stated, &[])
}

pub(super) fn requests() -> Result<Section, SimError> {
    let small = |op| {
        let gain = if op == Op::Read { 80.1 } else { 147.1 };
        let case = Case { request: 128 << 10, ..Case::default(op) };
        Ok(Stated { gains: vec![(Against::Default, gain)], stripes: Some([0, 64]), ..case.stated("128 KiB")? })
    };
    let large = |op| {
        let case = Case { request: 1 << 20, ..Case::default(op) };
        Ok(Stated { uses: Some(Uses::Both), ..case.stated("1024 KiB")? })
    };
    let stated: Vec<Stated> = OPS.into_iter().flat_map(|op| [small(op), large(op)]).collect::<Result<_, SimError>>()?;
    let range = |op, against, least, largest| Range { op, against, least, largest };
    let ranges = [
        range(Op::Read, Against::Fixed, 24.1, 325.0),
        range(Op::Write, Against::Fixed, 32.4, 293.5),
        range(Op::Read, Against::Random, 20.6, 222.3),
        range(Op::Write, Against::Random, 22.7, 263.1),
    ];
    let text = "The paper states one gain over 64K for both sizes of requests; it is compared at 128 KiB.";
    section(introduced("HARL Fig. 9: IOR by size of requests").text(text), "Fig. 9", &stated, &ranges)
}

pub(super) fn servers() -> Result<Section, SimError> {
    let many = |op| {
        let case = Case { servers: [7, 1], ..Case::default(op) };
        Ok(Stated { uses: Some(Uses::Both), ..case.stated("7 disk and 1 flash servers")? })
    };
    let few = |op| {
        let gain = if op == Op::Read { 474.9 } else { 180.3 };
        let case = Case { servers: [2, 6], ..Case::default(op) };
        let gains = vec![(Against::Default, gain)];
        Ok(Stated { gains, uses: Some(Uses::FlashOnly), ..case.stated("2 disk and 6 flash servers")? })
    };
    let stated: Vec<Stated> = OPS.into_iter().flat_map(|op| [many(op), few(op)]).collect::<Result<_, SimError>>()?;
    let range = |op, least, largest| Range { op, against: Against::Others, least, largest };
    let ranges = [range(Op::Read, 37.6, 556.1), range(Op::Write, 112.2, 288.7)];
    let text = "The paper states one gain over 64K for both ratios; it is compared at 2:6, where it is largest.";
    let section_of = introduced("HARL Fig. 10: IOR by numbers of disk and flash servers").text(text);
    section(section_of, "Fig. 10", &stated, &ranges)
}

fn introduced(heading: &str) -> Section {
    Section::new(heading).text(
        "Throughput with equal stripes on all servers, with random ones, with those that HARL finds by the paper's \
             cost (each request alone), and with those that vpfs advises (requests priced with the others that are \
             outstanding). Requests have random offsets; each process has its own part of a shared file of 16 GiB.",
    )
}
