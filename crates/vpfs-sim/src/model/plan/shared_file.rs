//! Benchmarks on one shared file, which create, write, read and remove it.

use super::{
    Call, Dir, Extent, FileId, Phase, Plan, PlanError, Step, Steps, Strided, calls, check_processes,
    first_process_of_node, in_step, node_of_process, refuse_if,
};

pub(crate) const FILE: FileId = FileId { dir: Dir::Base, number: 0 };

/// The phases of a benchmark that does some or all of these.
pub(crate) fn phases(write: bool, read: bool, keep: bool) -> Vec<Phase> {
    let all = [
        (Phase::Create, write),
        (Phase::Open, true),
        (Phase::Write, write),
        (Phase::Read, read),
        (Phase::Remove, !keep),
    ];
    all.into_iter().filter_map(|(phase, wanted)| wanted.then_some(phase)).collect()
}

/// The metadata calls of a phase: the first process creates and removes the file, and each process that did not create
/// it opens it.
pub(crate) fn metadata(phase: Phase, process: u32, write: bool) -> Steps {
    let call = match phase {
        Phase::Create if process == 0 => Some(Call::Create(FILE)),
        Phase::Open if process != 0 || !write => Some(Call::Open(FILE)),
        Phase::Remove if process == 0 => Some(Call::Remove(FILE)),
        _ => None,
    };
    calls(call.into_iter())
}

pub(crate) fn check(write: bool, read: bool, requests: u64) -> Result<(), PlanError> {
    refuse_if(!write && !read, "write", "nothing to do; give --write, --read or both")?;
    refuse_if(requests == 0, "requests", "must be at least 1")?;
    Ok(())
}

/// Checks that a file of this many rounds is possible. `round` is the number of bytes that all processes together move
/// in one round, and `option` names the parameter to blame if it is zero.
fn check_size(option: &'static str, round: u128, rounds: u64) -> Result<(), PlanError> {
    refuse_if(round == 0, option, "must be at least 1B")?;
    let total = round.checked_mul(u128::from(rounds));
    match total.is_some_and(|total| i64::try_from(total).is_ok()) {
        true => Ok(()),
        false => Err(PlanError::new("requests", "the file would exceed the largest possible size")),
    }
}

/// Where the requests of a process are in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum PioPattern {
    /// One after the other: each process has a segment of the file.
    Segmented,
    /// Interleaved with the other processes, request by request: each round of requests is consecutive.
    Strided,
}

/// The patterns of PIO-Bench: every process reads or writes its part of a shared file, one request after the other.
///
/// [IOCO §5.1-5.2] uses its sequential reads and writes.
#[derive(Clone, Debug, serde::Serialize)]
pub struct PioBench {
    /// Number of processes.
    pub processes: u32,
    /// Bytes of one call.
    pub request_bytes: u32,
    /// Number of calls of each process in each phase.
    pub requests: u64,
    /// Where they are in the file.
    pub pattern: PioPattern,
    /// Whether to write.
    pub write: bool,
    /// Whether to read and verify; without `write`, a file that an earlier run with the same parameters kept.
    pub read: bool,
    /// Whether all processes wait for each other after each call.
    pub barrier: bool,
    /// Whether the file is kept.
    pub keep: bool,
}

impl PioBench {
    /// The paper's requests of 128 KiB, 64 by each process, interleaved, written and read [IOCO §5.2].
    ///
    /// The paper states neither the number of requests nor the pattern. It has a barrier between requests; it says so
    /// of IOR, and we assume it for all benchmarks whose requests it measures in the same way.
    pub const fn paper(processes: u32) -> Self {
        Self {
            processes,
            request_bytes: 128 << 10,
            requests: 64,
            pattern: PioPattern::Strided,
            write: true,
            read: true,
            barrier: true,
            keep: false,
        }
    }

    fn calls(&self, process: u32, call: fn(Extent) -> Call) -> Steps {
        let Self { processes, request_bytes: bytes, requests, pattern, .. } = *self;
        let (process, processes) = (u64::from(process), u64::from(processes));
        let place = move |index| match pattern {
            PioPattern::Segmented => process * requests + index,
            PioPattern::Strided => index * processes + process,
        };
        let extent = move |index| Extent { file: FILE, offset: place(index) * u64::from(bytes), bytes };
        in_step((0..requests).map(move |index| call(extent(index))), self.barrier)
    }
}

impl Plan for PioBench {
    fn validate(&self) -> Result<(), PlanError> {
        check_processes(self.processes)?;
        check(self.write, self.read, self.requests)?;
        let request = u128::from(self.request_bytes) * u128::from(self.processes);
        check_size("request", request, self.requests)
    }

    fn processes(&self) -> u32 {
        self.processes
    }

    fn phases(&self) -> Vec<Phase> {
        phases(self.write, self.read, self.keep)
    }

    fn steps(&self, phase: Phase, process: u32) -> Steps {
        match phase {
            Phase::Write => self.calls(process, Call::Write),
            Phase::Read => self.calls(process, Call::Read),
            _ => metadata(phase, process, self.write),
        }
    }
}

/// The pattern of MPI-TILE-IO: a two-dimensional array in a shared file, one tile of it for each process.
///
/// The rows of a tile are not consecutive in the file. Without collective I/O each process moves its own rows, several
/// with one strided call; with it, one process on each node moves consecutive pieces for all processes [IOCO §5.1-5.2].
#[derive(Clone, Debug, serde::Serialize)]
pub struct MpiTileIo {
    /// Number of tiles side by side.
    pub tiles_x: u32,
    /// Number of tiles one below the other; there are as many processes as tiles.
    pub tiles_y: u32,
    /// Bytes of one row of a tile.
    pub row_bytes: u32,
    /// Rows of a tile that one call moves.
    pub rows_per_call: u32,
    /// Number of calls for each tile.
    pub requests: u64,
    /// Whether one process on each node moves the data of all, in pieces of the same size as the calls otherwise.
    pub collective: bool,
    /// Number of nodes the processes run on, for collective I/O.
    pub nodes: u32,
    /// Whether to write.
    pub write: bool,
    /// Whether to read and verify; without `write`, a file that an earlier run with the same parameters kept.
    pub read: bool,
    /// Whether all processes wait for each other after each call. Collective I/O always has it.
    pub barrier: bool,
    /// Whether the file is kept.
    pub keep: bool,
}

impl MpiTileIo {
    /// The paper's requests of 128 KiB, as 32 rows of 4 KiB, 64 for each tile, not collective, written and read [IOCO
    /// §5.2].
    ///
    /// The paper states neither tiles nor rows. The barrier is as in [`PioBench::paper`].
    pub const fn paper(tiles_x: u32, tiles_y: u32) -> Self {
        Self {
            tiles_x,
            tiles_y,
            row_bytes: 4 << 10,
            rows_per_call: 32,
            requests: 64,
            collective: false,
            nodes: 1,
            write: true,
            read: true,
            barrier: true,
            keep: false,
        }
    }

    fn call_bytes(&self) -> u64 {
        u64::from(self.row_bytes) * u64::from(self.rows_per_call)
    }

    fn own(&self, process: u32, call: fn(Strided) -> Call) -> Steps {
        let Self { row_bytes: block_bytes, rows_per_call: blocks, .. } = *self;
        let stride_bytes = u64::from(block_bytes) * u64::from(self.tiles_x);
        let (column, row) = (u64::from(process % self.tiles_x), u64::from(process / self.tiles_x));
        let first = row * self.requests * u64::from(blocks) * stride_bytes + column * u64::from(block_bytes);
        let request = move |index| {
            let offset = first + index * u64::from(blocks) * stride_bytes;
            call(Strided { file: FILE, offset, block_bytes, stride_bytes, blocks })
        };
        in_step((0..self.requests).map(request), self.barrier)
    }

    /// The rounds of collective I/O: in each one, the first process of each node moves a piece, one after the other in
    /// the file.
    fn collective(&self, process: u32, call: fn(Extent) -> Call) -> Steps {
        let (bytes, nodes) = (self.call_bytes(), u64::from(self.nodes));
        let place = node_of_process(process, self.nodes, self.processes());
        let moves = first_process_of_node(place, self.nodes, self.processes()) == process;
        let pieces = self.requests * u64::from(self.processes());
        let piece = move |round: u64| {
            let index = round * nodes + u64::from(place);
            let bytes = u32::try_from(bytes).expect("checked by `validate`");
            let extent = Extent { file: FILE, offset: index * u64::from(bytes), bytes };
            (moves && index < pieces).then_some(Step::Call(call(extent)))
        };
        Box::new((0..pieces.div_ceil(nodes)).flat_map(move |round| piece(round).into_iter().chain([Step::Barrier])))
    }
}

impl Plan for MpiTileIo {
    fn validate(&self) -> Result<(), PlanError> {
        let Some(processes) = self.tiles_x.checked_mul(self.tiles_y) else {
            return Err(PlanError::new("tiles", "exceed the largest number of processes"));
        };
        check_processes(processes)?;
        check(self.write, self.read, self.requests)?;
        if self.nodes == 0 || self.nodes > processes {
            return Err(PlanError::new("nodes", "must be at least 1 and at most the number of processes"));
        }
        refuse_if(u32::try_from(self.call_bytes()).is_err(), "rows", "a call must be below 4GiB")?;
        check_size("rows", u128::from(self.call_bytes()) * u128::from(processes), self.requests)
    }

    fn processes(&self) -> u32 {
        self.tiles_x * self.tiles_y
    }

    fn phases(&self) -> Vec<Phase> {
        phases(self.write, self.read, self.keep)
    }

    fn steps(&self, phase: Phase, process: u32) -> Steps {
        match (phase, self.collective) {
            (Phase::Write, false) => self.own(process, Call::WriteStrided),
            (Phase::Write, true) => self.collective(process, Call::Write),
            (Phase::Read, false) => self.own(process, Call::ReadStrided),
            (Phase::Read, true) => self.collective(process, Call::Read),
            _ => metadata(phase, process, self.write),
        }
    }
}

/// The pattern of Noncontig: a vector of small blocks for each process, interleaved with those of the others.
///
/// Each call moves a fixed number of bytes that lie in equal pieces, one in each row of the file [IOCO §5.1-5.2].
#[derive(Clone, Debug, serde::Serialize)]
pub struct Noncontig {
    /// Number of processes, which is the number of blocks in a row of the file.
    pub processes: u32,
    /// Bytes of one block.
    pub block_bytes: u32,
    /// Number of blocks moved by one call.
    pub blocks: u32,
    /// Number of calls of each process in each phase.
    pub requests: u64,
    /// Whether to write.
    pub write: bool,
    /// Whether to read and verify; without `write`, a file that an earlier run with the same parameters kept.
    pub read: bool,
    /// Whether all processes wait for each other after each call.
    pub barrier: bool,
    /// Whether the file is kept.
    pub keep: bool,
}

impl Noncontig {
    /// The paper's requests of 128 KiB, in 32 pieces of 4 KiB, 64 by each process, written and read [IOCO §5.2].
    ///
    /// The paper states neither the pieces nor their number. 4 KiB is its stripe size. The barrier is as in
    /// [`PioBench::paper`].
    pub const fn paper(processes: u32) -> Self {
        Self {
            processes,
            block_bytes: 4 << 10,
            blocks: 32,
            requests: 64,
            write: true,
            read: true,
            barrier: true,
            keep: false,
        }
    }

    fn calls(&self, process: u32, call: fn(Strided) -> Call) -> Steps {
        let Self { block_bytes, blocks, .. } = *self;
        let stride_bytes = u64::from(block_bytes) * u64::from(self.processes);
        let column = u64::from(process) * u64::from(block_bytes);
        let request = move |index| {
            let offset = index * u64::from(blocks) * stride_bytes + column;
            call(Strided { file: FILE, offset, block_bytes, stride_bytes, blocks })
        };
        in_step((0..self.requests).map(request), self.barrier)
    }
}

impl Plan for Noncontig {
    fn validate(&self) -> Result<(), PlanError> {
        check_processes(self.processes)?;
        check(self.write, self.read, self.requests)?;
        refuse_if(self.blocks == 0, "blocks", "must be at least 1")?;
        let row = u128::from(self.block_bytes) * u128::from(self.processes);
        check_size("block", row * u128::from(self.blocks), self.requests)
    }

    fn processes(&self) -> u32 {
        self.processes
    }

    fn phases(&self) -> Vec<Phase> {
        phases(self.write, self.read, self.keep)
    }

    fn steps(&self, phase: Phase, process: u32) -> Steps {
        match phase {
            Phase::Write => self.calls(process, Call::WriteStrided),
            Phase::Read => self.calls(process, Call::ReadStrided),
            _ => metadata(phase, process, self.write),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All calls of a process in a phase.
    fn extents(plan: &dyn Plan, phase: Phase, process: u32) -> impl Iterator<Item = Extent> {
        let extents = |step| match step {
            Step::Call(call) => call.extents().collect::<Vec<_>>(),
            _ => Vec::new(),
        };
        plan.steps(phase, process).flat_map(extents)
    }

    /// Asserts that writes, and reads, cover `0..total` without gap or overlap, each process reads what it wrote, and
    /// all processes have the same barriers.
    fn covers(plan: &dyn Plan, total: u64) {
        let barriers = |process| plan.steps(Phase::Write, process).filter(|step| *step == Step::Barrier).count();
        let mut all = Vec::new();
        for process in 0..plan.processes() {
            let written: Vec<_> = extents(plan, Phase::Write, process).collect();
            assert_eq!(written, extents(plan, Phase::Read, process).collect::<Vec<_>>());
            assert_eq!(barriers(process), barriers(0));
            all.extend(written);
        }
        all.sort_by_key(|extent| extent.offset);
        let end = all.iter().try_fold(0, |at, e| (e.offset == at).then(|| at + u64::from(e.bytes)));
        assert_eq!(end, Some(total));
    }

    #[test]
    fn every_pattern_covers_the_file_once() {
        for pattern in [PioPattern::Segmented, PioPattern::Strided] {
            let plan = PioBench { requests: 5, pattern, ..PioBench::paper(8) };
            assert_eq!(plan.validate(), Ok(()));
            covers(&plan, 8 * 5 * (128 << 10));
        }
    }

    #[test]
    fn patterns_differ_in_consecutive_requests() {
        let offsets = |pattern| {
            let plan = PioBench { request_bytes: 10, requests: 3, pattern, ..PioBench::paper(2) };
            extents(&plan, Phase::Write, 1).map(|extent| extent.offset).collect::<Vec<_>>()
        };
        assert_eq!(offsets(PioPattern::Segmented), [30, 40, 50]);
        assert_eq!(offsets(PioPattern::Strided), [10, 30, 50]);
    }

    #[test]
    fn tiles_cover_the_array_once_collective_or_not() {
        for (collective, nodes) in [(false, 1), (true, 1), (true, 4), (true, 5)] {
            let plan = MpiTileIo { requests: 3, collective, nodes, ..MpiTileIo::paper(4, 3) };
            assert_eq!(plan.validate(), Ok(()));
            covers(&plan, 12 * 3 * (128 << 10));
        }
    }

    #[test]
    fn a_tile_is_a_rectangle() {
        let plan = MpiTileIo { row_bytes: 10, rows_per_call: 2, requests: 1, ..MpiTileIo::paper(3, 2) };
        let offsets =
            |process| -> Vec<_> { extents(&plan, Phase::Write, process).map(|extent| extent.offset).collect() };
        assert_eq!(offsets(1), [10, 40]);
        assert_eq!(offsets(5), [80, 110], "below the first row of tiles, which has 60 bytes");
    }

    #[test]
    fn only_one_process_of_each_node_moves_collective_data() {
        let plan = MpiTileIo { collective: true, nodes: 3, ..MpiTileIo::paper(4, 3) };
        let moving = |&process: &u32| extents(&plan, Phase::Read, process).next().is_some();
        assert_eq!((0..12).filter(moving).collect::<Vec<_>>(), [0, 4, 8]);
    }

    #[test]
    fn the_columns_of_all_processes_cover_the_file_once() {
        let plan = Noncontig { requests: 3, ..Noncontig::paper(8) };
        assert_eq!(plan.validate(), Ok(()));
        covers(&plan, 8 * 3 * (128 << 10));
    }

    #[test]
    fn a_call_is_a_column_of_blocks() {
        let plan = Noncontig { block_bytes: 10, blocks: 2, requests: 2, barrier: false, ..Noncontig::paper(3) };
        let offsets: Vec<_> = extents(&plan, Phase::Read, 1).map(|extent| extent.offset).collect();
        assert_eq!(offsets, [10, 40, 70, 100]);
        assert_eq!(plan.steps(Phase::Read, 1).count(), 2);
    }
}
