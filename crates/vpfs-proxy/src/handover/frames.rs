//! What two processes tell each other about sockets, and the sockets themselves.
//!
//! A frame is the length of a JSON text (4 bytes, big-endian), which carries the sockets, that text, and the bytes
//! whose number it states.

use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
};
use serde::{Deserialize, Serialize};

/// The version of these frames. A successor that does not know it gives up, and the older process continues. An older
/// predecessor may leave out what came later.
pub(super) const FORMAT: u32 = 1;

/// The longest JSON text. A user of 10,000 groups needs less.
const LONGEST_TEXT: usize = 256 << 10;
/// The most bytes of one connection: more than all requests of a session may hold.
const MOST_BYTES: usize = 256 << 20;
/// The most sockets of one frame: a client and its server.
const MOST_SOCKETS: usize = 2;

/// No server is called so; versions that know no sets ignore them.
pub(super) const SETS: &str = "[sets]";
/// The longest part of the sets in one frame. Their quotes need two bytes in it.
const SETS_PART: usize = LONGEST_TEXT / 3;

/// The frames that tell a successor of the sets.
pub(super) fn of_sets(sets: &str) -> impl Iterator<Item = Frame> {
    let mut rest = sets;
    std::iter::from_fn(move || {
        let end = (0..=rest.len().min(SETS_PART)).rev().find(|at| rest.is_char_boundary(*at))?;
        let (part, after) = rest.split_at(end);
        rest = after;
        (!part.is_empty()).then(|| Frame::Learned { server: SETS.to_owned(), content: part.to_owned() })
    })
}

/// One frame without its sockets and bytes.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Frame {
    /// The first one.
    Format(u32),
    /// A listening socket.
    Listener(SocketAddr),
    /// What was learned in front of the server of this name, or, for the name [`SETS`], a part of the sets of
    /// applications; a successor can do without it.
    Learned { server: String, content: String },
    /// There are no more listening sockets.
    Offered,
    /// The sockets of a client and its server.
    Connection {
        listener: SocketAddr,
        upstream: (String, u16),
        /// Id and groups.
        user: Option<(u32, Vec<u32>)>,
        from_client: usize,
        from_server: usize,
    },
    /// The only one from the successor: it serves the listening sockets from now on, and knows this version.
    Ready(u32),
}

impl Frame {
    /// How many bytes of client and server follow.
    fn follow(&self) -> [usize; 2] {
        match self {
            Self::Connection { from_client, from_server, .. } => [*from_client, *from_server],
            Self::Format(_) | Self::Listener(_) | Self::Learned { .. } | Self::Offered | Self::Ready(_) => [0; 2],
        }
    }
}

/// A frame as it arrived.
pub(super) struct Received {
    pub(super) frame: Frame,
    pub(super) sockets: Vec<OwnedFd>,
    pub(super) from_client: Vec<u8>,
    pub(super) from_server: Vec<u8>,
}

/// Sends a frame with its sockets and bytes.
pub(super) fn send(
    channel: &mut UnixStream,
    frame: &Frame,
    sockets: &[BorrowedFd<'_>],
    bytes: [&[u8]; 2],
) -> io::Result<()> {
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

/// Receives the next frame; `None` if there are no more.
pub(super) fn receive(channel: &mut UnixStream) -> io::Result<Option<Received>> {
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

pub(super) fn invalid(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
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
