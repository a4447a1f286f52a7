//! `[app.ior]` and the other workloads.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use vpfs_config::Table;
use vpfs_harl::{Log, Op, Request};

use super::{Files, is_on, keys};
use crate::model::plan::{
    Btio, BtioClass, Call, Dir, Extent, FileId, FileMode, Interactive, Ior, Md, MdData, MpiTileIo, Noncontig, Order,
    Pace, Paced, PioBench, PioPattern, PlanError, Replay, Step, Wrf,
};
use crate::scenario::Workload;

/// The workload of an application; `None` if there is not exactly one.
pub(super) fn read(app: &Table<'_>, nodes: u32, files: &Files<'_>) -> Option<Workload> {
    const KINDS: [&str; 10] =
        ["ior", "btio", "md", "wrf", "pio", "tile", "noncontig", "paced", "interactive", "replay"];
    let given: Vec<&str> = KINDS.into_iter().filter(|kind| app.has(kind)).collect();
    let [kind] = given[..] else {
        app.refuse("name", format!("needs one workload: [app.{}]", KINDS.join("], [app.")));
        return None;
    };
    let section = match kind {
        "ior" => &keys::IOR,
        "btio" => &keys::BTIO,
        "md" => &keys::MD,
        "wrf" => &keys::WRF,
        "pio" => &keys::PIO,
        "tile" => &keys::TILE,
        "noncontig" => &keys::NONCONTIG,
        "paced" => &keys::PACED,
        "interactive" => &keys::INTERACTIVE,
        _ => &keys::REPLAY,
    };
    let table = app.table(kind, section);
    let workload: Workload = match kind {
        "ior" => read_ior(&table).into(),
        "btio" => read_btio(&table, nodes).into(),
        "md" => read_md(&table).into(),
        "wrf" => read_wrf(&table).into(),
        "pio" => read_pio(&table).into(),
        "tile" => read_tile(&table, nodes).into(),
        "noncontig" => read_noncontig(&table).into(),
        "paced" => read_paced(&table).into(),
        "interactive" => read_interactive(&table).into(),
        _ => Workload::Plan(Arc::new(read_replay(&table, files)?)),
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
        transfer_bytes: call_bytes(number("transfer")),
        block_bytes: number("block"),
        segments: number("segments"),
        file_mode: if table.choice("file") == Some(1) { FileMode::PerProcess } else { FileMode::Shared },
        order: if table.choice("order") == Some(1) { Order::Random } else { Order::Sequential },
        write: is_on(table, "write"),
        read: is_on(table, "read"),
        mixed: is_on(table, "mixed"),
        start_offset_bytes: 0,
        barrier: is_on(table, "barrier"),
        read_shift: 0,
        fsync: is_on(table, "fsync"),
        keep: false,
        time_limit: table.duration("time_limit"),
        seed: 0,
    }
}

fn read_btio(table: &Table<'_>, nodes: u32) -> Btio {
    let class = Btio::class(if table.choice("class") == Some(1) { BtioClass::C } else { BtioClass::A });
    let transfer = table.number("transfer").map(call_bytes);
    Btio {
        processes: table.count("processes").unwrap_or(class.processes),
        nodes,
        iterations: table.count("iterations").unwrap_or(class.iterations),
        total_bytes: table.number("total").unwrap_or(class.total_bytes),
        transfer_min_bytes: transfer.unwrap_or(class.transfer_min_bytes),
        transfer_max_bytes: transfer.unwrap_or(class.transfer_max_bytes),
        think_write: table.duration("think_write").unwrap_or(class.think_write),
        think_read: table.duration("think_read").unwrap_or(class.think_read),
        read: is_on(table, "read"),
        ..class
    }
}

/// The bytes of a call; the table has checked their range.
fn call_bytes(bytes: u64) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

fn read_md(table: &Table<'_>) -> Md {
    let transfer_bytes = call_bytes(table.number("transfer").unwrap_or(u64::MAX));
    Md {
        processes: table.count("processes").unwrap_or(1),
        items: table.count("items").unwrap_or(1),
        listings: table.count("listings").unwrap_or(0),
        shared_directory: is_on(table, "shared_directory"),
        data: table.number("data").map(|bytes| MdData { bytes, transfer_bytes }),
    }
}

fn read_wrf(table: &Table<'_>) -> Wrf {
    let mut all = Wrf::PAPER;
    if let Some(minute) = table.number("data") {
        let bytes = minute.saturating_mul(all.forecast_minutes.into());
        all.output_bytes = bytes / 11;
        all.restart_bytes = bytes - all.output_bytes;
    }
    let paper = all.with_minutes(table.count("minutes").unwrap_or(Wrf::PAPER.forecast_minutes));
    Wrf {
        processes: table.count("processes").unwrap_or(paper.processes),
        think: table.duration("think").unwrap_or(paper.think),
        stats_per_transfer: table.count("stats").unwrap_or(paper.stats_per_transfer),
        ..paper
    }
}

fn read_pio(table: &Table<'_>) -> PioBench {
    let paper = PioBench::paper(table.count("processes").unwrap_or(1));
    PioBench {
        request_bytes: call_bytes(table.number("request").unwrap_or(u64::MAX)),
        requests: table.number("requests").unwrap_or(paper.requests),
        pattern: if table.choice("pattern") == Some(0) { PioPattern::Segmented } else { PioPattern::Strided },
        write: is_on(table, "write"),
        read: is_on(table, "read"),
        barrier: is_on(table, "barrier"),
        ..paper
    }
}

fn read_tile(table: &Table<'_>, nodes: u32) -> MpiTileIo {
    let tiles = |key| table.count(key).unwrap_or(1);
    MpiTileIo {
        collective: is_on(table, "collective"),
        nodes,
        write: is_on(table, "write"),
        read: is_on(table, "read"),
        barrier: is_on(table, "barrier"),
        ..MpiTileIo::paper(tiles("tiles_x"), tiles("tiles_y"))
    }
}

fn read_paced(table: &Table<'_>) -> Paced {
    let rate = table.number("rate").unwrap_or(0);
    let on = table.duration("on");
    if on.is_some() && table.has("to") {
        table.refuse("to", "has no effect with on; remove one of them");
    }
    if on.is_none() && table.has("off") {
        table.refuse("off", "has no effect without on; add it or remove this");
    }
    let pace = match on {
        Some(on) => Pace::OnOff { rate, on, off: table.duration("off").unwrap_or(on) },
        None => Pace::Ramp { from: rate, to: table.number("to").unwrap_or(rate) },
    };
    Paced {
        processes: table.count("processes").unwrap_or(1),
        transfer_bytes: call_bytes(table.number("transfer").unwrap_or(1)),
        pace,
        time: table.duration("time").unwrap_or_default(),
        read: is_on(table, "read"),
    }
}

fn read_interactive(table: &Table<'_>) -> Interactive {
    Interactive {
        processes: table.count("processes").unwrap_or(1),
        transfer_bytes: call_bytes(table.number("transfer").unwrap_or(1)),
        file_bytes: table.number("file").unwrap_or(u64::MAX),
        think: table.duration("think").unwrap_or_default(),
        time: table.duration("time").unwrap_or(Duration::MAX),
        read: is_on(table, "read"),
        fills: true,
        seed: 0,
    }
}

/// `None` if there is no such log.
fn read_replay(table: &Table<'_>, files: &Files<'_>) -> Option<Replay> {
    let log = (files.log)(table.text("log")?).map_err(|problem| table.refuse("log", problem)).ok()?;
    Some(replay(&log))
}

fn read_noncontig(table: &Table<'_>) -> Noncontig {
    Noncontig {
        write: is_on(table, "write"),
        read: is_on(table, "read"),
        barrier: is_on(table, "barrier"),
        ..Noncontig::paper(table.count("processes").unwrap_or(1))
    }
}

/// The largest call; Linux moves no more than 2 GiB at once.
const CALL: u64 = 1 << 30;

/// A log of a run as a plan. Each rank is a process. Between its calls it computes as long as it did in the run; if the
/// log does not say when calls ended, it makes each of them at the time of the log, or later if those before it take
/// longer.
///
/// O(n log n) in requests.
pub(super) fn replay(log: &Log) -> Replay {
    let mut ranks: BTreeMap<u32, Vec<(Request, u32)>> = BTreeMap::new();
    for (file, requests) in (0..).zip(log.files.values()) {
        requests.iter().for_each(|request| ranks.entry(request.rank).or_default().push((*request, file)));
    }
    let all = || log.files.values().flatten();
    let begin = all().map(|request| request.start).min().unwrap_or(0);
    let has_ends = all().any(|request| request.end > request.start);
    Replay::new(ranks.into_values().map(|mut requests| {
        requests.sort_by_key(|(request, file)| (request.start, request.end, *file, request.offset));
        steps(&requests, begin, has_ends)
    }))
}

fn steps(requests: &[(Request, u32)], begin: u64, has_ends: bool) -> Vec<Step> {
    let (mut steps, mut ended) = (Vec::with_capacity(2 * requests.len()), begin);
    for (index, (request, file)) in requests.iter().enumerate() {
        let pause = Duration::from_nanos(request.start.saturating_sub(ended));
        match has_ends && index > 0 {
            true if pause.is_zero() => {}
            true => steps.push(Step::Think(pause)),
            false => steps.push(Step::Until(Duration::from_nanos(request.start - begin))),
        }
        ended = ended.max(request.end);
        steps.extend(calls(request, FileId { dir: Dir::Base, number: *file }));
    }
    steps
}

fn calls(request: &Request, file: FileId) -> impl Iterator<Item = Step> {
    let Request { op, offset, size, .. } = *request;
    (0..size.div_ceil(CALL)).map(move |piece| {
        let bytes = u32::try_from(CALL.min(size - piece * CALL)).expect("at most a call");
        let extent = Extent { file, offset: offset + piece * CALL, bytes };
        Step::Call(if op == Op::Write { Call::Write(extent) } else { Call::Read(extent) })
    })
}

#[cfg(test)]
mod tests {
    use vpfs_harl::LogReader;

    use super::*;
    use crate::model::plan::{Phase, Plan};

    fn replayed(text: &str) -> Vec<Vec<Step>> {
        let mut reader = LogReader::default();
        text.lines().for_each(|line| reader.line(line.as_bytes()).expect("a line of a log"));
        let replay = replay(&reader.finish().expect("a log"));
        (0..replay.processes()).map(|process| replay.steps(Phase::Mixed, process).collect()).collect()
    }

    fn call(number: u32, is_write: bool, offset: u64, bytes: u32) -> Step {
        let extent = Extent { file: FileId { dir: Dir::Base, number }, offset, bytes };
        Step::Call(if is_write { Call::Write(extent) } else { Call::Read(extent) })
    }

    const MS: fn(u64) -> Duration = Duration::from_millis;

    #[test]
    fn processes_compute_as_long_as_they_did() {
        let log = "rank,op,offset,size,time,end,file\n7,w,0,10,5.5,5.6,b\n2,r,4,6,5,5.1,a\n2,w,0,9,5.05,5.3,b\n2,r,1,2,5.4,5.5,a\n";
        let expected = [
            vec![
                Step::Until(MS(0)),
                call(0, false, 4, 6),
                call(1, true, 0, 9),
                Step::Think(MS(100)),
                call(0, false, 1, 2),
            ],
            vec![Step::Until(MS(500)), call(1, true, 0, 10)],
        ];
        assert_eq!(replayed(log), expected);
    }

    #[test]
    fn without_ends_calls_have_the_times_of_the_log() {
        let log =
            "fio version 3 iolog\n1000 a write 0 65536\n3000 a read 0 65536\nfio version 3 iolog\n2000 a read 7 9\n";
        let expected = [
            vec![Step::Until(MS(0)), call(0, true, 0, 65_536), Step::Until(MS(2)), call(0, false, 0, 65_536)],
            vec![Step::Until(MS(1)), call(0, false, 7, 9)],
        ];
        assert_eq!(replayed(log), expected);
    }

    #[test]
    fn larger_requests_are_several_calls() {
        let steps = &replayed("op,offset,size\nw,5,2147483650\n")[0];
        let expected = [call(0, true, 5, 1 << 30), call(0, true, 5 + CALL, 1 << 30), call(0, true, 5 + 2 * CALL, 2)];
        assert_eq!(steps[1..], expected);
    }
}
