//! How many objects a request works on.

use super::super::dist::DistView;
use super::super::op::Op;
use super::RequestView;
use super::skip::{self, CredentialIds};
use crate::DecodeError;
use crate::pvfs2::codec::Reader;

/// The most entries that a server lists in one reply; it refuses to list more.
const LISTED_MAX: u32 = 512;

impl RequestView<'_> {
    /// The number of objects, entries, names or keys that the request asks a server to work on, as far as it says so;
    /// at least 1. Where it states a maximum, as for a listing, that maximum. Data operations have one object.
    pub fn objects(&self) -> Result<u32, DecodeError> {
        let mut r = self.body();
        let count = match self.op {
            Op::LookupPath => names(r.str()?),
            Op::Create => new_file(&mut r)?,
            Op::MkDir => new_directory(&mut r)?,
            Op::ReadDir => after(&mut r, 12)?.u32()?.min(LISTED_MAX),
            Op::BatchCreate => after(&mut r, 8)?.u32()?,
            Op::MgmtIterateHandles => u32::try_from(after(&mut r, 4)?.i32()?).unwrap_or(1),
            Op::ListAttr => counted(after(&mut r, 12)?, 8)?,
            Op::BatchRemove => counted(after(&mut r, 4)?, 8)?,
            Op::GetEattr => counted(after(&mut r, 12)?, 16)?,
            Op::SetEattr => counted(after(&mut r, 20)?, 16)?,
            Op::AtomicEattr => counted(after(&mut r, 20)?, 24)?,
            Op::ListEattr => counted(after(&mut r, 24)?, 8)?,
            Op::TreeRemove | Op::TreeGetFileSize | Op::TreeSetAttr | Op::TreeGetAttr => tree(self.op, &mut r)?,
            Op::Mirror => copies(&mut r)?,
            Op::MgmtSplitDirent => moved_entries(&mut r)?,
            _ => 1,
        };
        Ok(count.max(1))
    }
}

/// Skips `len` bytes.
fn after<'r, 'a>(r: &'r mut Reader<'a>, len: usize) -> Result<&'r mut Reader<'a>, DecodeError> {
    r.take(len)?;
    Ok(r)
}

/// The number of elements of an array, each of at least `len` bytes.
fn counted(r: &mut Reader<'_>, len: usize) -> Result<u32, DecodeError> {
    Ok(u32::try_from(r.count(len)?).unwrap_or(u32::MAX))
}

/// The names in a path: each is looked up.
fn names(path: &[u8]) -> u32 {
    let names = path.split(|byte| *byte == b'/').filter(|name| !name.is_empty()).count();
    u32::try_from(names).unwrap_or(u32::MAX)
}

/// Each server of the file creates an object.
fn new_file(r: &mut Reader<'_>) -> Result<u32, DecodeError> {
    r.take(8)?;
    CredentialIds::read(r)?;
    skip::attr(r)?;
    Ok(u32::try_from(r.i32()?).unwrap_or(1))
}

/// Each server of the directory creates an object.
fn new_directory(r: &mut Reader<'_>) -> Result<u32, DecodeError> {
    r.take(8)?;
    CredentialIds::read(r)?;
    skip::attr(r)?;
    r.pad4()?;
    skip::array(r, 16)?;
    Ok(u32::try_from(r.i32()?).unwrap_or(1))
}

/// The handles of a request that servers pass on to each other.
fn tree(op: Op, r: &mut Reader<'_>) -> Result<u32, DecodeError> {
    r.take(if matches!(op, Op::TreeRemove | Op::TreeSetAttr) { 4 } else { 12 })?;
    CredentialIds::read(r)?;
    if op == Op::TreeSetAttr {
        r.take(4)?;
        skip::attr(r)?;
    }
    if op != Op::TreeGetFileSize {
        // The caller's index, or the mask of attributes.
        r.take(4)?;
    }
    counted(r, 8)
}

/// The copies that a server makes of a datafile.
fn copies(r: &mut Reader<'_>) -> Result<u32, DecodeError> {
    r.take(12)?;
    DistView::read(r)?;
    r.take(8)?;
    counted(r, 12)
}

/// The entries that move to another server's part of a directory.
fn moved_entries(r: &mut Reader<'_>) -> Result<u32, DecodeError> {
    r.take(12)?;
    DistView::read(r)?;
    r.take(8)?;
    counted(r, 16)
}
