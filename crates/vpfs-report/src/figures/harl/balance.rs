//! [HARL Fig. 1a]: with equal stripes, disk servers are busy for longer than flash servers.

use vpfs_harl::Op;
use vpfs_sim::SimError;

use crate::{Axis, Bar, Bars, Section};

use super::ior::Case;
use crate::figures::papers::Values;

pub(super) fn run() -> Result<(Section, Values), SimError> {
    let times = times([64 << 10; 2])?;
    let chart = Bars::new("I/O time", Axis::linear("of the least busy server", "%"), (1..=8).map(|n| n.to_string()))
        .series("64K", times.iter().copied().map(Bar::new));
    let section = Section::new("HARL Fig. 1a: I/O time of each server")
        .text(
            "Sixteen processes read 512 KiB at random offsets, 64 KiB from each of six disk and two flash servers. The \
             I/O time of a server is that of its device and of its link together.",
        )
        .figure(chart, "Servers 1 to 6 have disks, 7 and 8 flash.");
    Ok((section, values(&times)))
}

/// The I/O time of each server in % of the least, with these stripes.
fn times(stripes: [u64; 2]) -> Result<Vec<f64>, SimError> {
    let results = Case::default(Op::Read).job()?.run(&[(0, stripes)], 1)?;
    // A request occupies a server while its device reads and while its link sends.
    let busy = |server: &vpfs_sim::ServerResults| server.device_utilisation + server.outward_utilisation;
    let busy: Vec<f64> = results.servers.iter().map(busy).collect();
    let least = busy.iter().copied().fold(f64::INFINITY, f64::min);
    Ok(busy.iter().map(|busy| busy / least * 100.0).collect())
}

fn values(times: &[f64]) -> Values {
    let mean = |times: &[f64]| times.iter().sum::<f64>() / times.len() as f64;
    let (disks, flash) = times.split_at(6);
    let mut values = Values::default();
    values.set("disks", [mean(disks) / mean(flash) * 100.0]);
    values
}

/// Stripes that give flash what it is faster by.
#[cfg(test)]
pub(crate) fn changed(_: &str) -> Result<Values, SimError> {
    Ok(values(&times([32 << 10, 160 << 10])?))
}
