//! Puts messages on a stream.

use std::collections::VecDeque;
use std::io::{self, IoSlice};

use bytes::{Buf, Bytes};
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;
use vpfs_wire::bmi::{Header, Tag, TooLong};

/// Messages taken from the queue for one write.
const BATCH: usize = 32;
/// Slices passed to one system call.
const SLICES: usize = 64;

/// A message to send: header and payload, the payload in segments so that they need not be copied into one buffer.
#[derive(Debug)]
pub(crate) struct Outgoing {
    header: Header,
    segments: Vec<Bytes>,
}

impl Outgoing {
    /// A request.
    pub(crate) fn request(tag: Tag, payload: Bytes) -> Result<Self, TooLong> {
        Ok(Self { header: Header::request(tag, payload.len() as u64)?, segments: vec![payload] })
    }

    /// A reply.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::MessageReader;

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
}
