//! Whole BMI messages over a byte stream, both directions (docs/protocols/orangefs.md, transport).

use std::collections::VecDeque;
use std::io;
use std::io::IoSlice;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpSocket;
use tokio::sync::mpsc;
use tokio::time::timeout;
use vpfs_protocol::wire::bmi::{Header, Tag, TooLong};
use vpfs_protocol::wire::pvfs2::TransferError;
use vpfs_protocol::wire::pvfs2::transfer::TransferPiece;
use vpfs_protocol::wire::{DecodeError, bmi};

/// Buffer space for each read when the size of what follows is not known.
const READ_AHEAD: usize = 32 << 10;

/// A socket for a connection from or to `address`. What it sends over the loopback is not paced: no link has a queue to
/// keep short there, and where the host's default is BBR, data that follows small messages waits for milliseconds, for
/// which a paused clock does not stop.
pub fn socket_for(address: SocketAddr) -> io::Result<TcpSocket> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    if address.ip().is_loopback() {
        // Every kernel has this one. If it is forbidden, only time is lost.
        let _ = SockRef::from(&socket).set_tcp_congestion(b"reno");
    }
    Ok(socket)
}

#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) header: Header,
    pub(crate) payload: Bytes,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum ReadError {
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("the connection ended inside a message")]
    Truncated,
    #[error("no further bytes of a partly received message for {0:?}")]
    Stalled(Duration),
    #[error("message header {0}")]
    Header(#[from] DecodeError),
    #[error("a message of {size} bytes exceeds the limit of {limit}")]
    TooLong { size: u64, limit: u64 },
}

/// Reads messages of bounded length. Dropping a future of [`MessageReader::next`] loses nothing.
#[derive(Debug)]
pub(crate) struct MessageReader<R> {
    stream: R,
    buffer: BytesMut,
    /// Longest payload accepted, in bytes.
    limit: u64,
    /// How long a partly received message may pause; `None`: without limit.
    stall: Option<Duration>,
}

impl<R: AsyncRead + Unpin> MessageReader<R> {
    pub(crate) fn new(stream: R, limit: u64, stall: Option<Duration>) -> Self {
        Self { stream, buffer: BytesMut::new(), limit, stall }
    }

    /// The next message, `None` when the peer has closed between two messages.
    pub(crate) async fn next(&mut self) -> Result<Option<Message>, ReadError> {
        loop {
            let missing = match self.split_message()? {
                Split::Message(message) => return Ok(Some(message)),
                Split::Missing(missing) => missing,
            };
            self.buffer.reserve(missing.max(READ_AHEAD));
            match self.fill().await? {
                0 if self.buffer.is_empty() => return Ok(None),
                0 => return Err(ReadError::Truncated),
                _ => {}
            }
        }
    }

    async fn fill(&mut self) -> Result<usize, ReadError> {
        match self.stall.filter(|_| !self.buffer.is_empty()) {
            None => Ok(self.stream.read_buf(&mut self.buffer).await?),
            Some(stall) => match timeout(stall, self.stream.read_buf(&mut self.buffer)).await {
                Ok(read) => Ok(read?),
                Err(_) => Err(ReadError::Stalled(stall)),
            },
        }
    }

    fn split_message(&mut self) -> Result<Split, ReadError> {
        let header = match Header::decode(&self.buffer) {
            Ok(header) => header,
            Err(DecodeError::Incomplete { needed }) => return Ok(Split::Missing(needed)),
            Err(error) => return Err(error.into()),
        };
        if header.size > self.limit {
            return Err(ReadError::TooLong { size: header.size, limit: self.limit });
        }
        let size =
            usize::try_from(header.size).map_err(|_| ReadError::TooLong { size: header.size, limit: self.limit })?;
        let available = self.buffer.len() - bmi::LEN;
        if available < size {
            return Ok(Split::Missing(size - available));
        }
        let mut message = self.buffer.split_to(bmi::LEN + size);
        let payload = message.split_off(bmi::LEN).freeze();
        Ok(Split::Message(Message { header, payload }))
    }
}

enum Split {
    Message(Message),
    /// The least number of bytes that are missing.
    Missing(usize),
}

const BATCH: usize = 32;

const SLICES: usize = 64;

/// A message to send: header and payload, the payload in segments so that they need not be copied into one buffer.
#[derive(Debug)]
pub(crate) struct Outgoing {
    header: Header,
    segments: Vec<Bytes>,
}

impl Outgoing {
    pub(crate) fn request(tag: Tag, payload: Bytes) -> Result<Self, TooLong> {
        Ok(Self { header: Header::request(tag, payload.len() as u64)?, segments: vec![payload] })
    }

    pub(crate) fn reply(tag: Tag, payload: Vec<u8>) -> Result<Self, TooLong> {
        Self::data(tag, vec![payload.into()])
    }

    /// A piece of bulk data.
    pub(crate) fn data(tag: Tag, segments: Vec<Bytes>) -> Result<Self, TooLong> {
        let size = segments.iter().map(|segment| segment.len() as u64).sum();
        Ok(Self { header: Header::reply(tag, size)?, segments })
    }
}

/// Writes what comes from `queue` until all its senders are gone, then ends the stream's writing half.
pub(crate) async fn write_messages(
    mut stream: impl AsyncWrite + Unpin,
    queue: &mut mpsc::Receiver<Outgoing>,
) -> io::Result<()> {
    let mut batch = Vec::with_capacity(BATCH);
    let mut unsent = VecDeque::new();
    while queue.recv_many(&mut batch, BATCH).await > 0 {
        for message in batch.drain(..) {
            unsent.push_back(Bytes::copy_from_slice(&message.header.encode()));
            unsent.extend(message.segments.into_iter().filter(|segment| !segment.is_empty()));
        }
        write_all(&mut stream, &mut unsent).await?;
    }
    stream.shutdown().await
}

async fn write_all(stream: &mut (impl AsyncWrite + Unpin), unsent: &mut VecDeque<Bytes>) -> io::Result<()> {
    while !unsent.is_empty() {
        let mut slices = [IoSlice::new(&[]); SLICES];
        let used = slices.iter_mut().zip(unsent.iter()).map(|(slice, bytes)| *slice = IoSlice::new(bytes)).count();
        let mut written = stream.write_vectored(&slices[..used]).await?;
        if written == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        while let Some(first) = unsent.front_mut() {
            if written < first.len() {
                first.advance(written);
                break;
            }
            written -= first.len();
            unsent.pop_front();
        }
    }
    Ok(())
}

// Bulk transfers: how the bytes of an I/O are cut into data messages (docs/protocols/orangefs.md, chunks).
//
// Both ends compute the same cuts from the request and the configuration; nothing on the wire marks them.

/// Cuts the first `total` bytes of a transfer into chunks of exactly `buffer` bytes, the last one shorter.
/// Pieces are cut where a chunk ends.
pub(crate) fn chunks<I>(pieces: I, total: u64, buffer: u64) -> Chunks<I>
where
    I: Iterator<Item = Result<TransferPiece, TransferError>>,
{
    Chunks { pieces, rest: None, left: total, buffer: buffer.max(1) }
}

#[derive(Debug)]
pub(crate) struct Chunks<I> {
    pieces: I,
    /// The rest of a piece that did not fit into the last chunk.
    rest: Option<TransferPiece>,
    /// Bytes not yet returned.
    left: u64,
    buffer: u64,
}

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

pub(crate) fn chunk_len(chunk: &[TransferPiece]) -> u64 {
    chunk.iter().map(|piece| piece.len).sum()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use vpfs_protocol::wire::pvfs2::{Dist, Preq, Transfer};

    use super::*;

    #[tokio::test]
    async fn messages_arrive_whole_and_in_order() {
        let (near, far) = tokio::io::duplex(1000);
        let (sender, mut queue) = mpsc::channel(4);
        let writing = tokio::spawn(async move { write_messages(near, &mut queue).await });
        let sending = tokio::spawn(async move {
            for tag in 0..50_u8 {
                let segments = (0..tag).map(|i| Bytes::from(vec![b'a'; 37 * usize::from(i)])).collect();
                sender.send(Outgoing::data(Tag(tag.into()), segments).unwrap()).await.unwrap();
            }
        });
        let mut reader = MessageReader::new(far, 1 << 20, None);
        for tag in 0..50_u8 {
            let message = reader.next().await.unwrap().unwrap();
            let len = (0..tag).map(|i| 37 * usize::from(i)).sum::<usize>();
            assert_eq!((message.header.tag, message.payload.len()), (Tag(tag.into()), len));
        }
        sending.await.unwrap();
        writing.await.unwrap().unwrap();
        assert!(reader.next().await.unwrap().is_none());
    }

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
