//! The messages of coordinators as bytes.

use std::time::Duration;

use vpfs_core::{ServerId, ServiceClass, TotalKind};
use vpfs_node::coordination::{Counted, FlowKey, FlowTotal, Message, Position, Standing};

use super::WireError;
use super::fields::{Fields, put_u16, put_u32, put_u64};

/// Flags of a message.
const KNOWS_RECEIVER: u8 = 1;
const MORE: u8 = 2;
/// Flags of an entry.
const METADATA: u8 = 1;
const LEFT: u8 = 2;
/// An entry about a total: its kind, from 1, in these bits, and whether it is what is wanted of it.
const TOTAL: u8 = 4 | 8;
const TOTAL_SHIFT: u32 = TOTAL.trailing_zeros();
const WANTED: u8 = 16;

pub(super) fn encode(message: &Message, out: &mut Vec<u8>) {
    let start = out.len();
    out.push(flag(message.to.is_some(), KNOWS_RECEIVER) | flag(message.more, MORE));
    let age = u64::try_from(message.age.as_nanos()).unwrap_or(u64::MAX);
    let Position { horizon, version } = message.ack;
    let (to, at) = (message.to.unwrap_or(0), message.at);
    let Standing { members, group, side, stream, to_stream, live } = message.standing;
    [message.incarnation, age, to, members].into_iter().for_each(|number| put_u64(out, number));
    [group.0, side.0, stream, to_stream, live].into_iter().for_each(|number| put_u32(out, number));
    for number in [horizon, version, message.base, at.horizon, at.version] {
        put_u64(out, number);
    }
    put_u16(out, u16::try_from(message.entries.len()).expect("at most MAX_ENTRIES"));
    for entry in &*message.entries {
        out.push(counted_flags(entry.counted) | flag(entry.left, LEFT));
        [entry.key.0, entry.born, entry.changed].into_iter().for_each(|number| put_u64(out, number));
        out.extend_from_slice(&entry.total.to_be_bytes());
    }
    debug_assert_eq!(out.len() - start, message.encoded_len());
}

pub(super) fn decode(fields: &mut Fields<'_>) -> Result<Message, WireError> {
    let flags = flags(fields, KNOWS_RECEIVER | MORE)?;
    let incarnation = fields.u64()?;
    let age = Duration::from_nanos(fields.u64()?);
    let to = match (flags & KNOWS_RECEIVER, fields.u64()?) {
        (0, 0) => None,
        (0, _) => return Err(WireError::Value("a message names an incarnation that it does not know")),
        (_, incarnation) => Some(incarnation),
    };
    let standing = Standing {
        members: fields.u64()?,
        group: ServerId(fields.u32()?),
        side: ServerId(fields.u32()?),
        stream: fields.u32()?,
        to_stream: fields.u32()?,
        live: fields.u32()?,
    };
    let ack = position(fields)?;
    let base = fields.u64()?;
    let at = position(fields)?;
    let count = usize::from(fields.u16()?);
    if count > Message::MAX_ENTRIES {
        return Err(WireError::Value("a message has more than 1024 entries"));
    }
    fields.has(count, Message::ENTRY_LEN)?;
    let entries = (0..count).map(|_| entry(fields)).collect::<Result<_, _>>()?;
    Ok(Message { incarnation, age, to, standing, ack, base, at, more: flags & MORE != 0, entries })
}

fn entry(fields: &mut Fields<'_>) -> Result<FlowTotal, WireError> {
    let flags = flags(fields, METADATA | LEFT | TOTAL | WANTED)?;
    let counted = Counted::all().find(|counted| counted_flags(*counted) == flags & !LEFT);
    Ok(FlowTotal {
        key: FlowKey(fields.u64()?),
        counted: counted.ok_or(WireError::Value("an entry says that something is wanted, but not of which total"))?,
        born: fields.u64()?,
        changed: fields.u64()?,
        total: fields.i64()?,
        left: flags & LEFT != 0,
    })
}

fn counted_flags(counted: Counted) -> u8 {
    let total = |kind| match kind {
        TotalKind::Cap => 1 << TOTAL_SHIFT,
        TotalKind::Target => 2 << TOTAL_SHIFT,
        TotalKind::Minimum => 3 << TOTAL_SHIFT,
    };
    let (what, class) = match counted {
        Counted::Service(class) => (0, class),
        Counted::Given(kind, class) => (total(kind), class),
        Counted::Wanted(kind, class) => (total(kind) | WANTED, class),
    };
    what | flag(class == ServiceClass::Metadata, METADATA)
}

fn position(fields: &mut Fields<'_>) -> Result<Position, WireError> {
    Ok(Position { horizon: fields.u64()?, version: fields.u64()? })
}

/// Refuses flags that this version does not have: a sender that uses them means something.
fn flags(fields: &mut Fields<'_>, known: u8) -> Result<u8, WireError> {
    let flags = fields.u8()?;
    if flags & !known == 0 { Ok(flags) } else { Err(WireError::Value("a flag is not known")) }
}

fn flag(is_set: bool, flag: u8) -> u8 {
    if is_set { flag } else { 0 }
}
