//! Who asks, and secrets.

use std::path::Path;

use ring::hmac;

/// Who asks.
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
