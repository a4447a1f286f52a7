//! NFS over ONC RPC, and any other RPC program that a client speaks on the same connection
//! (docs/decisions/0011-nfs.md).

mod classify;
mod client;
mod detail;
mod server;

use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use vpfs_core::Time;

use crate::wire::DecodeError;
use crate::wire::nfs::{DATA_SYNC, MAX_RECORD, Record};
use detail::Detail;

use crate::session::shared::{Core, Protocol, ProtocolSession, violation};
use crate::session::{CloseReason, Interposer, Requester, Session, SessionLimits, Side, User};

/// NFS as a listener's protocol.
#[derive(Debug)]
pub struct Nfs;

impl Interposer for Nfs {
    /// Every call states its user, so that of an earlier session does not matter.
    fn session(&self, limits: SessionLimits, requester: Requester, _: Option<Arc<User>>) -> Box<dyn Session> {
        Box::new(ProtocolSession::new(limits, requester, Messages::default()))
    }

    /// Clients send what was not answered again, whenever they notice the end.
    fn quiet_at_end(&self) -> Duration {
        Duration::ZERO
    }
}

/// The messages of one connection.
#[derive(Debug, Default)]
struct Messages {
    /// The user of the latest call.
    user: Option<Arc<User>>,
}

/// A call in progress: its transaction number, and how many of the same number are in progress already.
type Tag = (u32, u8);

/// The largest number of calls with the same transaction number that are in progress at once: a client that uses
/// numbers again is mistaken, but served.
const SAME_XID: u8 = 8;

impl Protocol for Messages {
    type Tag = Tag;
    type Detail = Detail;

    /// And the mark of a fragment that would make it longer.
    const LONGEST_REQUEST: usize = MAX_RECORD + 4;
    /// A server reads all that was asked for before it replies.
    const READ_AHEAD: u64 = MAX_RECORD as u64;
    /// They wait for ever, or repeat it under the same number, which the server recognises.
    const IS_REPEATED: bool = false;

    fn client_message(&mut self, core: &mut Core<Self>, now: Time, buf: &mut BytesMut) -> Result<bool, CloseReason> {
        self.on_client_message(core, now, buf)
    }

    fn server_message(&mut self, core: &mut Core<Self>, now: Time, buf: &mut BytesMut) -> Result<bool, CloseReason> {
        server::on_server_message(core, now, buf)
    }

    fn stored_instead(detail: &Detail) -> Option<(usize, &'static [u8])> {
        Some((detail.unstable_at?.into(), &DATA_SYNC))
    }

    fn content(request: &[u8]) -> &[u8] {
        request
    }

    fn stated_user(&mut self) -> Option<Arc<User>> {
        None
    }
}

/// Room in a buffer behind a record that is arriving, so that the driver goes on reading into the same buffer.
const ROOM_BEHIND: usize = 64 << 10;

/// Bytes of the longest WRITE of usual clients. Of what is allocated for one that never comes, the system provides only
/// the pages that were written to.
const USUAL: usize = 1 << 20;

/// The record at the start of `buf`, `None` if fewer than `needed` of its bytes are there, or than all if it has
/// several fragments.
fn record(buf: &mut BytesMut, side: Side, needed: usize) -> Result<Option<Record>, CloseReason> {
    let record = match Record::parse(buf) {
        Ok(record) => record,
        Err(DecodeError::Incomplete { .. }) => return Ok(None),
        Err(_) if is_tls(buf) => return Err(violation(side, TLS)),
        Err(error) => return Err(malformed(side, &error)),
    };
    let needed = if record.is_contiguous() { needed.min(record.len) } else { record.len };
    if buf.len() >= needed {
        return Ok(Some(record));
    }
    make_room(buf, needed - buf.len());
    Ok(None)
}

/// Makes room for `missing` bytes of a record that is arriving at once, as far as usual clients send, and for those of
/// a longer one when so much has arrived: otherwise its start would be copied again and again while the buffer grows.
fn make_room(buf: &mut BytesMut, missing: usize) {
    if missing > ROOM_BEHIND {
        buf.reserve(missing.min(USUAL.max(4 * buf.len())) + ROOM_BEHIND);
    }
}

const TLS: &str = "NFS over TLS, which vpfs cannot schedule; mount without xprtsec=, or past the proxy \
                   (docs/decisions/0011-nfs.md)";

/// Whether bytes that are no record begin a handshake of TLS (RFC 9289), its version 1.0 or later.
fn is_tls(bytes: &[u8]) -> bool {
    bytes.starts_with(&[22, 3])
}

fn malformed(side: Side, error: &DecodeError) -> CloseReason {
    let error = match error {
        // Its record is all there.
        DecodeError::Incomplete { .. } => "a message that ends within its header".to_owned(),
        error => error.to_string(),
    };
    CloseReason::Malformed { side, error }
}
