//! A profile for the daemon's configuration, and measurements for programs.

use std::fmt::Write;

use serde::Serialize;
use vpfs_config::units::Size;
use vpfs_core::slot_cost::SizeClass;
use vpfs_core::{Bytes, OpKind, SlotCost};

use crate::profile::Measurements;
use crate::profile::fit::{Measurement, StorageFit};

/// The `[scheduler]` table of a configuration, with exactly the keys that depth and slot costs have there.
pub fn to_toml(fit: &StorageFit, measured: &str) -> String {
    let table = &fit.slot_costs;
    let small = table.small_threshold();
    let [reads, writes] = [OpKind::Read, OpKind::Write].map(|op| rows(table.rows(op), small));
    let lines: Vec<String> = if reads == writes {
        reads.iter().map(|class| row("", class)).collect()
    } else {
        let reads = reads.iter().map(|class| row("op = \"read\", ", class));
        reads.chain(writes.iter().map(|class| row("op = \"write\", ", class))).collect()
    };
    let mut text = format!("# {measured}\n[scheduler]\ndepth = {}\n", fit.depth.get());
    // Writing to a string does not fail.
    let _ = writeln!(text, "small_threshold = \"{}\"\nslot_cost = [", Size(small));
    lines.iter().for_each(|line| text.push_str(line));
    text + "]\n"
}

/// A configuration without rows selects the paper's slot costs, so always write at least one.
fn rows(classes: &[SizeClass], small: Bytes) -> Vec<SizeClass> {
    match classes {
        [] => vec![SizeClass { up_to: small + small, slot_cost: SlotCost::ONE }],
        classes => classes.to_vec(),
    }
}

fn row(op: &str, class: &SizeClass) -> String {
    format!("    {{ {op}up_to = \"{}\", slots = {} }},\n", Size(class.up_to), class.slot_cost.get())
}

/// One measurement for programs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Record {
    /// `read` or `write`.
    pub op: &'static str,
    /// Bytes of each access.
    pub size_bytes: u64,
    /// Accesses outstanding throughout.
    pub outstanding: u32,
    /// Throughput of all accesses.
    pub bytes_per_second: u64,
    /// From submission to completion.
    pub mean_latency_ns: u64,
}

/// All measurements, reads first.
pub fn records(measurements: &Measurements) -> Vec<Record> {
    let record = |op, one: &Measurement| Record {
        op,
        size_bytes: one.size.0,
        outstanding: one.outstanding,
        bytes_per_second: one.throughput.0,
        mean_latency_ns: u64::try_from(one.mean_latency.as_nanos()).unwrap_or(u64::MAX),
    };
    let reads = measurements.reads.iter().map(|one| record("read", one));
    reads.chain(measurements.writes.iter().map(|one| record("write", one))).collect()
}
