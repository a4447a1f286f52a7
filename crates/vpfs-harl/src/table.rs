//! The tables that a layout consists of: region stripe table and region to file map [HARL §III-E to G].

use std::ops::Range;

/// A region of a file and its stripes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Its bytes in the file.
    pub bytes: Range<u64>,
    /// The stripe of each class; 0 for a class that is not used.
    pub stripes: Vec<u64>,
}

/// The region stripe table (RST): rows that follow each other from byte 0. The last one also holds what is written
/// beyond its end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RegionStripeTable {
    rows: Vec<Row>,
}

/// Where bytes of the file lie: a piece of one region's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The row of the table, and so the number of the region's file.
    pub region: usize,
    /// Offset in the region's file.
    pub offset: u64,
    /// Bytes, not zero.
    pub size: u64,
}

impl RegionStripeTable {
    /// A table of regions, in the order of the file; neighbours with equal stripes become one.
    ///
    /// # Panics
    /// If the rows do not follow each other from 0, or one is empty.
    pub fn new(rows: impl IntoIterator<Item = Row>) -> Self {
        let mut merged: Vec<Row> = Vec::new();
        for row in rows {
            assert_eq!(row.bytes.start, merged.last().map_or(0, |last| last.bytes.end), "regions follow each other");
            assert!(!row.bytes.is_empty(), "a region has bytes");
            match merged.last_mut() {
                Some(last) if last.stripes == row.stripes => last.bytes.end = row.bytes.end,
                _ => merged.push(row),
            }
        }
        Self { rows: merged }
    }

    /// The rows, in the order of the file.
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// The name of each region's file (R2F): the file's name and the region's offset, which stays the same when other
    /// regions are divided anew.
    pub fn files(&self, name: &str) -> Vec<String> {
        self.rows.iter().map(|row| format!("{name}.region-{:016x}", row.bytes.start)).collect()
    }

    /// The pieces of `bytes` of the file, in order; none if the table is empty. O(log rows) and O(1) for each piece.
    pub fn pieces(&self, bytes: Range<u64>) -> impl Iterator<Item = Piece> {
        let first = self.rows.partition_point(|row| row.bytes.start <= bytes.start).saturating_sub(1);
        let last = self.rows.len().saturating_sub(1);
        self.rows.iter().enumerate().skip(first).map_while(move |(region, row)| {
            let end = if region == last { bytes.end } else { bytes.end.min(row.bytes.end) };
            let start = bytes.start.max(row.bytes.start);
            (start < end).then(|| Piece { region, offset: start - row.bytes.start, size: end - start })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn row(bytes: Range<u64>, stripes: [u64; 2]) -> Row {
        Row { bytes, stripes: stripes.to_vec() }
    }

    #[test]
    fn equal_neighbours_become_one_region() {
        let table =
            RegionStripeTable::new([row(0..10, [1, 2]), row(10..20, [1, 2]), row(20..30, [0, 2]), row(30..40, [1, 2])]);
        assert_eq!(table.rows(), [row(0..20, [1, 2]), row(20..30, [0, 2]), row(30..40, [1, 2])]);
        assert_eq!(table.files("a")[1], "a.region-0000000000000014");
    }

    #[test]
    fn the_last_region_has_no_end() {
        let table = RegionStripeTable::new([row(0..10, [1, 2]), row(10..20, [3, 4])]);
        let pieces: Vec<Piece> = table.pieces(5..100).collect();
        let piece = |region, offset, size| Piece { region, offset, size };
        assert_eq!(pieces, [piece(0, 5, 5), piece(1, 0, 90)]);
        assert_eq!(table.pieces(50..60).collect::<Vec<_>>(), [piece(1, 40, 10)]);
        assert_eq!(table.pieces(5..5).count(), 0);
        assert_eq!(RegionStripeTable::default().pieces(0..5).count(), 0);
    }

    proptest! {
        #[test]
        fn pieces_cover_each_byte_once(lengths in prop::collection::vec(1_u64..50, 1..9), start in 0_u64..300, size in 0_u64..300) {
            let mut at = 0;
            let rows = lengths.iter().enumerate().map(|(index, length)| {
                at += length;
                row(at - length..at, [index as u64, 1])
            });
            let table = RegionStripeTable::new(rows);
            let mut next = start;
            for piece in table.pieces(start..start + size) {
                prop_assert_eq!(table.rows()[piece.region].bytes.start + piece.offset, next);
                next += piece.size;
            }
            prop_assert_eq!(next, start + size);
        }
    }
}
