//! Administration by clients, if it is refused.

use vpfs_protocol::session::orangefs::AddressMap;
use vpfs_protocol::session::{Action, CloseReason, Requester, SessionLimits};
use vpfs_protocol::wire::pvfs2::request::{MgmtIterateHandles, MgmtRemoveObject};
use vpfs_protocol::wire::pvfs2::{Errno, Op, Reply, RequestBody, Status};

use crate::session::common::messages::*;
use crate::session::common::{CLIENT, Wire, assert_same, messages};

const RESTRICTED: Requester = Requester::Client { may_manage: false };

fn wire(requester: Requester) -> Wire {
    Wire::of(SessionLimits::default(), AddressMap::default(), requester)
}

fn iterate(tag: i32) -> Vec<u8> {
    request(tag, MgmtIterateHandles { fs: FS, count: 2000, flags: 0, position: 0 })
}

fn denied(tag: i32, op: Op) -> Vec<u8> {
    reply(tag, Reply::error(op, Status::error(Errno::EACCES)))
}

/// One iterate-handles for 2,000 handles crashes a server, from any sender.
#[test]
fn administration_is_refused_as_a_server_would() {
    let mut wire = wire(RESTRICTED);
    assert_eq!(wire.client(&iterate(1)), []);
    assert_same(&wire.take_to_client(), &denied(1, Op::MgmtIterateHandles));
    let remove = RequestBody::MgmtRemoveObject(MgmtRemoveObject { handle: FILE, fs: FS });
    assert_eq!(wire.client(&server_request(2, remove)), [], "whatever it claims");
    assert_same(&wire.take_to_client(), &denied(2, Op::MgmtRemoveObject));
    assert!(wire.session.to_server().is_empty());
    wire.assert_idle();
    assert!(wire.session.is_idle());
}

#[test]
fn everything_else_passes() {
    let mut wire = wire(RESTRICTED);
    wire.client_passes(&getconfig(1));
    wire.server(&refusal(1, Op::GetConfig));
    wire.take_to_client();
    wire.client_passes(&request(2, RequestBody::MgmtNoop));
    wire.sent(&readdir(3));
    assert!(wire.take_to_client().is_empty());
}

#[test]
fn servers_and_other_clients_may_administer() {
    for requester in [CLIENT, Requester::Server] {
        wire(requester).sent(&iterate(1));
    }
}

#[test]
fn a_refusal_waits_for_the_end_of_the_servers_message() {
    let mut wire = wire(RESTRICTED);
    wire.sent(&readdir(1));
    let listing = readdir_reply(1, 500);
    wire.server(&listing[..1000]);
    wire.client(&[iterate(2), iterate(3)].concat());
    assert!(wire.session.held_requests() > 0);
    wire.server(&listing[1000..]);
    let sent = messages(&wire.take_to_client());
    let sent: Vec<_> = sent.into_iter().map(|(_, _, message)| message).collect();
    assert!(sent == [listing, denied(2, Op::MgmtIterateHandles), denied(3, Op::MgmtIterateHandles)]);
    wire.assert_idle();
}

#[test]
fn a_client_that_takes_no_answers_is_disconnected() {
    let limits = SessionLimits { outbound_bytes: 4096, ..SessionLimits::default() };
    let mut wire = Wire::of(limits, AddressMap::default(), RESTRICTED);
    let mut closed = Vec::new();
    for tag in 1..1000 {
        closed.extend(wire.client(&iterate(tag)));
        assert!(wire.session.to_client().len() <= 4096 + 40);
        if wire.session.is_closed() {
            break;
        }
    }
    assert!(matches!(closed[..], [Action::Close(CloseReason::Violation { .. })]), "{closed:?}");
}
