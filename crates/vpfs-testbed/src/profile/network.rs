//! The network between a client and a server, without storage.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use vpfs_core::Bytes;

use crate::profile::class::timed;
use crate::profile::{Probe, ProfileError, Series, TimedStorage};

/// What the server sends first, so that a client notices any other server.
const GREETING: [u8; 8] = *b"vpfsnet1";
/// The most that a client may ask for at once.
const TRANSFER_MAX: u64 = 64 << 20;
/// A peer that is silent for longer is given up.
const PATIENCE: Duration = Duration::from_secs(30);
/// Bytes are sent and received in pieces of this size.
const PIECE: usize = 1 << 20;

/// A connection to [`answer_network`].
#[derive(Debug)]
pub struct NetworkPath {
    address: String,
    stream: TcpStream,
}

impl NetworkPath {
    /// Connects to `HOST:PORT`.
    ///
    /// # Errors
    /// Nothing answers there, or something else.
    pub fn connect(address: &str) -> Result<Self, ProfileError> {
        let failed = |error| ProfileError::network("connect to", address)(error);
        let mut stream = connect(address).map_err(failed)?;
        let mut greeting = [0; GREETING.len()];
        match stream.read_exact(&mut greeting) {
            Ok(()) if greeting == GREETING => Ok(Self { address: address.to_owned(), stream }),
            Ok(()) => Err(ProfileError::NotOurServer(address.to_owned())),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::UnexpectedEof) => {
                Err(ProfileError::NotOurServer(address.to_owned()))
            }
            Err(error) => Err(failed(error)),
        }
    }

    /// Asks for `size` bytes and receives them.
    fn transfer(&mut self, size: Bytes, buffer: &mut [u8]) -> io::Result<()> {
        self.stream.write_all(&size.0.to_le_bytes())?;
        each_piece(size.0, |len| self.stream.read_exact(&mut buffer[..len]))
    }
}

impl TimedStorage for NetworkPath {
    fn probes(&self) -> Vec<Probe> {
        vec![Probe::Network]
    }

    fn times(&mut self, series: Series) -> Result<Vec<Duration>, ProfileError> {
        let mut buffer = vec![0; PIECE];
        let times = timed(series, |_| self.transfer(series.size, &mut buffer));
        times.map_err(|error| ProfileError::network("receive from", &self.address)(error))
    }
}

/// Sends each client of `stream` what it asks for, until it hangs up.
///
/// # Errors
/// The client broke off, was silent for half a minute, or asked for more than 64 MiB at once.
pub fn answer_network(mut stream: TcpStream) -> io::Result<()> {
    prepare(&stream)?;
    stream.write_all(&GREETING)?;
    let data = vec![0x5a; PIECE];
    loop {
        let mut size = [0; 8];
        match stream.read_exact(&mut size) {
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(()),
            read => read?,
        }
        let size = u64::from_le_bytes(size);
        if size > TRANSFER_MAX {
            return Err(io::Error::new(ErrorKind::InvalidData, "it is no `vpfs profile network`"));
        }
        each_piece(size, |len| stream.write_all(&data[..len]))?;
    }
}

fn connect(address: &str) -> io::Result<TcpStream> {
    let mut last = io::Error::new(ErrorKind::NotFound, "the name has no address");
    for address in address.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, PATIENCE) {
            Ok(stream) => return prepare(&stream).map(|()| stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))
}

fn each_piece(size: u64, mut move_piece: impl FnMut(usize) -> io::Result<()>) -> io::Result<()> {
    let mut left = size;
    while left > 0 {
        let len = usize::try_from(left).map_or(PIECE, |left| left.min(PIECE));
        move_piece(len)?;
        left -= len as u64;
    }
    Ok(())
}
