//! Listening sockets and socket options.

use std::fmt::Display;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nix::sys::socket::SetSockOpt;
use nix::{libc, setsockopt_impl, sockopt_impl};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::ioctl_fionread;
use socket2::{SockRef, TcpKeepalive};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::time::Instant;
use vpfs_core::Time;
use vpfs_protocol::session::Interposer;

use crate::event_log::{Kind, LogLimit};
use crate::gate::Gate;
use crate::names::Names;

/// Connections that wait to be accepted: those of a large job's start. With fewer, some clients stall for a second or
/// more. The kernel allows at most `net.core.somaxconn`.
const BACKLOG: u32 = 4096;

/// After a failure to listen at an address that was found late, the time to the next attempt.
const RETRY: Duration = Duration::from_secs(10);

pub(crate) enum Bound {
    Now(TcpListener),
    /// The host has no address yet, for this reason.
    Later(io::Error),
}

/// Listens at the first address of `host` that can be bound, unless `inherit` has a socket for one of its addresses; a
/// name that is not found by `until` has none.
pub(crate) async fn listen(
    names: &Names,
    (host, port): (&str, u16),
    until: Instant,
    inherit: impl FnOnce(&[SocketAddr]) -> Option<std::net::TcpListener>,
) -> io::Result<Bound> {
    let found = names.local(host, until).await;
    let addresses = with_port(found.as_deref().unwrap_or_default(), port);
    match (inherit(&addresses), found) {
        (Some(listener), _) => {
            listener.set_nonblocking(true)?;
            TcpListener::from_std(listener).map(Bound::Now)
        }
        (None, Ok(_)) => listen_at_first(&addresses).map(Bound::Now),
        (None, Err(error)) => Ok(Bound::Later(error)),
    }
}

pub(crate) async fn listen_later(names: &Names, (host, port): (&str, u16)) -> TcpListener {
    loop {
        match listen_at_first(&with_port(&names.some_time(host).await, port)) {
            Ok(listener) => {
                tracing::info!(listen = %format!("{host}:{port}"), "listening: the name has an address now");
                return listener;
            }
            Err(error) => tracing::error!(listen = %format!("{host}:{port}"), %error, "cannot listen; trying again"),
        }
        tokio::time::sleep(RETRY).await;
    }
}

fn with_port(addresses: &[IpAddr], port: u16) -> Vec<SocketAddr> {
    addresses.iter().map(|&ip| (ip, port).into()).collect()
}

fn listen_at_first(addresses: &[SocketAddr]) -> io::Result<TcpListener> {
    first(addresses, |address| bind(address)?.listen(BACKLOG).map_err(explained))
}

pub(crate) fn bind_first(addresses: &[SocketAddr]) -> io::Result<TcpSocket> {
    first(addresses, bind)
}

fn first<T>(addresses: &[SocketAddr], bind: impl Fn(SocketAddr) -> io::Result<T>) -> io::Result<T> {
    let mut failed = no_address();
    for &address in addresses {
        match bind(address) {
            Ok(socket) => return Ok(socket),
            Err(error) => failed = error,
        }
    }
    Err(failed)
}

/// A socket for a connection from or to `address`. What it sends over the loopback is not paced: no link has a queue to
/// keep short there, and where the host's default is BBR, data that follows small messages waits for milliseconds.
fn socket_for(address: SocketAddr) -> io::Result<TcpSocket> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    if address.ip().is_loopback() {
        // Every kernel has this one. If it is forbidden, only time is lost.
        let _ = SockRef::from(&socket).set_tcp_congestion(b"reno");
    }
    Ok(socket)
}

pub(crate) async fn connect(names: &Names, host: &str, port: u16) -> io::Result<TcpStream> {
    let mut failed = no_address();
    for address in with_port(&names.in_use(host).await?, port) {
        // A host without IPv6 has no sockets for such addresses.
        match async { socket_for(address)?.connect(address).await }.await {
            Ok(stream) => return Ok(stream),
            Err(error) => failed = error,
        }
    }
    Err(failed)
}

fn no_address() -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, "the host has no address")
}

fn bind(address: SocketAddr) -> io::Result<TcpSocket> {
    let socket = socket_for(address)?;
    // So that a restarted proxy does not wait for the end of old connections.
    socket.set_reuseaddr(true)?;
    socket.bind(address).map_err(explained)?;
    Ok(socket)
}

/// The errors of listening that administrators can do something about, with what that is.
fn explained(error: io::Error) -> io::Error {
    let text = match error.kind() {
        io::ErrorKind::AddrNotAvailable => {
            "this host does not have the address; name the servers of this host with --server, or write bind"
        }
        io::ErrorKind::AddrInUse => "the address is in use, perhaps by another proxy; `ss -ltnp` shows by whom",
        io::ErrorKind::PermissionDenied => {
            "permission denied; ports below 1024 need CAP_NET_BIND_SERVICE (AmbientCapabilities= of the service)"
        }
        _ => return error,
    };
    io::Error::new(error.kind(), text)
}

/// The options that OrangeFS sets on both ends, and keep-alives, so that a vanished host does not hold a connection for
/// ever.
pub(crate) fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let keepalive = TcpKeepalive::new().with_time(Duration::from_secs(60)).with_interval(Duration::from_secs(10));
    SockRef::from(stream).set_tcp_keepalive(&keepalive)
}

/// Acknowledges what was read now, not up to 40 ms later or with the next bytes that are sent.
pub(crate) fn acknowledge(stream: &TcpStream) {
    // If this fails, the peer only learns it later.
    let _ = SockRef::from(stream).set_tcp_quickack(true);
}

nix::sockopt_impl!(LowWater, SetOnly, libc::SOL_SOCKET, libc::SO_RCVLOWAT, i32);

/// Whether the socket has received `bytes` bytes that nobody has read. `false` at its end, or if the system has no room
/// for so many, or cannot wait for them. Until then it is not ready, and the error is [`io::ErrorKind::WouldBlock`].
pub(crate) fn received(stream: &TcpStream, bytes: usize) -> io::Result<bool> {
    let has_all = || ioctl_fionread(stream).is_ok_and(|received| received >= bytes as u64);
    if has_all() {
        return Ok(true);
    }
    let waits = i32::try_from(bytes).is_ok_and(|bytes| LowWater.set(&stream, &bytes).is_ok());
    // They may have come just before that, and at its end a socket is always ready.
    let is_ready = poll(&mut [PollFd::new(stream, PollFlags::IN)], Some(&Timespec::default())) != Ok(0);
    if is_ready || !waits { Ok(has_all()) } else { Err(io::ErrorKind::WouldBlock.into()) }
}

pub(crate) fn await_any(stream: &TcpStream) {
    // What was set before can be set again.
    let _ = LowWater.set(&stream, &1);
}

/// Makes closing send a reset, as a dead server's kernel would: the client must not mistake it for an orderly end.
pub(crate) fn reset_on_close(stream: &impl AsFd) {
    // If even this fails, only an orderly end is possible.
    let _ = SockRef::from(stream).set_linger(Some(Duration::ZERO));
}

pub(crate) struct Listener {
    pub(crate) server: String,
    pub(crate) address: SocketAddr,
    pub(crate) upstream: (String, u16),
    /// Has its address; looked up again when connections are opened, so that a moved server is found.
    pub(crate) names: Names,
    pub(crate) index: usize,
    pub(crate) interposer: Arc<dyn Interposer>,
    pub(crate) gate: Arc<Gate>,
    /// Whether the server was unreachable at the last attempt, so that failure and recovery are each logged once.
    pub(crate) down: AtomicBool,
    pub(crate) log: LogLimit,
}

impl Listener {
    pub(crate) async fn connect(&self, patience: Duration) -> io::Result<TcpStream> {
        let (host, port) = &self.upstream;
        let stream = tokio::time::timeout(patience, connect(&self.names, host, *port))
            .await
            .map_err(|_| io::Error::new(io::ErrorKind::TimedOut, "no answer within limits.connect_timeout"))??;
        prepare(&stream)?;
        Ok(stream)
    }

    pub(crate) fn failed(&self, error: &io::Error) {
        if !self.down.swap(true, Ordering::Relaxed) {
            let (host, port) = &self.upstream;
            tracing::warn!(server = %self.server, address = %format!("{host}:{port}"), %error, "server cannot be reached");
        }
    }

    pub(crate) fn lacks_sockets(&self, now: Time, error: &dyn Display) {
        if let Some(suppressed) = self.log.due(Kind::NoSocket, now) {
            tracing::error!(server = %self.server, %error, suppressed, "cannot accept connections");
        }
    }

    pub(crate) fn reached(&self) {
        if self.down.swap(false, Ordering::Relaxed) {
            tracing::info!(server = %self.server, "server can be reached again");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Symptom: in virtual time, 2 s took up to 26 s on a busy machine. Cause: its default, BBR, held answers back.
    #[tokio::test]
    async fn neither_end_of_a_connection_on_the_loopback_is_paced() {
        let listener = listen_at_first(&["127.0.0.1:0".parse().unwrap()]).unwrap();
        let address = listener.local_addr().unwrap();
        let (ours, accepted) = tokio::join!(socket_for(address).unwrap().connect(address), listener.accept());
        for stream in [ours.unwrap(), accepted.unwrap().0] {
            assert!(SockRef::from(&stream).tcp_congestion().unwrap().starts_with(b"reno"));
        }
    }
}
