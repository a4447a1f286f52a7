//! Bulk transfers: how the bytes of an I/O are cut into data messages (docs/protocols/orangefs.md, chunks).
//!
//! Both ends compute the same cuts from the request and the configuration; nothing on the wire marks them.

use vpfs_wire::pvfs2::TransferError;
use vpfs_wire::pvfs2::transfer::TransferPiece;

/// Cuts the first `total` bytes of a transfer into chunks of exactly `buffer` bytes, the last one shorter.
/// Pieces are cut where a chunk ends.
pub(crate) fn chunks<I>(pieces: I, total: u64, buffer: u64) -> Chunks<I>
where
    I: Iterator<Item = Result<TransferPiece, TransferError>>,
{
    Chunks { pieces, rest: None, left: total, buffer: buffer.max(1) }
}

/// Iterator of [`chunks`].
#[derive(Debug)]
pub(crate) struct Chunks<I> {
    pieces: I,
    /// The rest of a piece that did not fit into the last chunk.
    rest: Option<TransferPiece>,
    /// Bytes not yet returned.
    left: u64,
    buffer: u64,
}

/// The contents of one data message, in wire order.
pub(crate) type Chunk = Vec<TransferPiece>;

impl<I: Iterator<Item = Result<TransferPiece, TransferError>>> Iterator for Chunks<I> {
    type Item = Result<Chunk, TransferError>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut room = self.buffer.min(self.left);
        if room == 0 {
            return None;
        }
        let mut chunk = Chunk::new();
        while room > 0 {
            let piece = match self.rest.take().map(Ok).or_else(|| self.pieces.next())? {
                Ok(piece) => piece,
                Err(error) => {
                    self.left = 0;
                    return Some(Err(error));
                }
            };
            let (head, rest) = split(piece, room);
            self.rest = rest;
            room -= head.len;
            self.left -= head.len;
            chunk.push(head);
        }
        Some(Ok(chunk))
    }
}

/// The first `len` bytes of a piece, and what is left of it.
fn split(piece: TransferPiece, len: u64) -> (TransferPiece, Option<TransferPiece>) {
    if piece.len <= len {
        return (piece, None);
    }
    let rest = TransferPiece {
        physical: piece.physical + len,
        len: piece.len - len,
        access_offset: piece.access_offset + len,
        wire_offset: piece.wire_offset + len,
    };
    (TransferPiece { len, ..piece }, Some(rest))
}

/// Bytes of a chunk.
pub(crate) fn chunk_len(chunk: &[TransferPiece]) -> u64 {
    chunk.iter().map(|piece| piece.len).sum()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use vpfs_wire::pvfs2::{Dist, Preq, Transfer};

    use super::*;

    proptest! {
        #[test]
        fn chunks_are_full_and_lose_nothing(
            strip_size in 1i64..100, servers in 1u32..5, offset in 0i64..1000, size in 0i64..2000, buffer in 1u64..300,
        ) {
            for server in 0..servers {
                let dist = Dist::SimpleStripe { strip_size };
                let transfer = Transfer::new(&dist, server, servers, &Preq::contiguous(), offset, size).unwrap();
                let total = transfer.write_bytes().unwrap();
                let chunks: Vec<Chunk> = chunks(transfer.pieces(), total, buffer).map(Result::unwrap).collect();
                let bytes = |pieces: &mut dyn Iterator<Item = TransferPiece>| -> Vec<[u64; 3]> {
                    pieces.flat_map(|p| (0..p.len).map(move |i| [p.physical + i, p.access_offset + i, p.wire_offset + i]))
                        .collect()
                };
                let whole = bytes(&mut transfer.pieces().map(Result::unwrap));
                prop_assert_eq!(bytes(&mut chunks.iter().flatten().copied()), whole);
                let lens: Vec<u64> = chunks.iter().map(|chunk| chunk_len(chunk)).collect();
                prop_assert_eq!(lens.iter().sum::<u64>(), total);
                if let Some((last, full)) = lens.split_last() {
                    prop_assert!(full.iter().all(|len| *len == buffer) && (1..=buffer).contains(last));
                }
            }
        }
    }
}
