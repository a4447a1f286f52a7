//! An answer.

use std::path::Path;

use hyper::StatusCode;
use ring::hmac;

/// An answer without its headers' details.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) content_type: &'static str,
    pub(crate) body: String,
    /// The methods that are allowed, if another one was used.
    pub(crate) allow: &'static str,
}

impl Answer {
    pub(crate) fn ok(content_type: &'static str, body: String) -> Self {
        Self { status: StatusCode::OK, content_type, body, allow: "GET, HEAD" }
    }

    /// A refusal, with its reason for a person.
    pub(crate) fn refusal(status: StatusCode, reason: &str) -> Self {
        Self { status, content_type: "text/plain; charset=utf-8", body: format!("{reason}\n"), allow: "GET, HEAD" }
    }
}

pub(crate) fn json(value: &impl serde::Serialize) -> Answer {
    let body = serde_json::to_string(value).expect("these types have text for keys, and nothing else fails");
    Answer::ok("application/json", body)
}

/// The sender of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Caller {
    /// A user of this host, at the socket.
    User(u32),
    /// Anybody else.
    Unknown,
}

/// Whether `authorization` has the text of the file, of at least `shortest` characters without white space around it.
pub(crate) async fn is_token(path: &Path, authorization: &str, shortest: usize) -> bool {
    let expected = tokio::fs::read_to_string(path).await.unwrap_or_default();
    let expected = expected.trim();
    let presented = authorization.strip_prefix("Bearer ").unwrap_or_default();
    expected.len() >= shortest && are_equal(presented, expected)
}

/// Compares without telling by the time taken how much is right.
pub(crate) fn are_equal(one: &str, other: &str) -> bool {
    let Ok(key) = hmac::Key::generate(hmac::HMAC_SHA256, &ring::rand::SystemRandom::new()) else { return false };
    hmac::verify(&key, one.as_bytes(), hmac::sign(&key, other.as_bytes()).as_ref()).is_ok()
}
