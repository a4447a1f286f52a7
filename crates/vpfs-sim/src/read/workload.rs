//! `[app.ior]` and the other workloads.

use vpfs_config::Table;
use vpfs_plan::{Btio, BtioClass, FileMode, Ior, Md, Order, PlanError};

use super::{is_on, keys};
use crate::scenario::Workload;

/// The workload of an application; `None` if there is not exactly one.
pub(super) fn read(app: &Table<'_>, nodes: u32) -> Option<Workload> {
    const KINDS: [&str; 3] = ["ior", "btio", "md"];
    let given: Vec<&str> = KINDS.into_iter().filter(|kind| app.has(kind)).collect();
    let [kind] = given[..] else {
        app.refuse("name", format!("needs one workload: [app.{}]", KINDS.join("], [app.")));
        return None;
    };
    let (table, workload) = match kind {
        "ior" => (app.table(kind, &keys::IOR), Workload::Ior(read_ior(&app.table(kind, &keys::IOR)))),
        "btio" => (app.table(kind, &keys::BTIO), Workload::Btio(read_btio(&app.table(kind, &keys::BTIO), nodes))),
        _ => (app.table(kind, &keys::MD), Workload::Md(read_md(&app.table(kind, &keys::MD)))),
    };
    if let Err(PlanError { option, problem }) = workload.validate() {
        table.refuse(option, problem);
    }
    Some(workload)
}

fn read_ior(table: &Table<'_>) -> Ior {
    let number = |key| table.number(key).unwrap_or(1);
    Ior {
        processes: table.count("processes").unwrap_or(1),
        transfer_bytes: u32::try_from(number("transfer")).unwrap_or(u32::MAX),
        block_bytes: number("block"),
        segments: number("segments"),
        file_mode: if table.choice("file") == Some(1) { FileMode::PerProcess } else { FileMode::Shared },
        order: if table.choice("order") == Some(1) { Order::Random } else { Order::Sequential },
        write: is_on(table, "write"),
        read: is_on(table, "read"),
        mixed: false,
        start_offset_bytes: 0,
        barrier: false,
        read_shift: 0,
        fsync: is_on(table, "fsync"),
        keep: false,
        time_limit: table.duration("time_limit"),
        seed: 0,
    }
}

fn read_btio(table: &Table<'_>, nodes: u32) -> Btio {
    let class = Btio::class(if table.choice("class") == Some(1) { BtioClass::C } else { BtioClass::A });
    Btio {
        processes: table.count("processes").unwrap_or(class.processes),
        nodes,
        iterations: table.count("iterations").unwrap_or(class.iterations),
        total_bytes: table.number("total").unwrap_or(class.total_bytes),
        think_write: table.duration("think_write").unwrap_or(class.think_write),
        think_read: table.duration("think_read").unwrap_or(class.think_read),
        read: is_on(table, "read"),
        ..class
    }
}

fn read_md(table: &Table<'_>) -> Md {
    Md {
        processes: table.count("processes").unwrap_or(1),
        items: table.count("items").unwrap_or(1),
        listings: table.count("listings").unwrap_or(0),
        shared_directory: is_on(table, "shared_directory"),
        data: None,
    }
}
