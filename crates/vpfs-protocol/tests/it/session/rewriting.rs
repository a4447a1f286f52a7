//! The two kinds of messages that are changed in transit: the configuration, and lists of servers.

use vpfs_protocol::session::orangefs::AddressMap;
use vpfs_protocol::session::{Action, CloseReason, Outcome, SessionLimits};
use vpfs_protocol::wire::bmi::{Header, Mode, Tag};
use vpfs_protocol::wire::pvfs2::{Errno, Op, Reply, Request, Status};

use crate::session::common::messages::*;
use crate::session::common::{Wire, assert_same, completed, messages};

/// The captured cluster: servers `s1` to `s4` on ports 4334 to 4337.
fn addresses(proxy: &str) -> AddressMap {
    AddressMap::new((4334..4338).map(|port| (format!("tcp://127.0.0.1:{port}"), format!("tcp://{proxy}:1{port}"))))
}

fn wire(proxy: &str) -> Wire {
    Wire::with(SessionLimits::default(), addresses(proxy))
}

/// What the client receives for this configuration text.
fn told(wire: &mut Wire, tag: i32, text: &str) -> (Vec<Action>, Vec<u8>) {
    wire.client_passes(&getconfig(tag));
    let actions = wire.server(&config_reply(tag, text));
    (actions, wire.take_to_client())
}

#[test]
fn configuration_of_a_real_server() {
    let payload = captured("reply", "op13_getconfig_response");
    let mut wire = wire("proxy.example");
    wire.client_passes(&getconfig(1));
    let actions = wire.server(&frame_reply(1, &payload));
    let text = |payload: &[u8]| format!("{:?}", Reply::decode(payload).unwrap());
    let told = wire.take_to_client();
    let expected = text(&payload).replace("tcp://127.0.0.1:", "tcp://proxy.example:1");
    assert_eq!(text(&told[Header::LEN..]), expected);
    assert_eq!(actions.len(), 1, "{actions:?}");
    assert_eq!((completed(&actions).kind, completed(&actions).outcome), (None, Outcome::Answered { status: 0 }));
    assert_eq!(messages(&told).len(), 1);
}

/// Clients compare the texts of all servers and refuse to mount if one differs.
#[test]
fn all_sessions_send_the_same_configuration() {
    let text = "<Aliases>\n\tAlias s1 tcp://127.0.0.1:4334\n\tAlias s2 tcp://127.0.0.1:4337\n</Aliases>\n";
    let (_, first) = told(&mut wire("proxy"), 1, text);
    let (_, second) = told(&mut wire("proxy"), 1, text);
    assert_same(&first, &second);
    assert!(first != told(&mut wire("other"), 1, text).1);
    assert_eq!(Reply::decode(&first[Header::LEN..]).unwrap(), {
        let text = text.replace("tcp://127.0.0.1:", "tcp://proxy:1");
        Reply::decode(&config_reply(1, &text)[Header::LEN..]).unwrap()
    });
}

#[test]
fn header_follows_the_new_length() {
    // The longer addresses make the text too long for an eager message.
    let text = format!("<Aliases>\nAlias s1 tcp://127.0.0.1:4334\n</Aliases>\n#{}\n", "x".repeat(16_300));
    assert_eq!(messages(&config_reply(1, &text))[0].1, Mode::Eager);
    let (_, told) = told(&mut wire("a-proxy-with-quite-a-long-name.example.org"), 1, &text);
    let told = messages(&told);
    assert_eq!((told.len(), told[0].0, told[0].1), (1, Tag(1), Mode::Rendezvous));
}

#[test]
fn servers_without_a_proxy_are_reported() {
    let text = "<Aliases>\nAlias s1 tcp://127.0.0.1:4334\nAlias s9 tcp://far:1,tcp://away:2\n</Aliases>\n";
    let (actions, _) = told(&mut wire("proxy"), 1, text);
    let unmapped = ["tcp://far:1", "tcp://away:2"].map(|address| Action::UnmappedServer(address.to_owned()));
    assert_eq!(actions[..2], unmapped);
    assert_eq!(completed(&actions).outcome, Outcome::Answered { status: 0 });
}

#[test]
fn refused_configuration_passes() {
    let mut wire = wire("proxy");
    wire.client_passes(&getconfig(1));
    let status = Status::error(Errno::EACCES);
    let actions = wire.server_passes(&reply(1, Reply::error(Op::GetConfig, status)));
    assert_eq!(completed(&actions).outcome, Outcome::Answered { status: status.0 });
}

#[test]
fn configuration_that_cannot_be_passed_on_closes() {
    let long = format!("<Aliases>\nAlias s1 tcp://127.0.0.1:4334\n</Aliases>\n#{}", "x".repeat(65_480));
    let too_long = config_reply(1, &long);
    let torn = frame_reply(1, &captured("reply", "op13_getconfig_response")[..1000]);
    let another = readdir_reply(1, 3);
    let huge = data(1, (128 << 10) + 1);
    for (what, reply) in [("too long", too_long), ("torn", torn), ("another", another), ("huge", huge)] {
        let mut wire = wire("proxy.example");
        wire.client_passes(&getconfig(1));
        let actions = wire.server(&reply);
        let reason = match actions.last() {
            Some(Action::Close(reason)) => reason.clone(),
            other => panic!("{what}: {other:?}"),
        };
        assert!(matches!(reason, CloseReason::Config(_) | CloseReason::Violation { .. }), "{what}: {reason}");
        assert!(reason.to_string().contains("server"), "{what}: {reason}");
        assert!(wire.session.is_closed() && wire.take_to_client().is_empty());
    }
}

#[test]
fn layouts_name_servers_again() {
    let theirs = ["tcp://127.0.0.1:4335", "tcp://127.0.0.1:4337"];
    let ours = ["tcp://a.longer.proxy:14335", "tcp://a.longer.proxy:14337"];
    for build in [create, mkdir] {
        let mut wire = wire("a.longer.proxy");
        let (op, _) = wire.held(&request(1, build(&ours)));
        wire.dispatch(op);
        assert_same(&wire.take_to_server(), &request(1, build(&theirs)));
        // The server decides about addresses without a proxy.
        let strange = request(2, build(&["tcp://127.0.0.1:4335", "tcp://x:1"]));
        wire.sent(&strange);
    }
}

#[test]
fn captured_layout() {
    let payload = captured("request", "op01_create_request_simple_stripe_layout_list");
    let servers = (4334..4338).map(|port| (format!("tcp://s:{port}"), format!("tcp://127.0.0.1:{port}")));
    let mut wire = Wire::with(SessionLimits::default(), AddressMap::new(servers));
    let (op, _) = wire.held(&frame_request(1, &payload));
    wire.dispatch(op);
    let sent = wire.take_to_server();
    let text = |payload: &[u8]| format!("{:?}", Request::decode(payload).unwrap());
    assert_eq!(text(&sent[Header::LEN..]), text(&payload).replace("tcp://127.0.0.1:", "tcp://s:"));
    assert_eq!(messages(&sent)[0].1, Mode::Unexpected);
}

/// A request is at most 16 KiB; the server's refusal is a clearer answer than a closed connection.
#[test]
fn layout_that_grows_too_long_passes_unchanged() {
    let servers: Vec<_> = (0..700).map(|_| "p").collect();
    let map = AddressMap::new([("tcp://a-server-with-a-long-name.example.org:3334".to_owned(), "p".to_owned())]);
    let mut wire = Wire::with(SessionLimits::default(), map);
    wire.sent(&request(1, create(&servers)));
}
