//! The twelve bytes that start every request and reply: version, encoding, operation.

use super::codec::{Reader, Wire, Writer};
use super::op::Op;
use crate::DecodeError;

/// Major version times 1000 plus minor: 2.9 and 2.10.
pub const PROTOCOL_VERSION: u32 = 7000;
/// The little-endian bytefield, the only encoding there is.
pub const ENCODING: u32 = 2;

pub(super) fn read(r: &mut Reader<'_>) -> Result<Op, DecodeError> {
    let start = *r;
    if r.u32()? / 1000 != PROTOCOL_VERSION / 1000 {
        return Err(start.malformed("another protocol version than 7"));
    }
    let start = *r;
    if r.u32()? != ENCODING {
        return Err(start.malformed("another encoding than the little-endian bytefield"));
    }
    let start = *r;
    Op::from_code(r.i32()?).ok_or_else(|| start.malformed("an operation that 2.10 does not have"))
}

pub(super) fn write(op: Op, w: &mut Writer) {
    w.u32(PROTOCOL_VERSION);
    w.u32(ENCODING);
    op.code().write(w);
}
