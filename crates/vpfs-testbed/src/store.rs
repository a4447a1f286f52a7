//! Storage for the bytes of datafiles: sparse byte streams in memory, named by number, of limited total size; in
//! chunks, so that a growing object is never copied and a hole takes no memory.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::{Bytes, BytesMut};

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
    /// The write or extension would exceed the store's limit; nothing was changed.
    #[error("the store is full: {wanted} more bytes on top of {used} of {capacity}")]
    Full { wanted: u64, used: u64, capacity: u64 },
    /// The object would grow beyond [`OBJECT_BYTES_MAX`].
    #[error("the object would end at byte {end}, beyond the largest object")]
    TooLarge { end: u64 },
}

#[derive(Debug)]
struct Object {
    size: u64,
    /// By chunk number; absent chunks are zeros.
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

/// The limit on all objects together.
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

/// A byte range cut at chunk boundaries.
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

/// The end of a write, if an object may be that large.
fn checked_end(offset: u64, len: usize) -> Result<u64, StoreError> {
    let end = offset.saturating_add(len as u64);
    if end > OBJECT_BYTES_MAX { Err(StoreError::TooLarge { end }) } else { Ok(end) }
}
