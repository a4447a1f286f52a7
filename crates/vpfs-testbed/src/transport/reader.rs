//! Takes messages off a stream.

use std::io;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::time::timeout;
use vpfs_wire::DecodeError;
use vpfs_wire::bmi::{self, Header};

/// Buffer space for each read when the size of what follows is not known.
const READ_AHEAD: usize = 32 << 10;

/// One message.
#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) header: Header,
    pub(crate) payload: Bytes,
}

/// Why a stream yields no more messages.
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
