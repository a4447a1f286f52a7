//! Rewritten messages equal what the servers would have sent with other addresses, and nothing else changes.

use crate::common::{Frame, frames};
use proptest::prelude::*;
use vpfs_wire::bmi::TooLong;
use vpfs_wire::pvfs2::reply::GetConfig;
use vpfs_wire::pvfs2::rewrite::{self, ClientTimeouts, RewriteError};
use vpfs_wire::pvfs2::{Errno, Op, Reply, ReplyBody, Request, RequestBody, Status, Text};

const KEEP: ClientTimeouts = ClientTimeouts { bmi_secs: None, flow_secs: None };

fn proxy(address: &str) -> Option<String> {
    address.strip_prefix("tcp://127.0.0.1:").map(|port| format!("tcp://proxy.example:1{port}"))
}

fn text_of(payload: &[u8]) -> String {
    match Reply::decode(payload).unwrap().body {
        ReplyBody::GetConfig(GetConfig { text }) => String::from_utf8(text.0).unwrap(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn configuration_of_a_real_server() {
    let payload = Frame::named("op13_getconfig_response").payload;
    let rewritten = rewrite::config_text(&payload, KEEP, proxy).unwrap();
    let expected = text_of(&payload).replace("tcp://127.0.0.1:", "tcp://proxy.example:1");
    assert_eq!(text_of(&rewritten), expected);
    assert_eq!(rewritten.len() % 8, 0, "the text is the last field and padded");
    let buf_size = u32::from_le_bytes(rewritten[16..20].try_into().unwrap()) as usize;
    assert_eq!(rewritten[28..][buf_size - 1], 0);
}

#[test]
fn nothing_to_rewrite_is_the_same_bytes() {
    let payload = Frame::named("op13_getconfig_response").payload;
    assert_eq!(rewrite::config_text(&payload, KEEP, |_| None).unwrap(), payload);
    let refused = Reply::error(Op::GetConfig, Status::error(Errno::EACCES)).encode();
    assert_eq!(rewrite::config_text(&refused, KEEP, proxy).unwrap(), refused);
}

#[test]
fn timeouts() {
    let payload = Frame::named("op13_getconfig_response").payload;
    let timeouts = ClientTimeouts { bmi_secs: Some(900), flow_secs: Some(1200) };
    let expected = text_of(&payload)
        .replace("ClientJobBMITimeoutSecs 300", "ClientJobBMITimeoutSecs 900")
        .replace("ClientJobFlowTimeoutSecs 300", "ClientJobFlowTimeoutSecs 1200");
    assert_eq!(text_of(&rewrite::config_text(&payload, timeouts, |_| None).unwrap()), expected);
}

#[test]
fn a_configuration_that_grows_too_long_is_refused() {
    let text = format!("<Aliases>\nAlias a tcp://127.0.0.1:1\n</Aliases>\n#{}", "x".repeat(65490));
    let payload = Reply::from(GetConfig { text: text.into() }).encode();
    let result = rewrite::config_text(&payload, KEEP, proxy);
    assert!(matches!(result, Err(RewriteError::TooLong(TooLong { limit: 65536, .. }))), "{result:?}");
}

#[test]
fn other_replies_are_refused() {
    let payload = Frame::named("op17_mgmt_noop_response").payload;
    assert!(matches!(rewrite::config_text(&payload, KEEP, proxy), Err(RewriteError::Decode(_))));
}

#[test]
fn explicit_layouts() {
    let original = Frame::named("op01_create_request_simple_stripe_layout_list").payload;
    let rewritten = rewrite::layout(&original, proxy).unwrap().unwrap();
    let mut expected = Request::decode(&original).unwrap();
    let RequestBody::Create(body) = &mut expected.body else { panic!() };
    body.layout.servers.0 = vec!["tcp://proxy.example:14335".into(), "tcp://proxy.example:14337".into()];
    assert_eq!(Request::decode(&rewritten), Ok(expected));
    assert_eq!(rewrite::layout(&original, |_| None).unwrap(), None);
    assert_eq!(rewrite::layout(&original, |same| Some(same.to_owned())).unwrap(), None);
}

#[test]
fn directories_have_layouts_too() {
    let mut request = Request::decode(&Frame::named("op11_mkdir_request").payload).unwrap();
    let RequestBody::MkDir(body) = &mut request.body else { panic!() };
    body.layout.algorithm = vpfs_wire::pvfs2::Layout::LIST;
    body.layout.servers.0 = vec!["tcp://127.0.0.1:4334".into()];
    let rewritten = rewrite::layout(&request.encode(), proxy).unwrap().unwrap();
    let RequestBody::MkDir(body) = Request::decode(&rewritten).unwrap().body else { panic!() };
    assert_eq!(body.layout.servers.0, [Text::from("tcp://proxy.example:14334")]);
}

#[test]
fn a_request_that_grows_too_long_is_refused() {
    let original = Frame::named("op01_create_request_simple_stripe_layout_list").payload;
    let result = rewrite::layout(&original, |_| Some("x".repeat(10_000)));
    assert!(matches!(result, Err(RewriteError::TooLong(TooLong { limit: 16384, .. }))), "{result:?}");
}

#[test]
fn other_requests_stay() {
    for frame in frames().into_iter().filter(|frame| frame.is_request) {
        let is_list = frame.name.ends_with("layout_list");
        assert_eq!(rewrite::layout(&frame.payload, proxy).unwrap().is_some(), is_list, "{}", frame.name);
    }
}

proptest! {
    /// Whatever a configuration holds, lines without an address to change stay byte for byte.
    #[test]
    fn any_text_survives(text in "([ \\t]?(Alias|alias|Name|#|<Defaults>)? ?[a-z\"'\\\\,# /:]{0,12}\r?\n?){0,12}") {
        let payload = Reply::from(GetConfig { text: text.as_str().into() }).encode();
        prop_assert_eq!(rewrite::config_text(&payload, KEEP, |_| None).unwrap(), payload.clone());
        let timeouts = ClientTimeouts { bmi_secs: Some(1), flow_secs: None };
        let once = rewrite::config_text(&payload, timeouts, proxy).unwrap();
        prop_assert_eq!(rewrite::config_text(&once, timeouts, proxy).unwrap(), once);
    }
}
