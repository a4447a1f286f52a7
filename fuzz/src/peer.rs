//! Checks of the frames between peers on arbitrary bytes. They panic if an invariant is violated, never because of
//! malformed bytes.

use vpfs_node::frames::{FRAME_LEN, Frame, WireError};

/// What decodes is encoded to the same bytes, only a cut frame is incomplete, and no frame exceeds the limit.
pub fn peer_frame(data: &[u8]) {
    let mut rest = data;
    loop {
        match Frame::decode(rest) {
            Ok(Some((frame, len))) => {
                let mut encoded = Vec::new();
                frame.encode(&mut encoded);
                assert_eq!(encoded, rest[..len]);
                assert_eq!(Frame::decode(&rest[..len - 1]), Ok(None));
                rest = &rest[len..];
            }
            Ok(None) => return assert!(rest.len() < 4 + FRAME_LEN),
            Err(WireError::Length(length)) => return assert!(length == 0 || length as usize > FRAME_LEN),
            Err(_) => return,
        }
    }
}
