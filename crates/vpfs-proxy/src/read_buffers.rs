//! Read buffers for the connections that are busy: each thread keeps a few, so that a connection takes one for each
//! burst of bytes without an allocation, and an idle connection has none.

use std::cell::RefCell;

use bytes::BytesMut;

/// Bytes read at once from a socket: one message with the data of a default flow buffer, and what comes with it.
pub(crate) const READ_SIZE: usize = (256 << 10) + (4 << 10);
/// Spare buffers of a thread: those of one connection, which reads from two sockets, and some with bytes that the
/// system has not accepted yet, so that a connection with a slow receiver does not allocate for each read.
const SPARE: usize = 8;

thread_local! {
    static SPARES: RefCell<Vec<BytesMut>> = const { RefCell::new(Vec::new()) };
}

/// An empty buffer with room for [`READ_SIZE`].
pub(crate) fn take() -> BytesMut {
    SPARES.with_borrow_mut(|spares| {
        // The latest first: it is in the processor's cache.
        let free = spares.iter_mut().rposition(|spare| spare.try_reclaim(READ_SIZE));
        free.map_or_else(|| BytesMut::with_capacity(READ_SIZE), |free| spares.swap_remove(free))
    })
}

/// Takes the memory of a buffer that is read no more. Messages that are in it may still wait to be sent.
pub(crate) fn give_back(mut buf: BytesMut) {
    buf.clear();
    SPARES.with_borrow_mut(|spares| {
        if spares.len() == SPARE {
            spares.remove(0);
        }
        spares.push(buf);
    });
}
