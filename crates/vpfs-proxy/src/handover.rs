//! A process that hands its sockets over to its successor, so that an upgrade breaks no connection.
//!
//! Both ends of a Unix socket speak [`frames`]: the older process offers its listening sockets, the newer one confirms
//! once it serves them, and then receives each connection at a moment when nothing is in progress on it
//! (docs/decisions/0009-operation.md).

use std::io;
use std::io::{IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::net::{Shutdown, SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
};
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc::UnboundedReceiver;
use vpfs_protocol::session::User;

use crate::stream::Detached;

/// A connection between two processes: nothing is in progress on it.
pub(crate) struct Handed {
    /// Where the client connected: the address of the listening socket.
    pub(crate) listener: SocketAddr,
    pub(crate) upstream: (String, u16),
    pub(crate) client: Detached,
    pub(crate) server: Detached,
    pub(crate) user: Option<Arc<User>>,
    /// Bytes that were read from the client and not processed.
    pub(crate) from_client: BytesMut,
    pub(crate) from_server: BytesMut,
}

impl Handed {
    /// Ends a connection that nobody serves. Dropping it does not: another process may have it, too.
    pub(crate) fn end(self) {
        self.client.reset_on_close();
    }
}

// What two processes tell each other about sockets, and the sockets themselves.
//
// A frame is the length of a JSON text (4 bytes, big-endian), which carries the sockets, that text, and the bytes
// whose number it states.

/// The version of these frames. A successor that does not know it gives up, and the older process continues. An older
/// predecessor may leave out what came later.
const FORMAT: u32 = 1;

/// The longest JSON text. A user of 10,000 groups needs less.
const LONGEST_TEXT: usize = 256 << 10;

/// The most bytes of one connection: more than all requests of a session may hold.
const MOST_BYTES: usize = 256 << 20;

const MOST_SOCKETS: usize = 2;

/// No server is called so; versions that know no sets ignore them.
const SETS: &str = "[sets]";

/// The longest part of the sets in one frame. Their quotes need two bytes in it.
const SETS_PART: usize = LONGEST_TEXT / 3;

fn of_sets(sets: &str) -> impl Iterator<Item = Frame> {
    let mut rest = sets;
    std::iter::from_fn(move || {
        let end = (0..=rest.len().min(SETS_PART)).rev().find(|at| rest.is_char_boundary(*at))?;
        let (part, after) = rest.split_at(end);
        rest = after;
        (!part.is_empty()).then(|| Frame::Learned { server: SETS.to_owned(), content: part.to_owned() })
    })
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Frame {
    Format(u32),
    Listener(SocketAddr),
    /// What was learned in front of the server of this name, or, for the name [`SETS`], a part of the sets of
    /// applications; a successor can do without it.
    Learned {
        server: String,
        content: String,
    },
    Offered,
    Connection {
        listener: SocketAddr,
        upstream: (String, u16),
        user: Option<(u32, Vec<u32>)>,
        from_client: usize,
        from_server: usize,
    },
    /// The only one from the successor: it serves the listening sockets from now on, and knows this version.
    Ready(u32),
}

impl Frame {
    fn follow(&self) -> [usize; 2] {
        match self {
            Self::Connection { from_client, from_server, .. } => [*from_client, *from_server],
            Self::Format(_) | Self::Listener(_) | Self::Learned { .. } | Self::Offered | Self::Ready(_) => [0; 2],
        }
    }
}

struct Received {
    frame: Frame,
    sockets: Vec<OwnedFd>,
    from_client: Vec<u8>,
    from_server: Vec<u8>,
}

fn send(channel: &mut UnixStream, frame: &Frame, sockets: &[BorrowedFd<'_>], bytes: [&[u8]; 2]) -> io::Result<()> {
    debug_assert_eq!(frame.follow(), bytes.map(<[u8]>::len));
    let text = serde_json::to_vec(frame)?;
    let length = u32::try_from(text.len()).map_err(|_| invalid("a frame is too long"))?.to_be_bytes();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_SOCKETS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !sockets.is_empty() && !control.push(SendAncillaryMessage::ScmRights(sockets)) {
        return Err(invalid("too many sockets in a frame"));
    }
    let sent = rustix::net::sendmsg(&*channel, &[IoSlice::new(&length)], &mut control, SendFlags::NOSIGNAL)?;
    channel.write_all(&length[sent..])?;
    channel.write_all(&text)?;
    bytes.into_iter().try_for_each(|bytes| channel.write_all(bytes))
}

fn receive(channel: &mut UnixStream) -> io::Result<Option<Received>> {
    let mut length = [0; 4];
    let (count, sockets) = receive_sockets(channel, &mut length)?;
    if count == 0 {
        return Ok(None);
    }
    channel.read_exact(&mut length[count..])?;
    let text = read(channel, u32::from_be_bytes(length) as usize, LONGEST_TEXT)?;
    let frame: Frame = serde_json::from_slice(&text)?;
    let [client, server] = frame.follow();
    let from_client = read(channel, client, MOST_BYTES)?;
    let from_server = read(channel, server, MOST_BYTES)?;
    Ok(Some(Received { frame, sockets, from_client, from_server }))
}

fn receive_sockets(channel: &UnixStream, into: &mut [u8]) -> io::Result<(usize, Vec<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_SOCKETS))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut into = [IoSliceMut::new(into)];
    let received =
        rustix::io::retry_on_intr(|| rustix::net::recvmsg(channel, &mut into, &mut control, RecvFlags::CMSG_CLOEXEC))?;
    let sockets = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(sockets) => Some(sockets),
        _ => None,
    });
    Ok((received.bytes, sockets.flatten().collect()))
}

fn read(channel: &mut UnixStream, count: usize, most: usize) -> io::Result<Vec<u8>> {
    if count > most {
        return Err(invalid("a frame is too long"));
    }
    let mut bytes = vec![0; count];
    channel.read_exact(&mut bytes)?;
    Ok(bytes)
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// How long the successor may take to read its configuration and confirm, and later to take what is sent to it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// A successor that serves the listening sockets from now on.
pub struct Offer {
    channel: UnixStream,
}

/// Offers listening sockets to a successor at the other end of `channel`, tells it what was `learned` in front of each
/// server and the `sets` of applications, and waits until it has confirmed. Blocks until then, or until the
/// channel is shut down.
pub(crate) fn offer(
    mut channel: UnixStream,
    listeners: &[(SocketAddr, OwnedFd)],
    learned: Vec<(String, String)>,
    sets: &str,
) -> io::Result<Offer> {
    channel.set_write_timeout(Some(PATIENCE))?;
    send(&mut channel, &Frame::Format(FORMAT), &[], [&[]; 2])?;
    for (address, socket) in listeners {
        send(&mut channel, &Frame::Listener(*address), &[socket.as_fd()], [&[]; 2])?;
    }
    for (server, content) in learned {
        send(&mut channel, &Frame::Learned { server, content }, &[], [&[]; 2])?;
    }
    for frame in of_sets(sets) {
        send(&mut channel, &frame, &[], [&[]; 2])?;
    }
    send(&mut channel, &Frame::Offered, &[], [&[]; 2])?;
    // Whatever else it sends, it is not vpfs, or not a version that this process can hand over to.
    match receive(&mut channel).map_err(|error| io::Error::new(error.kind(), format!("it sent no answer: {error}")))? {
        Some(Received { frame: Frame::Ready(FORMAT), .. }) => Ok(Offer { channel }),
        Some(Received { frame, .. }) => {
            Err(invalid(&format!("it answered {frame:?}, which this version does not know")))
        }
        None => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it ended before it was ready; its log says why")),
    }
}

/// Gives away connections until there are no more. Those that cannot be given away end with a reset. Blocks.
pub(crate) fn give(offer: Offer, mut connections: UnboundedReceiver<Handed>) -> io::Result<usize> {
    let Offer { mut channel } = offer;
    let mut count = 0;
    let mut result = Ok(());
    while let Some(handed) = connections.blocking_recv() {
        if result.is_ok() {
            result = give_one(&mut channel, &handed);
        }
        if result.is_ok() { count += 1 } else { handed.end() }
    }
    result.and_then(|()| channel.shutdown(Shutdown::Write)).map(|()| count)
}

fn give_one(channel: &mut UnixStream, handed: &Handed) -> io::Result<()> {
    let frame = Frame::Connection {
        listener: handed.listener,
        upstream: handed.upstream.clone(),
        user: handed.user.as_ref().map(|user| (user.uid, user.gids.clone())),
        from_client: handed.from_client.len(),
        from_server: handed.from_server.len(),
    };
    let sockets = [handed.client.as_fd(), handed.server.as_fd()];
    send(channel, &frame, &sockets, [&handed.from_client, &handed.from_server])
}

/// What a process gets from its predecessor.
pub struct Inheritance {
    channel: UnixStream,
    listeners: Vec<(SocketAddr, TcpListener)>,
    learned: Vec<(String, String)>,
}

impl Inheritance {
    /// Receives the listening sockets from a predecessor at the other end of `channel`. Blocks.
    ///
    /// # Errors
    /// If the predecessor ends or sends anything else.
    pub fn receive(mut channel: UnixStream) -> io::Result<Self> {
        let mut next = || receive(&mut channel)?.ok_or_else(|| io::Error::from(io::ErrorKind::UnexpectedEof));
        match next()?.frame {
            Frame::Format(FORMAT) => {}
            other => return Err(invalid(&format!("format {FORMAT} was expected, not {other:?}"))),
        }
        let (mut listeners, mut learned) = (Vec::new(), Vec::new());
        loop {
            match next()? {
                Received { frame: Frame::Listener(address), mut sockets, .. } => {
                    let socket = sockets.pop().ok_or_else(|| invalid("a listener without its socket"))?;
                    listeners.push((address, TcpListener::from(socket)));
                }
                Received { frame: Frame::Learned { server, content }, .. } => learned.push((server, content)),
                Received { frame: Frame::Offered, .. } => return Ok(Self { channel, listeners, learned }),
                other => return Err(invalid(&format!("{:?} instead of a listener", other.frame))),
            }
        }
    }

    pub(crate) fn learned(&self, server: &str) -> Option<&[u8]> {
        let (_, content) = self.learned.iter().find(|(name, _)| name == server)?;
        Some(content.as_bytes())
    }

    pub(crate) fn sets(&self) -> Option<Vec<u8>> {
        let parts = self.learned.iter().filter(|(name, _)| name == SETS).map(|(_, part)| part.as_str());
        Some(parts.collect::<String>().into_bytes()).filter(|sets| !sets.is_empty())
    }

    /// Takes the socket that listens at one of these addresses. If there are none, because a name server does not
    /// answer, takes the only one that listens at this port.
    pub(crate) fn take_listener(&mut self, addresses: &[SocketAddr], port: u16) -> Option<TcpListener> {
        let is_wanted = |(address, _): &(SocketAddr, TcpListener)| match addresses {
            [] => address.port() == port,
            _ => addresses.contains(address),
        };
        let index = self.listeners.iter().position(is_wanted)?;
        let is_only = self.listeners.iter().filter(|listener| is_wanted(listener)).count() == 1;
        (is_only || !addresses.is_empty()).then(|| self.listeners.swap_remove(index).1)
    }

    /// Tells the predecessor that its listeners are served here from now on, and closes those that are not needed.
    pub(crate) fn confirm(mut self) -> io::Result<Connections> {
        send(&mut self.channel, &Frame::Ready(FORMAT), &[], [&[]; 2])?;
        Ok(Connections { channel: self.channel })
    }
}

pub(crate) struct Connections {
    channel: UnixStream,
}

impl Connections {
    pub(crate) fn next(&mut self) -> io::Result<Option<Handed>> {
        let Some(received) = receive(&mut self.channel)? else { return Ok(None) };
        let Received { frame: Frame::Connection { listener, upstream, user, .. }, sockets, .. } = received else {
            return Err(invalid("a connection was expected"));
        };
        let Ok([client, server]) = <[_; 2]>::try_from(sockets) else {
            return Err(invalid("a connection without its two sockets"));
        };
        Ok(Some(Handed {
            listener,
            upstream,
            client: Detached::Tcp(client.into()),
            server: Detached::Tcp(server.into()),
            user: user.map(|(uid, gids)| Arc::new(User { uid, gids, ..User::default() })),
            from_client: BytesMut::from(&received.from_client[..]),
            from_server: BytesMut::from(&received.from_server[..]),
        }))
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd;
    use std::thread;

    use super::*;

    #[test]
    fn frames_arrive_as_sent_with_their_sockets() {
        let (mut old, mut new) = UnixStream::pair().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let client = TcpStream::connect(address).unwrap();
        // More than the channel's own buffer holds.
        let bytes = vec![7; 3 << 20];
        let user = Some((1000, vec![100, 200]));
        let connection = || Frame::Connection {
            listener: address,
            upstream: ("oss1".to_owned(), 3334),
            user: user.clone(),
            from_client: bytes.len(),
            from_server: 1,
        };
        thread::scope(|scope| {
            scope.spawn(|| {
                send(&mut old, &Frame::Format(FORMAT), &[], [&[]; 2]).unwrap();
                send(&mut old, &Frame::Listener(address), &[listener.as_fd()], [&[]; 2]).unwrap();
                send(&mut old, &connection(), &[client.as_fd(), client.as_fd()], [&bytes, &[9]]).unwrap();
                drop(old);
            });
            let received: Vec<Received> = std::iter::from_fn(|| receive(&mut new).unwrap()).collect();
            let frames: Vec<&Frame> = received.iter().map(|received| &received.frame).collect();
            assert_eq!(frames, [&Frame::Format(FORMAT), &Frame::Listener(address), &connection()]);
            let sockets: Vec<usize> = received.iter().map(|received| received.sockets.len()).collect();
            assert_eq!(sockets, [0, 1, 2]);
            assert!(received[2].from_client == bytes && received[2].from_server == [9]);
            let same = TcpStream::from(received[2].sockets[0].try_clone().unwrap());
            assert_eq!(same.local_addr().unwrap(), client.local_addr().unwrap());
        });
    }

    #[test]
    fn sets_of_any_length_fit_frames() {
        let sets = "\"é".repeat(SETS_PART);
        let mut together = String::new();
        for frame in of_sets(&sets) {
            assert!(serde_json::to_vec(&frame).unwrap().len() <= LONGEST_TEXT);
            let Frame::Learned { server, content } = frame else { panic!("{frame:?}") };
            assert_eq!(server, SETS);
            together += &content;
        }
        assert!(together == sets && of_sets("").next().is_none());
    }

    #[test]
    fn nonsense_is_an_error() {
        for sent in [&[0xff; 8][..], &[0, 0, 0, 1, b'{'], &[0, 0, 0, 9, b'1'], &[0, 0], b"ready\n"] {
            let (mut old, mut new) = UnixStream::pair().unwrap();
            old.write_all(sent).unwrap();
            drop(old);
            assert!(receive(&mut new).is_err(), "{sent:?}");
        }
    }
}
