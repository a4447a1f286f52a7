//! Socket options.

use std::io;
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::net::TcpStream;

/// The options that OrangeFS sets on both ends, and keep-alives, so that a vanished host does not hold a connection for
/// ever.
pub(crate) fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let keepalive = TcpKeepalive::new().with_time(Duration::from_secs(60)).with_interval(Duration::from_secs(10));
    SockRef::from(stream).set_tcp_keepalive(&keepalive)
}

/// Makes closing send a reset, as a dead server's kernel would: the client must not mistake it for an orderly end.
pub(crate) fn reset_on_close(stream: &TcpStream) {
    // If even this fails, only an orderly end is possible.
    let _ = SockRef::from(stream).set_linger(Some(Duration::ZERO));
}
