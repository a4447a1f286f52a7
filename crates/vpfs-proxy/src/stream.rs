//! The two sockets of a connection, those of the system or simulated ones in tests, and what is on its way between
//! them.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

#[cfg(test)]
use bytes::Buf;
use bytes::{BufMut, BytesMut};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_setpipe_size, pipe_with, splice};
use tokio::io::{AsyncReadExt, AsyncWriteExt, Interest};
use tokio::net::TcpStream;
use vpfs_core::Time;
use vpfs_protocol::session::Outbound;

use crate::memory;
use crate::memory::READ_SIZE;
use crate::sockets::{acknowledge, await_any, received, reset_on_close};

pub(crate) enum Stream {
    Tcp(TcpStream),
    #[cfg(test)]
    Simulated(simulated::Socket),
}

impl Stream {
    pub(crate) async fn ready(&self, interest: Interest) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.ready(interest).await.map(drop),
            #[cfg(test)]
            Self::Simulated(socket) => {
                socket.ready(interest).await;
                Ok(())
            }
        }
    }

    /// Reads what is available, as far as `buf` has room; 0 at the end of file.
    pub(crate) fn try_read_buf(&mut self, buf: &mut impl BufMut) -> io::Result<usize> {
        match self {
            // A short read through `AsyncRead` shows that the socket is empty. After `TcpStream::try_read_buf` it
            // counts as ready, and the next attempt to read is a system call that finds nothing.
            Self::Tcp(stream) => match pin!(stream.read_buf(buf)).poll(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready(read) => read,
                Poll::Pending => Err(io::ErrorKind::WouldBlock.into()),
            },
            #[cfg(test)]
            Self::Simulated(socket) => socket.try_read_buf(buf),
        }
    }

    pub(crate) fn try_write_vectored(&self, slices: &[io::IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.try_write_vectored(slices),
            #[cfg(test)]
            Self::Simulated(socket) => socket.try_write_vectored(slices),
        }
    }

    pub(crate) fn try_fill(&self, pipes: &mut Pipes, most: usize) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.try_io(Interest::READABLE, || pipes.fill(stream, most)),
            #[cfg(test)]
            Self::Simulated(socket) => socket.try_read_buf(&mut (&mut pipes.simulated).limit(most)),
        }
    }

    pub(crate) fn try_drain(&self, pipes: &mut Pipes, most: usize) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.try_io(Interest::WRITABLE, || pipes.drain(stream, most)),
            #[cfg(test)]
            Self::Simulated(socket) => {
                let count = socket.try_write_vectored(&[io::IoSlice::new(&pipes.simulated[..most])])?;
                pipes.simulated.advance(count);
                Ok(count)
            }
        }
    }

    /// Whether it has received `bytes` bytes, which nobody has read. `false`: it has not, and there is no use in
    /// waiting for them. An error of the kind [`io::ErrorKind::WouldBlock`] until it is known; it is not ready before.
    pub(crate) fn try_await(&self, bytes: usize) -> io::Result<bool> {
        match self {
            Self::Tcp(stream) => stream.try_io(Interest::READABLE, || received(stream, bytes)),
            #[cfg(test)]
            Self::Simulated(socket) => socket.try_await(bytes),
        }
    }

    pub(crate) fn await_any(&self) {
        match self {
            Self::Tcp(stream) => await_any(stream),
            #[cfg(test)]
            Self::Simulated(socket) => socket.await_any(),
        }
    }

    pub(crate) fn acknowledge(&self) {
        match self {
            Self::Tcp(stream) => acknowledge(stream),
            #[cfg(test)]
            Self::Simulated(_) => {}
        }
    }

    /// Half-closes it: the peer reads the end of file after everything that was written.
    pub(crate) async fn shutdown(&mut self) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.shutdown().await,
            #[cfg(test)]
            Self::Simulated(socket) => {
                socket.shutdown();
                Ok(())
            }
        }
    }

    pub(crate) fn reset_on_close(&self) {
        match self {
            Self::Tcp(stream) => reset_on_close(stream),
            #[cfg(test)]
            Self::Simulated(socket) => socket.reset_on_close(),
        }
    }

    pub(crate) fn detach(self) -> io::Result<Detached> {
        match self {
            Self::Tcp(stream) => stream.into_std().map(Detached::Tcp),
            #[cfg(test)]
            Self::Simulated(socket) => Ok(Detached::Simulated(socket)),
        }
    }
}

pub(crate) enum Detached {
    Tcp(std::net::TcpStream),
    #[cfg(test)]
    Simulated(simulated::Socket),
}

impl Detached {
    pub(crate) fn attach(self) -> io::Result<Stream> {
        match self {
            Self::Tcp(stream) => {
                stream.set_nonblocking(true)?;
                TcpStream::from_std(stream).map(Stream::Tcp)
            }
            #[cfg(test)]
            Self::Simulated(socket) => Ok(Stream::Simulated(socket)),
        }
    }

    pub(crate) fn peer_addr(&self) -> io::Result<SocketAddr> {
        match self {
            Self::Tcp(stream) => stream.peer_addr(),
            #[cfg(test)]
            Self::Simulated(socket) => Ok(socket.peer_addr()),
        }
    }

    pub(crate) fn reset_on_close(&self) {
        match self {
            Self::Tcp(stream) => reset_on_close(stream),
            #[cfg(test)]
            Self::Simulated(socket) => socket.reset_on_close(),
        }
    }
}

impl AsFd for Detached {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(stream) => stream.as_fd(),
            #[cfg(test)]
            Self::Simulated(_) => unreachable!("a simulated socket stays in its process"),
        }
    }
}

/// Pipes of the process. A connection has some in each direction while its receiver is slower than its sender; when so
/// many are taken, the data of further connections is copied.
pub(crate) const MOST: usize = 128;

/// Bytes in whole pages that a pipe holds, and packets seldom fill their pages. An unprivileged user may have 64 MiB of
/// these in all pipes (`fs.pipe-user-pages-soft`).
const SIZE: usize = 256 << 10;

/// Empty pipes that a thread keeps, unless half of all are open: those of many threads would leave none for others.
const SPARE: usize = 4;

static OPEN: AtomicUsize = AtomicUsize::new(0);

/// The system or its sandbox cannot splice sockets.
static IS_MISSING: AtomicBool = AtomicBool::new(false);

thread_local! {
    static SPARES: RefCell<Vec<Pipe>> = const { RefCell::new(Vec::new()) };
}

/// Bytes on their way from one socket to the other, in pipes that are not empty.
#[derive(Default)]
pub(crate) struct Pipes {
    pipes: VecDeque<Pipe>,
    #[cfg(test)]
    pub(crate) simulated: bytes::BytesMut,
}

impl Pipes {
    /// Takes what `socket` has received, at most `most` bytes; 0 at the end of file. An error of the kind
    /// [`io::ErrorKind::Unsupported`] if there is no pipe for it.
    pub(crate) fn fill(&mut self, socket: impl AsFd, most: usize) -> io::Result<usize> {
        if let Some(last) = self.pipes.back_mut() {
            match last.fill(&socket, most) {
                // It is full, unless nothing was received.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                filled => return filled,
            }
        }
        let mut pipe = Pipe::take().ok_or(io::ErrorKind::Unsupported)?;
        let filled = pipe.fill(socket, most);
        if pipe.len == 0 {
            pipe.give_back();
        } else {
            self.pipes.push_back(pipe);
        }
        filled
    }

    /// Sends as much of what is next, at most `most` bytes, as `socket` accepts.
    pub(crate) fn drain(&mut self, socket: impl AsFd, most: usize) -> io::Result<usize> {
        let first = self.pipes.front_mut().expect("what is in no pipe was read");
        let sent = first.drain(socket, most);
        if first.len == 0 {
            self.pipes.pop_front().into_iter().for_each(Pipe::give_back);
        }
        sent
    }
}

struct Pipe {
    out: OwnedFd,
    into: OwnedFd,
    len: usize,
    _place: Place,
}

impl Pipe {
    /// An empty pipe; `None` if there are too many, or there are none.
    fn take() -> Option<Self> {
        if IS_MISSING.load(Ordering::Relaxed) {
            return None;
        }
        SPARES.with_borrow_mut(Vec::pop).or_else(Self::open)
    }

    fn open() -> Option<Self> {
        let place = Place::take()?;
        let (out, into) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK).ok()?;
        // If the user has too many pages in pipes, it is as small as the system makes it.
        let _ = fcntl_setpipe_size(&into, SIZE);
        Some(Self { out, into, len: 0, _place: place })
    }

    fn give_back(self) {
        if OPEN.load(Ordering::Relaxed) <= MOST / 2 {
            SPARES.with_borrow_mut(|spares| spares.extend(Some(self).filter(|_| spares.len() < SPARE)));
        }
    }

    fn fill(&mut self, socket: impl AsFd, most: usize) -> io::Result<usize> {
        let count = splice(socket, None, &self.into, None, most, FLAGS).map_err(|error| match error {
            Errno::INVAL | Errno::NOSYS | Errno::PERM => {
                IS_MISSING.store(true, Ordering::Relaxed);
                io::ErrorKind::Unsupported.into()
            }
            error => io::Error::from(error),
        })?;
        self.len += count;
        Ok(count)
    }

    fn drain(&mut self, socket: impl AsFd, most: usize) -> io::Result<usize> {
        let count = splice(&self.out, None, socket, None, most.min(self.len), FLAGS)?;
        self.len -= count;
        Ok(count)
    }
}

const FLAGS: SpliceFlags = SpliceFlags::NONBLOCK.union(SpliceFlags::MOVE);

struct Place;

impl Place {
    fn take() -> Option<Self> {
        // Before the comparison, so that its drop counts.
        let place = (OPEN.fetch_add(1, Ordering::Relaxed), Self);
        (place.0 < MOST).then_some(place.1)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        OPEN.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Held by a test that needs pipes, or that there are none.
#[cfg(test)]
pub(crate) static IN_TURN: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

#[cfg(test)]
pub(crate) fn take_all() -> impl Sized {
    std::iter::from_fn(Pipe::take).collect::<Vec<_>>()
}

/// A read buffer with less room than this is replaced or reclaimed.
const MIN_READ: usize = 32 << 10;

/// How long to leave bytes in a socket until there are more. A peer with a small send buffer sends the next ones when
/// these are acknowledged, which takes up to 40 ms unless they are read.
const LONGEST_AWAIT: Duration = Duration::from_millis(10);

/// How often bytes are read as they come before they are awaited again, if that took too long: at first, as it may have
/// been an accident, and at most, after it always did. So the attempts cost such a peer only a little of its speed.
const READS: RangeInclusive<u32> = 8..=1024;

pub(crate) struct Half {
    pub(crate) stream: Stream,
    /// Has no memory of its own while nothing is in it, see [`Half::rest`].
    pub(crate) buf: BytesMut,
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

    pub(crate) fn awaits_until(&self) -> Option<Time> {
        self.awaits_until
    }

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

/// Pairs of sockets in memory. They deliver bytes in pieces of random sizes, report readiness that was none, and end
/// as TCP connections do: orderly, or with a reset that overtakes bytes.
#[cfg(test)]
pub(crate) mod simulated {
    use std::collections::VecDeque;
    use std::io;
    use std::net::SocketAddr;
    use std::sync::{Arc, Mutex, MutexGuard};

    use bytes::BufMut;
    use rand::RngExt;
    use rand::rngs::SmallRng;
    use tokio::io::Interest;
    use tokio::sync::Notify;

    pub(crate) type Randomness = Arc<Mutex<SmallRng>>;

    #[derive(Default)]
    struct Pipe {
        bytes: VecDeque<u8>,
        ended: bool,
    }

    struct Wire {
        /// By the side that writes.
        pipes: [Pipe; 2],
        /// By the side that closed its socket.
        gone: [bool; 2],
        was_reset: bool,
    }

    struct Shared {
        wire: Mutex<Wire>,
        /// By the side that waits.
        changed: [Notify; 2],
        capacity: usize,
        random: Randomness,
    }

    pub(crate) struct Socket {
        shared: Arc<Shared>,
        side: usize,
        resets: Mutex<bool>,
        /// It is ready when so many bytes are available.
        low_water: Mutex<usize>,
        addresses: [SocketAddr; 2],
    }

    /// Both ends of a connection between `addresses` whose buffers hold `capacity` bytes in each direction.
    pub(crate) fn pair(random: &Randomness, capacity: usize, addresses: [SocketAddr; 2]) -> [Socket; 2] {
        let wire = Mutex::new(Wire { pipes: Default::default(), gone: [false; 2], was_reset: false });
        let random = Arc::clone(random);
        let shared = Arc::new(Shared { wire, changed: Default::default(), capacity, random });
        [0, 1].map(|side| Socket {
            shared: Arc::clone(&shared),
            side,
            resets: Mutex::new(false),
            low_water: Mutex::new(1),
            addresses,
        })
    }

    impl Socket {
        pub(crate) fn peer_addr(&self) -> SocketAddr {
            self.addresses[1 - self.side]
        }

        pub(crate) async fn ready(&self, interest: Interest) {
            loop {
                if self.is_ready(interest) {
                    return;
                }
                self.shared.changed[self.side].notified().await;
            }
        }

        fn is_ready(&self, interest: Interest) -> bool {
            let wire = self.wire();
            let (incoming, outgoing) = (&wire.pipes[1 - self.side], &wire.pipes[self.side]);
            let readable = self.has_received(incoming, *self.low_water.lock().unwrap());
            let writable = outgoing.bytes.len() < self.shared.capacity || wire.gone[1 - self.side];
            wire.was_reset
                || wire.gone[self.side]
                || interest.is_readable() && readable
                || interest.is_writable() && writable
        }

        fn has_received(&self, incoming: &Pipe, bytes: usize) -> bool {
            incoming.bytes.len() >= bytes.min(self.shared.capacity) || incoming.ended
        }

        pub(crate) fn try_await(&self, bytes: usize) -> io::Result<bool> {
            let wire = self.wire();
            let incoming = &wire.pipes[1 - self.side];
            *self.low_water.lock().unwrap() = bytes;
            if !self.has_received(incoming, bytes) && !wire.was_reset && !wire.gone[self.side] {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            Ok(incoming.bytes.len() >= bytes)
        }

        pub(crate) fn await_any(&self) {
            *self.low_water.lock().unwrap() = 1;
        }

        pub(crate) fn try_read_buf(&self, buf: &mut impl BufMut) -> io::Result<usize> {
            let mut wire = self.wire();
            if wire.was_reset || wire.gone[self.side] {
                return Err(io::ErrorKind::ConnectionReset.into());
            }
            let incoming = &mut wire.pipes[1 - self.side];
            if incoming.bytes.is_empty() && incoming.ended {
                return Ok(0);
            }
            let count = self.some_of(incoming.bytes.len().min(buf.remaining_mut()))?;
            let (first, second) = incoming.bytes.as_slices();
            let in_first = count.min(first.len());
            buf.put_slice(&first[..in_first]);
            buf.put_slice(&second[..count - in_first]);
            incoming.bytes.drain(..count);
            drop(wire);
            self.tell_peer();
            Ok(count)
        }

        pub(crate) fn try_write_vectored(&self, slices: &[io::IoSlice<'_>]) -> io::Result<usize> {
            let mut wire = self.wire();
            if wire.was_reset || wire.gone[self.side] {
                return Err(io::ErrorKind::ConnectionReset.into());
            }
            let len = slices.iter().map(|slice| slice.len()).sum::<usize>();
            if wire.gone[1 - self.side] {
                // The system accepts it, and learns from the answer that nobody wants it.
                wire.was_reset = true;
                return Ok(len);
            }
            let outgoing = &mut wire.pipes[self.side];
            assert!(!outgoing.ended, "nothing is written after the end");
            let count = self.some_of(len.min(self.shared.capacity - outgoing.bytes.len()))?;
            let mut left = count;
            for slice in slices {
                let part = &slice[..left.min(slice.len())];
                outgoing.bytes.extend(part);
                left -= part.len();
            }
            drop(wire);
            self.tell_peer();
            Ok(count)
        }

        /// A random number of bytes up to `most`; sometimes none.
        fn some_of(&self, most: usize) -> io::Result<usize> {
            let mut random = self.shared.random.lock().unwrap();
            if most == 0 || random.random_ratio(1, 16) {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            Ok(if random.random_ratio(1, 4) { random.random_range(1..=most) } else { most })
        }

        pub(crate) fn shutdown(&self) {
            self.wire().pipes[self.side].ended = true;
            self.tell_peer();
        }

        pub(crate) fn reset_on_close(&self) {
            *self.resets.lock().unwrap() = true;
        }

        pub(crate) fn close(&self) {
            let mut wire = self.wire();
            if std::mem::replace(&mut wire.gone[self.side], true) {
                return;
            }
            // Bytes that nobody will read are answered by a reset.
            let unread = !wire.pipes[1 - self.side].bytes.is_empty();
            wire.was_reset |= unread || *self.resets.lock().unwrap();
            wire.pipes[self.side].ended = true;
            drop(wire);
            self.shared.changed.iter().for_each(Notify::notify_waiters);
        }

        fn wire(&self) -> MutexGuard<'_, Wire> {
            self.shared.wire.lock().unwrap()
        }

        fn tell_peer(&self) {
            self.shared.changed[1 - self.side].notify_waiters();
        }
    }

    impl Drop for Socket {
        fn drop(&mut self) {
            self.close();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::io::{Read as _, Write as _};

    use tokio::net::TcpListener;

    use super::*;

    fn blocking_pair() -> [std::net::TcpStream; 2] {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let ours = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let theirs = listener.accept().unwrap().0;
        theirs.set_nonblocking(true).unwrap();
        [ours, theirs]
    }

    fn filled(pipes: &mut Pipes, from: &std::net::TcpStream, most: usize) -> usize {
        loop {
            match pipes.fill(from, most) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                filled => break filled.unwrap(),
            }
        }
    }

    #[test]
    fn what_does_not_fit_into_a_pipe_goes_into_the_next() {
        let _turn = IN_TURN.blocking_lock();
        let [[mut sender, from], [mut receiver, to]] = [blocking_pair(), blocking_pair()];
        let bytes: Vec<u8> = (0..20_000).map(|at: u32| (at % 251) as u8).collect();
        let mut pipes = Pipes::default();
        // Each page of a pipe has the bytes of one packet.
        for part in bytes.chunks(100) {
            sender.write_all(part).unwrap();
            assert_eq!(filled(&mut pipes, &from, part.len()), part.len());
        }
        assert!(pipes.pipes.len() > 1);
        let (mut left, mut received) = (bytes.len(), vec![0; bytes.len()]);
        while left > 0 {
            left -= pipes.drain(&to, left).unwrap();
        }
        receiver.read_exact(&mut received).unwrap();
        drop(sender);
        assert_eq!(filled(&mut pipes, &from, 100), 0, "the end");
        assert!(received == bytes && pipes.pipes.is_empty());
    }

    async fn pair() -> (Half, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let peer = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        (Half::new(Stream::Tcp(listener.accept().await.unwrap().0)), peer)
    }

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
