//! The sockets of connections: those of the system, or simulated ones in tests.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::pin::pin;
use std::task::{Context, Poll, Waker};

#[cfg(test)]
use bytes::Buf;
use bytes::BufMut;
use tokio::io::{AsyncReadExt, AsyncWriteExt, Interest};
use tokio::net::TcpStream;

use crate::pipes::Pipes;
use crate::sockets::{acknowledge, await_any, received, reset_on_close};

#[cfg(test)]
pub(crate) mod simulated;

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
