//! The newer process: it takes the sockets over.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use bytes::BytesMut;
use vpfs_session::User;

use super::Handed;
use super::frames::{FORMAT, Frame, Received, SETS, invalid, receive, send};
use crate::stream::Detached;

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

    /// What the predecessor learned in front of the server of this name.
    pub(crate) fn learned(&self, server: &str) -> Option<&[u8]> {
        let (_, content) = self.learned.iter().find(|(name, _)| name == server)?;
        Some(content.as_bytes())
    }

    /// The sets of applications that the predecessor held; `None` if it says nothing about them.
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

/// The connections of a predecessor, one after the other.
pub(crate) struct Connections {
    channel: UnixStream,
}

impl Connections {
    /// The next one; `None` if there are no more. Blocks.
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
