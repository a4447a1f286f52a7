//! Applications that always read, or read what they write.

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::watch;
use tokio::task::JoinSet;
use vpfs_testbed::{Client, CreateOptions, File};

use super::{Site, pattern};

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

/// Two clients write files of `pieces` pieces and read each of them back, in four tasks each, while `disturb` does
/// something to the site whenever about so many bytes have passed; that is at least three times.
pub(crate) async fn disturbed(mut site: Site, pieces: u64, bytes: u64, disturb: impl AsyncFn(Site) -> Site) -> Site {
    let passed = |site: &Site| site.totals("host:127.0.0.1").bytes;
    let (mut clients, mut tasks) = (Vec::new(), JoinSet::new());
    for number in 0..2 {
        let client = site.client().await;
        clients.push(client.clone());
        let file = client.create(&format!("/{number}"), &CreateOptions::default()).await.unwrap();
        for task in 0..4 {
            tasks.spawn(write_and_verify(client.clone(), file.clone(), number, (task..pieces).step_by(4)));
        }
    }
    let (mut before, mut times) = (0, 0);
    while !tasks.is_empty() {
        if let Some(task) = tasks.try_join_next() {
            task.unwrap();
        }
        if passed(&site) < before + bytes {
            tokio::task::yield_now().await;
            continue;
        }
        site = disturb(site).await;
        before = passed(&site);
        times += 1;
    }
    assert!(times >= 3, "{times} times");
    // Until now they had connections.
    drop(clients);
    site
}

async fn write_and_verify(client: Client, file: File, number: u64, pieces: impl Iterator<Item = u64>) {
    const PIECE: usize = 150_000;
    for piece in pieces {
        let (data, at) = (pattern(number << 32 | piece, PIECE), piece * PIECE as u64);
        client.write_at(&file, at, data.clone()).await.unwrap();
        assert!(client.read_at(&file, at, PIECE).await.unwrap() == data, "{number}/{piece}");
    }
}
