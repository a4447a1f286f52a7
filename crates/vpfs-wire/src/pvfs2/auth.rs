//! Capabilities and credentials: what a request may do, and on whose behalf (docs/protocols/orangefs.md,
//! capability and credential).

use super::codec::{Reader, Wire, Writer};
use super::types::{FsId, Handle, Text};
use crate::DecodeError;

/// Bits of [`Capability::op_mask`].
#[expect(missing_docs, reason = "each allows the operation it names")]
pub mod op_mask {
    pub const EXEC: u32 = 1;
    pub const WRITE: u32 = 2;
    pub const READ: u32 = 4;
    pub const SETATTR: u32 = 8;
    pub const CREATE: u32 = 16;
    pub const ADMIN: u32 = 32;
    pub const REMOVE: u32 = 64;
    pub const BATCH_CREATE: u32 = 128;
    pub const BATCH_REMOVE: u32 = 256;
}

/// What a request is allowed to do, and to which objects. The default is the null capability, which GETCONFIG and
/// others carry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Capability {
    /// `S:` and the alias of the server that issued it; empty in the null capability.
    pub issuer: Text,
    /// The file system it is for.
    pub fs: FsId,
    /// Empty in builds without key or certificate security.
    pub signature: Vec<u8>,
    /// When it expires, in seconds since 1970.
    pub timeout: u64,
    /// What it allows, see [`op_mask`].
    pub op_mask: u32,
    /// The object first, then its datafile or directory data handles.
    pub handles: Vec<Handle>,
}

impl Wire for Capability {
    const MIN_LEN: usize = 40;
    fn read(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let issuer = r.read()?;
        let fs = r.i32()?;
        r.pad4()?;
        let signature = r.blob()?.to_vec();
        let (timeout, op_mask, handles) = (r.u64()?, r.u32()?, r.read()?);
        r.align8()?;
        Ok(Self { issuer, fs, signature, timeout, op_mask, handles })
    }
    fn write(&self, w: &mut Writer) {
        self.issuer.write(w);
        self.fs.write(w);
        w.pad4();
        w.blob(&self.signature);
        self.timeout.write(w);
        self.op_mask.write(w);
        self.handles.write(w);
        w.align8();
    }
}

/// On whose behalf a request is made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Credential {
    /// The user.
    pub uid: u32,
    /// The user's groups, the primary one first.
    pub gids: Vec<u32>,
    /// `C:` and a client's host name, or `S:` and a server's alias.
    pub issuer: Text,
    /// When it expires, in seconds since 1970.
    pub timeout: u64,
    /// Empty in builds without key or certificate security.
    pub signature: Vec<u8>,
    /// Empty in builds without certificate security.
    pub certificate: Vec<u8>,
}

impl Wire for Credential {
    const MIN_LEN: usize = 48;
    fn read(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        r.pad4()?;
        r.pad4()?;
        let (uid, gids) = (r.u32()?, r.read()?);
        r.align8()?;
        let (issuer, timeout) = (r.read()?, r.u64()?);
        let signature = r.blob()?.to_vec();
        r.pad4()?;
        let certificate = r.blob()?.to_vec();
        Ok(Self { uid, gids, issuer, timeout, signature, certificate })
    }
    fn write(&self, w: &mut Writer) {
        w.pad4();
        w.pad4();
        self.uid.write(w);
        self.gids.write(w);
        w.align8();
        self.issuer.write(w);
        self.timeout.write(w);
        w.blob(&self.signature);
        w.pad4();
        w.blob(&self.certificate);
    }
}
