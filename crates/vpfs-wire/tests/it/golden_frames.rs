//! Every captured message decodes to what the capture's own decoder found, encodes to the same bytes outside its
//! padding, and decodes again to the same value.

use crate::common::{Frame, frames, scalars};
use vpfs_wire::DecodeError;
use vpfs_wire::bmi::{self, Header, Mode};
use vpfs_wire::pvfs2::{Op, Reply, Request};

#[test]
fn headers() {
    for frame in frames() {
        let header = Header::decode(&frame.header).unwrap();
        assert_eq!(header.encode()[..], frame.header, "{}", frame.name);
        assert_eq!(header.size, frame.payload.len() as u64, "{}", frame.name);
        assert_eq!(header.tag.0, frame.json["bmi"]["tag"].as_u64().unwrap(), "{}", frame.name);
        let framed = if frame.is_request {
            assert_eq!(header.mode, Mode::Unexpected, "{}", frame.name);
            bmi::request_message(header.tag, &frame.payload)
        } else {
            bmi::reply_message(header.tag, &frame.payload)
        };
        assert_eq!(framed.unwrap()[..Header::LEN], frame.header, "{}", frame.name);
    }
}

#[test]
fn requests_and_replies_round_trip() {
    let mut count = 0;
    for frame in frames() {
        let encoded = if frame.is_request {
            let request = Request::decode(&frame.payload).unwrap_or_else(|e| panic!("{}: {e}", frame.name));
            assert_eq!(Some(request.body.op()), frame.op(), "{}", frame.name);
            let encoded = request.encode();
            assert_eq!(Request::decode(&encoded), Ok(request), "{}", frame.name);
            encoded
        } else {
            let reply = Reply::decode(&frame.payload).unwrap_or_else(|e| panic!("{}: {e}", frame.name));
            assert_eq!(Some(reply.op), frame.op(), "{}", frame.name);
            let encoded = reply.encode();
            assert_eq!(Reply::decode(&encoded), Ok(reply), "{}", frame.name);
            encoded
        };
        assert_eq!(frame.masked(&encoded), frame.masked(&frame.payload), "{}", frame.name);
        count += 1;
    }
    assert_eq!(count, 149);
}

#[test]
fn decoded_fields_equal_the_capture() {
    for frame in frames() {
        let found = if frame.is_request {
            format!("{:?}", Request::decode(&frame.payload).unwrap())
        } else {
            format!("{:?}", Reply::decode(&frame.payload).unwrap())
        };
        let mut found = scalars(&found);
        for value in frame.scalars() {
            match found.get_mut(&value) {
                Some(count) if *count > 0 => *count -= 1,
                _ => panic!("{}: {value} is missing in the decoded message", frame.name),
            }
        }
    }
}

#[test]
fn truncated_or_extended_payloads_are_malformed() {
    for frame in frames() {
        let decode = |payload: &[u8]| match frame.is_request {
            true => Request::decode(payload).map(|_| ()),
            false => Reply::decode(payload).map(|_| ()),
        };
        let step = 1 + frame.payload.len() / 500;
        for len in (0..frame.payload.len()).step_by(step) {
            match decode(&frame.payload[..len]) {
                Err(DecodeError::Malformed { offset, .. }) => assert!(offset <= len, "{} cut at {len}", frame.name),
                other => panic!("{} cut at {len}: {other:?}", frame.name),
            }
        }
        let longer = [&frame.payload[..], &[0]].concat();
        let end = frame.payload.len();
        assert!(
            matches!(decode(&longer), Err(DecodeError::Malformed { offset, .. }) if offset == end),
            "{}",
            frame.name
        );
    }
}

#[test]
fn operations_without_a_known_body_are_named() {
    let mut payload = Frame::named("op13_getconfig_request").payload;
    payload[8..12].copy_from_slice(&Op::MgmtEventMon.code().to_le_bytes());
    assert_eq!(Request::decode(&payload), Err(DecodeError::UnknownBody(Op::MgmtEventMon)));
}
