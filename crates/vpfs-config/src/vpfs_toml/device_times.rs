//! `device_time` of `[scheduler]` and of profiles: how much of the storage's time requests take.

use std::collections::BTreeMap;

use vpfs_core::settings::DeviceTime;
use vpfs_core::{Bytes, OpKind};

use super::keys::DEVICE_TIME;
use super::slot_costs::{BOTH, op_name};
use crate::schema::table::Table;
use crate::schema::units::{Size, Span};

const KEY: &str = "device_time";

/// The rows, by operation and size.
pub(crate) fn read(scheduler: &Table<'_>) -> Vec<DeviceTime> {
    let mut rows: BTreeMap<(OpKind, Bytes), (DeviceTime, usize)> = BTreeMap::new();
    for row in scheduler.tables(KEY, &DEVICE_TIME) {
        let ops = row.choice("op").map_or(&BOTH[..], |index| &BOTH[index..=index]);
        let (Some(size), Some(time)) = (row.number("size").map(Bytes), row.number("time")) else { continue };
        let time = std::time::Duration::from_nanos(time);
        for &op in ops {
            let measured = (DeviceTime { op, size, time }, row.line_of("size"));
            if let Some((_, line)) = rows.insert((op, size), measured) {
                let (op, size) = (op_name(op), Size(size));
                row.refuse("size", format!("line {line} also has a row for {op}s of {size}; remove one of them"));
            }
        }
    }
    let rows: Vec<DeviceTime> = rows.into_values().map(|(row, _)| row).collect();
    if scheduler.has(KEY) {
        let element = |row: &DeviceTime| {
            let (op, size, time) = (op_name(row.op), Size(row.size), Span(row.time));
            format!("{{ op = \"{op}\", size = \"{size}\", time = \"{time}\" }}")
        };
        scheduler.set_list(KEY, &rows.iter().map(element).collect::<Vec<_>>(), show(&rows));
    }
    rows
}

/// As text.
pub(crate) fn show(rows: &[DeviceTime]) -> String {
    let show = |row: &DeviceTime| format!("{} of {}: {}", op_name(row.op), Size(row.size), Span(row.time));
    rows.iter().map(show).collect::<Vec<_>>().join(", ")
}
