//! Storage for the bytes of datafiles: sparse byte streams named by number, of limited total size.

mod directory;
mod memory;

use std::io;

use bytes::Bytes;

pub use directory::DirectoryStore;
pub use memory::MemoryStore;

/// Largest size of one object, 2⁶² bytes: sums of two offsets stay below 2⁶³.
pub const OBJECT_BYTES_MAX: u64 = 1 << 62;

/// Sparse bytestreams.
///
/// An object that was never written is empty; objects need not be created. Every call is atomic in itself with respect
/// to other calls on the same object; there is no order between calls that run at the same time.
pub trait ObjectStore: std::fmt::Debug + Send + Sync {
    /// Up to `len` bytes from `offset`: fewer at the end of the object, none beyond it. Holes read as zeros.
    fn read(&self, object: u64, offset: u64, len: usize) -> Result<Bytes, StoreError>;

    /// Writes `data` at `offset`, extending the object where needed. Writes nothing if it does not fit.
    fn write(&self, object: u64, offset: u64, data: &[u8]) -> Result<(), StoreError>;

    /// Sets the size: truncates, or extends with a hole.
    fn truncate(&self, object: u64, size: u64) -> Result<(), StoreError>;

    /// Size in bytes, 0 for an object that does not exist.
    fn size(&self, object: u64) -> u64;

    /// Removes the object and frees its bytes; not an error if it does not exist.
    fn remove(&self, object: u64) -> Result<(), StoreError>;

    /// Returns when everything written before is as durable as the store can make it.
    fn flush(&self, object: u64) -> Result<(), StoreError>;

    /// Bytes used and their limit.
    fn usage(&self) -> Usage;

    /// Whether calls may wait for a disk, so that async code must run them on a blocking thread.
    fn may_block(&self) -> bool;
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
    /// The underlying disk returned an error.
    #[error("storage: {0}")]
    Io(#[from] io::Error),
}

/// The end of a write, if an object may be that large.
fn checked_end(offset: u64, len: usize) -> Result<u64, StoreError> {
    let end = offset.saturating_add(len as u64);
    if end > OBJECT_BYTES_MAX { Err(StoreError::TooLarge { end }) } else { Ok(end) }
}
