//! Whole captured operations: headers, and the bytes that data messages carried compared with the computed share.

use std::collections::BTreeMap;

use crate::common::{hex, sequences};
use serde_json::Value;
use vpfs_wire::bmi::{Header, MAX_UNEXPECTED, Mode};
use vpfs_wire::pvfs2::view::ReplyNumbers;
use vpfs_wire::pvfs2::{IoType, Op, ReplyHead, RequestView, Transfer};

/// `FlowBufferSizeBytes` of the captured cluster.
const CHUNK: u64 = 262_144;

/// An operation between its request and its last message.
struct Pending {
    op: Op,
    io: Option<(IoType, Transfer)>,
    expected: Option<u64>,
    chunks: Vec<u64>,
}

impl Pending {
    fn new(payload: &[u8]) -> Self {
        let view = RequestView::parse(payload).unwrap();
        let io = view.io().unwrap().map(|io| (io.io_type, io.transfer().unwrap()));
        Self { op: view.op, io, expected: None, chunks: Vec::new() }
    }

    fn on_reply(&mut self, payload: &[u8]) {
        let head = ReplyHead::parse(payload).unwrap();
        match (&self.io, head.numbers) {
            (Some((io_type, transfer)), ReplyNumbers::IoAck { bstream_size }) => {
                self.expected = Some(match io_type {
                    IoType::Read => transfer.read_bytes(bstream_size).unwrap(),
                    IoType::Write => transfer.write_bytes().unwrap(),
                });
            }
            (Some(_), ReplyNumbers::WriteCompletion { total_completed }) => {
                assert_eq!(Some(total_completed), self.expected);
            }
            _ => assert_eq!(head.op, self.op),
        }
    }

    fn check_data(&self, name: &str) {
        let expected = self.expected.unwrap_or(0);
        assert_eq!(self.chunks.iter().sum::<u64>(), expected, "{name}");
        for (at, chunk) in self.chunks.iter().enumerate() {
            assert_eq!(*chunk, CHUNK.min(expected - at as u64 * CHUNK), "{name}");
        }
    }
}

fn header(message: &Value) -> Header {
    let header = hex(message["bmi_header_hex"].as_str().unwrap());
    for len in 0..header.len() {
        assert!(Header::decode(&header[..len]).is_err());
    }
    Header::decode(&header).unwrap()
}

#[test]
fn data_messages_carry_the_computed_share() {
    let mut operations = 0;
    for (name, messages) in sequences() {
        let mut pending = BTreeMap::new();
        for message in messages {
            let header = header(&message);
            assert_eq!(header.size, message["payload_len"].as_u64().unwrap(), "{name}");
            let key = (message["server"].as_u64().unwrap(), header.tag);
            let payload = || hex(message["payload_hex"].as_str().unwrap());
            match message["kind"].as_str().unwrap() {
                "req" => {
                    assert_eq!(header.mode, Mode::Unexpected, "{name}");
                    let previous = pending.insert(key, Pending::new(&payload()));
                    assert!(previous.is_none(), "{name}: tag used twice");
                }
                "resp" => {
                    assert_eq!(header.mode, Mode::for_reply(header.size), "{name}");
                    let pending = pending.get_mut(&key).unwrap();
                    // Long replies (configuration texts) are cut in the capture.
                    if message.get("payload_hex").is_some() {
                        pending.on_reply(&payload());
                    } else {
                        assert_eq!(pending.op, Op::GetConfig, "{name}");
                    }
                }
                _ => {
                    assert_eq!(header.mode == Mode::Rendezvous, header.size > MAX_UNEXPECTED, "{name}");
                    pending.get_mut(&key).unwrap().chunks.push(header.size);
                }
            }
        }
        for pending in pending.values().filter(|pending| pending.io.is_some()) {
            pending.check_data(&name);
            operations += 1;
        }
    }
    assert!(operations > 20, "{operations} operations");
}
