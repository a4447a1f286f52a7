//! The pattern of MPI-TILE-IO: a two-dimensional array in a shared file, one tile of it for each process.
//!
//! The rows of a tile are not consecutive in the file. Without collective I/O each process moves its own rows, several
//! with one strided call; with it, one process on each node moves consecutive pieces for all processes [IOCO §5.1-5.2].

use super::{
    Call, Extent, Phase, Plan, PlanError, Step, Steps, Strided, check_processes, in_step, node, refuse_if, shared_file,
};

/// Parameters of an MPI-TILE-IO-like run.
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
    /// The paper states neither tiles nor rows. The barrier is as in [`super::PioBench::paper`].
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

    /// The calls of one process for its own tile.
    fn own(&self, process: u32, call: fn(Strided) -> Call) -> Steps {
        let Self { row_bytes: block_bytes, rows_per_call: blocks, .. } = *self;
        let stride_bytes = u64::from(block_bytes) * u64::from(self.tiles_x);
        let (column, row) = (u64::from(process % self.tiles_x), u64::from(process / self.tiles_x));
        let first = row * self.requests * u64::from(blocks) * stride_bytes + column * u64::from(block_bytes);
        let request = move |index| {
            let offset = first + index * u64::from(blocks) * stride_bytes;
            call(Strided { file: shared_file::FILE, offset, block_bytes, stride_bytes, blocks })
        };
        in_step((0..self.requests).map(request), self.barrier)
    }

    /// The rounds of collective I/O: in each one, the first process of each node moves a piece, one after the other in
    /// the file.
    fn collective(&self, process: u32, call: fn(Extent) -> Call) -> Steps {
        let (bytes, nodes) = (self.call_bytes(), u64::from(self.nodes));
        let place = node::of_process(process, self.nodes, self.processes());
        let moves = node::first_process(place, self.nodes, self.processes()) == process;
        let pieces = self.requests * u64::from(self.processes());
        let piece = move |round: u64| {
            let index = round * nodes + u64::from(place);
            let bytes = u32::try_from(bytes).expect("checked by `validate`");
            let extent = Extent { file: shared_file::FILE, offset: index * u64::from(bytes), bytes };
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
        shared_file::check(self.write, self.read, self.requests)?;
        if self.nodes == 0 || self.nodes > processes {
            return Err(PlanError::new("nodes", "must be at least 1 and at most the number of processes"));
        }
        refuse_if(u32::try_from(self.call_bytes()).is_err(), "rows", "a call must be below 4GiB")?;
        shared_file::check_size("rows", u128::from(self.call_bytes()) * u128::from(processes), self.requests)
    }

    fn processes(&self) -> u32 {
        self.tiles_x * self.tiles_y
    }

    fn phases(&self) -> Vec<Phase> {
        shared_file::phases(self.write, self.read, self.keep)
    }

    fn steps(&self, phase: Phase, process: u32) -> Steps {
        match (phase, self.collective) {
            (Phase::Write, false) => self.own(process, Call::WriteStrided),
            (Phase::Write, true) => self.collective(process, Call::Write),
            (Phase::Read, false) => self.own(process, Call::ReadStrided),
            (Phase::Read, true) => self.collective(process, Call::Read),
            _ => shared_file::metadata(phase, process, self.write),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::plan::shared_file::testing;

    #[test]
    fn tiles_cover_the_array_once_collective_or_not() {
        for (collective, nodes) in [(false, 1), (true, 1), (true, 4), (true, 5)] {
            let plan = MpiTileIo { requests: 3, collective, nodes, ..MpiTileIo::paper(4, 3) };
            assert_eq!(plan.validate(), Ok(()));
            testing::covers(&plan, 12 * 3 * (128 << 10));
        }
    }

    #[test]
    fn a_tile_is_a_rectangle() {
        let plan = MpiTileIo { row_bytes: 10, rows_per_call: 2, requests: 1, ..MpiTileIo::paper(3, 2) };
        let offsets = |process| -> Vec<_> {
            testing::extents(&plan, Phase::Write, process).map(|extent| extent.offset).collect()
        };
        assert_eq!(offsets(1), [10, 40]);
        assert_eq!(offsets(5), [80, 110], "below the first row of tiles, which has 60 bytes");
    }

    #[test]
    fn only_one_process_of_each_node_moves_collective_data() {
        let plan = MpiTileIo { collective: true, nodes: 3, ..MpiTileIo::paper(4, 3) };
        let moving = |&process: &u32| testing::extents(&plan, Phase::Read, process).next().is_some();
        assert_eq!((0..12).filter(moving).collect::<Vec<_>>(), [0, 4, 8]);
    }

    #[test]
    fn refusals_name_the_option() {
        let option = |plan: MpiTileIo| plan.validate().map_err(|error| error.option);
        assert_eq!(option(MpiTileIo::paper(1 << 16, 1 << 16)), Err("tiles"));
        assert_eq!(option(MpiTileIo::paper(0, 4)), Err("processes"));
        assert_eq!(option(MpiTileIo { nodes: 9, ..MpiTileIo::paper(2, 4) }), Err("nodes"));
        assert_eq!(option(MpiTileIo { row_bytes: 0, ..MpiTileIo::paper(2, 4) }), Err("rows"));
        assert_eq!(option(MpiTileIo { row_bytes: 1 << 30, ..MpiTileIo::paper(2, 4) }), Err("rows"));
        assert_eq!(option(MpiTileIo { requests: u64::MAX, ..MpiTileIo::paper(2, 4) }), Err("requests"));
    }
}
