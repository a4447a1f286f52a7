//! The older process: it offers its sockets, and gives them away after they were accepted.

use std::io;
use std::net::{Shutdown, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use tokio::sync::mpsc::UnboundedReceiver;

use super::Handed;
use super::frames::{self, FORMAT, Frame, Received, invalid, receive, send};

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
    for frame in frames::of_sets(sets) {
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
