//! [HARL Fig. 7 to 10]: IOR with fixed, random and HARL's stripes.

use std::sync::Arc;

use vpfs_harl::Op;
use vpfs_sim::SimError;
use vpfs_sim::model::plan::{Ior, Phase};

use crate::Section;

use super::cluster::{self, Job, SCALE, Storage};
use super::compare::{self, Panel};
use crate::figures::papers::Values;

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
        Ok(Job { storage: Storage::Cached, servers: self.servers, plan: Arc::new(ior), pass, phases })
    }

    fn panel(&self, what: &str) -> Result<Panel, SimError> {
        Ok(Panel { name: format!("{}{what}", op_name(self.op)), job: self.job()? })
    }
}

pub(super) fn op_name(op: Op) -> &'static str {
    match op {
        Op::Read => "read",
        Op::Write => "write",
    }
}

pub(super) fn phase(op: Op) -> Phase {
    match op {
        Op::Read => Phase::Read,
        Op::Write => Phase::Write,
    }
}

/// The panels of a figure: each of some cases with reads and with writes, and what its name adds to that.
type Cases = Vec<(Case, String)>;

fn panels(cases: Cases) -> Result<Vec<Panel>, SimError> {
    let both = cases.into_iter().flat_map(|(case, what)| OPS.map(|op| Case { op, ..case }.panel(&what)));
    both.collect()
}

const DEFAULT: Case = Case::default(Op::Read);

fn of_layouts() -> Cases {
    vec![(DEFAULT, String::new())]
}

fn of_processes() -> Cases {
    [8, 32, 128, 256].map(|processes| (Case { processes, ..DEFAULT }, format!(" {processes}"))).into()
}

fn of_requests() -> Cases {
    [128, 1024].map(|kib| (Case { request: kib << 10, ..DEFAULT }, format!(" {kib}K"))).into()
}

fn of_servers() -> Cases {
    [[7, 1], [2, 6]].map(|servers| (Case { servers, ..DEFAULT }, format!(" {}:{}", servers[0], servers[1]))).into()
}

pub(super) fn layouts() -> Result<(Section, Values), SimError> {
    compare::figure(introduced("HARL Fig. 7: IOR with different layouts"), &panels(of_layouts())?)
}

pub(super) fn processes() -> Result<(Section, Values), SimError> {
    compare::figure(introduced("HARL Fig. 8: IOR by number of processes"), &panels(of_processes())?)
}

pub(super) fn requests() -> Result<(Section, Values), SimError> {
    let text = "The paper states one gain over 64K for both sizes of requests; it is compared at 128 KiB.";
    compare::figure(introduced("HARL Fig. 9: IOR by size of requests").text(text), &panels(of_requests())?)
}

pub(super) fn servers() -> Result<(Section, Values), SimError> {
    let text = "The paper states one gain over 64K for both ratios; it is compared at 2:6, where it is largest.";
    let section = introduced("HARL Fig. 10: IOR by numbers of disk and flash servers").text(text);
    compare::figure(section, &panels(of_servers())?)
}

#[cfg(test)]
pub(crate) fn changed(figure: &str, change: &str) -> Result<Values, SimError> {
    let cases = match figure {
        "7" => of_layouts(),
        "8" => of_processes(),
        "9" => of_requests(),
        _ => of_servers(),
    };
    compare::changed(&panels(cases)?, change)
}

fn introduced(heading: &str) -> Section {
    Section::new(heading).text(
        "Throughput with equal stripes on all servers, with random ones, with those that HARL finds by the paper's \
             cost (each request alone), and with those that vpfs advises (requests priced with the others that are \
             outstanding). Requests have random offsets; each process has its own part of a shared file of 16 GiB.",
    )
}
