//! Borrowed views of the fields that precede the body, and functions that skip fields a proxy does not need.

use super::super::attr::mask;
use super::super::codec::Reader;
use super::super::dist::DistView;
use super::super::types::{FsId, Handle, ObjType};
use crate::DecodeError;

/// A borrowed [`super::super::Capability`].
#[derive(Clone, Copy, Debug)]
pub struct CapabilityView<'a> {
    /// `S:` and the alias of the server that issued it; empty in the null capability.
    pub issuer: &'a [u8],
    /// The file system it is for.
    pub fs: FsId,
    /// When it expires, in seconds since 1970.
    pub timeout: u64,
    /// What it allows, see [`super::super::auth::op_mask`].
    pub op_mask: u32,
    handles: &'a [u8],
}

impl<'a> CapabilityView<'a> {
    pub(super) fn read(r: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let issuer = r.str()?;
        let fs = r.i32()?;
        r.pad4()?;
        r.blob()?;
        let (timeout, op_mask) = (r.u64()?, r.u32()?);
        let handles = array(r, 8)?;
        r.align8()?;
        Ok(Self { issuer, fs, timeout, op_mask, handles })
    }

    /// The object first, then its datafile or directory data handles.
    pub fn handles(&self) -> impl ExactSizeIterator<Item = Handle> + use<'a> {
        self.handles.chunks_exact(8).map(|bytes| Handle(bytes.try_into().map_or(0, u64::from_le_bytes)))
    }
}

/// The user and issuer of a credential.
#[derive(Clone, Copy, Debug)]
pub struct CredentialIds<'a> {
    /// The user.
    pub uid: u32,
    /// `C:` and a client's host name, or `S:` and a server's alias.
    pub issuer: &'a [u8],
    gids: &'a [u8],
}

impl<'a> CredentialIds<'a> {
    pub(super) fn read(r: &mut Reader<'a>) -> Result<Self, DecodeError> {
        r.take(8)?;
        let uid = r.u32()?;
        let gids = array(r, 4)?;
        r.align8()?;
        let issuer = r.str()?;
        r.take(8)?;
        r.blob()?;
        r.pad4()?;
        r.blob()?;
        Ok(Self { uid, issuer, gids })
    }

    /// The user's groups, the primary one first.
    pub fn gids(&self) -> impl ExactSizeIterator<Item = u32> + use<'a> {
        self.gids.chunks_exact(4).map(|bytes| bytes.try_into().map_or(0, u32::from_le_bytes))
    }

    /// The primary group.
    pub fn gid(&self) -> Option<u32> {
        self.gids().next()
    }

    /// Whether a server issued the credential to itself.
    pub fn is_from_server(&self) -> bool {
        self.issuer.starts_with(b"S:")
    }
}

/// Skips an array of elements of `len` bytes and returns its bytes.
pub(super) fn array<'a>(r: &mut Reader<'a>, len: usize) -> Result<&'a [u8], DecodeError> {
    let count = r.count(len)?;
    r.take(count * len)
}

/// Skips attributes; consumes the same bytes as decoding them.
pub(super) fn attr(r: &mut Reader<'_>) -> Result<(), DecodeError> {
    r.take(40)?;
    let (mask, objtype) = (r.u32()?, ObjType(r.i32()?));
    let has = |bit: u32| mask & bit != 0;
    if has(mask::CAPABILITY) {
        CapabilityView::read(r)?;
    }
    if objtype == ObjType::METAFILE && !has(mask::UNSTUFFED) {
        r.take(8)?;
    }
    if has(mask::DIST) {
        DistView::read(r)?;
    }
    let mut datafiles = 0;
    if has(mask::DATAFILES) {
        datafiles = r.count(8)?;
        r.pad4()?;
        r.take(datafiles.saturating_mul(8))?;
        r.take(8)?;
    }
    if has(mask::MIRRORS) {
        let copies = r.u32()? as usize;
        r.pad4()?;
        r.take(copies.saturating_mul(datafiles).saturating_mul(8))?;
    }
    if has(mask::SIZE) {
        r.take(8)?;
    }
    if has(mask::SYMLINK_TARGET) {
        r.take(8)?;
        r.str()?;
    }
    if has(mask::DISTDIR) {
        r.pad4()?;
        let (servers, words) = (r.u32()? as usize, r.u32()? as usize);
        r.take(12)?;
        r.take(words.saturating_mul(4))?;
        r.pad4()?;
        r.take(servers.saturating_mul(8))?;
    }
    if has(mask::DIRENT_COUNT | mask::DIR_HINT) {
        r.take(16)?;
        r.str()?;
        r.take(8)?;
        r.str()?;
        r.take(16)?;
        r.str()?;
    }
    Ok(())
}
