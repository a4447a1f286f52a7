//! From a TCP connection to an authenticated process that has said who it is.

use std::io;
use std::net::IpAddr;
use std::time::Duration;

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use vpfs_core::ServerId;
use vpfs_peer::wire::{FRAME_LEN, Frame, Hello};

use super::Cluster;
use super::security::{Authenticated, Security, Stream};
use crate::sockets::prepare;

/// The time for connecting: shorter than it takes to notice that a peer is gone.
const CONNECT: Duration = Duration::from_secs(2);
/// The time that a process gets to prove who it is, and to say so.
const PATIENCE: Duration = Duration::from_secs(5);

/// A connection to a process of the cluster.
pub(super) struct Introduced {
    pub(super) stream: Box<dyn Stream>,
    pub(super) hello: Hello,
    /// Bytes that arrived after the first frame.
    pub(super) rest: BytesMut,
    /// The address at the other end.
    pub(super) address: String,
}

/// Connects to the proxy of `server`.
pub(super) async fn dial(cluster: &Cluster, security: &Security, server: ServerId) -> io::Result<Introduced> {
    let (host, port) = &cluster.addresses[server.index()];
    let stream = within(CONNECT, cluster.hosts.connect(host, *port)).await?;
    within(PATIENCE, async {
        prepare(&stream)?;
        let address = stream.peer_addr()?.to_string();
        introduce(cluster, security.connect(stream, host).await?, address).await
    })
    .await
}

/// A connection that somebody else opened.
pub(super) enum Accepted {
    Peer(Introduced),
    /// Of somebody who wants to ask, by HTTP.
    Asker(Box<dyn Stream>, IpAddr),
}

/// Lets a process that connected prove who it is.
pub(super) async fn accept(cluster: &Cluster, security: &Security, stream: TcpStream) -> io::Result<Accepted> {
    within(PATIENCE, async {
        prepare(&stream)?;
        let address = stream.peer_addr()?;
        let other = security.accept(stream).await?;
        if !other.asks {
            return introduce(cluster, other, address.to_string()).await.map(Accepted::Peer);
        }
        if cluster.addresses.iter().any(|(host, _)| other.may_speak_for(host)) {
            return Ok(Accepted::Asker(other.stream, address.ip()));
        }
        Err(invalid("it asks with a certificate that is not for the host of any server"))
    })
    .await
}

/// Connects to the proxy whose address for peers is `host` and `port`, to ask it by HTTP; `None` without keys.
pub(super) async fn dial_to_ask(security: &Security, host: &str, port: u16) -> io::Result<Option<Box<dyn Stream>>> {
    let stream = within(CONNECT, TcpStream::connect((host, port))).await?;
    within(PATIENCE, security.connect_to_ask(stream, host)).await
}

async fn introduce(cluster: &Cluster, mut peer: Authenticated, address: String) -> io::Result<Introduced> {
    let mut own = Vec::new();
    Frame::Hello(cluster.hello.clone()).encode(&mut own);
    peer.stream.write_all(&own).await?;
    peer.stream.flush().await?;
    let mut rest = BytesMut::new();
    let hello = loop {
        match Frame::decode(&rest).map_err(invalid)? {
            Some((Frame::Hello(hello), len)) => {
                rest.advance(len);
                break hello;
            }
            Some(_) => return Err(invalid("it did not introduce itself first")),
            None if rest.len() > FRAME_LEN + 4 => return Err(invalid("its first frame is too long")),
            None if peer.stream.read_buf(&mut rest).await? == 0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            None => {}
        }
    };
    for name in hello.servers() {
        // Names that the configuration lacks are refused by the mesh, which says why.
        let Some(index) = cluster.names.iter().position(|known| known == name) else { continue };
        let (host, _) = &cluster.addresses[index];
        if !peer.may_speak_for(host) {
            return Err(invalid(format!("its certificate is not for {host}, the host of server {name:?}")));
        }
    }
    Ok(Introduced { stream: peer.stream, hello, rest, address })
}

/// Sends the last frame of a connection.
pub(super) async fn part(mut stream: Box<dyn Stream>, farewell: Frame) {
    let mut bytes = Vec::new();
    farewell.encode(&mut bytes);
    let parting = async {
        stream.write_all(&bytes).await?;
        stream.shutdown().await
    };
    // A peer that does not read it learns nothing.
    let _ = within(PATIENCE, parting).await;
}

async fn within<T>(limit: Duration, work: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    let timed_out = || Err(io::Error::new(io::ErrorKind::TimedOut, "it took too long"));
    tokio::time::timeout(limit, work).await.unwrap_or_else(|_| timed_out())
}

fn invalid(reason: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, reason)
}
