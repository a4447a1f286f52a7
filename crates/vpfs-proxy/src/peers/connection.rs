//! The tasks of one connection.

use std::io;
use std::time::Duration;

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::sync::mpsc;
use vpfs_peer::mesh::LinkId;
use vpfs_peer::wire::Frame;

use super::LOST_AFTER;
use super::input::Input;
use super::security::Stream;

/// The pause after each read: with it a peer can occupy this process with at most 4 MB of reports in a second.
const PAUSE: Duration = Duration::from_millis(2);
const READ: usize = 8 << 10;

/// Reads frames for ever.
pub(super) async fn read(
    id: LinkId,
    mut stream: ReadHalf<Box<dyn Stream>>,
    mut buffer: BytesMut,
    inputs: mpsc::Sender<Input>,
) {
    let error = loop {
        loop {
            match Frame::decode(&buffer) {
                Ok(Some((frame, len))) => {
                    buffer.advance(len);
                    if inputs.send(Input::Frame(id, frame)).await.is_err() {
                        return;
                    }
                }
                Ok(None) => break,
                Err(error) => {
                    let _ = inputs.send(Input::Malformed(id, error)).await;
                    return;
                }
            }
        }
        let mut chunk = (&mut stream).take(READ as u64);
        match chunk.read_buf(&mut buffer).await {
            Ok(0) => break io::Error::from(io::ErrorKind::UnexpectedEof),
            Ok(_) => tokio::time::sleep(PAUSE).await,
            Err(error) => break error,
        }
    };
    let _ = inputs.send(Input::Closed(id, error)).await;
}

/// Writes batches for ever, and asks for the next one after each.
pub(super) async fn write(
    id: LinkId,
    mut stream: WriteHalf<Box<dyn Stream>>,
    mut batches: mpsc::Receiver<Vec<u8>>,
    inputs: mpsc::Sender<Input>,
) {
    while let Some(batch) = batches.recv().await {
        let writing = async {
            stream.write_all(&batch).await?;
            stream.flush().await
        };
        // A peer that does not read for so long is as good as gone.
        let written = tokio::time::timeout(LOST_AFTER, writing).await;
        let input = match written.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())) {
            Ok(()) => Input::Written(id),
            Err(error) => Input::Closed(id, error),
        };
        if inputs.send(input).await.is_err() {
            return;
        }
    }
}
