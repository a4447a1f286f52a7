//! Requests that are not held or that are refused, from whom, and the user that a connection belongs to.

use vpfs_core::{FileKey, OpKind};
use vpfs_protocol::session::orangefs::AddressMap;
use vpfs_protocol::session::{Action, CloseReason, Outcome, Requester, SessionLimits, User};
use vpfs_protocol::wire::pvfs2::request::{BatchCreate, Io, MgmtIterateHandles, MgmtRemoveObject, Mirror};
use vpfs_protocol::wire::pvfs2::{Dist, Errno, IoType, ObjType, Op, Reply, Request, RequestBody, Status};

use crate::session::common::messages::*;
use crate::session::common::{CLIENT, Wire, assert_same, completed, messages};

/// Whether a request of this requester is held, and whether it is reported to claim that a server sent it; either way
/// it reaches the server unchanged.
#[track_caller]
fn judge(requester: Requester, request: &[u8]) -> (bool, bool) {
    let mut wire = Wire::of(SessionLimits::default(), AddressMap::default(), requester);
    let actions = wire.client(request);
    let submitted = actions.iter().find_map(|action| match action {
        Action::Enqueue(op, _) => Some(*op),
        _ => None,
    });
    if let Some(op) = submitted {
        assert!(wire.session.to_server().is_empty());
        wire.dispatch(op);
    }
    assert!(wire.take_to_server() == request);
    (submitted.is_some(), actions.contains(&Action::ClaimsServer))
}

/// Held for every sender, and nothing unusual.
#[track_caller]
fn assert_held(request: &[u8]) {
    assert_eq!([CLIENT, Requester::Server].map(|who| judge(who, request)), [(true, false); 2]);
}

/// Symptom: any client could put itself before all others, at no charge. Cause: its requests were believed to come
/// from a server if they said so.
#[track_caller]
fn assert_held_unless_from_a_server(request: &[u8]) {
    assert_eq!(judge(Requester::Server, request), (false, false));
    assert_eq!(judge(CLIENT, request), (true, true));
}

#[test]
fn captured_requests() {
    for name in captured_names("request") {
        let request = frame_request(1, &captured("request", &name));
        // Of management, what concerns the file system's objects is held.
        let is_management = ["op13_", "op16_", "op17_", "op20_", "op43_"].iter().any(|op| name.starts_with(op));
        let is_of_server = ["server_to_server", "mirror"].iter().any(|mark| name.contains(mark));
        for who in [CLIENT, Requester::Server] {
            let is_held = !(is_management || is_of_server && who == Requester::Server);
            assert_eq!(judge(who, &request).0, is_held, "{name} of {who:?}");
        }
    }
}

/// Symptom: no-ops and configuration requests on 32 connections, as many at once as they can have, passed all of an
/// interactive application's requests. Cause: any number of requests that are not scheduled was sent at once.
#[test]
fn a_client_has_one_unscheduled_request_in_progress() {
    let noop = |tag| request(tag, RequestBody::MgmtNoop);
    let mut wire = Wire::new();
    assert_eq!(wire.client_passes(&getconfig(1)), []);
    let (beside, submission) = wire.held(&noop(2));
    assert_eq!(submission.kind, OpKind::Metadata);
    let (second, _) = wire.held(&getconfig(3));
    wire.dispatch(beside);
    wire.server(&refusal(1, Op::GetConfig));
    wire.take_to_server();
    assert_eq!(wire.client_passes(&noop(4)), [], "one after another");
    wire.dispatch(second);
    let mut server = Wire::of_server();
    assert_eq!(server.client_passes(&[noop(1), noop(2), getconfig(3)].concat()), []);
}

#[test]
fn server_hint() {
    for body in [RequestBody::Io(io(IoType::Read, 0, 1 << 20)), RequestBody::Io(io(IoType::Write, 0, 1)), create(&[])] {
        assert_held(&request(1, body.clone()));
        assert_held_unless_from_a_server(&server_request(1, body));
    }
}

#[test]
fn server_credential() {
    assert_held(&getattr(1, credential("C:s1", 0, &[0])));
    assert_held_unless_from_a_server(&getattr(1, credential("S:s1", 0, &[0])));
}

#[test]
fn batch_create() {
    let batch = |objtype, count| request(1, BatchCreate { fs: FS, objtype, count, extents: Default::default() });
    // Clients make their symbolic links this way.
    assert_held(&batch(ObjType::SYMLINK, 1));
    assert_held_unless_from_a_server(&batch(ObjType::SYMLINK, 2));
    for objtype in [ObjType::METAFILE, ObjType::DATAFILE, ObjType::DIRECTORY, ObjType::DIRDATA] {
        assert_held_unless_from_a_server(&batch(objtype, 1));
    }
}

#[test]
fn a_claim_is_reported_once_for_each_connection() {
    let mut wire = Wire::new();
    let claims = |actions: Vec<Action>| actions.into_iter().filter(|action| *action == Action::ClaimsServer).count();
    let mut claim = |tag| claims(wire.client(&getattr(tag, credential("S:s1", 0, &[0]))));
    assert_eq!([claim(1), claim(2), claim(3)], [1, 0, 0]);
}

/// Its data is tracked like any other, but the scheduler is not informed.
#[test]
fn data_of_a_server_is_tracked_but_not_scheduled() {
    let mut wire = Wire::of_server();
    wire.client_passes(&server_request(1, io(IoType::Read, 0, 1 << 20)));
    let learned = Action::SizeLearned { file: FileKey(FILE.0), size: 100_000 };
    assert_eq!(wire.server_passes(&ack(1, 100_000)), [learned]);
    let read = completed(&wire.server_passes(&data(1, 100_000)));
    assert_eq!((read.kind, read.outcome, read.moved), (None, Outcome::Answered { status: 0 }, 100_000));

    wire.client_passes(&server_request(2, io(IoType::Write, 0, 5000)));
    assert_eq!(wire.server_passes(&ack(2, 0)), []);
    wire.client_passes(&data(2, 5000));
    let written = completed(&wire.server_passes(&written(2, 5000)));
    assert_eq!((written.kind, written.moved), (None, 5000));
}

#[test]
fn unscheduled_requests_wait_for_the_end_of_the_message_in_between_only() {
    let mut wire = Wire::new();
    let stray = data(9, 100);
    wire.client(&[&stray[..], &getconfig(1)].concat());
    assert!(wire.take_to_server() == [&stray[..], &getconfig(1)].concat());
}

/// The user that each request is attributed to.
fn users(actions: &[Action]) -> Vec<Option<User>> {
    let user = |action: &Action| match action {
        Action::Enqueue(_, submission) => Some(submission.user.as_deref().cloned()),
        _ => None,
    };
    actions.iter().filter_map(user).collect()
}

#[test]
fn each_request_belongs_to_the_user_that_the_connection_stated_last() {
    let mut wire = Wire::of_server();
    let mut tag = 0;
    let mut shown = |issuer, uid, gids: &[u32]| {
        tag += 2;
        let messages = [getattr(tag, credential(issuer, uid, gids)), read(tag + 1, 4096)];
        messages.map(|message| users(&wire.client(&message)))
    };
    for (uid, gids) in [(1000, vec![1000, 4]), (1000, vec![1000]), (1000, vec![4, 1000]), (0, vec![4, 1000])] {
        let user = vec![Some(User { uid, gids: gids.clone(), ..User::default() })];
        assert_eq!(shown("C:host", uid, &gids), [user.clone(), user.clone()], "and data requests, which state none");
        assert_eq!(shown("C:other", uid, &gids), [user.clone(), user.clone()]);
        assert_eq!(shown("S:s1", 5, &[5]), [vec![], user], "a server's own credential does not identify the client");
    }
}

#[test]
fn requests_have_no_user_if_none_was_stated() {
    let mut wire = Wire::of_server();
    // A server passes on the credential of the client that it serves, which is not a user of its own host.
    let passed_on = captured("request", "op05_setattr_request_server_to_server_mask0x20007f");
    let request = vpfs_protocol::wire::pvfs2::Request::decode(&passed_on).unwrap();
    assert!(request.body.credential().unwrap().issuer.0.starts_with(b"C:"));
    let passed_on = frame_request(5, &passed_on);
    for message in [readdir(1), read(2, 4096), small_write(3, 10), getconfig(4), passed_on] {
        let actions = wire.client(&message);
        assert!(users(&actions).into_iter().all(|user| user.is_none()), "{actions:?}");
    }
}

/// A server copies to its mirrors with writes that carry neither the server hint nor any capability; clients always
/// have a capability.
#[test]
fn mirroring_writes_without_a_capability() {
    let bare = |io| frame_request(1, &Request::bare(RequestBody::Io(io)).encode());
    assert_held_unless_from_a_server(&bare(io(IoType::Write, 0, 1 << 20)));
    // Servers were never seen to do this.
    assert_held(&bare(io(IoType::Read, 0, 1 << 20)));
    let striped = Io { dist: Dist::SimpleStripe { strip_size: 65536 }, ..io(IoType::Write, 0, 1 << 20) };
    assert_held(&bare(striped));
    assert_held(&bare(Io { server_ct: 2, ..io(IoType::Write, 0, 1 << 20) }));
    assert_held(&write(1, 1 << 20));
}

#[test]
fn mirroring_is_for_servers() {
    let body = captured("request", "op39_mirror_request_server_to_server");
    let request = Request::decode(&body).unwrap();
    assert!(matches!(request.body, RequestBody::Mirror(Mirror { .. })));
    let bare = Request::bare(request.body);
    assert_held_unless_from_a_server(&frame_request(1, &bare.encode()));
}

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
