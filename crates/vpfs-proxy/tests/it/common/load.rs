//! Applications that always read, or read what they write.

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::watch;
use tokio::task::JoinSet;
use vpfs_testbed::{Client, CreateOptions, File};

use super::pattern;

/// Pieces of a file.
const PIECES: usize = 16;

/// Readers without end, which verify what they read. Dropping it ends them.
pub(crate) struct Load {
    done: Arc<watch::Sender<u64>>,
    readers: JoinSet<()>,
}

impl Load {
    pub(crate) fn new() -> Self {
        Self { done: Arc::new(watch::Sender::new(0)), readers: JoinSet::new() }
    }

    /// Reads pieces of `piece` bytes of a new file, as many at once as `concurrency`.
    pub(crate) async fn add(
        &mut self,
        client: &Client,
        path: &str,
        options: &CreateOptions,
        piece: usize,
        concurrency: usize,
    ) {
        self.read(&Written::new(client, path, options, piece).await, concurrency);
    }

    /// Reads a file that was written before.
    pub(crate) fn read(&mut self, written: &Written, concurrency: usize) {
        for reader in 0..concurrency {
            let (Written { client, file, content, piece }, done) = (written.clone(), Arc::clone(&self.done));
            self.readers.spawn(async move {
                for number in reader.. {
                    let at = number % PIECES * piece;
                    let read = client.read_at(&file, at as u64, piece).await.unwrap();
                    assert!(read[..] == content[at..at + piece], "wrong bytes");
                    done.send_modify(|count| *count += 1);
                }
            });
        }
    }

    /// Waits until `count` more operations are complete.
    pub(crate) async fn pass(&mut self, count: u64) {
        let mut completed = self.done.subscribe();
        let begin = *completed.borrow_and_update();
        completed.wait_for(|done| *done >= begin + count).await.unwrap();
        assert!(self.readers.try_join_next().is_none(), "a reader failed");
    }
}

/// A file for [`Load::read`].
#[derive(Clone)]
pub(crate) struct Written {
    client: Client,
    file: File,
    content: Bytes,
    piece: usize,
}

impl Written {
    pub(crate) async fn new(client: &Client, path: &str, options: &CreateOptions, piece: usize) -> Self {
        let file = client.create(path, options).await.unwrap();
        let content = pattern(piece as u64, piece * PIECES);
        client.write_at(&file, 0, content.clone()).await.unwrap();
        Self { client: client.clone(), file, content, piece }
    }
}
