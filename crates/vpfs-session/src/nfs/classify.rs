//! Classifies calls for the scheduler: data, metadata, or never delayed.

use std::hash::{DefaultHasher, Hasher};
use std::sync::Arc;

use vpfs_core::{Bytes, FileKey, FilePosition, Objects, OpKind};
use vpfs_wire::nfs::{Access, Call, Credential, program};

use super::detail::Answer;
use crate::shared::{Class, Order, data_cost};
use crate::{Submission, User};

/// What a call is to the scheduler.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) class: Class,
    pub(super) answer: Answer,
    /// Data bytes in the call.
    pub(super) carried: u64,
    pub(super) order: Option<Order>,
}

/// Bytes of a listing's reply for each entry, at least, and with attributes and handles.
const ENTRY: u32 = 32;
const ENTRY_PLUS: u32 = 128;
/// The largest number of entries to expect of a listing. Clients ask for as much as fits their buffers, and most
/// directories are short.
const ENTRIES: u32 = 64;

const COMMIT: u32 = 21;
const SETATTR: u32 = 2;

/// Classifies a call of `user`.
///
/// Exempt, one at a time, are what every client does before anything else: calls of other programs (MOUNT, portmapper),
/// procedure 0, and handshakes of RPCSEC_GSS.
pub(super) fn plan(call: &Call<'_>, user: Option<&Arc<User>>) -> Plan {
    let is_handshake = matches!(&call.credential, Credential::Gss(gss) if !gss.is_data);
    if call.program != program::NFS || call.procedure == 0 || is_handshake {
        return Plan { class: Class::Exempt, ..metadata(user, 1) };
    }
    // The server refuses what cannot be decoded, and encrypted arguments cannot be.
    let access = call.arguments.map(|arguments| Access::parse(call.procedure, arguments));
    match (call.version, access) {
        (3, Some(Ok(access))) => v3(call.procedure, access, user),
        _ => metadata(user, 1),
    }
}

fn v3(procedure: u32, access: Access<'_>, user: Option<&Arc<User>>) -> Plan {
    match access {
        Access::Read { file, offset, count } => data(OpKind::Read, file, offset, count, user),
        Access::Write { file, offset, count, .. } => data(OpKind::Write, file, offset, count, user),
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

fn data(kind: OpKind, file: &[u8], start: u64, count: u32, user: Option<&Arc<User>>) -> Plan {
    let file = file_key(file);
    let (answer, carried) = match kind {
        OpKind::Read => (Answer::Read(file), 0),
        _ => (Answer::Write(file), count.into()),
    };
    let submission = Submission {
        kind,
        cost: data_cost(count.into()),
        objects: Objects::ONE,
        position: Some(FilePosition { file, start }),
        elsewhere: None,
        user: user.cloned(),
    };
    Plan { class: Class::Scheduled(submission), answer, carried, order: Some(order(user, file, true)) }
}

/// A call that moves no data.
pub(super) fn metadata(user: Option<&Arc<User>>, objects: u32) -> Plan {
    let submission = Submission {
        kind: OpKind::Metadata,
        cost: Bytes::ZERO,
        objects: Objects::new(objects.into()),
        position: None,
        elsewhere: None,
        user: user.cloned(),
    };
    Plan { class: Class::Scheduled(submission), answer: Answer::Plain, carried: 0, order: None }
}

/// Handles are longer than keys.
fn file_key(handle: &[u8]) -> FileKey {
    let mut hasher = DefaultHasher::new();
    hasher.write(handle);
    FileKey(hasher.finish())
}

/// One user's operations on one file; those of other users on it have no order.
fn order(user: Option<&Arc<User>>, file: FileKey, is_data: bool) -> Order {
    let uid = user.map_or(u64::MAX, |user| user.uid.into());
    Order { line: file.0 ^ vpfs_core::hash::mix(uid), is_data }
}
