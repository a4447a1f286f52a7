//! The twelve bytes that start every request and reply: version, encoding, operation.

use super::codec::{Reader, Wire, Writer};
use super::op::Op;
use crate::DecodeError;

/// Major version times 1000 plus minor: 2.9 and 2.10.
pub const PROTOCOL_VERSION: u32 = 7000;
/// The little-endian bytefield, the only encoding in use.
pub const ENCODING: u32 = 2;

pub(super) fn read(r: &mut Reader<'_>) -> Result<Op, DecodeError> {
    let start = *r;
    if r.u32()? / 1000 != PROTOCOL_VERSION / 1000 {
        return Err(start.malformed("a protocol version other than 7"));
    }
    let start = *r;
    if r.u32()? != ENCODING {
        return Err(start.malformed("an encoding other than the little-endian bytefield"));
    }
    let start = *r;
    Op::from_code(r.i32()?).ok_or_else(|| start.malformed("not an operation of version 2.10"))
}

pub(super) fn write(op: Op, w: &mut Writer) {
    w.u32(PROTOCOL_VERSION);
    w.u32(ENCODING);
    op.code().write(w);
}
