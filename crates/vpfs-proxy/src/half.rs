//! One of the two sockets of a connection.

use std::io;
use std::ops::RangeInclusive;
use std::time::Duration;

use bytes::{BufMut, BytesMut};
use tokio::io::Interest;
use vpfs_core::Time;
use vpfs_protocol::session::Outbound;

use crate::memory;
use crate::memory::READ_SIZE;
use crate::stream::{Detached, Pipes, Stream};

/// A read buffer with less room than this is replaced or reclaimed.
const MIN_READ: usize = 32 << 10;

/// How long to leave bytes in a socket until there are more. A peer with a small send buffer sends the next ones when
/// these are acknowledged, which takes up to 40 ms unless they are read.
const LONGEST_AWAIT: Duration = Duration::from_millis(10);

/// How often bytes are read as they come before they are awaited again, if that took too long: at first, as it may have
/// been an accident, and at most, after it always did. So the attempts cost such a peer only a little of its speed.
const READS: RangeInclusive<u32> = 8..=1024;

/// A socket and the bytes read from it that are not a complete message yet.
pub(crate) struct Half {
    pub(crate) stream: Stream,
    /// Has no memory of its own while nothing is in it, see [`Half::rest`].
    pub(crate) buf: BytesMut,
    /// What is to be sent to it and was not read into memory.
    pipes: Pipes,
    /// It is ready only when many bytes are available, but they are not awaited for longer than until then.
    awaits_until: Option<Time>,
    /// How often not to await them after that.
    reads: u32,
    /// What that was the last time.
    backoff: u32,
    pub(crate) eof: bool,
    pub(crate) write_closed: bool,
}

impl Half {
    pub(crate) fn new(stream: Stream) -> Self {
        Self {
            stream,
            buf: BytesMut::new(),
            pipes: Pipes::default(),
            awaits_until: None,
            reads: 0,
            backoff: 0,
            eof: false,
            write_closed: false,
        }
    }

    /// A socket of a predecessor, which had read `buf` from it.
    pub(crate) fn inherited(stream: Detached, buf: BytesMut) -> io::Result<Self> {
        Ok(Self { buf, ..Self::new(stream.attach()?) })
    }

    /// Reads available bytes, at most `most`, without waiting. `None` if no bytes are available, `Some(0)` at the end
    /// of file.
    pub(crate) fn try_read(&mut self, most: usize) -> io::Result<Option<usize>> {
        self.make_room();
        let read = self.stream.try_read_buf(&mut (&mut self.buf).limit(most));
        self.arrived(read)
    }

    /// Takes available bytes, at most `most`, into the pipes to another socket, without waiting. `None` if no bytes are
    /// available, `Some(0)` at the end of file. An error of the kind [`io::ErrorKind::Unsupported`] if they must be
    /// read.
    pub(crate) fn try_splice(&mut self, to: &mut Half, most: usize) -> io::Result<Option<usize>> {
        let taken = self.stream.try_fill(&mut to.pipes, most);
        self.arrived(taken)
    }

    /// Whether `bytes` bytes are available, which nobody has read; `false` if they must be read as they come, `None` if
    /// it is not known yet.
    pub(crate) fn try_await(&mut self, now: Time, bytes: usize) -> io::Result<Option<bool>> {
        if self.reads > 0 {
            self.reads -= 1;
            return Ok(Some(false));
        }
        let until = *self.awaits_until.get_or_insert(now + LONGEST_AWAIT);
        let are_there = match self.stream.try_await(bytes) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && now < until => return Ok(None),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.backoff = (2 * self.backoff).clamp(*READS.start(), *READS.end());
                self.reads = self.backoff;
                false
            }
            result => {
                self.backoff = 0;
                result?
            }
        };
        self.await_any();
        Ok(Some(are_there))
    }

    /// When to try that again, whether or not they are available.
    pub(crate) fn awaits_until(&self) -> Option<Time> {
        self.awaits_until
    }

    /// It is ready as soon as anything is available, from now on.
    pub(crate) fn await_any(&mut self) {
        if self.awaits_until.take().is_some() {
            self.stream.await_any();
        }
    }

    fn arrived(&mut self, count: io::Result<usize>) -> io::Result<Option<usize>> {
        match count {
            Ok(count) => {
                self.eof = count == 0;
                Ok(Some(count))
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn make_room(&mut self) {
        let len = self.buf.len();
        if self.buf.capacity() - len >= MIN_READ || self.buf.try_reclaim(READ_SIZE.saturating_sub(len).max(MIN_READ)) {
            return;
        }
        let rest = std::mem::replace(&mut self.buf, memory::take_buffer());
        self.buf.extend_from_slice(&rest);
        self.buf.reserve(MIN_READ);
        memory::give_back(rest);
    }

    /// Gives back the memory of an empty buffer. Call it before each wait: an idle connection, of which there may be
    /// thousands, then holds no buffer, and a busy one gets the same memory again.
    pub(crate) fn rest(&mut self) {
        // Otherwise each small message that waits to be sent would keep a buffer of its own.
        if self.buf.is_empty() && self.buf.try_reclaim(READ_SIZE) {
            memory::give_back(std::mem::take(&mut self.buf));
        }
    }

    /// Writes as much as the socket accepts, without waiting.
    pub(crate) fn try_write(&mut self, out: &mut Outbound) -> io::Result<()> {
        while !out.is_empty() {
            let sent = match out.piped() {
                0 => {
                    let mut slices = [io::IoSlice::new(&[]); 16];
                    let filled = out.slices(&mut slices);
                    self.stream.try_write_vectored(&slices[..filled])
                }
                piped => self.stream.try_drain(&mut self.pipes, piped),
            };
            match sent {
                Ok(count) => out.advance(count),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    pub(crate) fn interest(&self, read: bool, write: bool) -> Option<Interest> {
        let read = (read && !self.eof).then_some(Interest::READABLE);
        match (read, write.then_some(Interest::WRITABLE)) {
            (Some(read), Some(write)) => Some(read.add(write)),
            (read, write) => read.or(write),
        }
    }

    /// Waits until one of `interest` is possible; for ever if there is none. Cancel safe.
    pub(crate) async fn ready(&self, interest: Option<Interest>) -> io::Result<()> {
        match interest {
            Some(interest) => self.stream.ready(interest).await,
            None => std::future::pending().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeSet, VecDeque};

    use tokio::io::AsyncWriteExt;
    use tokio::net::{TcpListener, TcpStream};

    use super::*;

    async fn pair() -> (Half, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let peer = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        (Half::new(Stream::Tcp(listener.accept().await.unwrap().0)), peer)
    }

    /// A socket with the first 10 of 1 MiB.
    async fn begun() -> (Half, TcpStream) {
        let (half, mut peer) = pair().await;
        peer.write_all(&[7; 10]).await.unwrap();
        half.ready(Some(Interest::READABLE)).await.unwrap();
        (half, peer)
    }

    async fn read(half: &mut Half, count: usize) {
        while half.buf.len() < count {
            half.ready(Some(Interest::READABLE)).await.unwrap();
            half.try_read(READ_SIZE).unwrap();
        }
    }

    async fn awaits(half: &mut Half, bytes: usize) -> bool {
        loop {
            half.ready(Some(Interest::READABLE)).await.unwrap();
            if let Some(are_there) = half.try_await(Time::ZERO, bytes).unwrap() {
                return are_there;
            }
        }
    }

    #[tokio::test]
    async fn many_bytes_are_awaited_and_not_read() {
        let (mut half, mut peer) = begun().await;
        assert_eq!(half.try_await(Time::ZERO, 1 << 20).unwrap(), None);
        let rest = vec![7; (1 << 20) - 10];
        let (are_there, written) = tokio::join!(awaits(&mut half, 1 << 20), peer.write_all(&rest));
        assert!(are_there && written.is_ok() && half.buf.is_empty());
        // From then on it is ready with a single byte.
        read(&mut half, 1 << 20).await;
        half.buf.clear();
        peer.write_all(&[7]).await.unwrap();
        read(&mut half, 1).await;
    }

    /// A peer that sends more only when it knows that these have been read.
    #[tokio::test]
    async fn what_takes_too_long_is_read() {
        let (mut half, _peer) = begun().await;
        assert_eq!(half.try_await(Time::ZERO, 1 << 20).unwrap(), None);
        let until = half.awaits_until().unwrap();
        assert_eq!(half.try_await(until, 1 << 20).unwrap(), Some(false));
        read(&mut half, 10).await;
        assert_eq!((half.try_await(until, 1 << 20).unwrap(), half.awaits_until()), (Some(false), None));
    }

    #[tokio::test]
    async fn what_never_comes_is_not_awaited() {
        let (mut half, peer) = begun().await;
        drop(peer);
        assert!(!awaits(&mut half, 1 << 20).await);
        read(&mut half, 10).await;
        while !half.eof {
            half.ready(Some(Interest::READABLE)).await.unwrap();
            half.try_read(1).unwrap();
        }
        assert_eq!(half.buf.len(), 10);
    }

    /// Symptom: a connection that had moved data kept 270 to 526 KB for ever. Cause: it kept its read buffers.
    #[tokio::test]
    async fn an_idle_socket_has_no_buffer_and_a_busy_one_the_same_again() {
        let (mut half, mut peer) = pair().await;
        let mut memory = Vec::new();
        for _ in 0..10 {
            peer.write_all(&[7; 100_000]).await.unwrap();
            read(&mut half, 100_000).await;
            memory.push(half.buf.as_ptr());
            let message = half.buf.split_to(100_000);
            half.rest();
            drop(message);
            half.rest();
            assert_eq!(half.buf.capacity(), 0);
        }
        assert!(memory.iter().all(|at| *at == memory[0]), "the buffer is allocated once");
    }

    #[tokio::test]
    async fn a_buffer_stays_while_bytes_of_it_wait() {
        let (mut half, mut peer) = pair().await;
        peer.write_all(&[7; 1000]).await.unwrap();
        read(&mut half, 1000).await;
        let waits = half.buf.split_to(999);
        half.rest();
        assert_eq!((half.buf.len(), half.buf[0]), (1, 7), "the start of a message stays");
        half.buf.clear();
        half.rest();
        assert!(half.buf.capacity() >= MIN_READ, "otherwise each small message would keep a buffer of its own");
        drop(waits);
        half.rest();
        assert_eq!(half.buf.capacity(), 0);
    }

    /// Symptom: a quarter more CPU for each byte than HAProxy. One cause: whenever the receiver was slower than the
    /// sender, each read allocated a buffer, of which the kernel had to clear every page.
    #[tokio::test]
    async fn a_slow_receiver_costs_no_allocations() {
        let (mut half, mut peer) = pair().await;
        let (mut memory, mut waits) = (BTreeSet::new(), VecDeque::new());
        for _ in 0..40 {
            peer.write_all(&[7; 250_000]).await.unwrap();
            read(&mut half, 250_000).await;
            memory.insert(half.buf.as_ptr());
            waits.push_back(half.buf.split());
            half.rest();
            if waits.len() == 3 {
                waits.pop_front();
            }
        }
        assert!(memory.len() <= 4, "the same buffers again: {memory:?}");
    }

    #[tokio::test]
    async fn what_is_left_moves_to_the_next_buffer() {
        let (mut half, mut peer) = pair().await;
        let (mut expected, mut waits, mut found) = (Vec::new(), Vec::new(), Vec::new());
        for round in 0..40_u8 {
            let bytes = vec![round; 50_000];
            peer.write_all(&bytes).await.unwrap();
            expected.extend(bytes);
            let (len, taken) = (expected.len() - found.len(), 49_000);
            read(&mut half, len).await;
            assert_eq!(half.buf.len(), len);
            found.extend_from_slice(&half.buf[..taken]);
            waits.push(half.buf.split_to(taken));
        }
        found.extend_from_slice(&half.buf);
        assert!(found == expected);
    }
}
