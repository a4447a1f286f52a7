//! Messages as BMI frames them.

use bytes::{Bytes, BytesMut};

use crate::session::{CloseReason, Side};
use crate::wire::DecodeError;
use crate::wire::bmi::Header;

/// The header at the start of `buf`, `None` while it is incomplete.
pub(super) fn decode_header(buf: &BytesMut, side: Side) -> Result<Option<Header>, CloseReason> {
    match Header::decode(buf) {
        Ok(header) => Ok(Some(header)),
        Err(DecodeError::Incomplete { .. }) => Ok(None),
        Err(error) => Err(malformed(side, &error)),
    }
}

/// The size of the payload after a header.
pub(super) fn payload_len(header: &Header) -> usize {
    // At most 16 MiB, as checked by decoding.
    usize::try_from(header.size).unwrap_or(usize::MAX)
}

/// A whole message.
pub(super) fn message(header: &Header, payload: &[u8]) -> Bytes {
    let mut bytes = BytesMut::with_capacity(Header::LEN + payload.len());
    bytes.extend_from_slice(&header.encode());
    bytes.extend_from_slice(payload);
    bytes.freeze()
}

pub(super) fn malformed(side: Side, error: &DecodeError) -> CloseReason {
    CloseReason::Malformed { side, error: error.to_string() }
}
