//! The sockets of connections: those of the system, or simulated ones in tests.

#[cfg(test)]
pub(crate) mod simulated;

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};

#[cfg(test)]
use bytes::Buf;
use bytes::BufMut;
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_setpipe_size, pipe_with, splice};
use tokio::io::{AsyncReadExt, AsyncWriteExt, Interest};
use tokio::net::TcpStream;

use crate::sockets::{acknowledge, await_any, received, reset_on_close};

/// A connected socket that never blocks.
pub(crate) enum Stream {
    Tcp(TcpStream),
    #[cfg(test)]
    Simulated(simulated::Socket),
}

impl Stream {
    /// Waits until one of `interest` is possible. Cancel safe.
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

    /// Writes as much as is accepted.
    pub(crate) fn try_write_vectored(&self, slices: &[io::IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.try_write_vectored(slices),
            #[cfg(test)]
            Self::Simulated(socket) => socket.try_write_vectored(slices),
        }
    }

    /// Takes what is available, at most `most` bytes, into `pipes`; 0 at the end of file.
    pub(crate) fn try_fill(&self, pipes: &mut Pipes, most: usize) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.try_io(Interest::READABLE, || pipes.fill(stream, most)),
            #[cfg(test)]
            Self::Simulated(socket) => socket.try_read_buf(&mut (&mut pipes.simulated).limit(most)),
        }
    }

    /// Writes as much of what is next in `pipes`, at most `most` bytes, as is accepted.
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

    /// It is ready as soon as it has received anything, from now on.
    pub(crate) fn await_any(&self) {
        match self {
            Self::Tcp(stream) => await_any(stream),
            #[cfg(test)]
            Self::Simulated(socket) => socket.await_any(),
        }
    }

    /// Tells the peer at once that what was read has arrived.
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

    /// Makes closing it send a reset.
    pub(crate) fn reset_on_close(&self) {
        match self {
            Self::Tcp(stream) => reset_on_close(stream),
            #[cfg(test)]
            Self::Simulated(socket) => socket.reset_on_close(),
        }
    }

    /// Takes it out of the runtime.
    pub(crate) fn detach(self) -> io::Result<Detached> {
        match self {
            Self::Tcp(stream) => stream.into_std().map(Detached::Tcp),
            #[cfg(test)]
            Self::Simulated(socket) => Ok(Detached::Simulated(socket)),
        }
    }
}

/// A connected socket outside of any runtime, on its way to another process.
pub(crate) enum Detached {
    Tcp(std::net::TcpStream),
    #[cfg(test)]
    Simulated(simulated::Socket),
}

impl Detached {
    /// Puts it into this runtime.
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

    /// The address of the other end.
    pub(crate) fn peer_addr(&self) -> io::Result<SocketAddr> {
        match self {
            Self::Tcp(stream) => stream.peer_addr(),
            #[cfg(test)]
            Self::Simulated(socket) => Ok(socket.peer_addr()),
        }
    }

    /// Makes closing it send a reset.
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
    /// Those of simulated sockets.
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

/// A pipe and how much is in it.
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

    /// Keeps it for another connection.
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

/// One of [`MOST`].
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

/// Leaves none for others until it is dropped.
#[cfg(test)]
pub(crate) fn take_all() -> impl Sized {
    std::iter::from_fn(Pipe::take).collect::<Vec<_>>()
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::{TcpListener, TcpStream};

    use super::*;

    fn pair() -> [TcpStream; 2] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let ours = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let theirs = listener.accept().unwrap().0;
        theirs.set_nonblocking(true).unwrap();
        [ours, theirs]
    }

    /// A full pipe looks like a socket that has received nothing.
    #[test]
    fn what_does_not_fit_into_a_pipe_goes_into_the_next() {
        let _turn = IN_TURN.blocking_lock();
        let [[mut sender, from], [mut receiver, to]] = [pair(), pair()];
        let bytes: Vec<u8> = (0..20_000).map(|at: u32| (at % 251) as u8).collect();
        let mut pipes = Pipes::default();
        // Each page of a pipe has the bytes of one packet.
        for part in bytes.chunks(100) {
            sender.write_all(part).unwrap();
            let filled = loop {
                match pipes.fill(&from, part.len()) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    filled => break filled,
                }
            };
            assert_eq!(filled.unwrap(), part.len());
        }
        assert!(pipes.pipes.len() > 1);
        let (mut left, mut received) = (bytes.len(), vec![0; bytes.len()]);
        while left > 0 {
            left -= pipes.drain(&to, left).unwrap();
        }
        receiver.read_exact(&mut received).unwrap();
        assert!(received == bytes && pipes.pipes.is_empty());
    }

    #[test]
    fn the_end_of_a_stream_is_seen() {
        let _turn = IN_TURN.blocking_lock();
        let [sender, from] = pair();
        drop(sender);
        let mut pipes = Pipes::default();
        let filled = loop {
            match pipes.fill(&from, 100) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                filled => break filled,
            }
        };
        assert_eq!(filled.unwrap(), 0);
        assert!(pipes.pipes.is_empty());
    }
}
