//! What an embedded server stores its data on: the bytes in memory, and the time that a device model takes for them.

use std::collections::{BTreeMap, HashMap};
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::thread;

use bytes::{Bytes, BytesMut};
use futures_util::future::FutureExt;
use tokio::sync::{Notify, oneshot};
use vpfs_core::Time;
use vpfs_sim::model::device::{Device, DeviceProfile, Io, IoId};

/// Largest size of one object, 2⁶² bytes: sums of two offsets stay below 2⁶³.
pub const OBJECT_BYTES_MAX: u64 = 1 << 62;

/// Bytes of one chunk, the unit of allocation.
const CHUNK: usize = 64 << 10;

/// Sparse byte streams. Used bytes are those of allocated chunks.
///
/// An object that was never written is empty; objects need not be created. Every call is atomic in itself with respect
/// to other calls on the same object; there is no order between calls that run at the same time.
#[derive(Debug)]
pub struct MemoryStore {
    objects: Mutex<HashMap<u64, Arc<Mutex<Object>>>>,
    budget: Arc<Budget>,
}

impl MemoryStore {
    /// An empty store that holds at most `capacity` bytes.
    pub fn new(capacity: u64) -> Self {
        let budget = Arc::new(Budget { used: AtomicU64::new(0), capacity });
        Self { objects: Mutex::new(HashMap::new()), budget }
    }

    fn find(&self, object: u64) -> Option<Arc<Mutex<Object>>> {
        lock(&self.objects).get(&object).cloned()
    }

    fn find_or_create(&self, object: u64) -> Arc<Mutex<Object>> {
        let mut objects = lock(&self.objects);
        let new = || Arc::new(Mutex::new(Object::new(Arc::clone(&self.budget))));
        Arc::clone(objects.entry(object).or_insert_with(new))
    }

    /// Up to `len` bytes from `offset`: fewer at the end of the object, none beyond it. Holes read as zeros.
    pub fn read(&self, object: u64, offset: u64, len: usize) -> Bytes {
        self.find(object).map_or_else(Bytes::new, |object| lock(&object).read(offset, len))
    }

    /// Writes `data` at `offset`, extending the object where needed. Writes nothing if it does not fit.
    pub fn write(&self, object: u64, offset: u64, data: &[u8]) -> Result<(), StoreError> {
        let end = checked_end(offset, data.len())?;
        lock(&self.find_or_create(object)).write(offset, end, data)
    }

    /// Sets the size: truncates, or extends with a hole.
    pub fn truncate(&self, object: u64, size: u64) -> Result<(), StoreError> {
        checked_end(size, 0)?;
        lock(&self.find_or_create(object)).truncate(size);
        Ok(())
    }

    /// Size in bytes, 0 for an object that does not exist.
    pub fn size(&self, object: u64) -> u64 {
        self.find(object).map_or(0, |object| lock(&object).size)
    }

    /// Removes the object, if it exists; its bytes are freed when the last reader is done.
    pub fn remove(&self, object: u64) {
        lock(&self.objects).remove(&object);
    }

    /// Bytes used and their limit.
    pub fn usage(&self) -> Usage {
        Usage { used: self.budget.used.load(Ordering::Relaxed), capacity: self.budget.capacity }
    }
}

/// How full a store is, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    /// Bytes in use, as the store counts them.
    pub used: u64,
    /// The limit on `used`.
    pub capacity: u64,
}

/// Why a store refused.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages explain the fields")]
pub enum StoreError {
    #[error("the store is full: {wanted} more bytes on top of {used} of {capacity}")]
    Full { wanted: u64, used: u64, capacity: u64 },
    #[error("the object would end at byte {end}, beyond the largest object")]
    TooLarge { end: u64 },
}

#[derive(Debug)]
struct Object {
    size: u64,
    chunks: BTreeMap<u64, Box<[u8]>>,
    budget: Arc<Budget>,
}

impl Object {
    fn new(budget: Arc<Budget>) -> Self {
        Self { size: 0, chunks: BTreeMap::new(), budget }
    }

    fn read(&self, offset: u64, len: usize) -> Bytes {
        let end = offset.saturating_add(len as u64).min(self.size);
        let mut data = BytesMut::with_capacity(clamp(end.saturating_sub(offset)));
        for piece in Pieces::new(offset, end) {
            match self.chunks.get(&piece.chunk) {
                Some(chunk) => data.extend_from_slice(&chunk[piece.begin..piece.begin + piece.len]),
                None => data.resize(data.len() + piece.len, 0),
            }
        }
        data.freeze()
    }

    fn write(&mut self, offset: u64, end: u64, mut data: &[u8]) -> Result<(), StoreError> {
        let missing = Pieces::new(offset, end).filter(|piece| !self.chunks.contains_key(&piece.chunk)).count();
        self.budget.take((missing * CHUNK) as u64)?;
        for piece in Pieces::new(offset, end) {
            let (head, rest) = data.split_at(piece.len);
            let chunk = self.chunks.entry(piece.chunk).or_insert_with(|| vec![0; CHUNK].into_boxed_slice());
            chunk[piece.begin..piece.begin + piece.len].copy_from_slice(head);
            data = rest;
        }
        if end > offset {
            self.size = self.size.max(end);
        }
        Ok(())
    }

    fn truncate(&mut self, size: u64) {
        let chunk_bytes = CHUNK as u64;
        let gone = self.chunks.split_off(&size.div_ceil(chunk_bytes));
        self.budget.give_back((gone.len() * CHUNK) as u64);
        if let Some(last) = self.chunks.get_mut(&(size / chunk_bytes)) {
            // Bytes beyond the end must be zero when the object grows again.
            last[clamp(size % chunk_bytes)..].fill(0);
        }
        self.size = size;
    }
}

impl Drop for Object {
    fn drop(&mut self) {
        self.budget.give_back((self.chunks.len() * CHUNK) as u64);
    }
}

#[derive(Debug)]
struct Budget {
    used: AtomicU64,
    capacity: u64,
}

impl Budget {
    fn take(&self, wanted: u64) -> Result<(), StoreError> {
        let fits = |used: u64| used.checked_add(wanted).filter(|sum| *sum <= self.capacity);
        self.used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits)
            .map(|_| ())
            .map_err(|used| StoreError::Full { wanted, used, capacity: self.capacity })
    }

    fn give_back(&self, bytes: u64) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }
}

struct Pieces {
    at: u64,
    end: u64,
}

struct Piece {
    chunk: u64,
    begin: usize,
    len: usize,
}

impl Pieces {
    fn new(offset: u64, end: u64) -> Self {
        Self { at: offset, end }
    }
}

impl Iterator for Pieces {
    type Item = Piece;

    fn next(&mut self) -> Option<Piece> {
        if self.at >= self.end {
            return None;
        }
        let chunk_bytes = CHUNK as u64;
        let begin = clamp(self.at % chunk_bytes);
        let len = clamp((self.end - self.at).min((CHUNK - begin) as u64));
        let piece = Piece { chunk: self.at / chunk_bytes, begin, len };
        self.at += len as u64;
        Some(piece)
    }
}

/// Memory sizes fit `usize`; the value is at most a chunk or a caller's `usize` already.
fn clamp(n: u64) -> usize {
    usize::try_from(n).unwrap_or(usize::MAX)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn checked_end(offset: u64, len: usize) -> Result<u64, StoreError> {
    let end = offset.saturating_add(len as u64);
    if end > OBJECT_BYTES_MAX { Err(StoreError::TooLarge { end }) } else { Ok(end) }
}

/// The clock that a device runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum DeviceClock {
    /// A thread of its own: wakes within tens of microseconds, which flash needs.
    #[default]
    Precise,
    /// A tokio task: milliseconds, and virtual where tokio's clock is paused.
    Tokio,
}

/// A device shared by several tasks. Clones are the same device; dropping the last one stops it.
#[derive(Clone, Debug)]
pub struct DeviceHandle {
    /// `None`: no device model, so no waiting.
    running: Option<Arc<Running>>,
}

impl DeviceHandle {
    /// Starts a device. [`DeviceClock::Tokio`] must be started inside a tokio runtime.
    pub fn start(profile: &DeviceProfile, clock: DeviceClock) -> Self {
        if *profile == DeviceProfile::None {
            return Self { running: None };
        }
        let state = State { device: profile.build(), waiters: HashMap::new(), asleep_until: None, closed: false };
        let shared = Arc::new(Shared { state: Mutex::new(state), clock: Clock::new(clock) });
        let driven = Arc::clone(&shared);
        match clock {
            DeviceClock::Precise => drop(thread::spawn(move || driven.run_on_thread())),
            DeviceClock::Tokio => drop(tokio::spawn(async move { driven.run_on_tokio().await }.boxed())),
        }
        Self { running: Some(Arc::new(Running(shared))) }
    }

    /// Submits an access now; the returned future completes when the device has finished it. Dropping the future does
    /// not cancel the access.
    pub fn submit(&self, io: Io) -> Access {
        Access(self.running.as_ref().map(|running| running.0.submit(io)))
    }

    /// Accesses submitted and not finished.
    pub fn outstanding(&self) -> usize {
        self.running.as_ref().map_or(0, |running| running.0.lock().waiters.len())
    }
}

/// Waits for one access.
#[derive(Debug)]
pub struct Access(Option<oneshot::Receiver<()>>);

impl Future for Access {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        match &mut self.0 {
            None => Poll::Ready(()),
            Some(done) => Pin::new(done).poll(context).map(|_| ()),
        }
    }
}

/// Closes the device when the last handle is dropped.
#[derive(Debug)]
struct Running(Arc<Shared>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.lock().closed = true;
        self.0.clock.wake();
    }
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    clock: Clock,
}

struct State {
    device: Box<dyn Device>,
    waiters: HashMap<IoId, oneshot::Sender<()>>,
    /// When the driver wakes up; `None`: when it is notified.
    asleep_until: Option<Time>,
    closed: bool,
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State").field("outstanding", &self.waiters.len()).finish_non_exhaustive()
    }
}

impl State {
    /// Wakes the waiters of finished accesses and returns when to run again; `None`: when notified.
    fn run_until(&mut self, now: Time) -> Option<Time> {
        while let Some(completion) = self.device.poll_completed(now) {
            if let Some(waiter) = self.waiters.remove(&completion.id) {
                // A waiter that was dropped is not interested in the result.
                let _ = waiter.send(());
            }
        }
        self.asleep_until = self.device.poll_timeout();
        self.asleep_until
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn submit(&self, io: Io) -> oneshot::Receiver<()> {
        let (done, wait) = oneshot::channel();
        let mut state = self.lock();
        let id = state.device.submit(self.clock.now(), io);
        state.waiters.insert(id, done);
        let sleeps_too_long = match (state.asleep_until, state.device.poll_timeout()) {
            (Some(asleep), Some(next)) => next < asleep,
            (None, next) => next.is_some(),
            (Some(_), None) => false,
        };
        drop(state);
        if sleeps_too_long {
            self.clock.wake();
        }
        wait
    }

    fn run_on_thread(&self) {
        let Clock::Thread { woken, .. } = &self.clock else { return };
        let mut state = self.lock();
        while !state.closed {
            let now = self.clock.now();
            state = match state.run_until(now) {
                None => woken.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(at) => woken.wait_timeout(state, at.since(now)).unwrap_or_else(PoisonError::into_inner).0,
            };
        }
    }

    async fn run_on_tokio(&self) {
        let Clock::Tokio { origin, woken } = &self.clock else { return };
        loop {
            let next = {
                let mut state = self.lock();
                if state.closed {
                    return;
                }
                state.run_until(self.clock.now())
            };
            match next {
                None => woken.notified().await,
                Some(at) => tokio::select! {
                    () = tokio::time::sleep_until(*origin + at.since(Time::ZERO)) => {}
                    () = woken.notified() => {}
                },
            }
        }
    }
}

#[derive(Debug)]
enum Clock {
    Thread { origin: std::time::Instant, woken: Condvar },
    Tokio { origin: tokio::time::Instant, woken: Notify },
}

impl Clock {
    fn new(clock: DeviceClock) -> Self {
        match clock {
            DeviceClock::Precise => Self::Thread { origin: std::time::Instant::now(), woken: Condvar::new() },
            DeviceClock::Tokio => Self::Tokio { origin: tokio::time::Instant::now(), woken: Notify::new() },
        }
    }

    fn now(&self) -> Time {
        match self {
            Self::Thread { origin, .. } => Time::ZERO + origin.elapsed(),
            Self::Tokio { origin, .. } => Time::ZERO + origin.elapsed(),
        }
    }

    fn wake(&self) {
        match self {
            Self::Thread { woken, .. } => woken.notify_one(),
            Self::Tokio { woken, .. } => woken.notify_one(),
        }
    }
}
