//! Clients that send requests of one kind as fast as they are answered.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Requests of one connection that wait for an answer at a time.
const WINDOW: i64 = 16;

/// The kinds of requests that are not held.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    NoOps,
    Configuration,
    Management,
    Trusted,
}

impl Kind {
    pub(super) const ALL: [(Self, &'static str); 4] = [
        (Self::NoOps, "no-ops"),
        (Self::Configuration, "configuration"),
        (Self::Management, "management"),
        (Self::Trusted, "from a trusted server's address"),
    ];

    /// A request as in docs/protocols/orangefs.md: a header, a null capability, hints and what the operation needs.
    fn request(self, tag: i64) -> Vec<u8> {
        const MAGIC: u32 = 51903;
        const UNEXPECTED: u32 = 2;
        let (op, is_hinted, body): (u32, bool, &[u32]) = match self {
            Self::NoOps => (17, false, &[]),
            Self::Configuration => (13, false, &[]),
            // MGMT_SETPARAM as pvfs2-ping: whether the server has this file system.
            Self::Management => (16, false, &[1, 2, 0, 1, 0]),
            // FLUSH of a file that does not exist, as one server asks another.
            Self::Trusted => (15, true, &[7, 0, 1, 0]),
        };
        let mut payload = Vec::new();
        let mut put = |numbers: &[u32]| numbers.iter().for_each(|number| payload.extend(number.to_le_bytes()));
        put(&[7000, 2, op, 0]);
        put(&[0; 10]);
        put(if is_hinted { &[1, 6, 3] } else { &[0] });
        put(body);
        let mut message = [MAGIC.to_le_bytes(), UNEXPECTED.to_le_bytes()].concat();
        message.extend(tag.to_le_bytes());
        message.extend((payload.len() as u64).to_le_bytes());
        message.extend(payload);
        message
    }
}

/// A running flood.
#[derive(Debug)]
pub(super) struct Flood {
    stop: Arc<AtomicBool>,
    answers: Arc<AtomicU64>,
    begin: Instant,
    connections: Vec<JoinHandle<io::Result<()>>>,
}

impl Flood {
    /// Connects so many clients to `address`, `HOST:PORT`, from this machine's own address.
    pub(super) fn start(kind: Kind, address: &str, connections: usize) -> Self {
        let (stop, answers) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
        let connect = |_| {
            let (address, stop, answers) = (address.to_owned(), Arc::clone(&stop), Arc::clone(&answers));
            thread::spawn(move || send(kind, &address, &stop, &answers))
        };
        Self { connections: (0..connections).map(connect).collect(), begin: Instant::now(), stop, answers }
    }

    /// Ends it; returns the answers in each second.
    pub(super) fn finish(self) -> Result<f64, String> {
        let rate = self.answers.load(Ordering::Relaxed) as f64 / self.begin.elapsed().as_secs_f64();
        self.stop.store(true, Ordering::Relaxed);
        for connection in self.connections {
            let ended = connection.join().map_err(|_| "a connection of the flood panicked".to_owned())?;
            ended.map_err(|error| format!("a connection of the flood failed: {error}"))?;
        }
        Ok(rate)
    }
}

fn send(kind: Kind, address: &str, stop: &AtomicBool, answers: &AtomicU64) -> io::Result<()> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(Duration::from_secs(60)))?;
    let requests: Vec<u8> = (1..=WINDOW).flat_map(|tag| kind.request(tag)).collect();
    let mut payload = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        stream.write_all(&requests)?;
        for _ in 0..WINDOW {
            let mut header = [0; 24];
            stream.read_exact(&mut header)?;
            let size = u32::from_le_bytes([header[16], header[17], header[18], header[19]]);
            payload.resize(size as usize, 0);
            stream.read_exact(&mut payload)?;
            answers.fetch_add(1, Ordering::Relaxed);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_as_the_protocol_describes_it() {
        let message = Kind::Trusted.request(9);
        let number = |at: usize| u32::from_le_bytes(message[at..at + 4].try_into().expect("four bytes"));
        assert_eq!([number(0), number(4), number(8), number(16)], [51903, 2, 9, 84]);
        assert_eq!(message.len(), 24 + 84);
        assert_eq!([24, 28, 32, 80, 84, 88].map(number), [7000, 2, 15, 1, 6, 3], "version, encoding, operation, hint");
        assert_eq!(Kind::NoOps.request(1).len(), 24 + 60);
    }
}
