//! Headers of calls and replies (RFC 5531), with the credentials of AUTH_SYS and RPCSEC_GSS (RFC 2203).

use super::xdr::Cursor;
use crate::DecodeError;

/// Program numbers.
pub mod program {
    /// NFS.
    pub const NFS: u32 = 100_003;
}

/// The longest body of a credential or verifier, in bytes.
const MAX_AUTH: usize = 400;
/// The longest name of a machine, in bytes.
const MAX_MACHINE: usize = 255;
/// The largest number of group ids besides the primary one.
const MAX_GIDS: u32 = 16;

const AUTH_SYS: u32 = 1;
const RPCSEC_GSS: u32 = 6;

/// A message of RPC.
#[derive(Clone, Debug)]
pub enum Message<'a> {
    /// A call, of the client, or of the server on the back channel of NFSv4.1.
    Call(Call<'a>),
    /// The reply to a call.
    Reply(Reply<'a>),
}

/// A call.
#[derive(Clone, Debug)]
pub struct Call<'a> {
    /// The transaction's number, which its reply repeats.
    pub xid: u32,
    /// The program, see [`program`].
    pub program: u32,
    /// Its version.
    pub version: u32,
    /// A procedure of that version; 0 does nothing in every program.
    pub procedure: u32,
    /// On whose behalf it is made.
    pub credential: Credential<'a>,
    /// The arguments, `None` if they are encrypted.
    pub arguments: Option<&'a [u8]>,
}

/// On whose behalf a call is made.
#[derive(Clone, Debug)]
pub enum Credential<'a> {
    /// Numbers as the client's kernel states them.
    Sys(SysCredential<'a>),
    /// A security context.
    Gss(GssCredential<'a>),
    /// Nobody, or nobody known: other flavours, and credentials that servers reject.
    Unknown,
}

/// The credential of AUTH_SYS.
#[derive(Clone, Copy, Debug)]
pub struct SysCredential<'a> {
    /// The name that the client's host has for itself; empty if it is not text.
    pub machine: &'a str,
    /// User id.
    pub uid: u32,
    /// Primary group id.
    pub gid: u32,
    others: &'a [u8],
}

impl<'a> SysCredential<'a> {
    fn parse(body: &'a [u8]) -> Result<Self, DecodeError> {
        let mut cursor = Cursor::new(body);
        cursor.u32()?;
        let machine = std::str::from_utf8(cursor.opaque(MAX_MACHINE)?).unwrap_or_default();
        let (uid, gid) = (cursor.u32()?, cursor.u32()?);
        let count = cursor.u32()?;
        if count > MAX_GIDS {
            return Err(cursor.malformed("more than 16 groups"));
        }
        Ok(Self { machine, uid, gid, others: cursor.take(count as usize * 4)? })
    }

    /// Group ids, the primary one first.
    pub fn gids(&self) -> impl Iterator<Item = u32> + use<'a> {
        let others = self.others.chunks_exact(4).map(|id| u32::from_be_bytes([id[0], id[1], id[2], id[3]]));
        std::iter::once(self.gid).chain(others)
    }
}

/// The credential of RPCSEC_GSS.
#[derive(Clone, Copy, Debug)]
pub struct GssCredential<'a> {
    /// Whether it carries a call; otherwise it creates or destroys a context.
    pub is_data: bool,
    /// The call's number in its context.
    pub number: u32,
    /// How arguments and results are protected.
    pub protection: Protection,
    /// The server's name for the context; empty while it is being created.
    pub context: &'a [u8],
}

impl<'a> GssCredential<'a> {
    fn parse(body: &'a [u8]) -> Result<Self, DecodeError> {
        let mut cursor = Cursor::new(body);
        let (version, procedure) = (cursor.u32()?, cursor.u32()?);
        if version != 1 {
            return Err(cursor.malformed("an unknown version of RPCSEC_GSS"));
        }
        let number = cursor.u32()?;
        let protection = match cursor.u32()? {
            1 => Protection::None,
            2 => Protection::Integrity,
            _ => Protection::Privacy,
        };
        Ok(Self { is_data: procedure == 0, number, protection, context: cursor.opaque(MAX_AUTH)? })
    }
}

/// How arguments and results are protected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protection {
    /// Plain.
    None,
    /// Plain, with a sequence number in front and a checksum behind them.
    Integrity,
    /// Encrypted.
    Privacy,
}

impl Protection {
    /// The arguments or results inside, `None` if they cannot be read.
    pub fn open(self, body: &[u8]) -> Option<&[u8]> {
        match self {
            Self::None => Some(body),
            // The length of number and content together, then the number.
            Self::Integrity => body.get(8..),
            Self::Privacy => None,
        }
    }
}

impl Credential<'_> {
    /// How arguments and results of its calls are protected.
    pub fn protection(&self) -> Protection {
        match self {
            // Handshakes carry tokens.
            Self::Gss(gss) if !gss.is_data => Protection::Privacy,
            Self::Gss(gss) => gss.protection,
            _ => Protection::None,
        }
    }
}

/// A reply.
#[derive(Clone, Debug)]
pub struct Reply<'a> {
    /// That of its call.
    pub xid: u32,
    /// What the procedure returned, as protected as the arguments; `None` if it was not executed.
    pub results: Option<&'a [u8]>,
}

impl<'a> Message<'a> {
    /// Decodes the header at the start of a message. *Incomplete* if it is not all there.
    pub fn parse(message: &'a [u8]) -> Result<Self, DecodeError> {
        let mut cursor = Cursor::new(message);
        let xid = cursor.u32()?;
        match cursor.u32()? {
            0 => call(xid, cursor).map(Self::Call),
            1 => reply(xid, cursor).map(Self::Reply),
            _ => Err(cursor.malformed("neither a call nor a reply")),
        }
    }
}

fn call(xid: u32, mut cursor: Cursor<'_>) -> Result<Call<'_>, DecodeError> {
    if cursor.u32()? != 2 {
        return Err(cursor.malformed("not version 2 of RPC"));
    }
    let (program, version, procedure) = (cursor.u32()?, cursor.u32()?, cursor.u32()?);
    let (flavour, body) = (cursor.u32()?, cursor.opaque(MAX_AUTH)?);
    cursor.u32()?;
    cursor.opaque(MAX_AUTH)?;
    // The server rejects a credential that cannot be decoded.
    let credential = match flavour {
        AUTH_SYS => SysCredential::parse(body).map_or(Credential::Unknown, Credential::Sys),
        RPCSEC_GSS => GssCredential::parse(body).map_or(Credential::Unknown, Credential::Gss),
        _ => Credential::Unknown,
    };
    let arguments = credential.protection().open(cursor.rest());
    Ok(Call { xid, program, version, procedure, credential, arguments })
}

fn reply(xid: u32, mut cursor: Cursor<'_>) -> Result<Reply<'_>, DecodeError> {
    match cursor.u32()? {
        0 => {
            cursor.u32()?;
            cursor.opaque(MAX_AUTH)?;
            let is_executed = cursor.u32()? == 0;
            Ok(Reply { xid, results: is_executed.then(|| cursor.rest()) })
        }
        1 => Ok(Reply { xid, results: None }),
        _ => Err(cursor.malformed("neither accepted nor denied")),
    }
}
