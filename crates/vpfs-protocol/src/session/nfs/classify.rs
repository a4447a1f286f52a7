//! Classifies calls for the scheduler: data, metadata, or never delayed.

use std::hash::{DefaultHasher, Hasher};
use std::sync::Arc;

use vpfs_core::{Bytes, FileKey, FilePosition, MIN_DATA_COST, Objects, OpKind};

use crate::wire::nfs::{Access, Call, Compound, Credential, GssCredential, MAX_RECORD, program};

use super::detail::Answer;
use crate::session::shared::{Class, Numbered, Order, data_cost};
use crate::session::{Submission, User};

/// What a call is to the scheduler.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) class: Class,
    pub(super) answer: Answer,
    /// Data bytes in the call.
    pub(super) carried: u64,
    pub(super) order: Option<Order>,
    pub(super) numbered: Option<Numbered>,
    /// Where the arguments say that a WRITE may be stored later.
    pub(super) unstable_at: Option<usize>,
}

/// Bytes of a listing's reply for each entry, at least, and with attributes and handles.
const ENTRY: u32 = 32;
const ENTRY_PLUS: u32 = 128;
/// The largest number of entries to expect of a listing. Clients ask for as much as fits their buffers, and most
/// directories are short.
const ENTRIES: u32 = 64;

/// Whatever a call asks for, no longer reply passes.
const LONGEST_READ: u64 = MAX_RECORD as u64;

const COMMIT: u32 = 21;
const SETATTR: u32 = 2;

/// Classifies a call of `user`, of which `unread` bytes of data, or little more, were not read.
///
/// Exempt, one at a time, are what every client does before anything else: calls of other programs (MOUNT, portmapper),
/// procedure 0, handshakes of RPCSEC_GSS, and what keeps clients, sessions and leases of NFSv4 alive.
pub(super) fn plan(call: &Call<'_>, len: usize, unread: usize, user: Option<&Arc<User>>) -> Plan {
    let is_handshake = matches!(&call.credential, Credential::Gss(gss) if !gss.is_data);
    let numbered = numbered(&call.credential);
    if call.program != program::NFS || call.procedure == 0 || is_handshake {
        return Plan { class: Class::Exempt, numbered, ..metadata(user, 1) };
    }
    let known = match (call.version, call.arguments) {
        (3, Some(arguments)) => {
            Access::parse(call.procedure, arguments).ok().map(|access| v3(call.procedure, access, len, user))
        }
        (4, Some(arguments)) => Compound::parse(arguments).ok().and_then(|compound| v4(&compound, len, unread, user)),
        _ => None,
    };
    // The server refuses what cannot be decoded, and encrypted arguments cannot be.
    let plan = known.unwrap_or_else(|| Plan { answer: Answer::Opaque, ..metadata(user, opaque_objects(len)) });
    Plan { numbered, ..plan }
}

/// The place of a call in its security context.
fn numbered(credential: &Credential<'_>) -> Option<Numbered> {
    match credential {
        Credential::Gss(GssCredential { is_data: true, context, number, .. }) => {
            Some(Numbered { sequence: hash(context), number: *number })
        }
        _ => None,
    }
}

/// What cannot be read counts as one object for each of the smallest data accesses that may be in it.
pub(super) fn opaque_objects(len: usize) -> u32 {
    let objects = len as u64 / MIN_DATA_COST.0;
    u32::try_from(objects).unwrap_or(u32::MAX)
}

/// `None` if it may have operations that are not known.
fn v4(compound: &Compound<'_>, len: usize, unread: usize, user: Option<&Arc<User>>) -> Option<Plan> {
    let &Compound { read, reads, listing, objects, file, unstable_at, .. } = compound;
    let written = compound.written.min(len as u64);
    if !compound.is_known(unread) {
        return None;
    }
    if !compound.is_work {
        return Some(Plan { class: Class::Exempt, ..metadata(user, 1) });
    }
    if let Some((file, offset)) = compound.data {
        let (kind, answer) = match (reads, written) {
            (0, _) => (OpKind::Write, Answer::CompoundWrite),
            (1, 0) => (OpKind::Read, Answer::CompoundRead),
            _ => (if read < written { OpKind::Write } else { OpKind::Read }, Answer::Uncounted),
        };
        // The file of an access that finds it by name is not known.
        let file = file.unwrap_or_default();
        let order = Some(order(user, file_key(file), !compound.is_ordered));
        let plan = data(kind, file, offset, read.min(LONGEST_READ) + written, user);
        return Some(Plan { answer, carried: written, order, unstable_at, ..plan });
    }
    let order = file.filter(|_| compound.is_ordered).map(|file| order(user, file_key(file), false));
    if listing > 0 {
        let objects = objects.max((listing / ENTRY_PLUS).min(ENTRIES));
        return Some(Plan { answer: Answer::CompoundList, order, ..metadata(user, objects) });
    }
    Some(Plan { order, ..metadata(user, objects) })
}

fn v3(procedure: u32, access: Access<'_>, len: usize, user: Option<&Arc<User>>) -> Plan {
    match access {
        Access::Read { file, offset, count } => {
            data(OpKind::Read, file, offset, u64::from(count).min(LONGEST_READ), user)
        }
        // The server refuses a call with less data than it says.
        Access::Write { file, offset, count, unstable_at } => {
            Plan { unstable_at, ..data(OpKind::Write, file, offset, u64::from(count).min(len as u64), user) }
        }
        Access::List { bytes, is_plus, .. } => {
            let entries = bytes / if is_plus { ENTRY_PLUS } else { ENTRY };
            Plan { answer: Answer::List { is_plus }, ..metadata(user, entries.min(ENTRIES)) }
        }
        Access::Other { file } if matches!(procedure, COMMIT | SETATTR) => {
            Plan { order: Some(order(user, file_key(file), false)), ..metadata(user, 1) }
        }
        Access::Other { .. } | Access::Null => metadata(user, 1),
    }
}

fn data(kind: OpKind, file: &[u8], start: u64, bytes: u64, user: Option<&Arc<User>>) -> Plan {
    let file = file_key(file);
    let (answer, carried) = match kind {
        OpKind::Read => (Answer::Read, 0),
        _ => (Answer::Write, bytes),
    };
    let submission = Submission {
        kind,
        cost: data_cost(bytes),
        objects: Objects::ONE,
        // The server refuses a place beyond.
        position: i64::try_from(start).is_ok().then_some(FilePosition { file, start }),
        elsewhere: None,
        piece: None,
        may_be_left: false,
        user: user.cloned(),
    };
    Plan {
        class: Class::Scheduled(submission),
        answer,
        carried,
        order: Some(order(user, file, true)),
        numbered: None,
        unstable_at: None,
    }
}

/// A call that moves no data.
pub(super) fn metadata(user: Option<&Arc<User>>, objects: u32) -> Plan {
    let submission = Submission {
        kind: OpKind::Metadata,
        cost: Bytes::ZERO,
        objects: Objects::new(objects.into()),
        position: None,
        elsewhere: None,
        piece: None,
        may_be_left: false,
        user: user.cloned(),
    };
    Plan {
        class: Class::Scheduled(submission),
        answer: Answer::Plain,
        carried: 0,
        order: None,
        numbered: None,
        unstable_at: None,
    }
}

/// Handles are longer than keys.
fn file_key(handle: &[u8]) -> FileKey {
    FileKey(hash(handle))
}

fn hash(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(bytes);
    hasher.finish()
}

/// One user's operations on one file; those of other users on it have no order.
fn order(user: Option<&Arc<User>>, file: FileKey, is_data: bool) -> Order {
    let uid = user.map_or(u64::MAX, |user| user.uid.into());
    Order { line: file.0 ^ vpfs_core::hash::mix(uid), is_data }
}
