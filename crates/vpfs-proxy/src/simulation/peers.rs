//! Model clients and servers: they speak the protocol, and do what the fate that was drawn for them says.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use rand::RngExt;
use tokio::io::Interest;
use tokio::sync::{Semaphore, mpsc};
use tokio::time::{Instant, sleep};
use vpfs_config::Protocol;
use vpfs_wire::bmi::{Header, Tag};

use super::operation::{Kind, meaning, tag};
use super::record::{Passed, Trace};
use super::{nfs, raw};
use crate::stream::simulated::{Randomness, Socket};

/// What a peer does to its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// Nothing unusual.
    Good,
    /// After so many bytes read or written it ends, with a reset or orderly.
    Ends { after: usize, with_reset: bool },
    /// After so many bytes it does nothing for a while.
    Stalls { after: usize, pause: Duration },
}

/// Bytes of one data message.
const CHUNK: usize = 64 << 10;

fn request(tag: Tag) -> Vec<u8> {
    let handle = 7 + (tag.0 >> 16) % 3;
    match meaning(tag) {
        (Kind::Metadata, _) => raw::metadata(tag.0),
        (Kind::Write, len) => raw::write(tag.0, handle, len),
        (Kind::Read, len) => raw::read(tag.0, handle, len),
        (Kind::SmallWrite, len) => raw::small_write(tag.0, handle, vec![7; len.min(6 << 10)]),
    }
}

/// The data of an operation, in messages.
fn data(tag: Tag, len: usize) -> impl Iterator<Item = Vec<u8>> {
    let chunks = (0..len).step_by(CHUNK).map(move |at| (at, CHUNK.min(len - at)));
    chunks.map(move |(at, len)| raw::data(tag, &vec![(tag.0 >> 16) as u8 ^ (at >> 16) as u8; len]))
}

/// One end of a connection with a fate.
pub(crate) struct Peer {
    protocol: Protocol,
    socket: Socket,
    fate: Fate,
    moved: std::sync::Mutex<usize>,
    random: Randomness,
    trace: Trace,
    name: (usize, u8),
    begun: Instant,
}

impl Peer {
    pub(crate) fn new(
        protocol: Protocol,
        socket: Socket,
        fate: Fate,
        random: &Randomness,
        trace: &Trace,
        name: (usize, u8),
    ) -> Arc<Self> {
        let (random, trace) = (Arc::clone(random), trace.clone());
        Arc::new(Self { protocol, socket, fate, moved: 0.into(), random, trace, name, begun: Instant::now() })
    }

    fn draw(&self, most: u64) -> u64 {
        self.random.lock().unwrap().random_range(0..=most)
    }

    /// Bytes moved; an error if its fate has come.
    async fn account(&self, count: usize) -> io::Result<()> {
        let (before, after) = {
            let mut moved = self.moved.lock().unwrap();
            *moved += count;
            (*moved - count, *moved)
        };
        let is_due = |at: usize| before < at && after >= at;
        match self.fate {
            Fate::Ends { after: at, with_reset } if after >= at => {
                if with_reset {
                    self.socket.reset_on_close();
                }
                self.socket.close();
                Err(io::ErrorKind::Interrupted.into())
            }
            Fate::Stalls { after: at, pause } if is_due(at) => {
                sleep(pause).await;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    async fn read(&self, buf: &mut [u8]) -> io::Result<()> {
        let mut filled = 0;
        while filled < buf.len() {
            self.socket.ready(Interest::READABLE).await;
            match self.socket.try_read_buf(&mut &mut buf[filled..]) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => {
                    filled += count;
                    self.account(count).await?;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => tokio::task::yield_now().await,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    async fn write(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            self.socket.ready(Interest::WRITABLE).await;
            match self.socket.try_write_vectored(&[io::IoSlice::new(bytes)]) {
                Ok(count) => {
                    bytes = &bytes[count..];
                    self.account(count).await?;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => tokio::task::yield_now().await,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// The next message, whole, and its operation.
    async fn message(&self) -> io::Result<(Tag, Vec<u8>)> {
        let (tag, bytes) = match self.protocol {
            Protocol::OrangeFs => self.bmi_message().await?,
            Protocol::Nfs => self.rpc_message().await?,
        };
        self.trace.add((self.name, tag.0, bytes.len(), self.begun.elapsed()));
        Ok((tag, bytes))
    }

    async fn bmi_message(&self) -> io::Result<(Tag, Vec<u8>)> {
        let mut bytes = vec![0; Header::LEN];
        self.read(&mut bytes).await?;
        let header = Header::decode(&bytes).expect("a proxy passes on whole headers");
        bytes.resize(Header::LEN + usize::try_from(header.size).unwrap(), 0);
        self.read(&mut bytes[Header::LEN..]).await?;
        Ok((header.tag, bytes))
    }

    /// A record of RPC, and the transaction number in its first fragment.
    async fn rpc_message(&self) -> io::Result<(Tag, Vec<u8>)> {
        let mut bytes = Vec::new();
        loop {
            let start = bytes.len() + 4;
            bytes.resize(start, 0);
            self.read(&mut bytes[start - 4..]).await?;
            let mark = u32::from_be_bytes(*bytes.last_chunk().unwrap());
            bytes.resize(start + (mark & !nfs::IS_LAST) as usize, 0);
            self.read(&mut bytes[start..]).await?;
            if mark & nfs::IS_LAST != 0 {
                let xid = u32::from_be_bytes(*bytes[4..].first_chunk().unwrap());
                return Ok((Tag(xid.into()), bytes));
            }
        }
    }

    async fn pause(&self, most_us: u64) {
        let us = self.draw(most_us);
        if us > 0 {
            sleep(Duration::from_micros(us)).await;
        }
    }
}

/// Four points of a connection.
#[derive(Clone, Debug, Default)]
pub(crate) struct Points {
    pub(crate) client_sent: Passed,
    pub(crate) server_got: Passed,
    pub(crate) server_sent: Passed,
    pub(crate) client_got: Passed,
}

/// Sends messages one after the other; ends when the connection does.
fn writer(peer: Arc<Peer>, sent: Passed) -> mpsc::UnboundedSender<(Tag, Vec<u8>)> {
    let (sender, mut messages) = mpsc::unbounded_channel::<(Tag, Vec<u8>)>();
    tokio::spawn(async move {
        while let Some((tag, bytes)) = messages.recv().await {
            // What was queued may arrive in part.
            sent.add(tag, &bytes);
            if peer.write(&bytes).await.is_err() {
                return;
            }
        }
    });
    sender
}

/// Runs `ops` operations, some at once; returns how many were answered.
pub(crate) async fn client(peer: Arc<Peer>, points: Points, ops: u64, at_once: usize) -> u64 {
    let sender = writer(Arc::clone(&peer), points.client_sent.clone());
    let permits = Arc::new(Semaphore::new(at_once));
    let starting = {
        let (peer, permits, sender) = (Arc::clone(&peer), Arc::clone(&permits), sender.clone());
        tokio::spawn(async move {
            for number in 1..=ops {
                permits.acquire().await.expect("open").forget();
                // Clients of NFS send several calls at once.
                if peer.protocol == Protocol::OrangeFs || number % 4 == 1 {
                    peer.pause(2_000).await;
                }
                let tag = tag(
                    number,
                    usize::try_from(peer.draw(3)).unwrap(),
                    1 + peer.draw(if number % 8 == 0 { 150 } else { 8 }),
                );
                let request = if peer.protocol == Protocol::Nfs { nfs::call(tag) } else { request(tag) };
                if sender.send((tag, request)).is_err() {
                    return;
                }
            }
        })
    };
    let mut answered = 0;
    let mut left = HashMap::<Tag, usize>::new();
    while answered < ops {
        let Ok((tag, bytes)) = peer.message().await else { break };
        points.client_got.add(tag, &bytes);
        let (kind, len) = meaning(tag);
        let is_last = match (kind, left.get_mut(&tag)) {
            _ if peer.protocol == Protocol::Nfs => true,
            (Kind::Metadata | Kind::SmallWrite, _) => true,
            // The acknowledgement.
            (Kind::Write, None) => {
                left.insert(tag, 0);
                for message in data(tag, len) {
                    let _ = sender.send((tag, message));
                }
                false
            }
            (Kind::Write, Some(_)) => true,
            (Kind::Read, None) => left.insert(tag, len).is_some(),
            (Kind::Read, Some(left)) => {
                *left -= bytes.len() - Header::LEN;
                *left == 0
            }
        };
        if is_last {
            answered += 1;
            permits.add_permits(1);
        }
    }
    starting.abort();
    answered
}

/// Answers requests until the connection ends.
pub(crate) async fn server(peer: Arc<Peer>, points: Points) {
    let sender = writer(Arc::clone(&peer), points.server_sent.clone());
    let mut awaited = HashMap::<Tag, usize>::new();
    let nfs = Arc::new(std::sync::Mutex::new(nfs::Server::default()));
    while let Ok((tag, bytes)) = peer.message().await {
        points.server_got.add(tag, &bytes);
        if peer.protocol == Protocol::Nfs {
            points.server_got.assert_in_order(tag, &points.client_sent, nfs::is_ordered);
        }
        let answers = match peer.protocol {
            Protocol::OrangeFs => answers(tag, &bytes, &mut awaited),
            Protocol::Nfs => Vec::new(),
        };
        let (peer, sender, nfs) = (Arc::clone(&peer), sender.clone(), Arc::clone(&nfs));
        tokio::spawn(async move {
            peer.pause(3_000).await;
            let from_nfs = (peer.protocol == Protocol::Nfs).then(|| nfs.lock().unwrap().answer(tag)).flatten();
            for answer in answers.into_iter().chain(from_nfs) {
                let _ = sender.send((tag, answer));
            }
        });
    }
}

/// What an OrangeFS server sends for this message; `awaited` has the data that is still to come for writes.
fn answers(tag: Tag, bytes: &[u8], awaited: &mut HashMap<Tag, usize>) -> Vec<Vec<u8>> {
    let (kind, len) = meaning(tag);
    if let Some(left) = awaited.get_mut(&tag) {
        *left -= bytes.len() - Header::LEN;
        if *left > 0 {
            return Vec::new();
        }
        awaited.remove(&tag);
        return vec![raw::completion(tag, len)];
    }
    match kind {
        Kind::Metadata => vec![raw::done(tag)],
        Kind::SmallWrite => vec![raw::small_written(tag, len.min(6 << 10))],
        Kind::Write => {
            awaited.insert(tag, len);
            vec![raw::ack(tag, 0)]
        }
        Kind::Read => std::iter::once(raw::ack(tag, len)).chain(data(tag, len)).collect(),
    }
}
