//! Messages from the server: all pass at once, and replies reveal what each operation did.

use bytes::BytesMut;
use vpfs_core::{Objects, Time};

use crate::wire::nfs::{
    Message, Record, Reply, compound_listed, compound_moved, compound_stored, listed, moved, program, status,
};

use super::classify::opaque_objects;
use super::detail::Answer;
use super::{Messages, SAME_XID, malformed, record};
use crate::session::shared::{Core, Meaning};
use crate::session::{Action, CloseReason, OpId, Side};

/// Bytes of a reply that have its header, with the longest verifier, and what the results of a READ or WRITE say before
/// the data.
const PEEK: usize = 640;

/// Bytes of a listing in which entries are counted; the rest of a longer one is taken to be like these.
const PEEK_LISTING: usize = 64 << 10;

/// The status of calls that were not executed.
const NOT_EXECUTED: i32 = -1;

pub(super) fn on_server_message(core: &mut Core<Messages>, now: Time, buf: &mut BytesMut) -> Result<bool, CloseReason> {
    let Some(found) = record(buf, Side::Server, PEEK)? else { return Ok(false) };
    let Some(id) = answered(core, &found, buf)? else {
        // A call of the server, or the answer to an abandoned operation, which the client ignores.
        pass(core, &found, buf, Meaning::Stray);
        return Ok(true);
    };
    if core.op(id).detail.answer.is_listing() && record(buf, Side::Server, PEEK_LISTING)?.is_none() {
        return Ok(false);
    }
    core.progressed(now, id);
    let start = found.message(buf);
    let Ok(Message::Reply(reply)) = Message::parse(&start) else { unreachable!("it was parsed above") };
    let status = learn(core, id, &reply, &found, found.message_len() / start.len());
    drop(start);
    pass(core, &found, buf, Meaning::Last { op: id, status });
    Ok(true)
}

/// The operation that is answered by the record at the start of `bytes`.
fn answered(core: &Core<Messages>, record: &Record, bytes: &[u8]) -> Result<Option<OpId>, CloseReason> {
    let start = record.message(bytes);
    let Message::Reply(Reply { xid, .. }) = Message::parse(&start).map_err(|error| malformed(Side::Server, &error))?
    else {
        return Ok(None);
    };
    let with_xid = (0..SAME_XID).filter_map(|number| core.find((xid, number)));
    Ok(with_xid.into_iter().find(|&id| core.op(id).is_sent()))
}

fn pass(core: &mut Core<Messages>, record: &Record, buf: &mut BytesMut, meaning: Meaning) {
    let here = record.len.min(buf.len());
    core.pass_server(buf, [here, record.len - here], meaning);
}

/// Reports what a reply reveals, of whose bytes one of `parts` equal parts is here. Returns its status, negative for an
/// error.
fn learn(core: &mut Core<Messages>, id: OpId, reply: &Reply<'_>, record: &Record, parts: usize) -> i32 {
    let detail = &core.op(id).detail;
    let (answer, is_nfs) = (detail.answer, detail.content.program == program::NFS);
    if answer == Answer::Opaque {
        let objects = opaque_objects(detail.content.len.saturating_add(record.len));
        core.correct_objects(id, Objects::new(objects.into()));
    }
    let Some(results) = reply.results else { return NOT_EXECUTED };
    // Nothing is known of encrypted results, or of those of other programs.
    let Some(results) = core.op(id).detail.protection.open(results).filter(|_| is_nfs) else { return 0 };
    // Procedure 0 returns nothing.
    let status = status(results).unwrap_or(0);
    let entries = |listed: u32| if status == 0 { Objects::new(u64::from(listed) * parts as u64) } else { Objects::ONE };
    match answer {
        Answer::Read | Answer::Write if status == 0 => data(core, id, answer, results),
        Answer::CompoundWrite if status == 0 => core.op_mut(id).is_stored = compound_stored(results) == Ok(true),
        Answer::CompoundRead if status == 0 => match compound_moved(results) {
            Ok(count) => core.read_in_reply(id, count.into()),
            Err(_) => core.leave_uncounted(id),
        },
        Answer::Uncounted => core.leave_uncounted(id),
        Answer::List { is_plus } => core.correct_objects(id, entries(listed(is_plus, results))),
        Answer::CompoundList => core.correct_objects(id, entries(compound_listed(results))),
        _ => {}
    }
    -i32::try_from(status).unwrap_or(i32::MAX)
}

/// A READ or WRITE of NFSv3 succeeded.
fn data(core: &mut Core<Messages>, id: OpId, answer: Answer, results: &[u8]) {
    let is_write = answer == Answer::Write;
    if let Ok(moved) = moved(is_write, results) {
        let file = core.op(id).detail.content.position.map(|position| position.file);
        core.actions.extend(file.zip(moved.size).map(|(file, size)| Action::SizeLearned { file, size }));
        core.op_mut(id).is_stored = moved.is_stored;
        if !is_write {
            core.read_in_reply(id, moved.count.into());
        }
    }
}
