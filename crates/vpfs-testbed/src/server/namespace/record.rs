//! The log of changes. Each record is a change encoded like a request of the protocol, so the log needs no format of
//! its own besides a frame.
//!
//! Frame: `u32` payload bytes, `u32` checksum of the rest, `u64` seconds since 1970, payload; little-endian.

use vpfs_wire::pvfs2::request::{self, RequestBody};
use vpfs_wire::pvfs2::{Columns, Credential, Handle, KeyVal, Request, Text};

use super::object::Object;

const FRAME: usize = 16;

/// One change.
#[derive(Debug)]
pub(crate) struct Record {
    /// When, in seconds since 1970.
    pub(crate) time: u64,
    pub(crate) change: RequestBody,
}

/// The object is new or has changed; its entries and extended attributes are unchanged.
pub(super) fn put(handle: Handle, object: &Object) -> RequestBody {
    let (attr, credential) = (object.to_log(), Credential::default());
    RequestBody::SetAttr(request::SetAttr { handle, fs: 0, attr, credential })
}

pub(super) fn remove(handle: Handle) -> RequestBody {
    RequestBody::Remove(request::Remove { handle, fs: 0, credential: Credential::default() })
}

pub(super) fn set_entry(dirdata: Handle, name: &Text, new_handle: Handle) -> RequestBody {
    RequestBody::ChDirent(request::ChDirent { name: name.clone(), new_handle, dirdata, fs: 0 })
}

pub(super) fn remove_entry(dirdata: Handle, name: &Text) -> RequestBody {
    RequestBody::RmDirent(request::RmDirent { name: name.clone(), dirdata, fs: 0 })
}

pub(super) fn set_xattr(handle: Handle, key: &KeyVal, value: &KeyVal) -> RequestBody {
    let entries = Columns(vec![(key.clone(), value.clone())]);
    RequestBody::SetEattr(request::SetEattr { handle, fs: 0, flags: 0, entries })
}

pub(super) fn remove_xattr(handle: Handle, key: &KeyVal) -> RequestBody {
    RequestBody::DelEattr(request::DelEattr { handle, fs: 0, key: key.clone() })
}

impl Record {
    /// Appends the framed record to `log`.
    pub(crate) fn append_to(self, log: &mut Vec<u8>) {
        let payload = Request::bare(self.change).encode();
        let len = u32::try_from(payload.len()).expect("a change is far below 4 GiB");
        log.extend_from_slice(&len.to_le_bytes());
        log.extend_from_slice(&checksum(self.time, &payload).to_le_bytes());
        log.extend_from_slice(&self.time.to_le_bytes());
        log.extend_from_slice(&payload);
    }

    /// Takes the first record off `log`. Returns `None` at the end and at a torn or damaged record: what follows was
    /// never acknowledged or cannot be trusted.
    pub(crate) fn split_off(log: &mut &[u8]) -> Option<Self> {
        let (frame, rest) = log.split_first_chunk::<FRAME>()?;
        let (len, tail) = frame.split_first_chunk::<4>()?;
        let (sum, time) = tail.split_first_chunk::<4>()?;
        let payload = rest.get(..usize::try_from(u32::from_le_bytes(*len)).ok()?)?;
        let time = u64::from_le_bytes(*time.first_chunk()?);
        if checksum(time, payload) != u32::from_le_bytes(*sum) {
            return None;
        }
        let change = Request::decode(payload).ok()?.body;
        *log = &rest[payload.len()..];
        Some(Self { time, change })
    }
}

/// FNV-1a over time and payload: sufficient to detect torn writes, its only purpose.
fn checksum(time: u64, payload: &[u8]) -> u32 {
    let step = |hash: u32, byte: &u8| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193);
    time.to_le_bytes().iter().chain(payload).fold(0x811c_9dc5, step)
}
