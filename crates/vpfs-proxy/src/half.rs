//! One of the two sockets of a connection.

use std::io;

use bytes::{BufMut, BytesMut};
use tokio::io::Interest;
use tokio::net::TcpStream;
use vpfs_session::Outbound;

/// Bytes read at once from a socket; one bulk message of the default flow buffer size.
pub(crate) const READ_SIZE: usize = 256 << 10;
/// A read buffer with less room than this is replaced or reclaimed.
const MIN_READ: usize = 32 << 10;

/// A socket and the bytes read from it that are not a complete message yet.
pub(crate) struct Half {
    pub(crate) stream: TcpStream,
    pub(crate) buf: BytesMut,
    /// It sends nothing more.
    pub(crate) eof: bool,
    /// Nothing more is sent to it.
    pub(crate) write_closed: bool,
}

impl Half {
    pub(crate) fn new(stream: TcpStream) -> Self {
        Self { stream, buf: BytesMut::new(), eof: false, write_closed: false }
    }

    /// Reads available bytes, at most `most`, without waiting. `None` if no bytes are available, `Some(0)` at the end
    /// of file.
    pub(crate) fn try_read(&mut self, most: usize) -> io::Result<Option<usize>> {
        if self.buf.capacity() - self.buf.len() < MIN_READ {
            // The bytes left in the buffer are subtracted, so that its allocation can be reused.
            self.buf.reserve(READ_SIZE.saturating_sub(self.buf.len()).max(MIN_READ));
        }
        match self.stream.try_read_buf(&mut (&mut self.buf).limit(most)) {
            Ok(count) => {
                self.eof = count == 0;
                Ok(Some(count))
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Writes as much as the socket accepts, without waiting.
    pub(crate) fn try_write(&self, out: &mut Outbound) -> io::Result<()> {
        while !out.is_empty() {
            let mut slices = [io::IoSlice::new(&[]); 16];
            let filled = out.slices(&mut slices);
            match self.stream.try_write_vectored(&slices[..filled]) {
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
            Some(interest) => self.stream.ready(interest).await.map(drop),
            None => std::future::pending().await,
        }
    }
}
