//! Listening sockets and socket options.

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::net::{TcpListener, TcpSocket, TcpStream, lookup_host};

/// Connections that wait to be accepted: those of a large job's start. With fewer, some clients stall for a second or
/// more. The kernel allows at most `net.core.somaxconn`.
const BACKLOG: u32 = 4096;

/// Listens at the first address of `host` that can be bound, unless `inherit` has a socket for one of its addresses.
pub(crate) async fn listen(
    host: &str,
    port: u16,
    inherit: impl FnOnce(&[SocketAddr]) -> Option<std::net::TcpListener>,
) -> io::Result<TcpListener> {
    let addresses: Vec<SocketAddr> = lookup_host((host, port)).await?.collect();
    if let Some(listener) = inherit(&addresses) {
        listener.set_nonblocking(true)?;
        return TcpListener::from_std(listener);
    }
    let mut failed = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
    for address in addresses {
        match listen_at(address) {
            Ok(listener) => return Ok(listener),
            Err(error) => failed = error,
        }
    }
    Err(failed)
}

fn listen_at(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // So that a restarted proxy does not wait for the end of old connections.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// The options that OrangeFS sets on both ends, and keep-alives, so that a vanished host does not hold a connection for
/// ever.
pub(crate) fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let keepalive = TcpKeepalive::new().with_time(Duration::from_secs(60)).with_interval(Duration::from_secs(10));
    SockRef::from(stream).set_tcp_keepalive(&keepalive)
}

/// Makes closing send a reset, as a dead server's kernel would: the client must not mistake it for an orderly end.
pub(crate) fn reset_on_close(stream: &impl AsFd) {
    // If even this fails, only an orderly end is possible.
    let _ = SockRef::from(stream).set_linger(Some(Duration::ZERO));
}
