//! Bytes to send to one side.

use std::collections::VecDeque;
use std::io::IoSlice;

use bytes::{Buf, Bytes};

/// A queue of shared buffers: nothing is copied between the receiving and the sending socket. Some of its bytes may be
/// only in the driver's pipes, see [`Session::passed`](crate::session::Session::passed).
#[derive(Debug, Default)]
pub struct Outbound {
    chunks: VecDeque<Chunk>,
    len: usize,
    sent: u64,
}

#[derive(Debug)]
enum Chunk {
    Read(Bytes),
    /// The next of this number of bytes in the driver's pipes.
    Piped(usize),
}

impl Chunk {
    fn len(&self) -> usize {
        match self {
            Self::Read(bytes) => bytes.len(),
            Self::Piped(len) => *len,
        }
    }

    fn advance(&mut self, count: usize) {
        match self {
            Self::Read(bytes) => bytes.advance(count),
            Self::Piped(len) => *len -= count,
        }
    }
}

/// Bytes of memory that a chunk takes up besides its content.
const CHUNK_BYTES: usize = 64;

/// An empty queue frees its table if that has room for more chunks than this: thousands of connections may be idle.
const KEPT_CHUNKS: usize = 32;

impl Outbound {
    pub(crate) fn push(&mut self, chunk: Bytes) {
        if !chunk.is_empty() {
            self.len += chunk.len();
            self.chunks.push_back(Chunk::Read(chunk));
        }
    }

    pub(crate) fn pipe(&mut self, count: usize) {
        self.len += count;
        match self.chunks.back_mut() {
            Some(Chunk::Piped(len)) => *len += count,
            _ if count > 0 => self.chunks.push_back(Chunk::Piped(count)),
            _ => {}
        }
    }

    pub(crate) fn clear(&mut self) {
        self.chunks = VecDeque::new();
        self.len = 0;
    }

    pub(crate) fn sent(&self) -> u64 {
        self.sent
    }

    /// The number of bytes waiting.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Bytes of memory that the waiting chunks take up: for many small chunks, far more than [`Outbound::len`]. O(1).
    pub fn held(&self) -> usize {
        self.len + self.chunks.len() * CHUNK_BYTES
    }

    /// Whether no bytes are waiting.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The number of bytes to send next that are in the driver's pipes; zero if others are before them.
    pub fn piped(&self) -> usize {
        if let Some(Chunk::Piped(len)) = self.chunks.front() { *len } else { 0 }
    }

    /// Fills `slices` for a vectored write of what is before the bytes in pipes, and returns how many were filled.
    pub fn slices<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        let mut filled = 0;
        for (slice, chunk) in slices.iter_mut().zip(&self.chunks) {
            let Chunk::Read(bytes) = chunk else { break };
            *slice = IoSlice::new(bytes);
            filled += 1;
        }
        filled
    }

    /// `count` bytes were sent.
    ///
    /// # Panics
    /// If more were sent than are waiting: a bug of the driver.
    pub fn advance(&mut self, mut count: usize) {
        assert!(count <= self.len, "sent more bytes than were queued");
        self.len -= count;
        self.sent += count as u64;
        while let Some(front) = self.chunks.front_mut() {
            if count < front.len() {
                front.advance(count);
                return;
            }
            count -= front.len();
            self.chunks.pop_front();
        }
        assert_eq!(self.len, 0, "an empty queue has no bytes");
        if self.chunks.capacity() > KEPT_CHUNKS {
            self.chunks = VecDeque::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partial_writes_keep_the_rest() {
        let mut out = Outbound::default();
        out.push(Bytes::from_static(b"hello "));
        out.push(Bytes::new());
        out.push(Bytes::from_static(b"world"));
        out.advance(8);
        assert_eq!((out.len(), out.held()), (3, 3 + CHUNK_BYTES));
        let mut slices = [IoSlice::new(&[]); 4];
        assert_eq!(out.slices(&mut slices), 1);
        assert_eq!(&*slices[0], b"rld");
        out.advance(3);
        assert!(out.is_empty());
    }

    #[test]
    fn slices_are_as_many_as_there_is_room_for() {
        let mut out = Outbound::default();
        out.push(Bytes::new());
        assert_eq!(out.slices(&mut [IoSlice::new(&[])]), 0);
        for chunk in [&b"a"[..], b"bc", b"d"] {
            out.push(Bytes::from_static(chunk));
        }
        let mut slices = [IoSlice::new(&[]); 2];
        assert_eq!(out.slices(&mut slices), 2);
        assert_eq!((&*slices[0], &*slices[1]), (&b"a"[..], &b"bc"[..]));
        assert_eq!(out.slices(&mut []), 0);
        out.advance(0);
        out.clear();
        assert!(out.is_empty() && out.slices(&mut [IoSlice::new(&[])]) == 0);
    }

    #[test]
    fn bytes_in_pipes_have_their_place_in_the_queue() {
        let mut out = Outbound::default();
        out.push(Bytes::from_static(b"abc"));
        out.pipe(5);
        out.pipe(2);
        out.pipe(0);
        out.push(Bytes::from_static(b"de"));
        assert_eq!((out.len(), out.piped(), out.held()), (12, 0, 12 + 3 * CHUNK_BYTES));
        let mut slices = [IoSlice::new(&[]); 4];
        assert_eq!(out.slices(&mut slices), 1);
        assert_eq!(&*slices[0], b"abc");
        out.advance(4);
        assert_eq!((out.len(), out.piped(), out.sent()), (8, 6, 4));
        assert_eq!(out.slices(&mut [IoSlice::new(&[])]), 0);
        out.advance(7);
        assert_eq!((out.len(), out.piped()), (1, 0));
        let mut slices = [IoSlice::new(&[]); 4];
        assert_eq!(out.slices(&mut slices), 1);
        assert_eq!(&*slices[0], b"e");
    }

    /// Symptom: a connection that once had a million bytes queued one by one kept 32 MB. Cause: the queue of chunks
    /// kept its capacity.
    #[test]
    fn an_empty_queue_keeps_no_large_table() {
        let mut out = Outbound::default();
        (0..2 * KEPT_CHUNKS).for_each(|_| out.push(Bytes::from_static(b"a")));
        out.advance(2 * KEPT_CHUNKS);
        assert!(out.is_empty() && out.chunks.capacity() <= KEPT_CHUNKS);
    }
}
