//! Pairs of sockets in memory. They deliver bytes in pieces of random sizes, report readiness that was none, and end
//! as TCP connections do: orderly, or with a reset that overtakes bytes.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};

use bytes::BufMut;
use rand::RngExt;
use rand::rngs::SmallRng;
use tokio::io::Interest;
use tokio::sync::Notify;

/// The source of everything random in a simulation.
pub(crate) type Randomness = Arc<Mutex<SmallRng>>;

/// Bytes on their way in one direction.
#[derive(Default)]
struct Pipe {
    bytes: VecDeque<u8>,
    /// The writer has ended it; the reader gets the rest.
    ended: bool,
}

struct Wire {
    /// By the side that writes.
    pipes: [Pipe; 2],
    /// By the side that closed its socket.
    gone: [bool; 2],
    was_reset: bool,
}

struct Shared {
    wire: Mutex<Wire>,
    /// By the side that waits.
    changed: [Notify; 2],
    capacity: usize,
    random: Randomness,
}

/// One end.
pub(crate) struct Socket {
    shared: Arc<Shared>,
    side: usize,
    resets: Mutex<bool>,
    /// It is ready when so many bytes are available.
    low_water: Mutex<usize>,
    addresses: [SocketAddr; 2],
}

/// Both ends of a connection between `addresses` whose buffers hold `capacity` bytes in each direction.
pub(crate) fn pair(random: &Randomness, capacity: usize, addresses: [SocketAddr; 2]) -> [Socket; 2] {
    let wire = Mutex::new(Wire { pipes: Default::default(), gone: [false; 2], was_reset: false });
    let random = Arc::clone(random);
    let shared = Arc::new(Shared { wire, changed: Default::default(), capacity, random });
    [0, 1].map(|side| Socket {
        shared: Arc::clone(&shared),
        side,
        resets: Mutex::new(false),
        low_water: Mutex::new(1),
        addresses,
    })
}

impl Socket {
    pub(crate) fn peer_addr(&self) -> SocketAddr {
        self.addresses[1 - self.side]
    }

    pub(crate) async fn ready(&self, interest: Interest) {
        loop {
            if self.is_ready(interest) {
                return;
            }
            self.shared.changed[self.side].notified().await;
        }
    }

    fn is_ready(&self, interest: Interest) -> bool {
        let wire = self.wire();
        let (incoming, outgoing) = (&wire.pipes[1 - self.side], &wire.pipes[self.side]);
        let readable = self.has_received(incoming, *self.low_water.lock().unwrap());
        let writable = outgoing.bytes.len() < self.shared.capacity || wire.gone[1 - self.side];
        wire.was_reset
            || wire.gone[self.side]
            || interest.is_readable() && readable
            || interest.is_writable() && writable
    }

    fn has_received(&self, incoming: &Pipe, bytes: usize) -> bool {
        incoming.bytes.len() >= bytes.min(self.shared.capacity) || incoming.ended
    }

    pub(crate) fn try_await(&self, bytes: usize) -> io::Result<bool> {
        let wire = self.wire();
        let incoming = &wire.pipes[1 - self.side];
        *self.low_water.lock().unwrap() = bytes;
        if !self.has_received(incoming, bytes) && !wire.was_reset && !wire.gone[self.side] {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        Ok(incoming.bytes.len() >= bytes)
    }

    pub(crate) fn await_any(&self) {
        *self.low_water.lock().unwrap() = 1;
    }

    pub(crate) fn try_read_buf(&self, buf: &mut impl BufMut) -> io::Result<usize> {
        let mut wire = self.wire();
        if wire.was_reset || wire.gone[self.side] {
            return Err(io::ErrorKind::ConnectionReset.into());
        }
        let incoming = &mut wire.pipes[1 - self.side];
        if incoming.bytes.is_empty() && incoming.ended {
            return Ok(0);
        }
        let count = self.some_of(incoming.bytes.len().min(buf.remaining_mut()))?;
        let (first, second) = incoming.bytes.as_slices();
        let in_first = count.min(first.len());
        buf.put_slice(&first[..in_first]);
        buf.put_slice(&second[..count - in_first]);
        incoming.bytes.drain(..count);
        drop(wire);
        self.tell_peer();
        Ok(count)
    }

    pub(crate) fn try_write_vectored(&self, slices: &[io::IoSlice<'_>]) -> io::Result<usize> {
        let mut wire = self.wire();
        if wire.was_reset || wire.gone[self.side] {
            return Err(io::ErrorKind::ConnectionReset.into());
        }
        let len = slices.iter().map(|slice| slice.len()).sum::<usize>();
        if wire.gone[1 - self.side] {
            // The system accepts it, and learns from the answer that nobody wants it.
            wire.was_reset = true;
            return Ok(len);
        }
        let outgoing = &mut wire.pipes[self.side];
        assert!(!outgoing.ended, "nothing is written after the end");
        let count = self.some_of(len.min(self.shared.capacity - outgoing.bytes.len()))?;
        let mut left = count;
        for slice in slices {
            let part = &slice[..left.min(slice.len())];
            outgoing.bytes.extend(part);
            left -= part.len();
        }
        drop(wire);
        self.tell_peer();
        Ok(count)
    }

    /// A random number of bytes up to `most`; sometimes none.
    fn some_of(&self, most: usize) -> io::Result<usize> {
        let mut random = self.shared.random.lock().unwrap();
        if most == 0 || random.random_ratio(1, 16) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        Ok(if random.random_ratio(1, 4) { random.random_range(1..=most) } else { most })
    }

    /// Ends the direction of this side.
    pub(crate) fn shutdown(&self) {
        self.wire().pipes[self.side].ended = true;
        self.tell_peer();
    }

    /// Makes its end a reset.
    pub(crate) fn reset_on_close(&self) {
        *self.resets.lock().unwrap() = true;
    }

    /// Ends the connection; everything at this end fails from now on.
    pub(crate) fn close(&self) {
        let mut wire = self.wire();
        if std::mem::replace(&mut wire.gone[self.side], true) {
            return;
        }
        // Bytes that nobody will read are answered by a reset.
        let unread = !wire.pipes[1 - self.side].bytes.is_empty();
        wire.was_reset |= unread || *self.resets.lock().unwrap();
        wire.pipes[self.side].ended = true;
        drop(wire);
        self.shared.changed.iter().for_each(Notify::notify_waiters);
    }

    fn wire(&self) -> MutexGuard<'_, Wire> {
        self.shared.wire.lock().unwrap()
    }

    fn tell_peer(&self) {
        self.shared.changed[1 - self.side].notify_waiters();
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        self.close();
    }
}
