//! Checks of the wire codecs on arbitrary bytes. Each panics if an invariant is violated, never because of malformed
//! bytes.

use vpfs_protocol::wire::DecodeError;
use vpfs_protocol::wire::bmi::Header;
use vpfs_protocol::wire::pvfs2::reply::GetConfig;
use vpfs_protocol::wire::pvfs2::rewrite::{self, ClientTimeouts, RewriteError};
use vpfs_protocol::wire::pvfs2::{Reply, ReplyBody, ReplyHead, Request, RequestView, Text, Transfer};

/// A header that decodes is encoded to the same bytes; otherwise the error names a reason. Only short input is
/// incomplete.
pub fn bmi_header(data: &[u8]) {
    match Header::decode(data) {
        Ok(header) => assert_eq!(header.encode()[..], data[..Header::LEN]),
        Err(DecodeError::Incomplete { needed }) => assert_eq!(data.len() + needed, Header::LEN),
        Err(DecodeError::Malformed { offset, .. }) => assert!(offset < Header::LEN),
        Err(error) => panic!("{error}"),
    }
}

/// Full decoding and borrowed views agree, and encoding keeps every field.
pub fn request(data: &[u8]) {
    let view = RequestView::parse(data);
    match Request::decode(data) {
        Ok(request) => {
            assert_eq!(Request::decode(&request.encode()).as_ref(), Ok(&request));
            let view = view.expect("a request that decodes can be viewed");
            let ids = view.credential_ids().expect("its credential was decoded");
            assert_eq!(ids.map(|ids| ids.uid), request.body.credential().map(|credential| credential.uid));
            assert_eq!(view.hints().count(), request.hints.len());
            view.is_from_server().expect("nothing is left undecoded");
            view.objects().expect("its body was decoded");
            view.io().expect("its body was decoded");
            view.small_io().expect("its body was decoded");
        }
        Err(error) => {
            check_payload_error(data, error);
            if let Ok(view) = view {
                let _ = (view.credential_ids(), view.io(), view.small_io(), view.is_from_server());
                let _ = view.objects();
                assert!(view.body_at <= data.len());
            }
        }
    }
}

/// Full decoding and the borrowed head agree, and encoding keeps every field.
pub fn reply(data: &[u8]) {
    let head = ReplyHead::parse(data);
    match Reply::decode(data) {
        Ok(reply) => {
            assert_eq!(Reply::decode(&reply.encode()).as_ref(), Ok(&reply));
            if let Ok(head) = head {
                assert_eq!((head.op, head.status), (reply.op, reply.status));
            }
        }
        Err(error) => check_payload_error(data, error),
    }
}

/// A payload is complete when it is decoded, so no error is *incomplete*; a malformed field lies within the payload.
fn check_payload_error(data: &[u8], error: DecodeError) {
    match error {
        DecodeError::Malformed { offset, .. } => assert!(offset <= data.len()),
        DecodeError::UnknownBody(_) => {}
        DecodeError::Incomplete { .. } => panic!("a payload is complete"),
    }
}

/// `data` is the body of an IO, then eight bytes for the size of the datafile: the sums in closed form equal those
/// over the pieces.
pub fn transfer(data: &[u8]) {
    let Some((body, size)) = data.split_last_chunk::<8>() else { return };
    let mut payload = IO_HEAD.to_vec();
    payload.extend_from_slice(body);
    let view = RequestView::parse(&payload).expect("the head is a constant");
    if let Ok(Some(io)) = view.io()
        && let Ok(transfer) = io.transfer()
    {
        check_transfer(&transfer, u64::from_le_bytes(*size));
    }
}

/// A request for an IO with the null capability and no hints.
const IO_HEAD: [u8; 60] = {
    let mut head = [0; 60];
    [head[0], head[1], head[4], head[8]] = [0x58, 0x1b, 2, 3];
    head
};

fn check_transfer(transfer: &Transfer, size: u64) {
    const MOST: usize = 5000;
    let pieces: Vec<_> = transfer.pieces().take(MOST).collect();
    let Ok(pieces) = pieces.into_iter().collect::<Result<Vec<_>, _>>() else { return };
    let mut wire_offset = 0;
    let mut below = 0;
    let mut is_below = true;
    for piece in &pieces {
        assert!(piece.len > 0);
        assert_eq!(piece.wire_offset, wire_offset);
        wire_offset += piece.len;
        if is_below {
            below += piece.len.min(size.saturating_sub(piece.physical));
            is_below = piece.physical + piece.len <= size;
        }
    }
    let first = transfer.first_physical_offset();
    assert_eq!(first, Ok(pieces.first().map(|piece| piece.physical)));
    let (write, read) = (transfer.write_bytes(), transfer.read_bytes(size));
    if let (Ok(write), Ok(read)) = (write, read) {
        assert!(read <= write);
        if pieces.len() < MOST {
            assert_eq!((write, read), (wire_offset, below));
        } else {
            assert!(write >= wire_offset && (is_below || read == below));
        }
    }
}

/// As a request: an explicit layout changes only in its addresses. As a configuration text: the result decodes,
/// nothing changes without a map, and rewriting twice is rewriting once.
pub fn rewrite(data: &[u8]) {
    const TARGET: &str = "tcp://proxy:3334";
    if let Ok(Some(rewritten)) = rewrite::layout(data, |_| Some(TARGET.to_owned())) {
        assert!(rewritten.len() <= 16384);
        assert_eq!(Request::decode(&rewritten).is_ok(), Request::decode(data).is_ok());
        assert_eq!(rewrite::layout(&rewritten, |_| Some(TARGET.to_owned())), Ok(None));
    }
    let keep = ClientTimeouts::default();
    let payload = Reply::from(GetConfig { text: Text(data.to_vec()) }).encode();
    match rewrite::config_text(&payload, keep, |_| None) {
        Ok(same) => assert_eq!(same, payload),
        Err(error) => assert!(matches!(error, RewriteError::TooLong(_))),
    }
    let timeouts = ClientTimeouts { bmi_secs: Some(900), flow_secs: Some(7) };
    let map = |address: &str| address.contains(':').then(|| TARGET.to_owned());
    if let Ok(once) = rewrite::config_text(&payload, timeouts, map) {
        assert!(matches!(Reply::decode(&once).map(|reply| reply.body), Ok(ReplyBody::GetConfig(_))));
        assert_eq!(rewrite::config_text(&once, timeouts, map).as_ref(), Ok(&once));
    }
    let _ = rewrite::config_text(data, timeouts, map);
}
