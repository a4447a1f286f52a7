//! Bounds the bytes that all connections together make the proxy hold.
//!
//! What a connection holds of each kind beyond [`FREE`] counts towards two bounds: that of its client's host and that
//! of the process. When seven eighths of a bound are held, memory is *scarce*, until no more than three quarters are
//! held. While memory is scarce, a connection is read in small steps, and only while it holds little. Its own two peers
//! alone free what it then holds, so connections never wait for each other. The last eighth is reserved for requests
//! that precede the data of a dispatched write. They must be read, because only that data frees the slots of the write
//! (docs/decisions/0005-memory-and-connections.md).

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use bytes::BytesMut;

use crate::hosts::{Budget, Host, Used};

/// Bytes of each of the [`Kinds`] that a connection may hold without being counted. More than [`LITTLE`] plus [`STEP`],
/// so that a connection that is read in small steps is not counted.
pub(crate) const FREE: usize = 64 << 10;

/// While memory is scarce, a connection that holds this number of bytes of a kind is not read for more of that kind.
/// The largest request fits.
pub(crate) const LITTLE: usize = 32 << 10;

pub(crate) const STEP: usize = 16 << 10;

pub(crate) struct Memory {
    process: Budget,
    process_limit: AtomicUsize,
    host_limit: AtomicUsize,
}

impl Memory {
    pub(crate) fn new(process_limit: usize, host_limit: usize) -> Self {
        Self {
            process: Budget::default(),
            process_limit: AtomicUsize::new(process_limit),
            host_limit: AtomicUsize::new(host_limit),
        }
    }

    /// Changes the bounds. Waiting connections continue if the new bounds leave room.
    pub(crate) fn set_limits(&self, process_limit: usize, host_limit: usize, hosts: &[Arc<Host>]) {
        self.process_limit.store(process_limit, SeqCst);
        self.host_limit.store(host_limit, SeqCst);
        let hosts = hosts.iter().map(|host| (&host.memory, host_limit));
        hosts.chain([(&self.process, process_limit)]).for_each(|(budget, limit)| budget.renew(limit));
    }

    pub(crate) fn held(&self) -> usize {
        self.process.held()
    }

    pub(crate) fn used(&self) -> Used {
        Used { now: self.held(), limit: self.process_limit.load(SeqCst) }
    }
}

/// What a connection holds: bytes of requests, bytes for the server, bytes for the client, bytes that were read and are
/// not looked at yet.
pub(crate) type Kinds = [usize; 4];

pub(crate) struct Share {
    memory: Arc<Memory>,
    host: Arc<Host>,
    held: Kinds,
    counted: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scarce {
    Process,
    Host,
}

impl Share {
    pub(crate) fn new(memory: Arc<Memory>, host: Arc<Host>) -> Self {
        Self { memory, host, held: [0; 4], counted: 0 }
    }

    /// Sets what the connection holds. Returns the bound that is nearly reached as a result, the first time only.
    /// Accesses shared counters only if the counted bytes change.
    pub(crate) fn set(&mut self, held: Kinds) -> Option<Scarce> {
        if std::mem::replace(&mut self.held, held) == held {
            return None;
        }
        let counts: usize = held.iter().map(|held| held.saturating_sub(FREE)).sum();
        let counted = std::mem::replace(&mut self.counted, counts);
        if counts <= counted {
            self.give_back(counted - counts);
            return None;
        }
        let more = counts - counted;
        let process = self.memory.process.take(more, self.process_limit()).then_some(Scarce::Process);
        let host = self.host.memory.take(more, self.host_limit()).then_some(Scarce::Host);
        process.or(host)
    }

    fn give_back(&self, bytes: usize) {
        if bytes > 0 {
            self.memory.process.give_back(bytes, self.process_limit());
            self.host.memory.give_back(bytes, self.host_limit());
        }
    }

    pub(crate) fn requests(&self) -> usize {
        self.held[0]
    }

    pub(crate) fn is_scarce(&self) -> bool {
        self.memory.process.is_scarce() || self.host.memory.is_scarce()
    }

    /// Whether a bound is reached, so that even requests in front of awaited data no longer fit.
    pub(crate) fn is_used_up(&self) -> bool {
        self.memory.process.held() >= self.process_limit() || self.host.memory.held() >= self.host_limit()
    }

    /// Waits while memory is scarce; cancel safe.
    pub(crate) async fn eased(&self) {
        self.host.memory.eased().await;
        self.memory.process.eased().await;
    }

    fn process_limit(&self) -> usize {
        self.memory.process_limit.load(SeqCst)
    }

    fn host_limit(&self) -> usize {
        self.memory.host_limit.load(SeqCst)
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.give_back(self.counted);
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct DaemonLimits {
    pub(crate) session: vpfs_protocol::session::SessionLimits,
    /// Bytes that all connections of the process, and of one client host, hold together.
    pub(crate) memory: usize,
    pub(crate) host_memory: usize,
    pub(crate) host_connections: usize,
    pub(crate) connect_timeout: Duration,
    pub(crate) drain_timeout: Duration,
}

impl From<&vpfs_config::Limits> for DaemonLimits {
    fn from(limits: &vpfs_config::Limits) -> Self {
        let size = |bytes: vpfs_core::Bytes| usize::try_from(bytes.0).unwrap_or(usize::MAX);
        Self {
            session: vpfs_protocol::session::SessionLimits {
                ops: limits.operations,
                request_bytes: size(limits.request_bytes),
                outbound_bytes: size(limits.buffer),
                reply_timeout: limits.reply_timeout,
                max_hold: limits.max_hold,
                flow_timeout: limits.flow_timeout,
                stall_timeout: limits.stall_timeout,
                request_timeout: limits.request_timeout,
                client_timeout: limits.client_timeout,
            },
            memory: size(limits.memory),
            host_memory: size(limits.host_memory),
            host_connections: limits.connections_per_host,
            connect_timeout: limits.connect_timeout,
            drain_timeout: limits.drain_timeout,
        }
    }
}

/// Bytes read at once from a socket: one message with the data of a default flow buffer, and what comes with it.
pub(crate) const READ_SIZE: usize = (256 << 10) + (4 << 10);

/// Spare buffers of a thread: those of one connection, which reads from two sockets, and some with bytes that the
/// system has not accepted yet, so that a connection with a slow receiver does not allocate for each read.
const SPARE: usize = 8;

thread_local! {
    static SPARES: RefCell<Vec<BytesMut>> = const { RefCell::new(Vec::new()) };
}

pub(crate) fn take_buffer() -> BytesMut {
    SPARES.with_borrow_mut(|spares| {
        // The latest first: it is in the processor's cache.
        let free = spares.iter_mut().rposition(|spare| spare.try_reclaim(READ_SIZE));
        free.map_or_else(|| BytesMut::with_capacity(READ_SIZE), |free| spares.swap_remove(free))
    })
}

/// Takes the memory of a buffer that is read no more. Messages that are in it may still wait to be sent.
pub(crate) fn give_back(mut buf: BytesMut) {
    buf.clear();
    SPARES.with_borrow_mut(|spares| {
        if spares.len() == SPARE {
            spares.remove(0);
        }
        spares.push(buf);
    });
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use vpfs_config::Config;

    use super::*;

    const MIB: usize = 1 << 20;

    fn share(memory: &Arc<Memory>, host: &Arc<Host>) -> Share {
        Share::new(Arc::clone(memory), Arc::clone(host))
    }

    fn scarce(share: &mut Share, bytes: usize) -> Option<Scarce> {
        share.set([FREE + bytes, FREE, 0, 0])
    }

    fn is_ready(future: &mut std::pin::Pin<&mut impl Future<Output = ()>>) -> bool {
        future.as_mut().poll(&mut Context::from_waker(Waker::noop())) == Poll::Ready(())
    }

    #[test]
    fn a_small_amount_of_each_kind_is_not_counted() {
        let (memory, host) = (Arc::new(Memory::new(MIB, MIB)), Arc::new(Host::default()));
        let mut one = share(&memory, &host);
        assert_eq!(one.set([FREE; 4]), None);
        assert_eq!(memory.held(), 0);
        assert_eq!(one.set([FREE + 1, FREE + 2, 0, FREE + 3]), None);
        assert_eq!((memory.held(), host.memory.held()), (6, 6));
        drop(one);
        assert_eq!((memory.held(), host.memory.held()), (0, 0));
    }

    #[test]
    fn a_host_at_its_bound_does_not_make_others_wait() {
        let memory = Arc::new(Memory::new(8 * MIB, MIB));
        let hosts = [(); 2].map(|()| Arc::new(Host::default()));
        let [mut one, other] = [0, 1].map(|at| share(&memory, &hosts[at]));
        assert_eq!(scarce(&mut one, MIB), Some(Scarce::Host));
        assert_eq!(scarce(&mut one, MIB + 1), None, "reported once");
        assert!(one.is_scarce() && one.is_used_up() && !other.is_scarce());
    }

    #[test]
    fn all_waiting_connections_continue_once_a_quarter_is_free() {
        let (memory, host) = (Arc::new(Memory::new(8 * MIB, 80 * MIB)), Arc::new(Host::default()));
        let [mut one, mut other, waiting] = [(); 3].map(|()| share(&memory, &host));
        scarce(&mut one, 6 * MIB);
        assert!(!waiting.is_scarce());
        assert_eq!(scarce(&mut other, MIB), Some(Scarce::Process));
        assert!(waiting.is_scarce() && !waiting.is_used_up());
        let mut eased = pin!(waiting.eased());
        assert!(!is_ready(&mut eased));
        scarce(&mut other, 1);
        assert!(!is_ready(&mut eased) && waiting.is_scarce(), "6 MiB and a byte");
        drop(other);
        assert!(is_ready(&mut eased) && !waiting.is_scarce());
        scarce(&mut one, 7 * MIB);
        let mut eased = pin!(waiting.eased());
        assert!(!is_ready(&mut eased));
        memory.set_limits(10 * MIB, 80 * MIB, &[]);
        assert!(is_ready(&mut eased), "a higher bound leaves room, too");
    }

    /// Threads that take and give back concurrently never leave memory scarce once all is given back.
    #[test]
    fn memory_is_not_scarce_when_nothing_is_held() {
        let (memory, host) = (Arc::new(Memory::new(MIB, 2 * MIB)), Arc::new(Host::default()));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let mut mine = share(&memory, &host);
                    for round in 0..20_000 {
                        let _ = mine.set([FREE + round % 3 * (MIB / 4), 0, 0, 0]);
                    }
                });
            }
        });
        assert_eq!((memory.held(), host.memory.held()), (0, 0));
        assert!(!share(&memory, &host).is_scarce());
    }

    #[test]
    fn the_service_may_hold_what_the_defaults_allow() {
        let minimal = include_str!("../../../examples/minimal.toml");
        let config = Config::parse("minimal", minimal).unwrap();
        let limits = DaemonLimits::from(&config.limits);
        let most = limits.memory + config.limits.connections * (2 * READ_SIZE + 3 * FREE);
        let unit = include_str!("../../../packaging/vpfs-proxy.service");
        let gib: usize =
            unit.lines().find_map(|line| line.strip_prefix("MemoryMax=")?.strip_suffix('G')).unwrap().parse().unwrap();
        assert!((most + most / 5..2 * most).contains(&(gib << 30)), "{most}");
        assert_eq!(limits.host_memory, limits.memory / 4);
    }
}
