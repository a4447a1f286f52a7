//! Read buffers for the connections that are busy: each thread keeps a few, so that a connection takes one for each
//! burst of bytes without an allocation, and an idle connection has none.

use std::cell::RefCell;

use bytes::BytesMut;

/// Bytes read at once from a socket; one bulk message of the default flow buffer size.
pub(crate) const READ_SIZE: usize = 256 << 10;
/// Spare buffers of a thread. It serves one connection at a time, which reads from two sockets.
const SPARE: usize = 2;

thread_local! {
    static SPARES: RefCell<Vec<BytesMut>> = const { RefCell::new(Vec::new()) };
}

/// An empty buffer with room for [`READ_SIZE`].
pub(crate) fn take() -> BytesMut {
    SPARES.with_borrow_mut(Vec::pop).unwrap_or_else(|| BytesMut::with_capacity(READ_SIZE))
}

/// Takes the memory of an empty buffer, unless messages that wait to be sent are still in it.
pub(crate) fn give_back(buf: &mut BytesMut) {
    debug_assert!(buf.is_empty(), "bytes that were read are not lost");
    if buf.try_reclaim(READ_SIZE) {
        let buf = std::mem::take(buf);
        SPARES.with_borrow_mut(|spares| {
            if spares.len() < SPARE {
                spares.push(buf);
            }
        });
    }
}
